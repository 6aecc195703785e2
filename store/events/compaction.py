"""Compaction: the bracket in the log, what was asked of a summariser, and the checkpoint it left.

started → (asked, answered, refused)… → checkpoint, completed; or failed. Until it is completed,
packets are as before. A checkpoint is data: what code can know code wrote, and a summariser prose.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from sawlog.store.content import BoundPart
from sawlog.store.events.base import EventId, Named, Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


@event("compaction.started", 1, upcast=lambda old: CompactionStarted(**structs.asdict(old)))
class CompactionStarted1(Payload, frozen=True):
    """As it was: no compaction of sawlog's own, so no range."""

    trigger: str = ""
    foreign: bool = False


@event("compaction.started", 2)
class CompactionStarted(Payload, frozen=True):
    """A compaction began; until it is completed, packets are as before.

    `trigger` is `ratio`, `overflow`, `steps` or `manual`, or a foreign file's own word; `route` is
    `rules`, `local` or `provider`. The region is all history up to seq `through` but the events
    `kept`, which go on being shown. `units` is what it takes in packets, `region` the hex SHA-256
    over its entries as packets show them; `packet` the seq of the packet that it was measured in
    (0: none yet).
    """

    trigger: str = ""
    foreign: bool = False
    route: str = ""
    through: int = 0
    kept: tuple[int, ...] = ()
    units: int = 0
    region: str = ""
    packet: int = 0


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statement of a checkpoint: what names it in later ones, its text, events that show it.

    `by` is empty for what code wrote, else `summariser` or `user`.
    """

    id: str
    text: Text
    refs: tuple[EventId, ...] = ()
    by: str = ""


class ChangedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that the work changed: its newest version and state, and the events that say so."""

    path: Text
    version: str = ""
    state: str = "present"
    refs: tuple[EventId, ...] = ()


class SeenFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that was read: the version that was shown, by which event; `stale`: it is another."""

    path: Text
    version: str = ""
    ref: EventId = ""
    stale: bool = False


class OpenCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call without a result. `state` is what its synthetic result says of it."""

    call: EventId
    name: Text
    state: str
    approval: Text = ""


class InstructionStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """An instruction of the operator: `in_force`, or `replaced` by a later one."""

    event: EventId
    status: str = "in_force"


class Closed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the checkpoint before that is not carried: by what it was settled."""

    id: str
    refs: tuple[EventId, ...]
    reason: Text = ""


class Dropped(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is no longer shown: how many of a kind, and the refs under which they can be fetched.

    `kind` is an entry's, such as `user`, `assistant`, `result`. `refs` are the newest; `count` may
    be larger.
    """

    kind: str
    count: int
    refs: tuple[EventId, ...] = ()


class Withdrawn(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item whose source took it back."""

    channel: str
    source_id: Text


@event("compaction.checkpoint", 1)
class Checkpoint(Payload, frozen=True):
    """What stands in the place of a region: six fields, what code knows beside, what was dropped.

    `started` names the bracket, `previous` the checkpoint before on the branch; `number` counts
    them from 1. `confirmed` is done and never asked for; `open` and `constraints` are carried until
    a later checkpoint closes them with a citation. `narrative` may stand beside the structure.
    `block` is a provider's own compaction, bound like thinking, which heads the packet where it can
    be read. `summariser` wrote what is `by` a summariser; None: code alone. `units` is what it
    takes in packets.
    """

    started: EventId
    number: int = 1
    previous: EventId = ""
    goal: Text = ""
    done_when: Text = ""
    constraints: tuple[Line, ...] = ()
    confirmed: tuple[Line, ...] = ()
    changed: tuple[ChangedFile, ...] = ()
    open: tuple[Line, ...] = ()
    next: tuple[Line, ...] = ()
    evidence: tuple[EventId, ...] = ()
    files: tuple[SeenFile, ...] = ()
    calls: tuple[OpenCall, ...] = ()
    instructions: tuple[InstructionStatus, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    closed: tuple[Closed, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    narrative: Text = ""
    summariser: Named | None = None
    block: BoundPart | None = None
    units: int = 0


@event("compaction.asked", 1)
class CompactionAsked(Payload, frozen=True):
    """A summariser is about to be asked: durable before the request leaves.

    The request is the header, the region's entries as packets show them and `instruction` behind
    them, under this api, model and parameters. `request` is its digest, `size` its body's length.
    """

    attempt: int
    summariser: Named
    instruction: Text = ""
    api: str = ""
    model: Text = ""
    params: Text = ""
    request: str = ""
    size: int = 0


@event("compaction.answered", 1)
class CompactionAnswered(Payload, frozen=True):
    """What came back: the body as received, its usage. `status` 0: no answer, `error` says why."""

    attempt: int
    status: int = 0
    body: Text = ""
    usage: Text = ""
    error: Text = ""


@event("compaction.refused", 1)
class CompactionRefused(Payload, frozen=True):
    """A checkpoint that did not count: codes and what each is about, such as a line's id."""

    attempt: int
    reasons: tuple[tuple[str, str], ...] = ()


@event("compaction.completed", 1, upcast=lambda old: CompactionCompleted(**structs.asdict(old)))
class CompactionCompleted1(Payload, frozen=True):
    """As it was: a foreign one."""

    foreign: bool = False
    history: tuple[EventId, ...] = ()
    summary: Text = ""
    opaque: Text = ""
    unknown: bool = False


@event("compaction.completed", 2)
class CompactionCompleted(Payload, frozen=True):
    """The history that continues.

    Of sawlog's own: the checkpoint (its seq), the events `kept` of those up to seq `through`, and
    all after it. A foreign one names all that continue as ids of events in order (`history`), and
    holds what its file could say: the summary as text or opaque, or `unknown`.
    """

    foreign: bool = False
    history: tuple[EventId, ...] = ()
    summary: Text = ""
    opaque: Text = ""
    unknown: bool = False
    checkpoint: int = 0
    through: int = 0
    kept: tuple[int, ...] = ()


@event("compaction.failed", 1)
class CompactionFailed(Payload, frozen=True):
    """A compaction ended without effect."""

    reason: Text = ""


@event("note.recorded", 1, open=True)
class NoteRecorded(Payload, frozen=True):
    """What must outlive every compaction, as the harness or a person says it.

    `kind` is `constraint`, `open`, `next` or `confirmed`; `name` is its own, and the same name
    again takes the older one's place. `refs` are events that show it.
    """

    kind: str
    name: str
    text: Text
    refs: tuple[EventId, ...] = ()


@event("note.closed", 1, open=True)
class NoteClosed(Payload, frozen=True):
    """A note is settled: events that show it, and why."""

    name: str
    refs: tuple[EventId, ...] = ()
    reason: Text = ""
