"""Lines of a checkpoint: those of the one before, carried or closed, and what was found since.

A line is in one place and there once. What the checkpoint before held as constraint or open stays
until something says that it is settled, and then that is cited.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from sawlog.compaction.files import REFS
from sawlog.compaction.gone import Reading, offered_text
from sawlog.compaction.wording import boxes_in, cut, line_id, note_id, one_line, word_for_word
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint, Closed, Line, NoteClosed, NoteRecorded
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, TaskSet
from sawlog.store.text import Text

FIELDS = ("constraints", "confirmed", "open", "next")
"""The fields of a checkpoint that are lines."""

HOLDING = ("constraints", "open")
"""The fields whose lines later checkpoints carry until something settles them."""

UNMET = "requirement not met: "
NOTED = "noted as done: "
"""In front of a confirmed note, which may be worded as something to do."""

LONGEST_NOTE = 4000
"""Characters of a note, which a checkpoint carries word for word."""

_FIELD_OF = {"constraint": "constraints", "open": "open", "next": "next", "confirmed": "confirmed"}
_MOVED = {"confirmed": "noted as done", "next": "noted as planned"}
_RULES = ("constraint", "rule")
_TRUSTED = ("trusted_source", "verified")


def lines_by_field(checkpoint: Checkpoint) -> dict[str, tuple[Line, ...]]:
    """The lines of a checkpoint, by the field that each stands in."""
    return {
        "constraints": checkpoint.constraints,
        "confirmed": checkpoint.confirmed,
        "open": checkpoint.open,
        "next": checkpoint.next,
    }


class Lines:
    """The lines of a checkpoint while they are found: each id once, in the order found."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, Line]] = {name: {} for name in FIELDS}
        self.closed: dict[str, Closed] = {}

    def add(self, field: str, line: Line) -> None:
        """One more line; one that is there already only gains what cites it."""
        for lines in self.fields.values():
            old = lines.get(line.id)
            if old is not None:
                refs = (*(ref for ref in old.refs if ref not in line.refs), *line.refs)
                lines[line.id] = replace(old, refs=refs[-REFS:])
                return
        self.fields[field][line.id] = line

    def put(self, field: str, line: Line) -> None:
        """A line in the place of the one that has its id, or as one more."""
        for name, lines in self.fields.items():
            if name != field:
                lines.pop(line.id, None)
        self.fields[field][line.id] = line

    def get(self, field: str) -> tuple[Line, ...]:
        """The lines of a field."""
        return tuple(self.fields[field].values())


class Notes:
    """The notes of a past: by the id of their line the newest word on each."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.newest: dict[str, Event] = {}
        for event in reading.events:
            if isinstance(event.content, NoteRecorded | NoteClosed):
                id = note_id(event.content.name)
                self.newest.pop(id, None)
                self.newest[id] = event

    def field(self, id: str) -> str:
        """The field that a note stands in now; empty when there is none or it is closed."""
        event = self.newest.get(id)
        if event is None or not isinstance(event.content, NoteRecorded):
            return ""
        return _FIELD_OF.get(event.content.kind, "")

    def closing(self, id: str, field: str) -> Closed | None:
        """What settles a line of that field by a note: it is closed, or what held is done or
        planned now."""
        event = self.newest.get(id)
        if event is None:
            return None
        if isinstance(event.content, NoteClosed):
            reason = cut(one_line(self._reading.text(event.content.reason)))
            return Closed(id, self._refs(event), reason)
        if field in HOLDING and self.field(id) not in ("", *HOLDING):
            return Closed(id, self._refs(event), f"it is {_MOVED[self.field(id)]}")
        return None

    def hides(self, id: str, seq: int) -> bool:
        """True of a line whose source is older than the word that closed it."""
        event = self.newest.get(id)
        return event is not None and isinstance(event.content, NoteClosed) and event.seq > seq

    def lines(self) -> list[tuple[str, Line]]:
        """The notes that stand, each with its field, in the order of their newest word."""
        out: list[tuple[str, Line]] = []
        for id, event in self.newest.items():
            field = self.field(id)
            if not field or not isinstance(event.content, NoteRecorded):
                continue
            text = word_for_word(self._reading.text(event.content.text))
            if field == "confirmed":
                text = NOTED + text
            by = "user" if event.source == "user" else ""
            out.append((field, Line(id, cut(text, LONGEST_NOTE), self._refs(event), by)))
        return out

    def _refs(self, event: Event) -> tuple[EventId, ...]:
        """The note and what it names, so far as that lies in the region or was cited before.

        A confirmed note cites of calls only those that finished well.
        """
        content = event.content
        assert isinstance(content, NoteRecorded | NoteClosed)
        confirms = isinstance(content, NoteRecorded) and content.kind == "confirmed"
        reading = self._reading
        named = [
            ref
            for ref in content.refs
            if ref in reading.citable and not (confirms and reading.is_unfinished(ref))
        ]
        return (event.id, *named[: REFS - 1])


# --- boxes ----------------------------------------------------------------------------------------


class Box(msgspec.Struct, frozen=True):
    """A line with a box as it was ticked or not the last time; `covered` as in `Said`."""

    event: Event
    line: Line
    done: bool
    covered: bool


def boxes(reading: Reading) -> dict[str, Box]:
    """The newest word on each box of user and assistant, by the id of its line."""
    found: dict[str, Box] = {}
    for said in reading.said():
        if said.gone and not said.covered:
            continue  # the checkpoint before has read it, and what came after it
        for text, done in boxes_in(said.text):
            by = "user" if said.by_user else ""
            line = Line(line_id("o", text), cut(text), (said.event.id,), by)
            found.pop(line.id, None)
            found[line.id] = Box(said.event, line, done, said.covered)
    return found


# --- requirements, items --------------------------------------------------------------------------


class Needs:
    """What the task asks for, and which items that packets show give it."""

    def __init__(self, reading: Reading) -> None:
        state = reading.past.state
        self.event = reading.event(state.task) if state.task else None
        task = None if self.event is None else self.event.content
        self.names: tuple[str, ...] = task.requirements if isinstance(task, TaskSet) else ()
        self.given: dict[str, EventId] = {}
        for seq in state.items:
            event = reading.event(seq)
            if event is not None and isinstance(event.content, ItemOffered):
                self.given.update(
                    dict.fromkeys(map(one_line, event.content.required_for), event.id)
                )

    def lines(self) -> list[Line]:
        """An open line for each that nothing gives."""
        if self.event is None:
            return []
        unmet = [name for name in map(one_line, self.names) if name not in self.given]
        return [_unmet(name, self.event.id) for name in dict.fromkeys(unmet)]

    def closing(self, line: Line, text: str) -> Closed | None:
        """What settles a requirement of the checkpoint before: an item, or another task."""
        name = text.removeprefix(UNMET)
        if name == text or line.id != line_id("o", text):
            return None
        for given, item in self.given.items():
            if _unmet(given, item).id == line.id:
                return Closed(line.id, (item,), "an item gives it")
        if self.event is None or any(one.id == line.id for one in self.lines()):
            return None
        return Closed(line.id, (self.event.id,), "the task no longer asks for it")


def _unmet(name: str, ref: EventId) -> Line:
    text = cut(UNMET + name)
    return Line(line_id("o", text), text, (ref,))


class Items:
    """Items that are rules or constraints, by the id of their line: the newest word of each source.

    A line is named by its source, as a note is by its name: a newer version takes its place.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        # What a notice called out of date is no offer any more.
        self._offers = frozenset(offer.seq for offer in reading.past.state.offers)
        offers = (reading.event(seq) for seq in self._offers)
        events = {event.seq: event for event in (*offers, *reading.events) if event is not None}
        self.newest: dict[str, Event] = {}
        for seq in sorted(events):
            match events[seq].content:
                case ItemOffered(source_id=source_id):
                    self.newest[self._id(events[seq].source, source_id)] = events[seq]
                case ItemWithdrawn(channel=channel, source_id=source_id):
                    self.newest[self._id(channel, source_id)] = events[seq]
                case _:
                    pass

    def closing(self, id: str) -> Closed | None:
        """What settles a rule of the checkpoint before."""
        event = self.newest.get(id)
        if event is None:
            return None
        if isinstance(event.content, ItemWithdrawn):
            return Closed(id, (event.id,), "its source took it back")
        if not (isinstance(event.content, ItemOffered) and is_rule(event.content)):
            return Closed(id, (event.id,), "its source says another thing now")
        return None

    def lines(self) -> list[Line]:
        """The rules that stood in packets and give way, or did before: each in its newest words."""
        previous = self._reading.past.previous
        ids = dict.fromkeys(() if previous is None else (line.id for line in previous.constraints))
        for one in self._reading.gone:
            item = one.event.content
            if one.ref.seq not in self._offers or one.ref.form != "item":
                continue
            if isinstance(item, ItemOffered) and is_rule(item):
                ids[self._id(one.event.source, item.source_id)] = None
        return [
            Line(id, cut(text), (event.id,))
            for id in ids
            if (event := self.newest.get(id)) is not None and (text := self._text(event))
        ]

    def _id(self, channel: str, source_id: Text) -> str:
        return line_id("r", f"{channel}\n{self._reading.text(source_id)}")

    def _text(self, event: Event) -> str:
        item = event.content
        if not isinstance(item, ItemOffered) or not is_rule(item):
            return ""
        return one_line(offered_text(item.parts, self._reading.past.contents))


def is_rule(item: ItemOffered) -> bool:
    """True of an instruction, and of what its loader calls a constraint or a rule.

    A text that is not trusted never asks for anything to be kept (S0-19).
    """
    label = item.label
    if label.trust not in _TRUSTED or label.sensitivity == "secret":
        return False
    return label.kind == "instruction" or item.role in _RULES


def withdrawals(reading: Reading) -> list[tuple[str, Text]]:
    """Channel and source id of what was taken back among items that packets show or showed."""
    known: dict[tuple[str, Text], ItemOffered] = {}
    for seq in (*(one.seq for one in reading.past.state.offers), *sorted(reading.seqs)):
        event = reading.event(seq)
        if event is not None and isinstance(event.content, ItemOffered):
            known[event.source, event.content.source_id] = event.content
    found: dict[tuple[str, Text], None] = {}
    for event in reading.events:
        match event.content:
            case ItemWithdrawn(channel=channel, source_id=source_id):
                item = known.get((channel, source_id))
                if item is not None and item.label.sensitivity != "secret":
                    found[channel, source_id] = None
            case ItemOffered(source_id=source_id):
                found.pop((event.source, source_id), None)
            case _:
                pass
    return list(found)
