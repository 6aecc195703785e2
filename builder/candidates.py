"""The items of a session as candidates, weighed by the policy's stages, and what comes of it.

What stands in the packet already stays where it was sent and takes no more room; what was offered
and does not stand there is weighed at each step anew.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.facts import Offer
from sawlog.builder.forms import show
from sawlog.builder.item import AUTHORITY_RANK, RETENTION_RANK, TRUST_RANK
from sawlog.builder.packet import Entry
from sawlog.builder.selection.candidate import Candidate, digest_of
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.select import select
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Verdict as Judged
from sawlog.builder.state import Args, Ref, State
from sawlog.builder.trace import Verdict
from sawlog.builder.world import digest_of as text_digest
from sawlog.store.content import TextPart
from sawlog.store.events.items import ItemOffered, TaskSet

UNBOUNDED = 2**53
"""Units that stand for a window without bound."""

Measure = Callable[[Entry], int]


class Chosen(msgspec.Struct, frozen=True):
    """What a policy made of the items: refs to append, verdicts, what is missing.

    `notices` are refs that say of items in the packet that they hold no longer. `short` is how
    many units more would have let all required items in (0: they are all in).
    """

    refs: tuple[Ref, ...] = ()
    notices: tuple[tuple[Ref, str], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[str, ...] = ()
    short: int = 0


class Known(msgspec.Struct):
    """What was read of items once; nothing in it is truth."""

    items: dict[int, Candidate] = msgspec.field(default_factory=dict[int, Candidate])


def choose(
    state: State,
    policy: Policy,
    room: int,
    as_of: int,
    contents: Contents,
    measure: Measure,
    known: Known,
) -> Chosen:
    """Weigh the items of a state for `room` units. Raises BlobMissing."""
    wanted = task_of(state, room, as_of, contents)
    if not state.offers and not wanted.requirements and not wanted.topics:
        return Chosen()
    offers = {_id(one.seq): one for one in state.offers}
    weighed = [_candidate(state, one, contents, measure, known) for one in state.offers]
    found = select(policy, wanted, weighed)
    chosen = [one for one in found.selected if offers[one.id].seq not in state.items]
    refs = [ref for one in chosen for ref in _refs(offers[one.id], one, contents, measure)]
    judged = {one.id: one for one in found.verdicts}
    short = sum(
        each.units
        for each in weighed
        if each.is_required and judged[each.id].stage in ("budget", "zones")
    )
    return Chosen(
        tuple(refs),
        tuple(_notices(state, weighed, judged)),
        tuple(
            Verdict(
                offers[one.id].seq, 1, one.stage, one.outcome, one.reason, one.units,
                one.scores, one.note,
            )
            for one in found.verdicts
            if offers[one.id].seq not in state.items
        ),
        found.missing,
        short,
    )  # fmt: skip


def candidates(state: State, contents: Contents, measure: Measure) -> dict[int, Candidate]:
    """The items of a state as candidates, by seq, as they are before any policy weighs them.

    Raises BlobMissing.
    """
    known = Known()
    return {one.seq: _candidate(state, one, contents, measure, known) for one in state.offers}


def _id(seq: int) -> str:
    return f"{seq:016d}"


def task_of(state: State, room: int, as_of: int, contents: Contents) -> Task:
    """What a build of this state is for, with `room` units for items. Raises BlobMissing."""
    content = contents.event(state.task).content if state.task else TaskSet()
    assert isinstance(content, TaskSet)
    task = Task(
        budget=room,
        repository=text_of(content.repository, contents),
        target_path=text_of(content.path, contents),
        task_id=text_of(content.task, contents),
        tenant=text_of(content.tenant, contents),
        clearance=content.clearance,
        as_of=str(as_of),
        requirements=content.requirements,
        topics=content.topics,
        phase=content.phase,
    )
    return replace(task, allowed_sensitivities=content.allowed) if content.allowed else task


def _candidate(
    state: State, offer: Offer, contents: Contents, measure: Measure, known: Known
) -> Candidate:
    base = known.items.get(offer.seq)
    if base is None:
        base = known.items[offer.seq] = _read(offer, contents, measure)
    stale = ""
    if offer.withdrawn:
        stale = "withdrawn"
    elif offer.seq in state.noted or freshness.is_outdated(state, offer.saw):
        stale = "file_changed" if offer.saw else "withdrawn"
    there = offer.seq in state.items
    if not stale and not there:
        return base
    if not there:
        return replace(base, stale=stale)
    # What stands in the packet takes no more room, and has its digest for a text.
    return replace(base, stale=stale, in_prefix=True, text="", digest=digest_of(base), units=0)


def _read(offer: Offer, contents: Contents, measure: Measure) -> Candidate:
    event = contents.event(offer.seq)
    content = event.content
    assert isinstance(content, ItemOffered)
    label = content.label
    texts = [part.text for part in content.parts if isinstance(part, TextPart)]
    entries = [show(ref, contents, None) for ref in _plain(offer)]
    path = text_of(content.path, contents)
    until = content.valid_until
    if content.ttl:
        ends = event.occurred_at + content.ttl
        until = min(until, ends) if until else ends
    return Candidate(
        id=_id(offer.seq),
        kind=label.kind,
        text="".join(entry.text for entry in entries),
        title=text_of(content.title, contents),
        locator=text_of(content.locator, contents),
        source_id=f"{event.source}:{text_of(content.source_id, contents)}",
        version=text_of(content.version, contents),
        digest=text_digest(texts[0]) if len(texts) == 1 == len(content.parts) else "",
        canonical=text_of(content.canonical, contents),
        authority=AUTHORITY_RANK[label.authority],
        trust=TRUST_RANK[label.trust],
        retention=RETENTION_RANK[label.retention],
        authority_name=label.authority,
        trust_name=label.trust,
        sensitivity=label.sensitivity,
        repository=text_of(content.repository, contents),
        path=path,
        scope_path=path if label.kind == "instruction" or path.endswith("/") else "",
        task_id=text_of(content.task, contents),
        tenant=text_of(content.tenant, contents),
        topics=content.topics,
        required_for=content.required_for,
        updated_at=text_of(content.updated_at, contents),
        valid_until=str(until) if until else "",
        relevance=None if content.relevance < 0 else content.relevance,
        role=content.role,
        units=sum(measure(entry) for entry in entries),
        seq=offer.seq,
    )


def _plain(offer: Offer) -> list[Ref]:
    return [Ref("history", offer.seq, part, "item") for part in range(1, offer.parts + 1)]


def _refs(offer: Offer, one: Candidate, contents: Contents, measure: Measure) -> list[Ref]:
    """The entries that show an item, its text cut where the policy put a bound on it."""
    refs = _plain(offer)
    if not one.cut or not refs:
        return refs
    left = one.cut
    out: list[Ref] = []
    for ref in refs:
        whole = show(ref, contents, None)
        units = measure(whole)
        if units > left:
            ref = _kept(ref, len(whole.text), left, contents, measure)
            units = measure(show(ref, contents, None))
        out.append(ref)
        left = max(0, left - units)
    return out


def _kept(ref: Ref, length: int, limit: int, contents: Contents, measure: Measure) -> Ref:
    """The ref with as much of its text as takes `limit` units, none where even that is too much."""

    def keeping(size: int) -> Ref:
        args: Args = (("keep", str(size)),)
        return replace(ref, args=args)

    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        if measure(show(keeping(middle), contents, None)) <= limit:
            low = middle
        else:
            high = middle - 1
    return keeping(low)


_HOLDS_NO_MORE = {reason: reason for reason in ("superseded", "overturned", "expired")}


def _notices(
    state: State, candidates: list[Candidate], judged: dict[str, Judged]
) -> list[tuple[Ref, str]]:
    """Notices for items that stand in the packet and hold no longer, each once."""
    newest = {one.source_id: one.seq for one in candidates}
    out: list[tuple[Ref, str]] = []
    for offer, one in zip(state.offers, candidates, strict=True):
        if offer.seq not in state.items or offer.seq in state.noted:
            continue
        verdict = judged[one.id]
        kind = "withdrawn" if offer.withdrawn else _HOLDS_NO_MORE.get(verdict.reason, "")
        if not kind or verdict.outcome != "dropped":
            continue
        cause = offer.withdrawn or (newest[one.source_id] if kind != "expired" else offer.seq)
        args: Args = (("kind", kind), ("of", offer.seq))
        out.append((Ref("history", cause, 1, "stale", 1, args), f"item_{kind}"))
    return out
