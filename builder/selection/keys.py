"""What candidates are ordered by: recorded facts, each by name, up (`+`) or down (`-`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, Literal

from sawlog.builder.selection.candidate import ZONES, Candidate, digest_of, zone_of
from sawlog.builder.selection.published import folded, rule_prefix

Key = Literal[
    "-authority",
    "-trust",
    "-trusted",
    "-retention",
    "-version",
    "-updated_at",
    "-depth",
    "-published_depth",
    "-in_prefix",
    "-seq",
    "-id",
    "+zone",
    "+kind",
    "+units",
    "+source_id",
    "+seq",
    "+locator",
    "+path",
    "+digest",
    "+id",
]
"""The keys, each with its direction; a `Sequence[Key]` compares them one after the other."""

RECORDED: tuple[Key, ...] = (
    "-authority",
    "-trust",
    "-retention",
    "-version",
    "-in_prefix",
    "+seq",
    "+source_id",
    "+locator",
    "+path",
    "+digest",
    "+id",
)
"""How the default policy breaks ties: what was sent stays, what came first was there before its
copy. The digest is that of the text, and the id comes last: they decide only where nothing else
recorded differs."""

_RUN = re.compile("[0-9]+|[^0-9]+")
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FOLD = str.maketrans(_UPPER, "abcdefghijklmnopqrstuvwxyz")
_ORDERED = re.compile("[vV]?[0-9]{1,19}(?:[-._+:T][0-9A-Za-z]{1,19})*")
_TIME = re.compile(
    "(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    "(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?)?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)
_MICROS = re.compile("-?[0-9]{1,18}")
DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()

Natural = tuple[tuple[int, int, str], ...]


def ascii_folded(text: str) -> str:
    """The text with ASCII capitals made small, and nothing else changed."""
    return text.translate(_FOLD)


def natural(text: str, fold: Callable[[str], str] = ascii_folded) -> Natural:
    """A version as it compares: digit runs as numbers, above runs of text (S0-27)."""
    runs: list[tuple[int, int, str]] = []
    for run in _RUN.findall(text):
        if run[0] in "0123456789":
            digits = run.lstrip("0")
            runs.append((1, len(digits), digits))
        else:
            runs.append((0, 0, fold(run)))
    return tuple(runs)


def is_ordered(version: str) -> bool:
    """True when a version says which of two is newer: numbers first, not a name or a digest."""
    return bool(_ORDERED.fullmatch(version))


def instant(text: str, *, end: bool = False) -> int | None:
    """A time as microseconds UTC; None when it cannot be read.

    It is a number of microseconds, a date, or a date and a time with its zone (RFC 3339). A date
    is its first microsecond, or with `end` its last: what is valid until a day is valid on it.
    """
    if _MICROS.fullmatch(text):
        return int(text)
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        day = date.fromisoformat(found["day"]).toordinal() - _EPOCH
    except ValueError:  # no such day
        return None
    if found["hour"] is None:
        return day * DAY + (DAY - 1 if end else 0)
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 60:
        return None
    zone = 0
    if found["zone"] not in ("Z", "z"):
        zone = int(found["zone"][1:3]) * 60 + int(found["zone"][4:])
        zone = -zone if found["zone"][0] == "-" else zone
    micros = int(f"{found['fraction'] or '':0<6}"[:6])
    seconds = (hour * 60 + minute - zone) * 60 + second
    return day * DAY + seconds * 1_000_000 + micros


def age_key(text: str) -> tuple[int, int, Natural]:
    """A time as it compares; one of another form (`turn:18`) compares as a version, below."""
    at = instant(text)
    return (0, 0, natural(text)) if at is None else (1, at, ())


def place(path: str) -> str:
    """A path in one spelling: `/` between names, nothing empty, no `.`; dots of names stay."""
    return "/".join(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))


def governed(path: str) -> str:
    """The directory that a rule holds for: the one a rule file lies in, else the path itself."""
    whole = place(path)
    folder, _, name = whole.rpartition("/")
    return folder if ascii_folded(name) in ("agents.md", "claude.md") else whole


def covers(prefix: str, target: str) -> bool:
    """True when a directory is the target or above it; the empty one is above all."""
    return not prefix or target == prefix or target.startswith(prefix + "/")


_VALUES: dict[str, Callable[[Candidate], Any]] = {
    "authority": lambda one: one.authority,
    "trust": lambda one: one.trust,
    "trusted": lambda one: one.is_trusted,
    "retention": lambda one: one.retention,
    "version": lambda one: natural(one.version) if is_ordered(one.version) else (),
    "updated_at": lambda one: age_key(one.updated_at),
    "depth": lambda one: _depth(governed(one.scope_path)),
    "published_depth": lambda one: _depth(rule_prefix(one.path)),
    "zone": lambda one: ZONES.index(zone_of(one)),
    "kind": lambda one: one.kind,
    "units": lambda one: one.units,
    "source_id": lambda one: one.source_id,
    "in_prefix": lambda one: one.in_prefix,
    "seq": lambda one: one.seq,
    "locator": lambda one: one.locator,
    "path": lambda one: one.path,
    "digest": digest_of,
    "id": lambda one: one.id,
}


_PIECES = ("fact", "observation", "artifact")


def subject(one: Candidate) -> tuple[str, str]:
    """What a candidate speaks of: its kind, and its canonical name or its source.

    Pieces of one source at different places speak of different things. Empty: of nothing known.
    """
    if one.canonical or not one.source_id or one.kind not in _PIECES:
        return (one.kind, one.canonical or one.source_id)
    return (one.kind, f"{one.source_id}\n{one.locator}")


def _depth(prefix: str) -> int:
    return prefix.count("/") + 1 if prefix else 0


def ordered(items: Iterable[Candidate], keys: Sequence[Key]) -> list[Candidate]:
    """The candidates by the first key, those that tie by the second, and so on."""
    found = list(items)
    for key in reversed(keys):
        found.sort(key=_VALUES[key[1:]], reverse=key[0] == "-")
    return found


def same(one: Candidate, other: Candidate, keys: Sequence[Key]) -> bool:
    """True when no key tells them apart."""
    return all(_VALUES[key[1:]](one) == _VALUES[key[1:]](other) for key in keys)


def published_version(candidate: Candidate) -> Natural:
    """A version as the published lab compares it."""
    return natural(candidate.version, folded)
