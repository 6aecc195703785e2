"""What a client's own history is, as the log tells it: how far a request repeats it, what is new.

The mirror holds one conversation in order: for each thing that is said the event that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.requests.cutting import Body
from sawlog.builder.state import State
from sawlog.recorder.alike import Atom, Gist, atoms, pairs
from sawlog.recorder.items import Said, group_start, said
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageSystem


class News(msgspec.Struct, frozen=True):
    """What a request says against the history that is known.

    `new` are the events to append, each with its place among what is `told`; `gone` are the ids of
    events that it repeats no more, or otherwise. `told` is the history as it is from here on, the
    new events' ids still empty; `counts` how much of it stands at the end of each of the `items`.
    `matched` counts what was known of it, instructions of the operator's left out; `begins` says
    that it begins as what is known does.
    """

    new: tuple[tuple[Said, int, int], ...]
    gone: tuple[str, ...]
    told: tuple[Atom, ...]
    items: tuple[str, ...]
    counts: tuple[int, ...]
    matched: int = 0
    begins: bool = False

    @property
    def belongs(self) -> int:
        """How much of the known it goes on from; 0 when it is another conversation.

        A word that both happen to hold makes no conversation, and one that starts anew with the
        same words is a new one: it repeats nothing that the model said, and says nothing else.
        """
        size = sum(not one.system for one in self.told)
        answers = any(one.model and one.event for one in self.told)
        half = self.matched > 1 and 2 * self.matched >= size
        goes_on = self.begins and (answers or size > self.matched)
        return self.matched if goes_on or (half and answers) else 0


def items_of(body: Body) -> tuple[str, ...]:
    """The JSON texts of a request's messages or items."""
    return tuple(body.source(piece) for piece in body.pieces if piece.kind == "item")


class Mirror:
    """One conversation, as its last request and reply left it."""

    def __init__(self, known: Iterable[Atom] = ()) -> None:
        self.known: list[Atom] = list(known)
        self._items: tuple[str, ...] = ()
        self._counts: tuple[int, ...] = ()

    def added(self, body: Body) -> News:
        """What a request tells that leaves the history to the provider: all of it is new."""
        told = list(self.known)
        new: list[tuple[Said, int, int]] = []
        for one in said(body, items_of(body), 0):
            first = len(told)
            told.extend(atoms(one.payload))
            new.append((one, first, len(told)))
        return News(tuple(new), (), tuple(told), (), ())

    def news(self, body: Body) -> News:
        """What a request tells, without taking it in."""
        items = items_of(body)
        start = group_start(body, items, self.repeated(items))
        before = self._counts[start - 1] if start else 0
        spoken = [(one, atoms(one.payload)) for one in said(body, items, start)]
        tail = self.known[before:]
        told = [atom.gist for _, found in spoken for atom in found]
        repeats = pairs([one.gist for one in tail], told)
        whole = self._whole(tail, repeats)
        history = list(self.known[:before])
        new: list[tuple[Said, int, int]] = []
        ends: dict[int, int] = {}
        matched = sum(not one.system for one in history)
        for one, found in spoken:
            first = len(history)
            places = range(first - before, first - before + len(found))
            events = [tail[repeats[at]].event if at in repeats else "" for at in places]
            # What repeats a part of an event and tells the rest anew is a new one.
            known = all(event in whole for event in events)
            for atom, event in zip(found, events, strict=True):
                history.append(msgspec.structs.replace(atom, event=event if known else ""))
                matched += bool(event) and not atom.system
            if not known:
                new.append((one, first, len(history)))
            ends[one.piece] = len(history)
        kept = {atom.event for atom in history[before:]}
        gone = dict.fromkeys(one.event for one in tail if one.event not in kept)
        counts = list(self._counts[:start])
        for at in range(start, len(items)):
            counts.append(ends.get(at, counts[-1] if counts else 0))
        begins = _first(history) == _first(self.known)
        return News(tuple(new), tuple(gone), tuple(history), items, tuple(counts), matched, begins)

    def repeated(self, items: tuple[str, ...]) -> int:
        """How many of the first items are those of the last request, to the letter."""
        same = 0
        while same < min(len(items), len(self._items)) and items[same] == self._items[same]:
            same += 1
        return same

    def _whole(self, tail: Sequence[Atom], repeats: dict[int, int]) -> set[str]:
        """The events of which everything is repeated."""
        used = set(repeats.values())
        events = {one.event for one in tail}
        return events - {one.event for at, one in enumerate(tail) if at not in used}

    def take(self, news: News, ids: Sequence[str]) -> None:
        """Take a request in, `ids` being those of its new events."""
        known = list(news.told)
        for (_, first, last), event in zip(news.new, ids, strict=True):
            known[first:last] = [
                msgspec.structs.replace(one, event=event) for one in known[first:last]
            ]
        self.known = known
        self._items = news.items
        self._counts = news.counts

    def heard(self, said: Iterable[Gist], event: str) -> None:
        """Take in what the model said to the last request, in an event of that id."""
        self.known.extend(Atom(gist, event, model=True) for gist in said)


def shown(state: State, contents: Contents, *, header: bool) -> list[Atom]:
    """What a session's history says now. With `header` its system texts are left out."""
    seqs = dict.fromkeys(ref.seq for ref in state.sent if ref.seq and ref.section == "history")
    seqs.update(dict.fromkeys(one.seq for one in state.news))
    if not header:
        seqs = {**dict.fromkeys(seq for seq, _ in state.system), **seqs}
    found: list[Atom] = []
    for seq in sorted(seqs):
        event = contents.event(seq)
        if isinstance(event.content, Payload) and not (header and _is_header(event)):
            found.extend(atoms(event.content, event.id, contents))
    return found


def _first(history: Sequence[Atom]) -> Gist | None:
    """What a history begins with, instructions of the operator's left out."""
    return next((one.gist for one in history if not one.system), None)


def _is_header(event: Event) -> bool:
    return isinstance(event.content, MessageSystem) and event.source == "system"
