"""The items of a session as candidates, weighed by the policy's stages, and what comes of it.

What stands in the packet already stays where it was sent and takes no more room; what was offered
and does not stand there is weighed at each step anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.facts import Offer
from sawlog.builder.forms import show
from sawlog.builder.item import (
    AUTHORITY_RANK,
    RETENTION_RANK,
    TRUST_RANK,
    Kind,
    Sensitivity,
    content_digest,
)
from sawlog.builder.packet import Entry
from sawlog.builder.selection import eligibility
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.field import Field
from sawlog.builder.selection.keys import instant
from sawlog.builder.selection.measure import measured
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.select import select
from sawlog.builder.selection.stages import STAGES
from sawlog.builder.selection.task import Task
from sawlog.builder.selection.verdict import Selection
from sawlog.builder.selection.verdict import Verdict as Judged
from sawlog.builder.selection.walks import Coverage, Prefix
from sawlog.builder.state import Args, Ref, State
from sawlog.builder.trace import Verdict
from sawlog.builder.world import digest_of
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.errors import InvalidItem
from sawlog.store.events.items import ItemOffered, TaskSet

UNBOUNDED = 2**53
"""Units that stand for a window without bound."""

Measure = Callable[[Entry], int]

GATES = (
    eligibility.Sensitivity,
    eligibility.Clearance,
    eligibility.Trust,
    eligibility.Scope,
    eligibility.PathScope,
    eligibility.Validity,
    eligibility.Freshness,
)
"""Stages that need nothing but the candidate and the task; they come first in each policy."""


class Chosen(msgspec.Struct, frozen=True):
    """What a policy made of the items: refs to append, verdicts, what is missing.

    `notices` are refs that say of items in the packet that they hold no longer. `units` is what the
    refs take; `needed` what all that must come in takes, and `short` how much of that found no
    room (0: all of it is in).
    """

    refs: tuple[Ref, ...] = ()
    notices: tuple[tuple[Ref, str], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[str, ...] = ()
    units: int = 0
    needed: int = 0
    short: int = 0


class Known:
    """What was read of items once, under one measure; nothing in it is truth.

    Candidates by seq, or the code of the rule that keeps an item out; who is of one text or of one
    thing with whom.
    """

    def __init__(self) -> None:
        self.items: dict[int, Candidate] = {}
        self.odd: dict[int, str] = {}
        self.ends: dict[int, int] = {}
        self._alike: dict[tuple[str, str, str], list[int]] = {}
        self._measure: object = None

    def read(self, offers: Iterable[Offer], contents: Contents, measure: Measure) -> None:
        """Read what is new among these offers. Raises BlobMissing."""
        if self._measure is not measure:
            self.__init__()  # type: ignore[misc]
            self._measure = measure
        for offer in offers:
            if offer.seq in self.items or offer.seq in self.odd:
                continue
            try:
                one = _read(offer, contents, measure)
            except InvalidItem as error:
                self.odd[offer.seq] = error.code
                continue
            self.items[offer.seq] = one
            for key in _likenesses(one):
                self._alike.setdefault(key, []).append(offer.seq)
            until = instant(one.valid_until, end=True) if one.valid_until else None
            if until is not None:
                self.ends[offer.seq] = until

    def with_all_like(self, seqs: Iterable[int], among: frozenset[int]) -> set[int]:
        """These seqs and, among others, all that is of one text or one thing with one of them."""
        found = set(seqs)
        left = list(found)
        keys: set[tuple[str, str, str]] = set()
        while left:
            for key in _likenesses(self.items[left.pop()]):
                if key in keys:
                    continue
                keys.add(key)
                new = [seq for seq in self._alike[key] if seq in among and seq not in found]
                found.update(new)
                left.extend(new)
        return found


def _likenesses(one: Candidate) -> tuple[tuple[str, str, str], ...]:
    """By what stages compare two candidates: their text, and what they speak of."""
    return (
        ("text", one.kind, one.digest),
        ("thing", one.kind, one.canonical or one.source_id),
    )


def choose(
    state: State,
    policy: Policy,
    room: int,
    as_of: int,
    contents: Contents,
    measure: Measure,
    known: Known,
    *,
    afresh: bool = False,
) -> Chosen:
    """Weigh the items of a state for `room` units. Raises BlobMissing, InvalidItem for a task.

    Between cuts only what is new is weighed: what was offered since the last packet, or all of it
    under another task or policy, or where a cut is (`afresh`). What found no room waits for that.
    An item in the packet is weighed where it can matter: beside what is like it, for what it is
    required for, when its time is over.
    """
    wanted = task_of(state, room, as_of, contents)
    if not state.offers and not wanted.requirements and not wanted.topics:
        return Chosen()
    shown = frozenset(state.items)
    known.read(state.offers, contents, measure)
    offers = {one.seq: one for one in state.offers if one.seq in known.items}
    ends = known.ends
    afresh = afresh or max(state.task, state.policy) > state.sent_at
    waiting = {
        seq
        for seq, one in offers.items()
        if not (afresh or one.required or seq in shown or seq > state.sent_at)
    }
    among = frozenset(offers) - waiting
    matter = {
        seq
        for seq in among
        if seq not in shown
        or offers[seq].required
        or offers[seq].withdrawn
        or ends.get(seq, as_of) < as_of
    }
    if any(isinstance(use, Coverage | Prefix) for use in policy.stages):
        matter, waiting, among = set(offers), set[int](), frozenset(offers)
    weighed = _weighed(state, policy, wanted, offers, matter, among, shown, known)
    missing = set(weighed.found.missing)
    if missing:
        needed = {seq for seq in waiting if missing & set(known.items[seq].topics)}
        if needed or len(weighed.items) + len(weighed.twins) < len(among):
            among |= needed
            matter = set(among)
            weighed = _weighed(state, policy, wanted, offers, matter, among, shown, known)
    out = {
        seq: _candidate(state, offers[seq], known.items[seq], shown)
        for seq in waiting
        if seq not in weighed.items
    }
    weighed = replace(weighed, waiting=_gated(policy, wanted, out))
    return _chosen(state, weighed, offers, shown, contents, measure, known)


def _gated(policy: Policy, wanted: Task, items: dict[int, Candidate]) -> dict[int, Verdict]:
    """Verdicts on what waits for a cut: it does, or the gate that keeps it out anyway."""
    came = tuple(items[seq] for seq in sorted(items))
    field = Field(came, came, policy.measure, 0)
    for use in policy.stages if came else ():
        if not isinstance(use, GATES):
            break
        field = STAGES[type(use)](field, wanted, use)
    kept_out = {one.id: one for one in field.verdicts}
    verdicts: dict[int, Verdict] = {}
    for seq, one in items.items():
        gate = kept_out.get(one.id)
        stage, reason = ("budget", "waits_for_cut") if gate is None else (gate.stage, gate.reason)
        verdicts[seq] = Verdict(seq, 1, stage, "dropped", reason, _units(one))
    return verdicts


class _Weighed(msgspec.Struct, frozen=True):
    """A selection: its candidates by seq, and offers whose text stands in the packet, by whose.

    `waiting` are the verdicts on those that were not weighed.
    """

    found: Selection
    items: dict[int, Candidate]
    twins: dict[int, int]
    waiting: dict[int, Verdict] = {}


def _weighed(
    state: State,
    policy: Policy,
    wanted: Task,
    offers: dict[int, Offer],
    matter: set[int],
    among: frozenset[int],
    shown: frozenset[int],
    known: Known,
) -> _Weighed:
    weigh = sorted(known.with_all_like(matter, among))
    items = {seq: _candidate(state, offers[seq], known.items[seq], shown) for seq in weigh}
    twins = _joined(items, shown)
    _in_order(items, offers)
    # What stands in the packet takes no more room, however the policy measures it.
    there = measured((one for seq, one in items.items() if seq in shown), policy.measure)
    beside = sum(one.units for one in there)
    found = select(policy, replace(wanted, budget=wanted.budget + beside), items.values())
    return _Weighed(found, items, twins)


def _chosen(
    state: State,
    weighed: _Weighed,
    offers: dict[int, Offer],
    shown: frozenset[int],
    contents: Contents,
    measure: Measure,
    known: Known,
) -> Chosen:
    found = weighed.found
    new = [one for one in found.selected if _seq(one) not in shown]
    sizes: dict[int, int] = {}
    refs: list[Ref] = []
    for one in new:
        own = _refs(offers[_seq(one)], one, contents, measure)
        sizes[_seq(one)] = sum(measure(show(ref, contents, None)) for ref in own)
        refs.extend(own)
    judged = {one.id: one for one in found.verdicts}
    bucket = found.required_units
    return Chosen(
        tuple(refs),
        tuple(_notices(state, weighed, judged, shown, frozenset(sizes))),
        tuple(_verdicts(state, weighed, judged, shown, sizes, known)),
        found.missing,
        sum(sizes.values()),
        bucket.all,
        bucket.all - bucket.selected,
    )


def _verdicts(
    state: State,
    weighed: _Weighed,
    judged: dict[str, Judged],
    shown: frozenset[int],
    sizes: dict[int, int],
    known: Known,
) -> Iterable[Verdict]:
    """One verdict for each item that was offered and does not stand in the packet."""
    for offer in state.offers:
        seq = offer.seq
        if seq in shown:
            continue
        if seq in known.odd:
            yield Verdict(seq, 1, "label", "dropped", known.odd[seq])
        elif seq in weighed.twins:
            note = f"kept as {_id(weighed.twins[seq])}"
            yield Verdict(
                seq, 1, "dedup", "dropped", "duplicate", _units(known.items[seq]), (), note
            )
        elif seq in weighed.waiting:
            yield weighed.waiting[seq]
        else:
            one = judged[_id(seq)]
            units = sizes.get(seq, one.units)
            yield Verdict(seq, 1, one.stage, one.outcome, one.reason, units, one.scores, one.note)


def candidates(state: State, contents: Contents, measure: Measure) -> dict[int, Candidate]:
    """The items of a state as candidates, by seq, as they are before any policy weighs them.

    Items that no channel makes are not among them. Raises BlobMissing.
    """
    known, shown = Known(), frozenset(state.items)
    known.read(state.offers, contents, measure)
    return {
        one.seq: _candidate(state, one, known.items[one.seq], shown)
        for one in state.offers
        if one.seq in known.items
    }


def _units(one: Candidate) -> int:
    return 0 if one.is_secret else one.units


def _id(seq: int) -> str:
    return f"{seq:016d}"


def _seq(one: Candidate) -> int:
    return int(one.id)


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


def _candidate(state: State, offer: Offer, base: Candidate, shown: frozenset[int]) -> Candidate:
    """The candidate that an offer is now. One in the packet is there already, whatever its text."""
    stale = ""
    if offer.withdrawn:
        stale = "withdrawn"
    elif freshness.is_outdated(state, offer.saw):
        stale = "file_changed"
    if offer.seq in shown:
        return replace(base, stale=stale, in_prefix=True, text="", units=0)
    return replace(base, stale=stale) if stale else base


def _joined(items: dict[int, Candidate], shown: frozenset[int]) -> dict[int, int]:
    """Take out what says again what stands in the packet; gives by seq whose text that is.

    The text that stands there holds from then on as what was said last: its version and time, and
    all that either is required for.
    """
    there: dict[Candidate, int] = {}
    for seq, one in items.items():
        if seq in shown and not one.stale:
            there[_bare(one)] = seq
    twins: dict[int, int] = {}
    for seq, one in list(items.items()):
        if seq in shown or one.stale:
            continue
        of = there.get(_bare(one))
        if of is None:
            continue
        twins[seq] = of
        del items[seq]
        old = items[of]
        items[of] = replace(
            old,
            version=one.version,
            updated_at=one.updated_at,
            valid_until=one.valid_until,
            required_for=tuple(sorted({*old.required_for, *one.required_for})),
            topics=tuple(sorted({*old.topics, *one.topics})),
        )
    return twins


def _in_order(items: dict[int, Candidate], offers: dict[int, Offer]) -> None:
    """Give each its place in the order of arrival, as far as that says something.

    Of one thing the later word counts. What else was offered between two packets came together: in
    which order must not decide what is shown.
    """
    came: dict[tuple[int, tuple[str, str]], int] = {}
    for seq in sorted(items):
        one, after = items[seq], offers[seq].after
        nth = came[after, _thing(one)] = came.get((after, _thing(one)), 0) + 1
        items[seq] = replace(one, seq=after + nth)


def _bare(one: Candidate) -> Candidate:
    """A candidate without what may differ between two sayings of one thing."""
    return replace(
        one,
        id="-",
        seq=0,
        text="",
        units=0,
        in_prefix=False,
        version="",
        updated_at="",
        valid_until="",
        required_for=(),
        topics=(),
        relevance=None,
    )


def _read(offer: Offer, contents: Contents, measure: Measure) -> Candidate:
    """An item as a candidate. Raises InvalidItem for one that no channel of sawlog's makes."""
    event = contents.event(offer.seq)
    content = event.content
    assert isinstance(content, ItemOffered)
    label = content.label
    if (
        label.authority not in AUTHORITY_RANK
        or label.trust not in TRUST_RANK
        or label.retention not in RETENTION_RANK
        or label.kind not in set(Kind)
        or label.sensitivity not in set(Sensitivity)
    ):
        raise InvalidItem("unknown_label", f"the item of event {offer.seq} has unknown labels")
    if not all(isinstance(part, TextPart | MediaPart) for part in content.parts):
        raise InvalidItem("unknown_part", f"the item of event {offer.seq} has parts of no item")
    texts = [part.text for part in content.parts if isinstance(part, TextPart)]
    entries = [show(ref, contents, None) for ref in _plain(offer)]
    whole = "".join(entry.text for entry in entries)
    path = text_of(content.path, contents)
    until = content.valid_until
    if content.ttl:
        ends = event.occurred_at + content.ttl
        until = min(until, ends) if until else ends
    single = len(texts) == 1 == len(content.parts)
    return Candidate(
        id=_id(offer.seq),
        kind=label.kind,
        text=whole,
        title=text_of(content.title, contents),
        locator=text_of(content.locator, contents),
        source_id=f"{event.source}:{text_of(content.source_id, contents)}",
        version=text_of(content.version, contents),
        digest=digest_of(texts[0]) if single else content_digest(whole),
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


_FOLLOWED = ("superseded", "overturned")


def _notices(
    state: State,
    weighed: _Weighed,
    judged: dict[str, Judged],
    shown: frozenset[int],
    coming: frozenset[int],
) -> Iterable[tuple[Ref, str]]:
    """Notices for items that stand in the packet and hold no longer, each once."""
    withdrawn = {one.seq: one.withdrawn for one in state.offers}
    by_thing: dict[tuple[str, str], list[int]] = {}
    for seq, one in weighed.items.items():
        by_thing.setdefault(_thing(one), []).append(seq)
    for seq, one in weighed.items.items():
        verdict = judged[one.id]
        if seq not in shown or verdict.outcome != "dropped":
            continue
        kind = "withdrawn" if withdrawn[seq] else verdict.reason
        cause = withdrawn[seq] or seq
        if kind in _FOLLOWED:
            newer = [each for each in by_thing[_thing(one)] if each != seq]
            follows = [each for each in newer if each in coming]
            cause = max(follows or newer, default=seq)
            # What is newer may have found no room: then it is not said that it follows.
            kind = kind if follows else "replaced"
        elif kind not in ("withdrawn", "expired"):
            continue
        args: Args = (("kind", kind), ("of", seq))
        yield Ref("history", cause, 1, "stale", 1, args), f"item_{kind}"


def _thing(one: Candidate) -> tuple[str, str]:
    return (one.kind, one.canonical or one.source_id)
