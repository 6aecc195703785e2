"""Events to bytes and the chain over them (docs/format.md, Event). Bytes are made once.

header      magic, session, seq, id, type, version, flags, step, source, times, fence
commitment  SHA-256(salt, payload)
digest(n)   SHA-256("sawlog/1 event", digest(n-1), header, commitment)
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from sawlog.store.content import MediaPart
from sawlog.store.envelope import IGNORABLE, Blob, NewEvent, Prepared
from sawlog.store.errors import InvalidEvent, quoted
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import EventType, Registry
from sawlog.store.ids import keyed_id
from sawlog.store.text import LIMIT, TextObject, seal

_MAGIC = b"sawlog/1"
_encode = msgspec.json.Encoder().encode


def genesis(session: bytes) -> bytes:
    """The digest before a session's first event."""
    return hashlib.sha256(b"sawlog/1 genesis" + session).digest()


def commit(salt: bytes, payload: bytes) -> bytes:
    """The commitment to a payload: it stays when salt and payload are erased."""
    return hashlib.sha256(salt + payload).digest()


def header(
    session: bytes,
    seq: int,
    id: bytes,
    type: str,
    version: int,
    flags: int,
    step: int,
    source: str,
    occurred_at: int,
    recorded_at: int,
    fence: int,
) -> bytes:
    """The hashed header of an event: big-endian, type and source with a 4-byte length."""
    kind, channel = type.encode(), source.encode()
    long, wide = len(kind), len(channel)
    return _shape(long, wide)(
        _MAGIC, session, seq, id, long, kind, version, flags, step, wide, channel,
        occurred_at, recorded_at, fence,
    )  # fmt: skip


@lru_cache(1024)
def _shape(long: int, wide: int) -> Callable[..., bytes]:
    """What makes the header of a type and a source of so many bytes."""
    return struct.Struct(f">8s16sQ16sI{long}sIIQI{wide}sqqQ").pack


def link(previous: bytes, head: bytes, commitment: bytes) -> bytes:
    """The chain digest of an event from the one before it."""
    return hashlib.sha256(b"sawlog/1 event" + previous + head + commitment).digest()


def sealed(payload: Payload) -> tuple[Payload, tuple[Blob, ...]]:
    """The payload as it is stored, long or odd texts sealed, and the blobs that this made.

    Sealing twice changes nothing more.
    """
    blobs: dict[bytes, Blob] = {}
    return _sealed(payload, type(payload).__name__, blobs, {}), tuple(blobs.values())


def cites(payload: Payload) -> tuple[bytes, ...]:
    """The digests of all blobs that a payload names."""
    found: dict[bytes, None] = {}
    _sealed(payload, type(payload).__name__, {}, found)
    return tuple(found)


def prepare(
    new: NewEvent,
    registry: Registry,
    now: int,
    make_id: Callable[[], bytes],
    make_salt: Callable[[], bytes],
) -> Prepared:
    """An event ready to be linked: long or odd texts sealed, payload encoded, id chosen.

    Raises InvalidEvent, naming the path, for what cannot be stored.
    """
    payload, named, id, step, occurred_at = (
        new.payload, new.blobs, new.id, new.step, new.occurred_at
    )  # fmt: skip
    kind = registry.declared(type(payload))
    blobs = named
    cited: tuple[bytes, ...] = ()
    encoded = _as_it_is(payload)
    if encoded is None or not _is_plain(payload, encoded, kind, registry):
        payload, encoded, blobs, cited = _encoded(new, encoded, kind, registry)
    _check_source(new.source)
    if step is not None and not 0 <= step < 2**63:
        raise InvalidEvent(f"step {step} is no step number", path="step")
    if occurred_at is not None and not -(2**63) <= occurred_at < 2**63:
        raise InvalidEvent("a time is in microseconds, in 64 bits", path="occurred_at")
    for blob in named:
        if blob.digest not in cited:
            raise InvalidEvent("a blob came with it that its payload does not name", path="blobs")
    if id is None:
        id = make_id() if new.key is None else keyed_id(new.key)
    elif len(id) != 16:
        raise InvalidEvent("an event id has 16 bytes", path="id")
    redacted = payload.redacted
    return Prepared(
        id,
        kind.name,
        kind.version,
        IGNORABLE if new.ignorable else 0,
        step or 0,
        new.source,
        now if occurred_at is None else occurred_at,
        encoded,
        make_salt(),
        blobs,
        cited,
        step is not None,
        occurred_at is not None,
        kind.open,
        None if redacted is None else redacted.number,
    )


def _as_it_is(payload: Payload) -> bytes | None:
    """The bytes of a payload as it came; None when it has none."""
    try:
        return _encode(payload)
    except (UnicodeEncodeError, TypeError, OverflowError):
        return None


def _is_plain(payload: Payload, encoded: bytes, kind: EventType, registry: Registry) -> bool:
    """True of a payload that has nothing to seal and names no blob.

    Bytes as few as that hold no text that is too long, and an odd one has none. They read as what
    they were made of, so all that should be text is text.
    """
    if len(encoded) > LIMIT or b'"blob":"' in encoded:
        return False
    try:
        return registry.check(kind, encoded) == payload
    except InvalidEvent:
        return False


def _encoded(
    new: NewEvent, as_it_is: bytes | None, kind: EventType, registry: Registry
) -> tuple[Payload, bytes, tuple[Blob, ...], tuple[bytes, ...]]:
    """The payload sealed, its bytes, the blobs that are with it, and the digests that it names."""
    blobs: dict[bytes, Blob] = {blob.digest: blob for blob in new.blobs}
    cited: dict[bytes, None] = {}
    payload = _sealed(new.payload, kind.name, blobs, cited)
    encoded = as_it_is if payload is new.payload else None
    try:
        if encoded is None:
            encoded = _encode(payload)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise InvalidEvent(str(error), path=kind.name) from error
    registry.check(kind, encoded)
    return payload, encoded, tuple(blobs.values()), tuple(cited)


@lru_cache(1024)
def _check_source(source: str) -> None:
    # Lower-case ASCII, for a channel is named by the harness and never by content; a tool's or a
    # hook's own name may hold any printable ASCII.
    channel = source.partition(":")[0]
    if not channel or not source.isascii() or len(source) > 255:
        raise InvalidEvent(f"{quoted(source)} is no channel", path="source")
    if any(not ("a" <= c <= "z" or "0" <= c <= "9" or c in "-_.") for c in channel):
        raise InvalidEvent(f"{quoted(source)} is no channel: lower-case ASCII only", path="source")
    if any(c <= " " or c == "\x7f" for c in source):
        raise InvalidEvent(f"{quoted(source)} is no channel", path="source")


# --- sealing ------------------------------------------------------------------------------------
# A plan says, for each field of a struct, whether it may hold texts; fields that cannot are left
# alone. Plans are made once for each struct type.

_PLAIN, _TEXT, _STRUCT, _TUPLE = range(4)


@cache
def _plan(struct_type: type[msgspec.Struct]) -> tuple[tuple[str, int], ...]:
    hints = get_type_hints(struct_type)
    plan: list[tuple[str, int]] = []
    for name in struct_type.__struct_fields__:
        kind = _kind(hints[name])
        if kind != _PLAIN:
            plan.append((name, kind))
    return tuple(plan)


def _kind(hint: Any) -> int:
    if hint is TextObject:
        return _TEXT
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _STRUCT
    if get_origin(hint) is tuple:
        inner = [_kind(item) for item in get_args(hint) if item is not Ellipsis]
        return _TUPLE if any(kind != _PLAIN for kind in inner) else _PLAIN
    return max((_kind(item) for item in get_args(hint) if item is not type(None)), default=_PLAIN)


def _sealed(
    value: Payload, path: str, blobs: dict[bytes, Blob], cites: dict[bytes, None]
) -> Payload:
    sealed = _seal_struct(value, path, blobs, cites)
    assert isinstance(sealed, Payload)
    return sealed


def _seal_struct(
    value: msgspec.Struct, path: str, blobs: dict[bytes, Blob], cites: dict[bytes, None]
) -> msgspec.Struct:
    changed: dict[str, Any] = {}
    if isinstance(value, MediaPart) and value.blob:
        _cite(value.blob, path, cites)
    for name, kind in _plan(type(value)):
        old = getattr(value, name)
        if old is None:
            continue
        if kind == _TEXT and type(old) is str and len(old) * 4 <= LIMIT and old.isascii():
            continue  # most texts are short and plain, and stay as they are
        new = _seal_value(old, kind, f"{path}.{name}", blobs, cites)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value


def _seal_value(
    value: Any, kind: int, path: str, blobs: dict[bytes, Blob], cites: dict[bytes, None]
) -> Any:
    if kind == _TEXT:
        if isinstance(value, str):
            text, blob = seal(value)
            if blob is not None:
                blobs.setdefault(blob.digest, blob)
                cites[blob.digest] = None
            return value if isinstance(text, str) else text
        if isinstance(value, TextObject):
            if value.blob:
                _cite(value.blob, path, cites)
            return value
        raise InvalidEvent(f"{type(value).__name__} is no text", path=path)
    if kind == _STRUCT:
        if not isinstance(value, msgspec.Struct):
            raise InvalidEvent(f"{type(value).__name__} does not belong here", path=path)
        return _seal_struct(value, path, blobs, cites)
    new: list[Any] = []
    differs = False
    for at, item in enumerate(value):
        where = f"{path}[{at}]"
        if isinstance(item, msgspec.Struct) and not isinstance(item, TextObject):
            sealed: Any = _seal_struct(item, where, blobs, cites)
        elif isinstance(item, (str, TextObject)):
            sealed = _seal_value(item, _TEXT, where, blobs, cites)
        else:
            sealed = item
        differs = differs or sealed is not item
        new.append(sealed)
    return tuple(new) if differs else value


def _cite(digest: str, path: str, cites: dict[bytes, None]) -> None:
    try:
        raw = bytes.fromhex(digest)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise InvalidEvent(f"{digest!r} is no SHA-256 in hex", path=path)
    cites[raw] = None
