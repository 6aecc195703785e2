"""The items of a session as candidates: read once, and as they are in one build.

What stands in the packet already takes no more room; what its file, its source or its time says of
it is told by the state and never by the item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.facts import Offer
from sawlog.builder.forms import show
from sawlog.builder.forms_around import item_form
from sawlog.builder.item import (
    AUTHORITY_RANK,
    RETENTION_RANK,
    TRUST_RANK,
    Kind,
    Sensitivity,
    content_digest,
)
from sawlog.builder.packet import Entry
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.keys import instant
from sawlog.builder.selection.task import Task
from sawlog.builder.standing import Standing
from sawlog.builder.state import Args, Ref, State
from sawlog.builder.vec import Vec
from sawlog.builder.world import digest_of
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.errors import InvalidItem
from sawlog.store.events.items import ItemOffered, TaskSet

Measure = Callable[[Entry], int]


class Known:
    """What was read of items once, under one measure; nothing in it is truth.

    Candidates by seq, or the code of the rule that keeps an item out; who is of one text or of one
    thing with whom.
    """

    def __init__(self) -> None:
        self.items: dict[int, Candidate] = {}
        self.odd: dict[int, str] = {}
        self.ends: dict[int, int] = {}
        self._standing = Standing()
        self._alike: dict[tuple[str, str, str], list[int]] = {}
        self._measure: Measure | None = None
        self._cut: dict[tuple[int, int], tuple[list[Ref], int]] = {}

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
            for key in likenesses(one):
                self._alike.setdefault(key, []).append(offer.seq)
            until = instant(one.valid_until, end=True) if one.valid_until else None
            if until is not None:
                self.ends[offer.seq] = until

    def capped(self, offer: Offer, limit: int, contents: Contents) -> int:
        """What an item takes whose text is cut to `limit` units: its name and notice count, too."""
        return self._within(offer, limit, contents)[1]

    def refs_of(self, offer: Offer, limit: int, contents: Contents) -> list[Ref]:
        """The entries that show an item, its text cut to `limit` units unless that is 0."""
        return self._within(offer, limit, contents)[0] if limit else plain_refs(offer, contents)

    def standing(self, sent: Vec[Ref], contents: Contents) -> Mapping[int, int]:
        """What each item takes that stands among these entries, by seq. Raises BlobMissing."""
        assert self._measure is not None, "what stands there was read before"
        return self._standing.units(sent, contents, self._measure)

    def _within(self, offer: Offer, limit: int, contents: Contents) -> tuple[list[Ref], int]:
        found = self._cut.get((offer.seq, limit))
        if found is None:
            assert self._measure is not None, "what is cut was read before"
            found = self._cut[offer.seq, limit] = _cut(offer, limit, contents, self._measure)
        return found

    def with_all_like(self, seqs: Iterable[int], among: frozenset[int]) -> set[int]:
        """These seqs and, among others, all that is of one text or one thing with one of them."""
        found = set(seqs)
        left = list(found)
        keys: set[tuple[str, str, str]] = set()
        while left:
            for key in likenesses(self.items[left.pop()]):
                if key in keys:
                    continue
                keys.add(key)
                new = [seq for seq in self._alike[key] if seq in among and seq not in found]
                found.update(new)
                left.extend(new)
        return found


def likenesses(one: Candidate) -> tuple[tuple[str, str, str], ...]:
    """By what stages compare two candidates: their text, and what they speak of."""
    return (
        ("text", one.kind, one.digest),
        ("thing", one.kind, one.canonical or one.source_id),
    )


def thing_of(one: Candidate) -> tuple[str, str]:
    return (one.kind, one.canonical or one.source_id)


def candidates(state: State, contents: Contents, measure: Measure) -> dict[int, Candidate]:
    """The items of a state as candidates, by seq, as they are before any policy weighs them.

    Items that no channel makes are not among them. Raises BlobMissing.
    """
    known, shown = Known(), frozenset(state.items)
    known.read(state.offers, contents, measure)
    return {
        one.seq: candidate_now(state, one, known.items[one.seq], shown)
        for one in state.offers
        if one.seq in known.items
    }


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


def candidate_now(state: State, offer: Offer, base: Candidate, shown: frozenset[int]) -> Candidate:
    """The candidate that an offer is now. One in the packet is there already, whatever its text."""
    stale = ""
    if offer.withdrawn:
        stale = "withdrawn"
    elif freshness.is_outdated(state, offer.saw):
        stale = "file_changed"
    if offer.seq in shown:
        return replace(base, stale=stale, in_prefix=True, text="", units=0)
    return replace(base, stale=stale) if stale else base


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
    entries = [show(ref, contents, None) for ref in plain_refs(offer, contents)]
    whole = "".join(entry.text for entry in entries)
    path = text_of(content.path, contents)
    until = content.valid_until
    if content.ttl:
        ends = event.occurred_at + content.ttl
        until = min(until, ends) if until else ends
    # What a preview shows is another text than the whole: neither stands for the other.
    single = len(texts) == 1 == len(content.parts) and item_form(content.parts[0]) == 1
    return Candidate(
        id=id_of(offer.seq),
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


def plain_refs(offer: Offer, contents: Contents) -> list[Ref]:
    content = contents.event(offer.seq).content
    parts = content.parts if isinstance(content, ItemOffered) else ()
    return [
        Ref("history", offer.seq, at, "item", item_form(part)) for at, part in enumerate(parts, 1)
    ]


def _cut(offer: Offer, limit: int, contents: Contents, measure: Measure) -> tuple[list[Ref], int]:
    """The entries that show an item in `limit` units as far as its text can be cut, and theirs."""
    left = limit
    total = 0
    out: list[Ref] = []
    for ref in plain_refs(offer, contents):
        whole = show(ref, contents, None)
        units = measure(whole)
        if units > left:
            ref = _kept(ref, len(whole.text), left, contents, measure)
            units = measure(show(ref, contents, None))
        out.append(ref)
        total += units
        left = max(0, left - units)
    return out, total


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


def id_of(seq: int) -> str:
    return f"{seq:016d}"


def seq_of(one: Candidate) -> int:
    return int(one.id)


def units_of(one: Candidate) -> int:
    return 0 if one.is_secret else one.units
