"""Measures: how many units an entry takes of a window. Named and numbered, frozen once released."""

from __future__ import annotations

from collections.abc import Callable

from sawlog.builder.estimate import estimate
from sawlog.builder.packet import Entry
from sawlog.store.errors import UnknownNumber
from sawlog.store.events.base import Named

Measure = Callable[[Entry], int]

FRAME = 4
MEDIUM = 1600


def _utf8_quarter(entry: Entry) -> int:
    """A quarter of the UTF-8 bytes of text, name and call id, rounded up, and 4 for the frame.

    About one token of English or code. A medium counts 1,600 whatever its bytes, for providers
    scale images down before they count them.
    """
    if entry.part == "media":
        return MEDIUM + FRAME
    text, name, call_id = entry.text, entry.name, entry.call_id
    if text.isascii() and name.isascii() and call_id.isascii():  # as most are
        size = len(text) + len(name) + len(call_id)
    else:
        size = _bytes(text) + _bytes(name) + _bytes(call_id)
    return (size + 3) // 4 + FRAME


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _utf8_bytes(entry: Entry) -> int:
    """The UTF-8 bytes of text, name and call id."""
    return _bytes(entry.text) + _bytes(entry.name) + _bytes(entry.call_id)


def _lab_estimator(entry: Entry) -> int:
    """The lab's estimate of text, name and call id; a medium as under `utf8-quarter`."""
    if entry.part == "media":
        return MEDIUM
    return estimate("\n".join((entry.text, entry.name, entry.call_id)))


MEASURES: dict[Named, Measure] = {
    Named("utf8-quarter", 1): _utf8_quarter,
    Named("utf8-bytes", 1): _utf8_bytes,
    Named("lab-estimator", 1): _lab_estimator,
}


def install(name: Named, measure: Measure) -> None:
    """Make a measure known under a name that says all it depends on; the same name is the same one.

    Raises ValueError for a name that is known.
    """
    if name in MEASURES:
        raise ValueError(f"the measure {name} is installed already")
    MEASURES[name] = measure


def measure_of(name: Named) -> Measure:
    """The measure of that name and number. Raises UnknownNumber when it is not installed."""
    found = MEASURES.get(name)
    if found is None:
        more = ": load it with sawlog.tokens.token_measure" if "/" in name.name else ""
        raise UnknownNumber(f"the measure {name} is not installed{more}")
    return found
