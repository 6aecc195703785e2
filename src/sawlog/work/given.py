"""What a caller gives where a list of names, a moment or a span of time is meant.

A text in place of a list would be taken letter by letter, and a number of seconds in place of
microseconds would be a moment of 1970: both are refused with what was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from os import PathLike, fspath
from typing import cast

from sawlog.store.errors import ConfigError, InvalidItem, SawlogError, quoted

Moment = int | datetime
"""Microseconds UTC since 1970, or a datetime with its zone."""

Span = int | timedelta
"""Microseconds, or a timedelta."""

_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = 946_684_800_000_000  # 2000-01-01
_LATEST = 253_402_300_800_000_000  # 10000-01-01
_SHORTEST = 1_000
_MICROSECOND = timedelta(microseconds=1)


def of_item(message: str) -> InvalidItem:
    """The error for what is said of an item."""
    return InvalidItem("no_list", message)


def names(
    given: Iterable[str], field: str, error: Callable[[str], SawlogError] = ConfigError
) -> tuple[str, ...]:
    """The names in a list, each once, sorted. Raises `error` for a text, and for other values."""
    return tuple(sorted(set(texts(given, field, error))))


def texts(
    given: Iterable[str], field: str, error: Callable[[str], SawlogError] = ConfigError
) -> tuple[str, ...]:
    """The texts in a list, in their order. Raises `error` for a text, and for other values."""
    found = _listed(given, field, error)
    for one in found:
        if not isinstance(one, str):
            raise error(f"{field} are names, and {quoted(one)} is none: give a text")
    return cast("tuple[str, ...]", found)


def paths(given: Iterable[str | PathLike[str]], field: str) -> tuple[str, ...]:
    """The paths in a list. Raises ConfigError for one path, and for what is none."""
    found = _listed(given, field, ConfigError)
    for one in found:
        if not isinstance(one, str | PathLike):
            raise ConfigError(f"{field} are paths, and {quoted(one)} is none")
    return tuple(fspath(cast("str | PathLike[str]", one)) for one in found)


def _listed(given: object, field: str, error: Callable[[str], SawlogError]) -> tuple[object, ...]:
    if isinstance(given, str | bytes | PathLike):
        shown = fspath(cast("str | bytes | PathLike[str]", given))
        raise error(f"{field} is a list, not {quoted(shown)} alone: give a list: [{quoted(shown)}]")
    kind = type(given).__name__
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise error(f"{field} is a list, and a {kind} is none: give a list")
    return tuple(cast("Iterable[object]", given))


def moment(given: Moment, field: str) -> int:
    """Microseconds UTC of a moment; 0: none.

    Raises InvalidItem (`not_a_time`) for a datetime without a zone, a text, and a number that can
    hardly be microseconds: a moment before 2000 or after 9999. A datetime says what it means.
    """
    if isinstance(given, datetime):
        if given.tzinfo is None or given.utcoffset() is None:
            raise _no_time(
                f"{field} {given.isoformat()} has no zone: give one with "
                "tzinfo=datetime.timezone.utc"
            )
        # Before 1970 everything is over alike, and 0 would say that there is no end.
        return max(1, (given - _BEGAN) // _MICROSECOND)
    number = _whole(given, field, "a datetime with its zone")
    if number == 0:
        return 0
    if not _EARLIEST <= number < _LATEST:
        raise _no_time(
            f"{field}={number} is {_guess(number)}: it counts microseconds since 1970. Give a "
            "datetime with its zone, or seconds times 1_000_000"
        )
    return number


def span(given: Span, field: str, *, least: int = _SHORTEST, none: int = 0) -> int:
    """Microseconds of a span of time; `none` stands for one that is not said.

    Raises InvalidItem (`not_a_time`) for less than `least` microseconds, a text and a fraction.
    """
    if isinstance(given, timedelta):
        number = given // _MICROSECOND
    else:
        number = _whole(given, field, "a datetime.timedelta")
        if number == none:
            return number
    if number < least:
        raise _no_time(
            f"{field}={number} is too short to be meant: it counts microseconds. Give a "
            f"datetime.timedelta, or {least} or more"
        )
    if number >= _LATEST:
        raise _no_time(f"{field}={number} ends after the year 9999: leave it out")
    return number


def as_moment(microseconds: int) -> datetime:
    """The moment of a number that the log holds; the last one that there is for a later one."""
    return _BEGAN + timedelta(microseconds=min(microseconds, _LATEST - 1))


def _whole(given: object, field: str, mend: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise _no_time(f"{field} cannot be {quoted(given)}: give {mend}, or microseconds as an int")
    return given


def _guess(number: int) -> str:
    if number < 0:
        return "before 1970"
    if number >= _LATEST:
        return "after the year 9999"
    return f"in the year {as_moment(number).year}"


def _no_time(message: str) -> InvalidItem:
    return InvalidItem("not_a_time", message)
