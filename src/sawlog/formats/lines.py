"""Reads foreign files within bounds: JSON lines one by one, or one JSON document.

A record is a JSON object. Real files hold more: two objects glued on one line, a last line that
was cut, a line in the middle that does not parse, zero bytes after a crash. All of it is kept and
named, nothing is repaired, and nothing makes the reader load more than its bounds allow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.jsonslices import SCANNER, skip_space

MIB = 1024 * 1024
_HEAD = 4096
_BOM = b"\xef\xbb\xbf"
_PATIENCE = 100
"""Lines at the start of a file that may be no records before the file is none of ours."""

_MAGIC = (
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"%PDF", "a PDF file"),
)
_NOT_STRUCTURE = bytes(c for c in range(256) if c not in b'[]{},"')
_NOT_BRACKETS = bytes(c for c in range(256) if c not in b"[]{}")


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What an importer reads at most.

    `line`: bytes of one line, or of a whole JSON document. `nesting`: brackets open at once.
    `values`: values in one line. `records`: records in one file.
    """

    line: int = 64 * MIB
    nesting: int = 200
    values: int = 1_000_000
    records: int = 1_000_000


BOUNDS = Bounds()
"""The bounds that importers use unless told otherwise."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One record as read.

    `position` counts records from 0, `number` lines of the file from 1. `text` is the record's
    text without the whitespace around it, `digest` the hex SHA-256 of its bytes. `value` is the
    parsed object; None when the text is no JSON object and is kept only for what it is. Bytes that
    are no UTF-8 stand in `text` as lone surrogates U+DC80 to U+DCFF.
    """

    position: int
    number: int
    text: str
    digest: str
    value: dict[str, Any] | None


_Found = tuple[str, dict[str, Any]]


class Lines:
    """The records of a file of JSON lines; iterate once, then read `anomalies`.

    Iterating raises UnknownFormat for a file that is empty, binary or holds no whole record, and
    TooLarge, naming the line, when a bound is passed. A last line that does not parse is reported
    in `anomalies` and gives no record, so that a longer file simply adds it; one in the middle is
    a record whose value is None.
    """

    def __init__(self, path: Path, bounds: Bounds = BOUNDS) -> None:
        self.path = path
        self.bounds = bounds
        self.anomalies: list[str] = []
        self._position = 0

    def __iter__(self) -> Iterator[Line]:
        # What is not yet known to be in the middle of the file.
        pending: tuple[int, str] | None = None
        whole = 0
        for number, raw in self._raw_lines():
            check_bounds(raw, self.path, number, self.bounds)
            if pending is not None:
                yield self._kept(*pending)
                pending = None
            records, rest, glued = self._split(number, raw)
            for text, value in records:
                whole += 1
                yield self._line(number, text, value)
            if glued:
                self.anomalies.append(f"line {number}: {len(records)} objects on one line")
            if rest:
                pending = number, rest
            if not whole and self._position >= _PATIENCE:
                raise _unknown(self.path, f"its first {_PATIENCE} lines are no JSON objects")
        if not whole:
            raise _unknown(
                self.path,
                "it holds no whole record: its first line is cut or is no JSON object",
            )
        if pending is not None:
            number, text = pending
            size = len(_bytes(text))
            self.anomalies.append(
                f"line {number}: torn tail of {size} bytes, not imported; a longer file adds it"
            )

    def _raw_lines(self) -> Iterator[tuple[int, bytes]]:
        # Lines that hold something, each with its number and without whitespace around it.
        limit = self.bounds.line
        with self.path.open("rb") as file:
            check_head(file.peek(_HEAD)[:_HEAD], self.path)
            if file.peek(3)[:3] == _BOM:
                file.read(3)
            number = 0
            while True:
                raw = file.readline(limit + 2)
                if not raw:
                    return
                number += 1
                if len(raw.rstrip(b"\r\n")) > limit:
                    raise TooLarge(
                        f"{self.path}: line {number} is longer than {limit:,} bytes, "
                        "the bound for one record",
                        path=str(self.path),
                        line=number,
                    )
                raw = raw.strip(b" \t\r\n")
                if raw:
                    yield number, raw

    def _split(self, number: int, raw: bytes) -> tuple[list[_Found], str, bool]:
        # The whole objects of a line, what is left that is none, and whether objects were glued.
        try:
            value = msgspec.json.decode(raw)
            if isinstance(value, dict):
                return [(raw.decode(), value)], "", False
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # the slow way below reads what can be read and keeps the rest
        text, odd = _text(raw)
        records: list[_Found] = []
        at = 0
        while at < len(text):
            try:
                found, end = SCANNER.raw_decode(text, at)
            except ValueError:
                break
            if not isinstance(found, dict):
                break
            records.append((text[at:end], cast(dict[str, Any], found)))
            at = skip_space(text, end)
        if records and odd:
            self.anomalies.append(f"line {number}: bytes that are no UTF-8")
        return records, text[at:], len(records) > 1

    def _kept(self, number: int, text: str) -> Line:
        self.anomalies.append(f"line {number}: no JSON object, kept as it is")
        return self._line(number, text, None)

    def _line(self, number: int, text: str, value: dict[str, Any] | None) -> Line:
        position = self._position
        if position >= self.bounds.records:
            raise TooLarge(
                f"{self.path}: line {number} is past the bound of {self.bounds.records:,} records",
                path=str(self.path),
                line=number,
            )
        self._position += 1
        digest = hashlib.sha256(_bytes(text)).hexdigest()
        return Line(position=position, number=number, text=text, digest=digest, value=value)


class Document(msgspec.Struct, frozen=True):
    """A file that is one JSON value: its text and the value parsed."""

    text: str
    value: Any


def read_document(path: Path, bounds: Bounds = BOUNDS) -> Document:
    """The one JSON value that a file holds.

    Raises UnknownFormat for a file that is empty, binary, cut or no JSON, TooLarge past a bound.
    """
    with path.open("rb") as file:
        check_head(file.peek(_HEAD)[:_HEAD], path)
        raw = file.read(bounds.line + 1)
    if len(raw) > bounds.line:
        raise TooLarge(
            f"{path} is longer than {bounds.line:,} bytes, the bound for one JSON document",
            path=str(path),
        )
    raw = raw.removeprefix(_BOM).strip(b" \t\r\n")
    check_bounds(raw, path, 0, bounds)
    try:
        return Document(raw.decode(), msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # the scanner below reads lone surrogates and says where a file stops being JSON
    text, _ = _text(raw)
    try:
        value, end = SCANNER.raw_decode(text)
    except ValueError as error:
        raise _unknown(path, f"it is cut or is no JSON ({error})") from error
    if end != len(text):
        raise _unknown(path, f"more text follows its first JSON value, at character {end}")
    return Document(text, value)


def check_head(head: bytes, path: Path) -> None:
    """Raises UnknownFormat when the first bytes of a file are none of a text file."""
    if not head:
        raise _unknown(path, "it is empty")
    for magic, name in _MAGIC:
        if head.startswith(magic):
            raise _unknown(path, f"it is {name}")
    if b"\x00" in head:
        raise _unknown(path, "it is a binary file")


def check_bounds(raw: bytes, path: Path, number: int, bounds: Bounds) -> None:
    """Raises TooLarge when a JSON text nests too deep or holds too many values.

    This comes before any parser: one that recurses would fail in its own way, or take the memory.
    """
    opened = raw.count(b"[") + raw.count(b"{")
    if opened <= bounds.nesting and raw.count(b",") + opened < bounds.values:
        return
    where = f"line {number}" if number else "it"
    bare = _outside_strings(raw)
    brackets = bare.translate(None, _NOT_BRACKETS)
    depth = 0
    # More brackets than this are too many values, whatever they nest.
    for bracket in brackets[: 2 * bounds.values]:
        depth += 1 if bracket in b"[{" else -1
        if depth > bounds.nesting:
            raise TooLarge(
                f"{path}: {where} nests deeper than {bounds.nesting} brackets",
                path=str(path),
                line=number,
            )
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") >= bounds.values:
        raise TooLarge(
            f"{path}: {where} holds more than {bounds.values:,} values",
            path=str(path),
            line=number,
        )


def _outside_strings(raw: bytes) -> bytes:
    """The brackets and commas of a JSON text that stand in no string, torn ones included."""
    # Without escapes, a quote begins or ends a string and nothing else. In pieces, because an
    # object for each of the strings of a long line would take the memory.
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    structure = unescaped.translate(None, _NOT_STRUCTURE)
    out: list[bytes] = []
    inside = 0
    for at in range(0, len(structure), 65_536):
        pieces = structure[at : at + 65_536].split(b'"')
        out.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) & 1
    return b"".join(out)


def _text(raw: bytes) -> tuple[str, bool]:
    # The text of bytes, and whether some of them are no UTF-8.
    try:
        return raw.decode(), False
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape"), True


def _bytes(text: str) -> bytes:
    # The file's own bytes: what was no UTF-8 comes back as it was.
    return text.encode("utf-8", "surrogateescape")


def _unknown(path: Path, why: str) -> UnknownFormat:
    return UnknownFormat(f"{path} is no transcript that sawlog can read: {why}", path=str(path))
