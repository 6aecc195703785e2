"""The zones of a packet, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sawlog.cli.output import say, table

if TYPE_CHECKING:
    from sawlog.audit.findings import ZoneUse


def say_zones(found: Iterable[ZoneUse]) -> None:
    """A line for each zone: its units, and the bound that the policy sets."""
    say("\nzones")
    rows = [
        (one.zone, f"{one.units:,} units", "" if one.bound is None else f"of {one.bound:,}")
        for one in found
    ]
    table(rows, indent="  ")


def zones_json(found: Iterable[ZoneUse]) -> list[dict[str, Any]]:
    """The same as objects; `bound` is null for a zone without one."""
    return [{"zone": one.zone, "units": one.units, "bound": one.bound} for one in found]
