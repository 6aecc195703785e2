"""Which texts in the arguments of a call are paths: those that stand under a path's name.

Names are read as `sawlog.builder.paths` reads paths: look-alike letters as what they look like,
characters without a width left out. What stands anywhere below such a name is a path, too, unless
it is clearly something else: the content beside a path, a text of several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import cast

from sawlog.builder.alike import ALIKE
from sawlog.builder.paths import FOLD, QUOTES, SPACES

_ANYWHERE = frozenset("path paths filepath filepaths pathname pathnames".split())
_AT_THE_END = _ANYWHERE | frozenset(
    "file files filename filenames dir dirs directory directories folder folders cwd workdir "
    "target targets src dst dest destination uri uris".split()
)
_INSIDE = frozenset("name value".split())
_MANY = frozenset("list lists array arrays set map".split())
_ENDS = ("path", "file", "filename", "dir", "directory", "folder")
_NO_PATH = frozenset("xpath profile".split())  # words that only end like one
_HUMP = re.compile("([a-z0-9])([A-Z])")
_ACRONYM = re.compile("([A-Z])([A-Z][a-z])")
_NO_WORD = re.compile("[^A-Za-z0-9]+")

_CONTENT = frozenset(
    "content contents text body data code old new string replacement replace search query pattern "
    "regex patch diff line lines comment note reason message description explanation summary title "
    "label selector xpath prompt instruction instructions".split()
)
"""Last words of names that hold, beside a path, what stands in the file or is said of it."""

_PLAIN = re.compile("[A-Za-z0-9_]*")  # a key that is dangerous as no path
_LIKE_A_FILE = re.compile(r"[./\\]")
_LINE_ENDS = "\r\n"
_BEFORE = SPACES + QUOTES + "".join(map(chr, range(0x20))) + "".join(
    chr(code) for code, like in ALIKE.items() if not like
)  # fmt: skip
_CONTROLS = dict.fromkeys(range(0x20))


class _Is(Enum):
    """What a value is by the names above it."""

    OTHER = 0
    PATH = 1  # its own name is a path's
    BELOW = 2  # a name above it is
    OF_A_FILE = 3  # its own name looks like a file's, and a name above that is a path's
    CONTENT = 4  # of what the member beside it names


def names_path(name: str, *, inside: bool = False) -> bool:
    """True when an argument of this name holds a path.

    Names are taken word by word (`filePath`, `file-path` and `FILE_PATH` are alike), without
    numbers (`path1`, `file_2`) and what says that there are several (`file_list`): one of the words
    is `path`, `paths`, `filepath` or `pathname`; or the last one is `file`, `filename`,
    `directory`, `dir`, `folder`, `cwd`, `workdir`, `target`, `src`, `dst`, `dest`, `destination`,
    `uri` or the plural of one, or ends with one of the first five or with `path` (`outfile`,
    `basedir`, `abspath`), or names one (`dirname`); or the last two make such a word. `inside` an
    object that has such a name, `name` and `value` count as well.
    """
    words = _words(name)
    if _name_paths(words, inside=inside):
        return True
    # PDFPath is two words, XPath is one.
    apart = _words(_ACRONYM.sub(r"\1 \2", name.translate(ALIKE)))
    return _NO_PATH.isdisjoint(words) and _name_paths(apart, inside=inside)


def _name_paths(words: list[str], *, inside: bool) -> bool:
    while words and words[-1] in _MANY:
        words = words[:-1]
    if not words:
        return False
    return (
        not _ANYWHERE.isdisjoint(words)
        or words[-1] in _AT_THE_END
        or _ends_like_one(words[-1])
        or "".join(words[-2:]) in _AT_THE_END
        or (inside and words[-1] in _INSIDE)
    )


def _ends_like_one(word: str) -> bool:
    for end in ("names", "name", "s"):
        if word.endswith(end):
            word = word.removesuffix(end)
            break
    return word.endswith(_ENDS) and word not in _NO_PATH


def _words(name: str) -> list[str]:
    name = _HUMP.sub(r"\1 \2", name.translate(ALIKE))
    words = _NO_WORD.sub(" ", name).translate(FOLD).split(" ")
    return [word for word in (word.rstrip("0123456789") for word in words) if word]


def paths_of(arguments: Mapping[str, object]) -> Iterator[str]:
    """The texts in arguments that are paths, in their order; keys before what stands under them.

    Those are all at and below a name that `names_path` knows, keys included, and every `file:` URL
    wherever it stands. None are the contents beside a path (`{"path": …, "content": …}`), texts of
    several lines below a path's name, and texts with spaces under the name of a file
    (`{"files": {"a.css": "/* … */"}}`).
    """
    waiting: list[tuple[object, _Is]] = [(arguments, _Is.OTHER)]
    while waiting:
        value, kind = waiting.pop()
        if isinstance(value, str):
            path = _path(value, kind)
            if path is not None:
                yield path
        elif isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            inside = kind not in (_Is.OTHER, _Is.CONTENT)
            for key in members:
                if (inside and not _PLAIN.fullmatch(key)) or _is_file_url(key):
                    yield key
            told = kind is _Is.OF_A_FILE or any(names_path(key, inside=True) for key in members)
            waiting.extend(
                (inner, _kind(key, inside=inside, told=told))
                for key, inner in reversed(list(members.items()))
            )
        elif isinstance(value, list | tuple):
            elements = cast("list[object]", value)
            waiting.extend((inner, kind) for inner in reversed(elements))


def _kind(key: str, *, inside: bool, told: bool) -> _Is:
    """What stands under a key; `told` says that the path is in another member."""
    if names_path(key, inside=inside):
        return _Is.PATH
    if not inside:
        return _Is.OTHER
    if _LIKE_A_FILE.search(key.translate(ALIKE)):
        return _Is.OF_A_FILE
    return _Is.CONTENT if told and _CONTENT.intersection(_words(key)[-1:]) else _Is.BELOW


def _path(text: str, kind: _Is) -> str | None:
    """The path that a text is, if it is one."""
    if kind is _Is.PATH or _is_file_url(text):
        return text
    if kind is _Is.BELOW or kind is _Is.OF_A_FILE:
        line = text.strip(_LINE_ENDS)
        several = "\n" in line or "\r" in line
        if not several and not (kind is _Is.OF_A_FILE and " " in line):
            return line
    return None


def _is_file_url(text: str) -> bool:
    """True for what a reader of URLs takes for a `file:` URL; it passes over control characters."""
    start = text.lstrip(_BEFORE)[:64].translate(ALIKE).translate(_CONTROLS).translate(FOLD)
    # "file: what it says" is prose.
    return start.startswith(("file:/", "file:\\")) or (
        start.startswith("file:") and " " not in text.strip(_BEFORE)
    )
