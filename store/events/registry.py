"""Event types: name and version to struct, what is frozen about each, and how old ones read.

A struct becomes a type with the `event` decorator and belongs to a `Registry` once it is put
there. A registry is a value: `extended` gives a new one, so two stores in one process may know
different types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from sawlog.store.envelope import StoredEvent, Unproved
from sawlog.store.errors import Damaged, InvalidEvent
from sawlog.store.events.base import Payload

P = TypeVar("P", bound=type[Payload])


class EventType(msgspec.Struct, frozen=True):
    """One version of one event type.

    `shown`: its parts can stand in a packet (frozen: manifests rely on it). `open`: it may be
    appended without a lease. `upcast` makes the next version's payload of this one's.
    """

    name: str
    version: int
    struct: type[Payload]
    shown: bool = False
    open: bool = False
    upcast: Callable[[Any], Payload] | None = None


class Unknown(msgspec.Struct, frozen=True):
    """An event whose type or version is not registered here."""

    type: str
    version: int
    ignorable: bool


class Erased(msgspec.Struct, frozen=True):
    """An event whose content was erased; `parts` is how many entries it had in packets."""

    type: str
    version: int
    parts: int = 1


Content = Payload | Unknown | Erased

_TYPES: dict[type[Payload], EventType] = {}


def event(
    name: str,
    version: int,
    *,
    shown: bool = False,
    open: bool = False,
    upcast: Callable[[Any], Payload] | None = None,
) -> Callable[[P], P]:
    """Declare a struct as a version of an event type; a registry still has to take it in."""

    def declare(struct: P) -> P:
        _TYPES[struct] = EventType(name, version, struct, shown, open, upcast)
        return struct

    return declare


def type_of(struct: type[Payload]) -> EventType:
    """The declaration of a struct. Raises InvalidEvent when it was never declared."""
    found = _TYPES.get(struct)
    if found is None:
        raise InvalidEvent(
            f"{struct.__name__} is no event type: declare it with @event(name, version)"
        )
    return found


class Registry:
    """The event types that one store knows."""

    def __init__(self, structs: Iterable[type[Payload]] = ()) -> None:
        self._types: dict[tuple[str, int], EventType] = {}
        self._decoders: dict[tuple[str, int], msgspec.json.Decoder[Payload]] = {}
        self._newest: dict[str, int] = {}
        for struct in structs:
            self._add(type_of(struct))
        self._check_upcasts()

    def _check_upcasts(self) -> None:
        for name, version in self._types:
            newest = self._newest[name]
            if version == newest:
                continue
            if (name, version + 1) not in self._types:
                raise InvalidEvent(f"{name} has versions {version} and {newest}, none between them")
            if self._types[name, version].upcast is None:
                raise InvalidEvent(
                    f"{name} version {version} has no upcast to {version + 1}: give one to @event"
                )

    def _add(self, kind: EventType) -> None:
        at = (kind.name, kind.version)
        known = self._types.get(at)
        if known is not None and known.struct is not kind.struct:
            raise InvalidEvent(
                f"{kind.name} version {kind.version} is already {known.struct.__name__}"
            )
        self._types[at] = kind
        self._decoders[at] = msgspec.json.Decoder(kind.struct)
        self._newest[kind.name] = max(kind.version, self._newest.get(kind.name, 0))

    def extended(self, structs: Iterable[type[Payload]]) -> Registry:
        """A registry that knows these types, too.

        Refused with InvalidEvent: a taken name and version, a version that nothing leads from to
        the next, and a new name that is `shown`, for no form of this release could show it.
        """
        new = Registry()
        for kind in self._types.values():
            new._add(kind)
        for struct in structs:
            kind = type_of(struct)
            if kind.shown and kind.name not in self._newest:
                raise InvalidEvent(
                    f"{kind.name} cannot stand in a packet: no form shows it. Record the text for "
                    "the model as observation.recorded or message.user beside it"
                )
            new._add(kind)
        new._check_upcasts()
        return new

    def find(self, name: str, version: int) -> EventType | None:
        """The type of that name and version, or None."""
        return self._types.get((name, version))

    def shown(self, name: str, version: int) -> bool:
        """True when parts of that type and version can stand in a packet."""
        kind = self._types.get((name, version))
        return kind is not None and kind.shown

    def declared(self, struct: type[Payload]) -> EventType:
        """The type of a struct. Raises InvalidEvent when this registry does not hold it."""
        kind = type_of(struct)
        if self._types.get((kind.name, kind.version)) is not kind:
            raise InvalidEvent(
                f"{kind.name} version {kind.version} is not registered in this store"
            )
        return kind

    def check(self, kind: EventType, encoded: bytes) -> Payload:
        """What a payload's bytes read as. Raises InvalidEvent, naming the field, if they do not.

        Python does not hold values to their types: what got into a struct by mistake must not get
        into the log, where it could never be read.
        """
        try:
            return self._decoders[kind.name, kind.version].decode(encoded)
        except msgspec.DecodeError as error:
            what, _, where = str(error).partition(" - at ")
            path = where.strip("`").replace("$", kind.name, 1)
            raise InvalidEvent(what, path=path or kind.name) from error

    def decode(self, stored: StoredEvent | Unproved) -> Content:
        """The content of a stored event, in its type's newest version.

        An unregistered type gives Unknown, an erased event Erased. Raises Damaged when the bytes
        are not what the type says.
        """
        at = (stored.type, stored.version)
        if stored.payload is None:
            return Erased(stored.type, stored.version)
        decoder = self._decoders.get(at)
        if decoder is None:
            return Unknown(stored.type, stored.version, stored.ignorable)
        try:
            value = decoder.decode(stored.payload)
        except msgspec.DecodeError as error:
            raise Damaged(
                f"event {stored.seq} ({stored.type}) does not read: {error}", seq=stored.seq
            ) from error
        return value if stored.version == self._newest[stored.type] else self.newest(value)

    def newest(self, payload: Payload) -> Payload:
        """The payload in its type's newest version: what folds and forms read."""
        kind = self.declared(type(payload))
        for version in range(kind.version, self._newest[kind.name]):
            upcast = self._types[kind.name, version].upcast
            assert upcast is not None, "checked when the registry was made"
            payload = upcast(payload)
            following = self._types[kind.name, version + 1].struct
            if type(payload) is not following:
                raise InvalidEvent(
                    f"the upcast of {kind.name} version {version} gave "
                    f"{type(payload).__name__} and no {following.__name__}"
                )
        return payload

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._types.values())
