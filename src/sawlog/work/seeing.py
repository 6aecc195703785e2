"""What a tool saw of the workspace: the file's name as the log keeps it, its version, its lines.

A version is the digest of a whole file, also where a tool showed a few lines of it, so that every
later change of the file is one.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from typing import NamedTuple

from sawlog.store.errors import InvalidArguments, ToolError, quoted
from sawlog.store.events.world import Saw
from sawlog.store.text import raw_bytes
from sawlog.workspace.files import Absent, Unreadable, checked_root, look, passage, within

MOST = 64 * 1024
"""Bytes of a file that a tool reads at once, if it does not say otherwise."""


def saw(
    path: str,
    *,
    range: str = "",
    version: str = "",
    root: str | os.PathLike[str] | None = None,
    content: str | bytes | None = None,
) -> Saw:
    """What was seen of a file: of this version, of this whole content, or as it is in `root` now.

    In a root the path is kept relative to it. A file that cannot be read has no version. Raises
    OutsideRoot, ConfigError for a root that is none, ToolError for two versions at once,
    InvalidArguments for a name that no file can have.
    """
    if version and content is not None:
        raise ToolError("give the version of a file, or the content that has it, not both")
    name = path if root is None else name_in(path, root)
    if content is not None:
        data = raw_bytes(content) if isinstance(content, str) else content
        version = hashlib.sha256(data).hexdigest()
    elif root is not None and not version:
        version = look(path, root).version
    return Saw(name, range, version)


def name_in(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> str:
    """The name that a file has in a root, whichever way it was named.

    Raises OutsideRoot, and InvalidArguments for a name that no file can have.

    A link keeps its own name: what stands behind it may become another file.
    """
    top = checked_root(root)
    given = os.fspath(path)
    try:
        place = within(given, top)
    except ValueError:
        raise InvalidArguments(f"{quoted(given)} can be no file's name: name another") from None
    plain = os.path.relpath(os.path.join(top, given), top)
    # With `..` behind a link, only the file system knows what is meant.
    if ".." in given.split("/") or plain.startswith(".."):
        return os.path.relpath(place, top)
    return plain


class Read(NamedTuple):
    """The text of a file's lines, and what was seen by reading them."""

    text: str
    saw: Saw


def read(
    path: str, root: str | os.PathLike[str], *, start: int = 1, end: int = 0, most: int = MOST
) -> Read:
    """Lines `start` to `end` (0: the last one) of a file, in at most `most` bytes and a notice.

    Raises InvalidArguments, which a model can mend, when there is no such file, line or content;
    OutsideRoot for a path that leads out of the root; ToolError for a bound below 1.
    """
    if most < 1:
        raise ToolError(f"{most} bytes have no room for a text: read 1 or more")
    if start < 1 or (end and end < start):
        raise InvalidArguments(f"{start} to {end} are no lines: they count from 1")
    try:
        found = passage(path, start, end, most, root)
    except Absent:
        raise InvalidArguments(f"there is no file {quoted(path)}") from None
    except Unreadable as error:
        raise InvalidArguments(f"the file {quoted(path)} cannot be read: {error}") from None
    if start > max(1, found.lines):
        raise InvalidArguments(f"{quoted(path)} has {found.lines} lines: there is no line {start}")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # A character that the bound would split is left out whole.
    text = decoder.decode(found.data, final=not found.left_out)
    shown = start + text.count("\n") - (not found.left_out and text.endswith("\n"))
    whole = start == 1 and (not end or end >= found.lines) and not found.left_out
    if found.left_out:
        left_out = found.left_out + len(found.data) - len(raw_bytes(text))
        on = f": read on from line {shown}" if shown > start else ""
        text = f"{text}\n[{left_out} bytes are left out here{on}]"
    range = "" if whole else f"{start}-{shown}"
    return Read(text, Saw(name_in(path, root), range, found.version))
