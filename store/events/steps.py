"""Packets, attempts and steps: what was built, what left, what came back."""

from __future__ import annotations

import msgspec
from msgspec import structs

from sawlog.store.events.base import EventId, Named, Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


class Keep(msgspec.Struct, frozen=True, tag_field="t", tag="keep"):
    """Entries i to j-1 of the base's list."""

    i: int
    j: int


class Run(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag="run"):
    """Parts of the events first to last: part 0 is every part of every shown event in seq order.

    `args` is a list of (name, text or seq).
    """

    section: str
    first: int
    last: int
    part: int = 0
    form: str = "full"
    number: int = 1
    args: tuple[tuple[str, str | int], ...] = ()


@event("packet.built", 1)
class PacketBuilt(Payload, frozen=True):
    """What one step's packet was made of, and the digests of what must come out again.

    `counts` are (zone, units) in the measure named; `size` is the body's length in bytes;
    `prefix` the digest of what this reply's bound items are bound to; `base` the seq of another
    `packet.built` of the branch (0: none) whose entries `parts` may keep.
    """

    fold: int
    policy: Named
    measure: Named
    profile: Named
    renderer: Named
    api: str
    model: Text
    params: Text
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    as_of: int
    missing: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    semantic: str
    request: str
    size: int
    base: int
    parts: tuple[Keep | Run, ...]
    prefix: str = ""
    profile_digest: str = ""
    replaces: EventId = ""
    fallback_of: EventId = ""


class Literal(msgspec.Struct, frozen=True, tag_field="t", tag="literal"):
    """Bytes of a recorded body that stand nowhere earlier."""

    text: Text


class Quote(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag="quote"):
    """A text of another event, as a body spells it: that of its part, or of a call its arguments.

    `spelling` is `utf-8` (a JSON string in which only what must be is escaped), `ascii` (all else
    that is no ASCII, too, as \\uXXXX), or `raw` (the text itself).
    """

    seq: int
    part: int = 1
    spelling: str = "utf-8"


class Again(msgspec.Struct, frozen=True, tag_field="t", tag="again"):
    """The spans i to j-1 of the `packet.recorded` at `seq`, counted in its own list."""

    seq: int
    i: int
    j: int


@event("packet.recorded", 1, upcast=lambda old: PacketRecorded(**structs.asdict(old)))
class PacketRecorded1(Payload, frozen=True):
    """As it was: every span is a repetition of the base's, or bytes."""

    api: str
    method: str = "POST"
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    model: Text = ""
    request: str = ""
    size: int = 0
    base: int = 0
    spans: tuple[Keep | Literal, ...] = ()
    origin: str = "recorded"


@event("packet.recorded", 2)
class PacketRecorded(Payload, frozen=True):
    """A request that another program built: its bytes are the truth.

    The body is the spans one after the other; `base` is the seq of an earlier `packet.recorded`
    (0: none) whose spans i to j-1, all that they stand for counted, a `keep` repeats. `path` is
    that of the request without host and base, `size` the body's length in bytes, `request` the
    digest of it all.
    """

    api: str
    method: str = "POST"
    path: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    model: Text = ""
    request: str = ""
    size: int = 0
    base: int = 0
    spans: tuple[Keep | Literal | Quote | Again, ...] = ()
    origin: str = "recorded"


@event("attempt.sent", 1, upcast=lambda old: AttemptSent(**structs.asdict(old)))
class AttemptSent1(Payload, frozen=True):
    """As it was: all headers stood in each."""

    packet: EventId
    number: int = 1
    url: Text = ""
    headers: tuple[tuple[str, str], ...] = ()
    client: str = ""


@event("attempt.sent", 2)
class AttemptSent(Payload, frozen=True):
    """The bytes of a packet are about to leave; durable before the first one does.

    `number` counts the attempts of a step from 1. `url` and `headers` are what was dialled, as far
    as it is known and no secret. With `like`, the seq of an earlier attempt.sent that names none
    itself, url and headers are those of that one but for what stands here: another url, headers of
    another value, and `without` those that were not sent.
    """

    packet: EventId
    number: int = 1
    url: Text = ""
    headers: tuple[tuple[str, str], ...] = ()
    client: str = ""
    like: int = 0
    without: tuple[str, ...] = ()


@event("attempt.answered", 1, upcast=lambda old: AttemptAnswered(**structs.asdict(old)))
class AttemptAnswered1(Payload, frozen=True):
    """As it was: what the provider edited stood in the body alone."""

    number: int = 1
    status: int = 200
    request_id: Text = ""
    response_id: Text = ""
    model: Text = ""
    account: Text = ""
    stop_reason: Text = ""
    usage: Text = ""
    body: Text = ""
    assembler: Named | None = None
    interrupted: bool = False


@event("attempt.answered", 2)
class AttemptAnswered(Payload, frozen=True):
    """A whole reply arrived. `body` is as received; empty for a stream, whose assembler is named.

    `usage` and `stop_reason` are the provider's own words, and so is `edits`: what it reports to
    have edited of the context that it was sent, as JSON source; empty when it reports nothing.
    """

    number: int = 1
    status: int = 200
    request_id: Text = ""
    response_id: Text = ""
    model: Text = ""
    account: Text = ""
    stop_reason: Text = ""
    usage: Text = ""
    body: Text = ""
    assembler: Named | None = None
    interrupted: bool = False
    edits: Text = ""


@event("attempt.refused", 1)
class AttemptRefused(Payload, frozen=True):
    """The provider refused. `kind` is the class that sawlog gives the refusal."""

    number: int = 1
    kind: str = "provider_error"
    status: int = 0
    request_id: Text = ""
    message: Text = ""
    body: Text = ""


@event("attempt.lost", 1)
class AttemptLost(Payload, frozen=True):
    """Nobody knows what became of an attempt."""

    number: int = 1
    reason: Text = ""


@event("attempt.running", 1)
class AttemptRunning(Payload, frozen=True):
    """The provider works on it and gave a handle to ask again."""

    number: int = 1
    handle: Text = ""


@event("step.completed", 1)
class StepCompleted(Payload, frozen=True):
    """The step has its reply. `reconstructed`: a foreign file showed the step."""

    stop_reason: Text = ""
    reconstructed: bool = False


@event("step.failed", 1)
class StepFailed(Payload, frozen=True):
    """The step ended without a reply."""

    reason: Text = ""
    reconstructed: bool = False


@event("step.refused", 1)
class StepRefused(Payload, frozen=True):
    """The model declined to answer; the turn leaves by policy."""

    reason: Text = ""


@event("step.abandoned", 1)
class StepAbandoned(Payload, frozen=True):
    """The caller gave the step up."""

    reason: Text = ""
    reconstructed: bool = False


DEFAULT_PAIRING = Named("default")
"""The pairing of a session that names none: this very object is left out of the stored bytes."""


@event("policy.set", 1)
class PolicySet(Payload, frozen=True):
    """The rules that hold from here on, with their whole text where no release brings them.

    `policy`, `pairing`, `measure`, `profile` and `renderer` are named and numbered; `window` is
    the model's window in units of the measure (0: none).
    """

    policy: Named
    pairing: Named = DEFAULT_PAIRING
    fold: int = 1
    measure: Named = Named("utf8-quarter")
    profile: Named | None = None
    renderer: Named | None = None
    window: int = 0
    reserve: int = 0
    params: Text = ""
    policy_text: Text = ""
    profile_text: Text = ""


@event("measure.recorded", 1)
class MeasureRecorded(Payload, frozen=True):
    """What a step cost, as the provider reported it, and what later packets count with.

    `units` is what the packet took in the measure named; `input`, `output` and `cached` are tokens
    (-1: not reported). `per_mille` is the calibration in force from here on: tokens for a thousand
    units. `assembly` and `retrieval` are microseconds spent on building and on fetching.
    """

    measure: Named
    units: int
    input: int = -1
    output: int = -1
    cached: int = -1
    retries: int = 0
    per_mille: int = 1000
    assembly: int = -1
    retrieval: int = -1
