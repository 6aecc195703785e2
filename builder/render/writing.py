"""Texts, sources, ids and names as JSON, with a note of all that did not go out as it stands."""

from __future__ import annotations

import msgspec

from sawlog.builder.packet import Entry
from sawlog.builder.profiles import Profile
from sawlog.builder.render.source import members, mended, string_value, without_surrogates
from sawlog.builder.render.wire import Ids, wire_name

_encode = msgspec.json.Encoder().encode

_WHITE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""White space, written down: what a release of Python takes for it may change."""


def blank(text: str) -> bool:
    """True of a text that is empty or white space alone."""
    return not text.strip(_WHITE)


class Writing:
    """Writes JSON under a profile. `notes` are (entry, what, why), as in `Request.notes`."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.notes: list[tuple[int, str, str]] = []
        self.ids = Ids(profile.ids)
        self._names: dict[tuple[str, str], str] = {}

    def note(self, at: int, what: str, why: str) -> None:
        """Say what became of the entry at that place."""
        self.notes.append((at, what, why))

    def quoted(self, at: int, text: str) -> bytes:
        """A text as a JSON string: no character above ASCII is escaped."""
        try:
            return _encode(text)
        except UnicodeEncodeError:
            self.note(at, "repaired", "surrogate")
            return _encode(without_surrogates(text))

    def source(self, at: int, source: str) -> bytes:
        """JSON source as it is, but for halves of characters, which no provider takes."""
        whole = mended(source)
        if whole != source:
            self.note(at, "repaired", "surrogate")
        return whole.encode()

    def name(self, at: int, name: str, namespace: str = "") -> str:
        """The name that a tool goes out under."""
        wire = self._names.get((name, namespace))
        if wire is None:
            wire = self._names[name, namespace] = wire_name(name, self.profile.names, namespace)
        if wire != name:
            self.note(at, "mapped", "name")
        return wire

    def id(self, at: int, id: str) -> str:
        """The id that a further call goes out under."""
        wire = self.ids.wire(id)
        if wire != id:
            self.note(at, "mapped", "id")
        return wire

    def object(self, at: int, entry: Entry) -> bytes:
        """A call's arguments as a JSON object: their source, or the one object around it."""
        free = entry.call_kind == "text"
        if not free and members(entry.text) is not None:
            return self.source(at, entry.text)
        self.note(at, "wrapped", "free_form" if free else "arguments")
        member = self.quoted(at, self.profile.wrapper)
        return b"{" + member + b":" + self.quoted(at, entry.text) + b"}"

    def schema(self, at: int, tool: dict[str, str]) -> bytes:
        """The schema of a tool's input, which is an object; without one: any object."""
        source = tool.get("parameters", "")
        schema = members(source)
        if schema is not None and string_value(schema.get("type")) == "object":
            return self.source(at, source)
        self.note(at, "repaired", "schema")
        if not schema or "type" in schema:
            return b'{"type":"object","properties":{}}'
        return b'{"type":"object",' + self.source(at, source.strip(" \t\n\r")[1:])

    def wrapping_schema(self, at: int) -> bytes:
        """The schema of a free-form tool's input, where an API has only objects."""
        self.note(at, "wrapped", "free_form")
        member = self.quoted(at, self.profile.wrapper)
        properties = b'{"type":"object","properties":{' + member + b':{"type":"string"}},'
        return properties + b'"required":[' + member + b"]}"
