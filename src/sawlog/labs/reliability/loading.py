"""What the lab runs on: its own sources and cases, or a user's.

A file has one JSON object a line, blank lines aside, or one JSON array of such objects. A source
has the fields of `ContextSource`, a case those of `ContextCase`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sawlog.builder.item import is_blank
from sawlog.builder.selection.reliability import ContextCase, ContextSource, candidate
from sawlog.labs.comparing import bad_lines, lines_of
from sawlog.store.errors import ConfigError, SawlogError

_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")

T = TypeVar("T", ContextSource, ContextCase)


class Lab(msgspec.Struct, frozen=True):
    """Sources by id, and cases in their order. Every source that a case names is there."""

    sources: Mapping[str, ContextSource]
    cases: tuple[ContextCase, ...]


class _Wrong(Exception):
    """What is wrong with an object whose types are right."""


def published_lab() -> Lab:
    """The lab's own 12 sources and 8 cases."""
    return Lab(_published_sources(), _published_cases())


def read_lab(cases: Path | None = None, sources: Path | None = None) -> Lab:
    """The lab on a user's cases or sources, or both; what is not given is the lab's own.

    Raises one FormatError for each file that names every bad entry with its line and why: no JSON,
    a field that is unknown, missing or of a wrong type, a bad trust or date, a budget below 1, an
    id that stands there twice, a case that names a source which is not there. A file without any
    entry is one, too.
    """
    known = read_sources(sources) if sources else _published_sources()
    if cases:
        return Lab(known, read_cases(cases, known))
    for case in _published_cases():
        try:
            _check_names(case, known)
        except _Wrong as error:
            raise ConfigError(
                f"the lab's own cases do not run on {sources}: {case.id}: {error}; give cases of "
                "your own as well"
            ) from None
    return Lab(known, _published_cases())


def with_budget(lab: Lab, budget: int) -> Lab:
    """The lab with one budget for every case. Raises ConfigError below 1 (S1-02, S1-20)."""
    if budget < 1:
        raise ConfigError(f"a budget of {budget} estimated tokens holds nothing: give 1 or more")
    cases = tuple(msgspec.structs.replace(case, budget=budget) for case in lab.cases)
    return Lab(lab.sources, cases)


def read_sources(path: Path) -> dict[str, ContextSource]:
    """The sources of a file by id. Raises FormatError, see `read_lab`."""

    return {one.id: one for one in _read(path, _source)}


def read_cases(path: Path, sources: Mapping[str, ContextSource]) -> tuple[ContextCase, ...]:
    """The cases of a file, in its order. Raises FormatError, see `read_lab`."""

    def checked(entry: bytes | msgspec.Raw) -> ContextCase:
        case = msgspec.json.decode(entry, type=ContextCase)
        if is_blank(case.id):
            raise _Wrong("the id is blank")
        _check_day("as_of", case.as_of)
        _check_names(case, sources)
        stray = sorted(set(case.expected_missing_topics) - set(case.required_topics))
        if stray:
            raise _Wrong(f"expected_missing_topics has {stray[0]!r}, which is not required")
        return case

    return tuple(_read(path, checked))


def _source(entry: bytes | msgspec.Raw) -> ContextSource:
    """A source; it may leave out what has no value, and may say what the estimator gives it."""
    fields = msgspec.json.decode(entry, type=dict[str, Any])
    told = fields.pop("estimated_tokens", None)
    source = msgspec.convert({"valid_until": None, **fields}, ContextSource)
    _check_day("updated_at", source.updated_at)
    if source.valid_until is not None:
        _check_day("valid_until", source.valid_until)
    candidate(source)
    if told not in (None, source.estimated_tokens):
        raise _Wrong(
            f"estimated_tokens is {told}, and the lab's estimator gives "
            f"{source.estimated_tokens}: leave it out"
        )
    return source


def _check_names(case: ContextCase, sources: Mapping[str, ContextSource]) -> None:
    for field, ids in (
        ("candidate_source_ids", case.candidate_source_ids),
        ("forbidden_source_ids", case.forbidden_source_ids),
    ):
        seen: set[str] = set()
        for id in ids:
            if id not in sources:
                raise _Wrong(f"{field} names the source {id!r}, which is not there")
            if id in seen:
                raise _Wrong(f"{field} names the source {id!r} twice")
            seen.add(id)


def _check_day(field: str, text: str) -> None:
    try:
        if _DAY.fullmatch(text) and date.fromisoformat(text):
            return
    except ValueError:
        pass  # a month or a day that no year has
    raise _Wrong(f"{field} is {text!r}: write a day as 2026-07-29")


def _read(path: Path, checked: Callable[[bytes | msgspec.Raw], T]) -> list[T]:
    entries, word = _entries(path)
    found: list[T] = []
    bad: list[tuple[int, str]] = []
    seen: dict[str, int] = {}
    for at, entry in entries:
        try:
            one = checked(entry)
        except (msgspec.MsgspecError, SawlogError, _Wrong) as error:
            bad.append((at, str(error)))
        except UnicodeDecodeError:
            bad.append((at, "it is no UTF-8"))
        except RecursionError:
            bad.append((at, "it is nested too deeply"))
        else:
            first = seen.setdefault(one.id, at)
            if first != at:
                bad.append((at, f"the id {one.id!r} stands in {word} {first} already"))
            found.append(one)
    if bad:
        raise bad_lines(path, bad, word)
    return found


def _entries(path: Path) -> tuple[Iterable[tuple[int, bytes | msgspec.Raw]], str]:
    """The entries of a file with their numbers, and what the numbers count."""
    lines = list(lines_of(path))
    if not lines[0][1].startswith(b"["):
        return lines, "line"
    try:
        array = msgspec.json.decode(b"\n".join(line for _, line in lines), type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise bad_lines(path, [(lines[0][0], f"the array is no JSON: {error}")]) from error
    if not array:
        raise bad_lines(path, [(lines[0][0], "the array is empty")])
    return enumerate(array, 1), "entry"


@cache
def _published_sources() -> Mapping[str, ContextSource]:
    given = msgspec.json.decode(_data("sources.json"), type=list[msgspec.Raw])
    return {one.id: one for one in map(_source, given)}


@cache
def _published_cases() -> tuple[ContextCase, ...]:
    return msgspec.json.decode(_data("cases.json"), type=tuple[ContextCase, ...])


def _data(name: str) -> bytes:
    return (files("sawlog.fixtures") / "seed-cases" / "lab2" / name).read_bytes()
