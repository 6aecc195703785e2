"""An object store for large contents, beside the database (docs/format.md, Blobs).

A content that an object store took has a row in the database that names its place, size and digest
and holds no bytes. An object store that fails is no error: the content goes into the database, and
if that fails, the append does. Nothing is ever cut.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Protocol


class Objects(Protocol):
    """What sawlog needs of an object store. Both may raise anything when the store is away."""

    def put(self, place: str, data: bytes) -> None:
        """Keep the bytes under a place, durably when this returns; the same again is fine."""
        ...

    def get(self, place: str) -> bytes | None:
        """The bytes of a place, or None when it holds none."""
        ...


class FileObjects:
    """Objects as files below a folder, a folder for each session."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def put(self, place: str, data: bytes) -> None:
        """Write the bytes to a file of their own, then give it its name, both durably."""
        path = self.folder / place
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
        self._settle(path.parent)

    def get(self, place: str) -> bytes | None:
        """The bytes of the file, or None when there is none."""
        try:
            return (self.folder / place).read_bytes()
        except FileNotFoundError:
            return None

    @staticmethod
    def _settle(folder: Path) -> None:
        # A new name is durable once its folder is; not every system can open one.
        if hasattr(os, "O_DIRECTORY"):
            opened = os.open(folder, os.O_DIRECTORY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
