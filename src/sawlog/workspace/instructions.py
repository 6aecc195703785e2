"""Instruction files: found from a user's own level down to the working directory, and bounded.

Gives the value of the world state's section `instructions`; what the model reads of it is
`sawlog.builder.instructiontext`. The files add to what system, developer and user say; nothing here
lets one override them. Rules: CONTRACTS S2-20, CASES 47 and 49.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from sawlog.builder import instructiontext
from sawlog.builder.jsonvalue import Number, Value, value_of
from sawlog.store.errors import ConfigError, OutsideRoot, quoted
from sawlog.store.jsontext import source_of
from sawlog.store.text import raw_bytes
from sawlog.workspace.files import Absent, Unreadable, beginning, checked_root, within

NAMES = ("AGENTS.md", "CLAUDE.md")
"""File names that are looked for in each folder, in this order."""

BOUND = 32 * 1024
"""Bytes that the model reads of all files together when they are shown in full."""

LEAST_BOUND = 1024

DEEPEST = 100
"""Folders below the root that are looked into on the way to one path."""

_SCOPE = re.compile("[a-z][a-z0-9_-]{0,31}")

_READ = 1 << 20
"""Bytes that are read of one file. The digest of a longer one is of these and its size."""


class InstructionFile(msgspec.Struct, frozen=True):
    """One file: `scope` is `project`, with its `path` in the root, or `user` or another folder's
    above it, such as `team`, with its name.

    `digest` is the hex SHA-256 of its content, `truncated` the bytes of its text left out.
    """

    scope: str
    path: str
    digest: str
    text: str
    truncated: int = 0


class Problem(msgspec.Struct, frozen=True):
    """A file that is there and not as it should be.

    `unreadable`: `kept` says whether its last good text stands in its place, and it is no removal.
    `refused`: it leads out of the root and was not read. `not_utf8`: shown, with U+FFFD where its
    bytes are no text.
    """

    path: str
    kind: Literal["unreadable", "refused", "not_utf8"]
    reason: str
    kept: bool = False


class Found(msgspec.Struct, frozen=True):
    """What was found: `source` is the section's value as JSON, nearer files later.

    `omitted` counts files for which there was no room at all.
    """

    source: str
    files: tuple[InstructionFile, ...]
    omitted: int = 0
    problems: tuple[Problem, ...] = ()


def discover(
    root: str | os.PathLike[str],
    cwd: str | os.PathLike[str],
    *,
    touched: Iterable[str | os.PathLike[str]] = (),
    user: str | os.PathLike[str] | None = None,
    above: Mapping[str, str | os.PathLike[str]] | None = None,
    names: Sequence[str] = NAMES,
    bound: int = BOUND,
    last: str = "",
) -> Found:
    """The instruction files for work in `cwd`, a folder in `root`.

    They are those in the folders `above`, named by their scopes (`organisation`, `team`), in the
    folder `user`, then in each folder from `root` to `cwd`, and to each path that a tool touched,
    nearer ones later; in one folder a name that comes later counts only when it holds something
    else. No path is followed deeper than 100 folders. `last` is the section's value as it was: a
    file that cannot be read now keeps what it had. Above `bound` bytes the nearest are kept, and
    what is left out is said.
    Raises OutsideRoot for a `cwd` that is not in `root`, ConfigError for a root that is no folder,
    a folder or file of a name that none can have, a scope that cannot be one, and a bound below
    1024.
    """
    if bound < LEAST_BOUND:
        raise ConfigError(f"a bound of {bound} bytes has no room: give {LEAST_BOUND} or more")
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ConfigError(
                f"{quoted(name)} is no file name: give the name alone, without a folder"
            )
    top = checked_root(root)
    search = _Search(top, tuple(names), _known(last))
    try:
        folders = {*_down(within(cwd, top), top)}
    except ValueError:
        raise ConfigError(
            f"{quoted(os.fspath(cwd))} can be no folder's name: name another"
        ) from None
    for path in touched:
        folders.update(search.touched(path))
    for scope, folder in _scopes(above or {}, user):
        try:
            known = os.path.realpath(folder) in folders
        except ValueError:
            name = quoted(os.fspath(folder))
            raise ConfigError(f"{name} can be no folder's name: name another") from None
        if not known:
            search.outside_level(scope, os.fspath(folder))
    for folder in sorted(folders, key=lambda one: (len(_parts(one, top)), _parts(one, top))):
        search.level(folder)
    files, omitted, left_out = _fitted(search.files, bound)
    value: list[dict[str, object]] = [asdict(file) for file in files]
    if omitted:
        value.insert(0, _omitted(omitted, left_out))
    return Found(source_of(value), tuple(files), omitted, tuple(search.problems))


def _scopes(
    above: Mapping[str, str | os.PathLike[str]], user: str | os.PathLike[str] | None
) -> Iterator[tuple[str, str | os.PathLike[str]]]:
    """The folders that are not in the root by their scopes, the farthest first."""
    for scope, folder in above.items():
        if not _SCOPE.fullmatch(scope) or scope in ("user", "project", "omitted"):
            raise ConfigError(
                f"{quoted(scope)} cannot be a scope of instruction files: choose another"
            )
        yield scope, folder
    if user is not None:
        yield "user", user


def _parts(folder: str, top: str) -> list[str]:
    relative = os.path.relpath(folder, top)
    return [] if relative == "." else relative.split("/")


def _down(folder: str, top: str) -> Iterator[str]:
    """The folders from the root to one in it, as far as they are there."""
    yield top
    for part in _parts(folder, top)[:DEEPEST]:
        top = os.path.join(top, part)
        if _no_folder(top):
            return  # nor is anything below it, whatever a model wrote
        yield top


def _no_folder(place: str) -> bool:
    """True when there is surely no folder: one that may not be looked at is no removal."""
    try:
        return not stat.S_ISDIR(os.stat(place).st_mode)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


def _known(last: str) -> dict[tuple[str, str], InstructionFile]:
    """The files of an earlier value of the section."""
    if not last:
        return {}
    try:
        files = instructiontext.files_of(value_of(last))
    except ValueError:
        files = None
    if files is None:
        raise ConfigError("`last` is no value of the section `instructions`: give one, or nothing")
    return {
        key: InstructionFile(*key, _text(file, "digest"), _text(file, "text"), _count(file))
        for key, file in files.items()
    }


def _text(file: instructiontext.File, name: str) -> str:
    value = file.get(name)
    return value if isinstance(value, str) else ""


def _count(file: instructiontext.File) -> int:
    value: Value = file.get("truncated")
    if isinstance(value, Number) and value.source.isdecimal() and len(value.source) < 20:
        return int(value.source)
    return 0


class _Search:
    """Files found so far, farther ones first, and what was wrong."""

    def __init__(
        self, top: str, names: tuple[str, ...], known: dict[tuple[str, str], InstructionFile]
    ) -> None:
        self.files: list[InstructionFile] = []
        self.problems: list[Problem] = []
        self._top = top
        self._names = names
        self._known = known

    def touched(self, path: str | os.PathLike[str]) -> Iterator[str]:
        """The folders from the root to a path that a tool touched."""
        try:
            place = within(path, self._top)
        except OutsideRoot as error:
            self.problems.append(Problem(error.path, "refused", str(error)))
            return
        except ValueError:
            return  # no file can have such a name
        yield from _down(place if os.path.isdir(place) else os.path.dirname(place), self._top)

    def outside_level(self, scope: str, folder: str) -> None:
        """The files of a folder that the caller names, whose links lead where its owner wants."""
        self._folder(scope, [(name, os.path.join(folder, name)) for name in self._names], None)

    def level(self, folder: str) -> None:
        """The files of a folder in the root."""
        paths = ["/".join((*_parts(folder, self._top), name)) for name in self._names]
        self._folder("project", [(path, path) for path in paths], self._top)

    def _folder(self, scope: str, paths: list[tuple[str, str]], root: str | None) -> None:
        digests: set[str] = set()
        for path, place in paths:
            file = self._read(scope, path, place, root)
            # A second name for the same text, be it a link or a copy, says nothing new.
            if file is not None and file.text.strip() and file.digest not in digests:
                digests.add(file.digest)
                self.files.append(file)

    def _read(self, scope: str, path: str, place: str, root: str | None) -> InstructionFile | None:
        try:
            found = beginning(place, _READ, root)
        except Absent:
            return None
        except OutsideRoot as error:
            self.problems.append(Problem(path, "refused", str(error)))
            return None
        except Unreadable as error:
            kept = self._known.get((scope, path))
            self.problems.append(Problem(path, "unreadable", str(error), kept is not None))
            return kept
        digest = hashlib.sha256(found.data)
        if found.size > len(found.data):
            digest.update(b"\0%d" % found.size)
        try:
            text, used = codecs.utf_8_decode(found.data, "strict", found.size == len(found.data))
        except UnicodeDecodeError as error:
            self.problems.append(
                Problem(path, "not_utf8", f"its byte {error.start} begins no character of UTF-8")
            )
            text, used = found.data.decode("utf-8", "replace"), len(found.data)
        return InstructionFile(
            scope, path, digest.hexdigest(), text.removeprefix("\ufeff"), found.size - used
        )


# --- the bound -----------------------------------------------------------------------------------


def _cost(file: InstructionFile) -> int:
    """Bytes that the model reads of a file, its heading, notice and line end included."""
    return _size(asdict(file))


def _size(file: dict[str, object]) -> int:
    values: dict[str, Value] = {
        name: value if isinstance(value, str) else Number(str(value))
        for name, value in file.items()
    }
    # The longer of its headings, so that a difference keeps to the bound, too.
    return len(instructiontext.file_text(values, "Changed").encode()) + 1


def _omitted(count: int, left_out: int) -> dict[str, object]:
    """What stands for files that had no room; the fields of a file, and their number."""
    return {
        "scope": "omitted",
        "path": "",
        "digest": "",
        "text": "",
        "truncated": left_out,
        "files": count,
    }


def _cut(file: InstructionFile, length: int) -> InstructionFile:
    """The file with the first characters of its text."""
    text = file.text[:length]
    left_out = len(raw_bytes(file.text[length:]))
    return replace(file, text=text, truncated=file.truncated + left_out)


def _fitted(files: list[InstructionFile], bound: int) -> tuple[list[InstructionFile], int, int]:
    """The files within the bound, how many have no place in it, and the bytes of those."""
    # Each character takes a byte at least, so no more of a text is ever looked at.
    files = [_cut(file, bound) if len(file.text) > bound else file for file in files]
    room = bound - len(instructiontext.HEAD.encode()) - 1
    least = [min((file, _cut(file, 0)), key=_cost) for file in files]
    costs = [_cost(file) for file in least]
    first = 0
    if sum(costs) > room:
        room -= _size(_omitted(len(files), sum(_bytes(file) for file in files)))
        first = len(files)
        while first and costs[first - 1] <= room - sum(costs[first:]):
            first -= 1
    room -= sum(costs[first:])
    kept: list[InstructionFile] = []
    for file, small, cost in zip(
        reversed(files[first:]), reversed(least[first:]), reversed(costs[first:]), strict=True
    ):
        fitting = _largest(file, small, room + cost)
        room -= _cost(fitting) - cost
        kept.append(fitting)
    return kept[::-1], first, sum(_bytes(file) for file in files[:first])


def _bytes(file: InstructionFile) -> int:
    return len(raw_bytes(file.text)) + file.truncated


def _largest(file: InstructionFile, small: InstructionFile, room: int) -> InstructionFile:
    """The most of a file that has room; `small` has."""
    if _cost(file) <= room:
        return file
    low, high = 0, min(len(file.text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if _cost(_cut(file, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    # A shorter notice may make one character more cheaper; never take what is found on trust.
    fitting = _cut(file, low)
    return fitting if _cost(fitting) <= room else small
