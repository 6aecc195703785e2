"""A dictionary: what a session's small rows had in common, so that none of them repeated it.

Stores of schema 1 may have one, made out of what a session said first; what it packed is read. A
row packed with one is the beginning of the digest of the dictionary's bytes, and a zstd frame
without its magic number.
"""

from __future__ import annotations

import hashlib
import sys
import threading

from sawlog.store.errors import Damaged

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

NAME = 8
"""Bytes of a dictionary's digest that a row begins with."""

MOST_KEPT = 32
"""Dictionaries that a handle keeps at hand, each with half a megabyte of working room."""

_MAGIC = b"\x28\xb5\x2f\xfd"

if sys.version_info >= (3, 14):

    class _Unpacker:
        def __init__(self, data: bytes) -> None:
            self._dictionary = zstd.ZstdDict(data)

        def unpack(self, frame: bytes, limit: int) -> bytes:
            unpacker = zstd.ZstdDecompressor(zstd_dict=self._dictionary)
            out = unpacker.decompress(frame, limit + 1)
            if len(out) > limit or not unpacker.eof or unpacker.unused_data:
                raise ValueError("the packed bytes are not one whole frame of their size")
            return out

    _FAULTS: tuple[type[Exception], ...] = (zstd.ZstdError, ValueError, EOFError)
else:

    class _Unpacker:
        def __init__(self, data: bytes) -> None:
            dictionary = zstandard.ZstdCompressionDict(data)
            self._unpacker = zstandard.ZstdDecompressor(dict_data=dictionary)

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

    __slots__ = ("_lock", "_unpacker", "data", "name")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name = hashlib.sha256(data).digest()[:NAME]
        self._unpacker: _Unpacker | None = None
        self._lock = threading.Lock()  # what unpacks serves one thread at a time

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
                if self._unpacker is None:
                    self._unpacker = _Unpacker(self.data)
                return self._unpacker.unpack(_MAGIC + packed[NAME:], limit)
        except (*_FAULTS, MemoryError) as error:
            raise Damaged(f"a row does not unpack ({error})") from error


class Lost:
    """Stands for a dictionary that is not there as it was written; `why` says what of it."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why

    def unpack(self, packed: bytes, limit: int) -> bytes:
        """Raises Damaged."""
        raise Damaged(self.why)


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
