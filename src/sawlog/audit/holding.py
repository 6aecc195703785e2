"""What in a log holds a text, or is what was asked for: parts, items, the world, the inbox."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sawlog.audit.recordedplaces import FORM
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.forms import show
from sawlog.builder.item import Sensitivity
from sawlog.builder.packet import Entry
from sawlog.builder.projector import entry_count
from sawlog.builder.state import Ref
from sawlog.store.errors import BuildError
from sawlog.store.event import Event
from sawlog.store.events.inbox import InboxInjected
from sawlog.store.events.items import ItemOffered, TaskSet
from sawlog.store.events.registry import Erased
from sawlog.store.events.world import WorldChanged
from sawlog.store.text import BlobMissing

Key = tuple[int, int]
"""Seq and part."""


_READABLE = frozenset(("full", "preview", "late", "item", "world", FORM))
"""Forms that show the text of their event."""


class Wanted(msgspec.Struct, frozen=True):
    """What is looked for: a text, the id of an event, the id of an item's source."""

    what: str

    def is_named_by(self, event: Event, contents: Contents) -> bool:
        """True when the event itself is meant, whatever its text."""
        if self.what == event.id:
            return True
        content = event.content
        return isinstance(content, ItemOffered) and self.what == text_of(
            content.source_id, contents
        )

    def is_in(self, entry: Entry) -> bool:
        """True when an entry shows the text, or is a tool, call or result of that name."""
        return self.what in entry.text or self.what == entry.name


class Held(msgspec.Struct, frozen=True):
    """A part that was found. `named`: it was asked for itself, so any form shows it.

    `form` is how packets show it: `full`, `item`, `world`; `inbox` as such is in none.
    """

    event: Event
    part: int
    form: str
    entry: Entry | None
    named: bool = False

    @property
    def key(self) -> Key:
        """Seq and part."""
        return self.event.seq, self.part

    @property
    def is_secret(self) -> bool:
        """True of an item of which neither digest nor size may be told."""
        content = self.event.content
        return isinstance(content, ItemOffered) and content.label.sensitivity == Sensitivity.SECRET

    def shown_by(self, ref: Ref, contents: Contents, wanted: Wanted) -> bool:
        """True when an entry of this part gives what was asked for."""
        if ref.form not in _READABLE:
            return False
        entry = None if self.named else shown(contents, ref)
        return self.named or (entry is not None and wanted.is_in(entry))


def held(events: Iterator[Event], contents: Contents, wanted: Wanted) -> dict[Key, Held]:
    """The parts among these events that are wanted, whole contents looked at, in their order."""
    found: dict[Key, Held] = {}
    for event in events:
        if isinstance(event.content, Erased):
            continue
        for one in _of(event, contents, wanted):
            found[one.key] = one
    return found


def _of(event: Event, contents: Contents, wanted: Wanted) -> Iterator[Held]:
    form, parts = _form(event)
    if not form:
        return
    named = wanted.is_named_by(event, contents)
    for part in range(1, parts + 1):
        entry = shown(contents, Ref("history", event.seq, part, form))
        if named and (part == 1 or form != "item"):
            yield Held(event, part, form, entry, named=True)
        elif not named and entry is not None and wanted.is_in(entry):
            yield Held(event, part, form, entry)


def _form(event: Event) -> tuple[str, int]:
    """The form of an event that packets may show, and how many parts that has."""
    match event.content:
        case ItemOffered():
            return "item", max(1, len(event.content.parts))
        case WorldChanged():
            return "world", len(event.content.sections)
        case TaskSet():
            return "world", 1
        case InboxInjected():
            return "inbox", len(event.content.parts)
        case _:
            return ("full", entry_count(event)) if event.shown else ("", 0)


def shown(contents: Contents, ref: Ref) -> Entry | None:
    """The entry of a ref; None of a part whose content is gone, or of no part."""
    event = contents.event(ref.seq)
    if ref.form == FORM:
        ref = msgspec.structs.replace(ref, form="full")
    if isinstance(event.content, InboxInjected):
        return _injected(event.content, ref.part, contents)
    try:
        return show(ref, contents, None)
    except (BlobMissing, BuildError, IndexError):
        return None


def _injected(content: InboxInjected, part: int, contents: Contents) -> Entry | None:
    """A message of the inbox, as the user message that it would become."""
    one = content.parts[part - 1]
    text = getattr(one, "text", None)
    if text is None:
        return None
    try:
        said = text_of(text, contents)
    except BlobMissing:
        return None
    return Entry(part == 1, "history", "user", "user", "trusted", "", "", said)
