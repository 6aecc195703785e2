"""Files of the workspace, looked at without trust: nothing blocks, nothing leads out of the root.

Only regular files are read. A FIFO, a device, a socket or a directory in place of one is
unreadable, which says nothing of a content; absent is what has no file of that name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

import msgspec

from sawlog.store.errors import ConfigError, OutsideRoot, quoted

CHUNK = 1 << 18
"""Bytes that are held of a file at a time."""

LONGEST = 4096
"""Characters of a path that is followed; no system opens a longer one by its name."""

_TRIES = 3
_ABSENT = (errno.ENOENT, errno.ENOTDIR)

State = Literal["present", "absent", "unreadable"]


class Sight(msgspec.Struct, frozen=True):
    """A file as it was seen: `version` is the hex SHA-256 of its content when it is present.

    `reason` says why it is unreadable.
    """

    state: State
    version: str = ""
    reason: str = ""


class Beginning(msgspec.Struct, frozen=True):
    """The first bytes of a file, and its size."""

    data: bytes
    size: int


class Passage(msgspec.Struct, frozen=True):
    """Lines of a file, from 1: `data` are their first bytes, `left_out` counts the others.

    `lines` and `version` are those of the whole file.
    """

    data: bytes
    left_out: int
    lines: int
    version: str


class Unreadable(Exception):
    """A file is there or may be there, and its content cannot be had. Never leaves the package."""


class Absent(Exception):
    """There is no file of that name. Never leaves the package."""


def look(path: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Sight:
    """What is at a path, which may be relative to `root`.

    A file that changes while it is read is read again, and is unreadable when it does not keep
    still. Raises OutsideRoot when a root is given and the path, or a link on it, leads out of it.
    """
    try:
        for _ in range(_TRIES):
            version = _version(path, root)
            if version is not None:
                return Sight("present", version)
    except Absent:
        return Sight("absent")
    except Unreadable as error:
        return Sight("unreadable", reason=str(error))
    return Sight("unreadable", reason="it changes while it is read")


def _version(path: str | os.PathLike[str], root: str | os.PathLike[str] | None) -> str | None:
    """The digest of a file's content; None when it changed meanwhile."""
    digest = hashlib.sha256()
    with _opened(path, root) as (file, before):
        left = before.st_size
        while left > 0:
            data = _read(file, min(CHUNK, left))
            if not data:
                break
            digest.update(data)
            left -= len(data)
        # Not a byte more than it had, or a file that only grows would be read for ever.
        still = left == 0 and not _read(file, 1) and _unmoved(before, os.fstat(file))
        return digest.hexdigest() if still else None


def beginning(
    path: str | os.PathLike[str], most: int, root: str | os.PathLike[str] | None = None
) -> Beginning:
    """The first `most` bytes of a file. Raises Absent, Unreadable, OutsideRoot."""
    for _ in range(_TRIES):
        with _opened(path, root) as (file, before):
            parts: list[bytes] = []
            left = min(most, before.st_size)
            while left > 0 and (data := _read(file, min(CHUNK, left))):
                parts.append(data)
                left -= len(data)
            if left == 0 and _unmoved(before, os.fstat(file)):
                return Beginning(b"".join(parts), before.st_size)
    raise Unreadable("it changes while it is read")


def passage(
    path: str | os.PathLike[str],
    first: int,
    last: int,
    most: int,
    root: str | os.PathLike[str] | None = None,
) -> Passage:
    """Lines `first` to `last` (0: the last one) of a file, at most so many bytes of them.

    All of the file is read, for its version, and never held. Raises Absent, Unreadable,
    OutsideRoot.
    """
    for _ in range(_TRIES):
        found = _passage(path, first, last, most, root)
        if found is not None:
            return found
    raise Unreadable("it changes while it is read")


def _passage(
    path: str | os.PathLike[str],
    first: int,
    last: int,
    most: int,
    root: str | os.PathLike[str] | None,
) -> Passage | None:
    digest = hashlib.sha256()
    kept = bytearray()
    wanted, line, ended = 0, 1, True
    with _opened(path, root) as (file, before):
        left = before.st_size
        while left > 0 and (data := _read(file, min(CHUNK, left))):
            digest.update(data)
            left -= len(data)
            start = _after(data, first - line)
            end = _after(data, last - line + 1) if last else len(data)
            if end > start:
                wanted += end - start
                kept += data[start : min(end, start + most - len(kept))]
            line += data.count(b"\n")
            ended = data.endswith(b"\n")
        if left or _read(file, 1) or not _unmoved(before, os.fstat(file)):
            return None
    return Passage(bytes(kept), wanted - len(kept), line - ended, digest.hexdigest())


def _after(data: bytes, count: int) -> int:
    """The place behind so many line ends; the end of the data when it has fewer."""
    at = 0
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


def _unmoved(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def _read(file: int, size: int) -> bytes:
    try:
        return os.read(file, size)
    except OSError as error:
        raise Unreadable(_name(error)) from None


@contextmanager
def _opened(
    path: str | os.PathLike[str], root: str | os.PathLike[str] | None
) -> Generator[tuple[int, os.stat_result]]:
    """A regular file's descriptor and what it was when it was opened."""
    try:
        place = os.fspath(path) if root is None else within(path, root)
        # Asked first: to open a device may do something.
        _regular(os.stat(place))
        file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _ABSENT:
            raise Absent from None
        raise Unreadable(_name(error)) from None
    except ValueError:
        raise Absent from None  # a NUL, or half of a pair: no file has such a name
    try:
        found = os.fstat(file)
        _regular(found)
        if root is not None:
            _held(path, root, found)
        yield file, found
    finally:
        os.close(file)


def _regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("it is no regular file")


def _held(
    path: str | os.PathLike[str], root: str | os.PathLike[str], opened: os.stat_result
) -> None:
    """Make sure that what was opened is what stands in the root, whoever moved links meanwhile."""
    try:
        now = os.lstat(within(path, root))
    except OSError as error:
        raise Unreadable(_name(error)) from None
    if (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino):
        raise Unreadable("it was moved while it was opened")


def within(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> str:
    """The real place of a path, which may be relative to `root`. Raises OutsideRoot.

    Nothing needs to be there. Raises ValueError for a name that no file can have.
    """
    if len(os.fspath(path)) > LONGEST:
        # To follow it costs its length squared, and a model may have written it.
        raise ValueError(f"a path has at most {LONGEST} characters")
    top = os.path.realpath(root)
    place = os.path.realpath(os.path.join(top, path))
    if os.path.commonpath((top, place)) != top:
        given = os.fspath(path)
        raise OutsideRoot(
            f"{quoted(given)} leads out of {quoted(os.fspath(root))} and is not read: name a path "
            "inside, or take a root that holds it",
            path=given,
        )
    return place


def checked_root(root: str | os.PathLike[str]) -> str:
    """The real place of a directory. Raises ConfigError when it is none.

    Without its root every file is absent, which is not the same as removed.
    """
    with suppress(ValueError):  # a NUL, or half of a pair: no folder has such a name
        place = os.path.realpath(root)
        if os.path.isdir(place):
            return place
    raise ConfigError(
        f"{quoted(os.fspath(root))} is no directory, or may not be looked at: name the root of the "
        "workspace"
    )


def _name(error: OSError) -> str:
    # The system's own words depend on the locale.
    return errno.errorcode.get(error.errno or 0, "it cannot be read")
