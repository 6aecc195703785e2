"""A dictionary: what a session's small rows have in common, so that none of them repeats it.

Made once out of what a session said first, and known by the digest of its bytes. A row that was
packed with one is the beginning of that digest and a zstd frame without its magic number. What one
release of Python or of zstd makes, every other one reads.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Sequence

from sawlog.store.errors import Damaged

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

SIZE = 8192
"""Bytes of a dictionary. Twice as many pack a long session 3 % denser, and weigh on a short one."""

LEVEL = 3

NAME = 8
"""Bytes of a dictionary's digest that a row begins with."""

MOST_KEPT = 32
"""Dictionaries that a handle keeps at hand, each with half a megabyte of working room."""

_LEAST = 8192
"""Bytes below which contents teach nothing that holds for what comes later."""

_MAGIC = b"\x28\xb5\x2f\xfd"

if sys.version_info >= (3, 14):

    def _train(samples: Sequence[bytes], size: int) -> bytes:
        return zstd.train_dict(samples, size).dict_content

    class _Packer:
        def __init__(self, data: bytes) -> None:
            kind = zstd.CompressionParameter
            self._dictionary = zstd.ZstdDict(data)
            self._packer = zstd.ZstdCompressor(
                options={kind.compression_level: LEVEL, kind.dict_id_flag: 0},
                zstd_dict=self._dictionary.as_digested_dict,
            )

        def pack(self, data: bytes) -> bytes:
            return self._packer.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)

        def unpack(self, frame: bytes, limit: int) -> bytes:
            unpacker = zstd.ZstdDecompressor(zstd_dict=self._dictionary)
            out = unpacker.decompress(frame, limit + 1)
            if len(out) > limit or not unpacker.eof or unpacker.unused_data:
                raise ValueError("the packed bytes are not one whole frame of their size")
            return out

    _FAULTS: tuple[type[Exception], ...] = (zstd.ZstdError, ValueError, EOFError)
else:

    def _train(samples: Sequence[bytes], size: int) -> bytes:
        made: bytes = zstandard.train_dictionary(size, list(samples)).as_bytes()
        return made

    class _Packer:
        def __init__(self, data: bytes) -> None:
            dictionary = zstandard.ZstdCompressionDict(data)
            dictionary.precompute_compress(level=LEVEL)  # pyright: ignore[reportUnknownMemberType]
            self._packer = zstandard.ZstdCompressor(
                level=LEVEL, dict_data=dictionary, write_dict_id=False
            )
            self._unpacker = zstandard.ZstdDecompressor(dict_data=dictionary)

        def pack(self, data: bytes) -> bytes:
            packed: bytes = self._packer.compress(data)
            return packed

        def unpack(self, frame: bytes, limit: int) -> bytes:
            if zstandard.frame_content_size(frame) > limit:
                raise ValueError("the packed bytes are larger than their size")
            out: bytes = self._unpacker.decompress(
                frame, max_output_size=limit, allow_extra_data=False
            )
            return out

    _FAULTS = (zstandard.ZstdError, ValueError)


class Dictionary:
    """A dictionary by its bytes; `name` is what rows call it. Threads may share it."""

    __slots__ = ("_lock", "_packer", "data", "name")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name = hashlib.sha256(data).digest()[:NAME]
        self._packer: _Packer | None = None
        self._lock = threading.Lock()  # what packs and unpacks serves one thread at a time

    def pack(self, data: bytes) -> bytes:
        """The bytes as a row holds them."""
        with self._lock:
            frame = (self._packer or self._made()).pack(data)
        return self.name + frame[len(_MAGIC) :]

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """The bytes that a row holds, at most `limit` of them.

        Raises Damaged for what this dictionary did not pack.
        """
        if packed[:NAME] != self.name:
            raise Damaged(
                f"it is packed with the dictionary {packed[:NAME].hex()}, and the one that its "
                f"session holds is {self.name.hex()}: one of the two is not as it was written"
            )
        try:
            with self._lock:
                return (self._packer or self._made()).unpack(_MAGIC + packed[NAME:], limit)
        except (*_FAULTS, MemoryError) as error:
            raise Damaged(f"a row does not unpack ({error})") from error

    def _made(self) -> _Packer:
        self._packer = _Packer(self.data)
        return self._packer


class Lost:
    """Stands for a dictionary that is not there as it was written; `why` says what of it."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Raises Damaged."""
        raise Damaged(self.why)


def trained(samples: Sequence[bytes]) -> Dictionary | None:
    """A dictionary of what the samples have in common; None when they are too little to learn from.

    Takes 10 to 50 ms: not for those who hold a lock.
    """
    total = sum(map(len, samples))
    if total < _LEAST:
        return None
    try:
        return Dictionary(_train(samples, min(SIZE, total // 4)))
    except _FAULTS:
        return None  # zstd found nothing in them that comes again


class Kept:
    """Some dictionaries, by the local number of their session; who comes first goes first."""

    def __init__(self) -> None:
        self._kept: dict[int, Dictionary] = {}
        self._lock = threading.Lock()

    def get(self, sid: int) -> Dictionary | None:
        """The session's dictionary, if it is at hand."""
        return self._kept.get(sid)

    def put(self, sid: int, dictionary: Dictionary) -> None:
        """Keep the session's dictionary at hand."""
        if self._kept.get(sid) is dictionary:
            return
        with self._lock:
            self._kept[sid] = dictionary
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
