"""A session as of one event: all that later packets can depend on, and no contents.

The state refers to events by seq and never holds their text. Everything up to the last
`packet.built` is settled by its manifest (`sent`); what came after it is `news`.
"""

from __future__ import annotations

import msgspec

from sawlog.builder.facts import File, Offer, Pending, Sight, Told, Value
from sawlog.builder.vec import Index, Vec
from sawlog.store.events.base import Named
from sawlog.store.text import Text

Args = tuple[tuple[str, str | int], ...]


class Ref(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of a packet: which part of which event, in which form.

    `part` counts from 1. A form that is made of its arguments alone has seq 0.
    """

    section: str
    seq: int
    part: int
    form: str = "full"
    number: int = 1
    args: Args = ()


class News(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event since the last `packet.built` that can stand in a packet.

    `kind` is its event type. `parts` counts its entries; `previews` are the parts shown as a
    preview. For a result, `call` is the seq of the request that it answers and `flag` is empty, or
    says why it does not take that place: `late`, `duplicate`, `no_call`, `external`. For a call,
    `flag` may be `early`: a result stood before it.
    """

    seq: int
    id: str
    kind: str
    step: int
    parts: int
    previews: tuple[int, ...] = ()
    call_id: Text = ""
    call: int = 0
    flag: str = ""
    erased: bool = False


class Waiting(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A requested call without a result.

    `gone`: a packet, a compaction or a rewind settled what it shows, so that its first result is
    news. `denied` is the kind of refusal, `because` the seq of the event that says so. `approval`
    is the id under which a decision is awaited.
    """

    seq: int
    id: str
    call_id: Text
    step: int
    started: bool = False
    gone: bool = False
    denied: str = ""
    because: int = 0
    approval: Text = ""
    since: int = 0


class Answer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that has its result: the seqs of both."""

    call: int
    result: int


class Bound(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a step's bound items are bound to, as far as the log says; `seq` is the first's."""

    seq: int
    step: int
    prefix: str
    api: str
    model: Text
    account: Text


class State(msgspec.Struct, frozen=True):
    """The projector's state after the event `seq`.

    blocked: why nothing from here on is read (an unknown required event); else empty.
    step: the highest step number seen; began: a step was, so later system messages stand in place.
    as_of: the newest one of a packet on this branch.
    system: (seq, parts) of the header's system messages; tools: (seq, parts) of the tools in force.
    policy: seq of the policy.set in force (0: none); pairing: the rule set named there.
    sent: the entries that stay where they were sent, of the packet.built at `sent_at`, for step
    `sent_step`; base: its entries as its manifest says them, which the next manifest may keep;
    links: manifests since the last full one.
    news, waiting, answered: see their types; orphans: call ids of results that had no call.
    gaps: seqs of shown events inside the window that packets do not show.
    trims: seqs of results shown as a stub. cuts: names of events that cut history since the packet.
    bounds: what bound items are bound to; current: the same of the step that runs.
    open_step: the step whose packet is built and that has no end (0: none); attempts: how many
    attempts it has; unsettled: the number of the one whose outcome is not recorded (0: none).
    summary_lost: the history continues a foreign compaction whose summary its file does not hold.
    checkpoint: seq of the checkpoint that stands in front of the history (0: none); compacting: seq
    of the start of a compaction that has no end (0: none).
    task: seq of the task.set in force (0: none). world: what the sections of the world are now, by
    name; told: their texts that stand in the packet, in order. files: what is known of files and of
    the texts of them that packets show; sights: which shown events show them; dirty: paths whose
    notices have to be looked at. offers: items that may stand in packets, by seq; items: seqs of
    those that do. inbox: messages that wait. per_mille: tokens for a thousand units. blocks: of
    the checkpoint that stands and one that is not completed, seqs of those with a provider's block.
    """

    seq: int = 0
    blocked: str = ""
    step: int = 0
    began: bool = False
    as_of: int | None = None
    system: tuple[tuple[int, int], ...] = ()
    tools: tuple[int, int] = (0, 0)
    policy: int = 0
    pairing: Named = Named("default")
    sent: Vec[Ref] = msgspec.field(default_factory=Vec[Ref])
    sent_at: int = 0
    sent_step: int = 0
    base: Vec[Ref] = msgspec.field(default_factory=Vec[Ref])
    links: int = 0
    news: Vec[News] = msgspec.field(default_factory=Vec[News])
    waiting: tuple[Waiting, ...] = ()
    answered: Index[Text, Answer] = msgspec.field(default_factory=Index[Text, Answer])
    orphans: tuple[tuple[Text, int], ...] = ()
    gaps: tuple[int, ...] = ()
    trims: tuple[int, ...] = ()
    cuts: tuple[str, ...] = ()
    bounds: Vec[Bound] = msgspec.field(default_factory=Vec[Bound])
    current: Bound | None = None
    open_step: int = 0
    attempts: int = 0
    unsettled: int = 0
    summary_lost: bool = False
    checkpoint: int = 0
    compacting: int = 0
    task: int = 0
    world: tuple[Value, ...] = ()
    told: tuple[Told, ...] = ()
    files: Index[str, File] = msgspec.field(default_factory=Index[str, File])
    sights: Index[int, tuple[Sight, ...]] = msgspec.field(
        default_factory=Index[int, tuple[Sight, ...]]
    )
    dirty: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    items: tuple[int, ...] = ()
    inbox: tuple[Pending, ...] = ()
    per_mille: int = 1000
    blocks: tuple[int, ...] = ()

    @property
    def settled_at(self) -> int:
        """The newest event that decided all history before it: a packet, or a compaction's end."""
        return max(self.sent_at, self.checkpoint + 1 if self.checkpoint else 0)
