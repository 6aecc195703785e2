"""Item measures: how many units a candidate takes. Named and numbered, frozen once released."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import msgspec

from sawlog.builder.estimate import estimate
from sawlog.builder.selection.candidate import Candidate
from sawlog.store.errors import InvalidItem, UnknownNumber
from sawlog.store.events.base import Named
from sawlog.store.text import raw_bytes

ItemMeasure = Callable[[Candidate], int]

GIVEN = Named("given", 1)
UTF8_BYTES = Named("utf8-bytes", 1)
LAB_ESTIMATOR = Named("lab-estimator", 1)


def _utf8_bytes(candidate: Candidate) -> int:
    """The UTF-8 bytes of the text alone: no title, no wrapper (S0-30)."""
    return len(raw_bytes(candidate.text))


def _lab_estimator(candidate: Candidate) -> int:
    """The estimate of title, text and locator, one below the other."""
    return estimate(f"{candidate.title}\n{candidate.text}\n{candidate.locator}")


def _given(candidate: Candidate) -> int:
    """The units that the caller measured."""
    if not candidate.units and candidate.text:
        raise InvalidItem(
            "unmeasured_candidate",
            f"the policy takes the units that candidates bring, and {candidate.id} brings none: "
            "use measured(), or a policy with a measure",
        )
    return candidate.units


ITEM_MEASURES: dict[Named, ItemMeasure] = {
    GIVEN: _given,
    UTF8_BYTES: _utf8_bytes,
    LAB_ESTIMATOR: _lab_estimator,
}


def item_measure(name: Named) -> ItemMeasure:
    """The measure of that name and number. Raises UnknownNumber when it is not installed."""
    found = ITEM_MEASURES.get(name)
    if found is None:
        raise UnknownNumber(f"the item measure {name} is not installed")
    return found


def measured(candidates: Iterable[Candidate], measure: Named) -> tuple[Candidate, ...]:
    """The candidates with their units by that measure."""
    count = item_measure(measure)
    return tuple(
        candidate
        if candidate.units == (units := count(candidate))
        else msgspec.structs.replace(candidate, units=units)
        for candidate in candidates
    )


def cut_to(candidate: Candidate, limit: int, measure: Named) -> Candidate:
    """The candidate in at most `limit` units, the cut told in its text.

    Under the measure `given` the text is the caller's to cut: `cut` says where, and what is shown
    takes what the caller measured, `capped`.
    """
    if measure == GIVEN:
        return msgspec.structs.replace(candidate, units=candidate.capped or limit, cut=limit)
    count = item_measure(measure)
    notice = f"\n[cut to {limit} of {candidate.units} units]"

    def units(length: int) -> int:
        shown = candidate.text[:length] + notice if length else notice[1:]
        return count(msgspec.structs.replace(candidate, text=shown))

    if units(0) > limit:
        raise InvalidItem(
            "cap_too_small", f"a cap of {limit} units leaves no room for its own notice"
        )
    length = bisect_left(range(1, len(candidate.text) + 1), limit + 1, key=units)
    shown = candidate.text[:length] + notice if length else notice[1:]
    cut = msgspec.structs.replace(candidate, text=shown, cut=limit)
    return msgspec.structs.replace(cut, units=count(cut))
