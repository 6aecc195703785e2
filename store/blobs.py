"""Large contents: packed, written once in their session, checked against their digest when read.

A row says by a codec number how its bytes are packed, so that new ways can come without a change of
what is stored: 0 as they are, 1 zstd, 2 in an object store (the row holds the place), 3 zstd with
the session's own dictionary (the row begins with its name), 4 that dictionary itself, which is no
blob, 5 in a pack (the row holds its number). The numbers are the same for payloads and snapshots.
Codecs 3 and 4 are read, and no longer written: packs save more.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterable

from sawlog.store.database import Row, Transaction
from sawlog.store.dictionary import Dictionary, Lost
from sawlog.store.errors import Away, Damaged
from sawlog.store.objects import Objects
from sawlog.store.pack import DENSEST, Pack

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

PLAIN, ZSTD, ELSEWHERE, TAUGHT, DICTIONARY, PACKED = 0, 1, 2, 3, 4, 5
INLINE = (PLAIN, ZSTD, TAUGHT)
"""Codecs of rows that hold the bytes themselves."""

LEVEL = 3

SMALL = 1024
"""Bytes below which packing costs more time than it saves room."""

INSERT = (
    "INSERT INTO sawlog.blobs (sid, digest, size, codec, data) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
_PRESENT = "SELECT digest FROM sawlog.blobs WHERE sid = ? AND digest IN (*)"
READ = "SELECT digest, size, codec, data, key FROM sawlog.blobs WHERE sid = ? AND digest IN (*)"

_SHAPE = (bytes, int, int, bytes, type(None))

Packed = tuple[int, bytes]
"""A codec number, and bytes packed by it."""

Contents = dict[bytes, tuple[int, Packed]]
"""Blobs ready to be written: digest to raw size and packed bytes."""

if sys.version_info >= (3, 14):

    def _compress(data: bytes) -> bytes:
        return zstd.compress(data, LEVEL)

    def _decompress(data: bytes, limit: int) -> bytes:
        decompressor = zstd.ZstdDecompressor()
        out = decompressor.decompress(data, limit + 1)
        if len(out) > limit or not decompressor.eof or decompressor.unused_data:
            raise ValueError("the packed bytes are not one whole frame of their size")
        return out

    _FAULTS: tuple[type[Exception], ...] = (zstd.ZstdError, ValueError, EOFError)
else:
    _local = threading.local()  # a packer of zstandard serves one thread at a time

    def _compress(data: bytes) -> bytes:
        try:
            packer = _local.packer
        except AttributeError:
            packer = _local.packer = zstandard.ZstdCompressor(level=LEVEL)
        packed: bytes = packer.compress(data)
        return packed

    def _decompress(data: bytes, limit: int) -> bytes:
        try:
            unpacker = _local.unpacker
        except AttributeError:
            unpacker = _local.unpacker = zstandard.ZstdDecompressor()
        if zstandard.frame_content_size(data) > limit:
            raise ValueError("the packed bytes are larger than their size")
        out: bytes = unpacker.decompress(data, max_output_size=limit, allow_extra_data=False)
        return out

    _FAULTS = (zstandard.ZstdError, ValueError)

HUGE = 1 << 40


def pack(data: bytes) -> Packed:
    """The bytes as a row holds them: packed where that saves a tenth or more."""
    if len(data) >= SMALL:
        packed = _compress(data)
        if len(packed) * 10 <= len(data) * 9:
            return ZSTD, packed
    return PLAIN, data


def elsewhere(objects: Objects, session: bytes, digest: bytes, data: bytes) -> Packed | None:
    """The bytes as a row names them once the object store has them; None when it failed.

    Whatever an object store raises only says that it does not have the bytes: the database takes
    them instead, and its own failure is the append's.
    """
    place = f"{session.hex()}/{digest.hex()}"
    try:
        objects.put(place, data)
    except Exception:
        return None
    return ELSEWHERE, place.encode()


def unpack(
    codec: int, data: bytes, limit: int = HUGE, dictionary: Dictionary | Lost | None = None
) -> bytes:
    """The bytes that a row holds. Raises Damaged for what no codec of that number made."""
    if codec == PLAIN:
        return data
    limit = min(limit, len(data) * DENSEST)
    if codec == TAUGHT and dictionary is not None:
        return dictionary.unpack(data, limit)
    if codec != ZSTD:
        raise Damaged(
            f"a row is packed by codec {codec}, which this sawlog does not know here: "
            "if a newer one wrote it, upgrade"
        )
    try:
        return _decompress(data, limit)
    except (*_FAULTS, MemoryError) as error:
        raise Damaged(f"a row does not unpack ({error})") from error


def absent(tx: Transaction, sids: Iterable[int], digests: Iterable[bytes]) -> set[bytes]:
    """Those of the digests that none of the sessions holds."""
    missing = dict.fromkeys(digests)
    for sid in sids:
        if not missing:
            break
        for (digest,) in tx.among(_PRESENT, (sid,), list(missing)):
            del missing[digest]
    return set(missing)


def insertable(sid: int, contents: Contents) -> list[tuple[int, bytes, int, int, bytes]]:
    """Contents of a session as rows for INSERT."""
    return [(sid, digest, size, *packed) for digest, (size, packed) in contents.items()]


def content(
    row: Row,
    objects: Objects | None = None,
    dictionary: Dictionary | Lost | None = None,
    pack: Pack | None = None,
) -> bytes:
    """The raw bytes that a row (digest, size, codec, data, key) holds or names, checked.

    `pack` is the one that the row names, if it names one. Raises Away when an object store has
    them and does not give them, Damaged when they are not what the row says.
    """
    if tuple(map(type, row)) != _SHAPE:
        raise Damaged("its row does not hold what belongs there")
    digest, size, codec, data, _ = row
    if codec == ELSEWHERE:
        raw = _fetched(data, objects)
    elif codec == PACKED and pack is not None:
        found = pack.blob(digest)
        if found is None:
            raise Damaged("the pack that its row names does not hold it")
        raw = found
    else:
        raw = unpack(codec, data, size, dictionary)
    if len(raw) != size:
        raise Damaged("its row names another size")
    if hashlib.sha256(raw).digest() != digest:
        raise Damaged("its bytes give another digest")
    return raw


def _fetched(place: bytes, objects: Objects | None) -> bytes:
    where = place.decode("ascii", "backslashreplace")
    if objects is None:
        raise Away(f"its bytes are in an object store, at {where}: open the log with that store")
    raw = objects.get(where)
    if raw is None:
        raise Away(f"the object store holds nothing at {where}")
    return raw
