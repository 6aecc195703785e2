"""The lines of an export, there and back (docs/format.md, Export).

The first line names the session and its ancestors, then comes a line for each event and one for
each blob before the first event that cites it, then head and digest. Whatever reads a line refuses
one that it would not have written, byte for byte: `Altered` says why.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64encode
from typing import TypeVar

import msgspec

from sawlog.store.envelope import StoredEvent

T = TypeVar("T")

FORMAT = 1

START = b'{"sawlog":'
BLOB = b'{"blob":"'
EVENT = b'{"seq":'
END = b'{"head":'

_DATA = b'","data":"'
_AT = len(BLOB) + 64
_FROM = _AT + len(_DATA)


class Altered(ValueError):
    """Raised for a line that is not as sawlog writes it."""


class First(msgspec.Struct, frozen=True):
    """The first line: a session, its name, and whose its first events are, up to which seq."""

    session: bytes
    name: str | None
    ancestors: tuple[tuple[bytes, int], ...]


class Content(msgspec.Struct, frozen=True):
    """A blob: the SHA-256 of its bytes, and they."""

    digest: bytes
    data: bytes


class _First(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sawlog: int
    session: str
    name: str | None
    ancestors: tuple[tuple[str, int], ...]


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seq: int
    id: str
    type: str
    version: int
    flags: int
    step: int
    source: str
    occurred_at: int
    recorded_at: int
    fence: int
    salt: str | None
    commitment: str
    digest: str
    payload: msgspec.Raw


class _Last(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: int
    digest: str


class _Version(msgspec.Struct):
    sawlog: int


_quoted = msgspec.json.Encoder().encode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_first = msgspec.json.Decoder(_First).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_last = msgspec.json.Decoder(_Last).decode

# ValueError: hex that is none, text that is no UTF-8.
_FAULTS = (msgspec.DecodeError, ValueError, RecursionError)


# --- the first line


def first_line(first: First) -> bytes:
    """The line that names the session and whose events its first ones are."""
    return b'{"sawlog":%d,"session":"%b","name":%b,"ancestors":%b}\n' % (
        FORMAT,
        first.session.hex().encode(),
        _quoted(first.name),
        _quoted([(id.hex(), last) for id, last in first.ancestors]),
    )


def version_of(line: bytes) -> int | None:
    """The number of the format that a first line names; None when it is no such line."""
    if not line.startswith(START):
        return None
    try:
        return _decode_version(line).sawlog
    except _FAULTS:
        return None


def first_of(line: bytes) -> First:
    """What a first line says. Raises Altered."""
    try:
        read = _decode_first(line)
        ancestors = tuple((bytes.fromhex(id), last) for id, last in read.ancestors)
        first = First(bytes.fromhex(read.session), read.name, ancestors)
        return _same(first, first_line(first), line)
    except _FAULTS as error:
        raise _altered(error) from error


# --- blobs


def blob_line(content: Content) -> bytes:
    """The line of a blob."""
    digest = content.digest.hex().encode()
    return b"".join((BLOB, digest, _DATA, b64encode(content.data), b'"}\n'))


def content_of(line: bytes) -> Content:
    """The blob of a line, its digest made anew. Raises Altered."""
    coded = memoryview(line)[_FROM:-3]
    try:
        digest = bytes.fromhex(line[len(BLOB) : _AT].decode())
        data = binascii.a2b_base64(coded, strict_mode=True)
    except ValueError as error:
        raise _altered(error) from error
    # The line is not made again, for it may be large: of the same bytes only the last few have
    # several spellings.
    tail = data[len(data) - (len(data) % 3 or 3) :] if data else b""
    frame = (line[len(BLOB) : _AT], line[_AT:_FROM], line[-3:], bytes(coded[-4:]))
    if frame != (digest.hex().encode(), _DATA, b'"}\n', b64encode(tail)):
        raise Altered("it is not as sawlog writes it: the file was reformatted")
    if hashlib.sha256(data).digest() != digest:
        raise Altered(f"the bytes of blob {digest.hex()} give another digest")
    return Content(digest, data)


# --- events


def event_line(event: StoredEvent) -> bytes:
    """The line of an event; its payload's very bytes come last."""
    return (
        b'{"seq":%d,"id":"%b","type":%b,"version":%d,"flags":%d,"step":%d,"source":%b,'
        b'"occurred_at":%d,"recorded_at":%d,"fence":%d,"salt":%b,"commitment":"%b",'
        b'"digest":"%b","payload":%b}\n'
    ) % (
        event.seq,
        event.id.hex().encode(),
        _quoted(event.type),
        event.version,
        event.flags,
        event.step,
        _quoted(event.source),
        event.occurred_at,
        event.recorded_at,
        event.fence,
        b"null" if event.salt is None else b'"%b"' % event.salt.hex().encode(),
        event.commitment.hex().encode(),
        event.digest.hex().encode(),
        b"null" if event.payload is None else event.payload,
    )


def event_of(line: bytes) -> StoredEvent:
    """The event of a line, no digest of it checked. Raises Altered."""
    try:
        read = _decode_event(line)
        payload = bytes(read.payload)
        event = StoredEvent(
            seq=read.seq,
            id=bytes.fromhex(read.id),
            type=read.type,
            version=read.version,
            flags=read.flags,
            step=read.step,
            source=read.source,
            occurred_at=read.occurred_at,
            recorded_at=read.recorded_at,
            fence=read.fence,
            salt=None if read.salt is None else bytes.fromhex(read.salt),
            commitment=bytes.fromhex(read.commitment),
            digest=bytes.fromhex(read.digest),
            payload=None if payload == b"null" else payload,
        )
        if not line.isascii():
            line.decode()  # what the decoder passes over may be no UTF-8
        return _same(event, event_line(event), line)
    except _FAULTS as error:
        raise _altered(error) from error


# --- the last line


def last_line(head: int, digest: bytes) -> bytes:
    """The line that says that a file is whole."""
    return b'{"head":%d,"digest":"%b"}\n' % (head, digest.hex().encode())


def last_of(line: bytes) -> tuple[int, bytes]:
    """Head and digest of a last line. Raises Altered."""
    try:
        read = _decode_last(line)
        digest = bytes.fromhex(read.digest)
        return _same((read.head, digest), last_line(read.head, digest), line)
    except _FAULTS as error:
        raise _altered(error) from error


def _same(value: T, written: bytes, line: bytes) -> T:
    if written != line:
        raise Altered("it is not as sawlog writes it: the file was reformatted")
    return value


def _altered(error: Exception) -> Altered:
    return error if isinstance(error, Altered) else Altered(f"it does not read ({error})")
