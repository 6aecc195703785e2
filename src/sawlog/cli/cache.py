"""Audit: how much of each request the next one begins with, and what broke the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sawlog.cli import place
from sawlog.cli.options import All, Json, SessionName
from sawlog.cli.output import counted, progress, say, table, visible, write_json
from sawlog.cli.sent import must_be_ours

if TYPE_CHECKING:
    from sawlog.audit.findings import Kept, Stability

_CAUSES = {
    "compacted": "a compaction replaced the history",
    "rewound": "the history was rewound",
    "trimmed": "results were trimmed",
    "erased": "contents were erased",
    "block_cut": "the policy's block cut",
    "header_changed": "system text or tools are others",
    "model_changed": "it went to another model",
    "parameters_changed": "the parameters are others",
    "provider_changed": "it went to another provider",
    "profile_changed": "another profile, renderer or header",
    "answered": "a result came where the file had none yet",
    "paired": "what came later stands behind its call",
    "closing": "a fixed last message went",
}


def cache(
    context: typer.Context, name: SessionName, everything: All = False, as_json: Json = False
) -> None:
    """Show how stable a session's prefix is: what each request keeps of the one before it.

    A provider reads from its cache what a request has in common with an earlier one from its first
    byte on. For each packet: the share of its bytes and of its entries that the next packet begins
    with. Where not all stays, the cause is named, with the units and the sealed blocks that it
    cost. Without --all only those breaks are listed; the totals count all steps.

    Steps of an imported transcript are taken as the file shows them; requests that another program
    built are left out.

    \b
      sawlog cache fix-refund
      sawlog cache - --all --json
    """
    from sawlog.audit.prefixes import stability

    log = place.auditing(context)
    session = log.read(name)
    must_be_ours(
        session,
        "and only packets that sawlog built, or an imported file shows, are compared: "
        "`sawlog diff SESSION@A SESSION@B` says what two requests differ in",
    )
    with progress() as tell:
        label = session.name or session.id
        found = stability(session, lambda done, total: tell(label, done, total))
    if as_json:
        write_json(_as_json(found))
    else:
        _print(found, everything)


def _as_json(found: Stability) -> dict[str, object]:
    import msgspec

    told: dict[str, object] = msgspec.to_builtins(found)
    told["share"] = _share(found.kept, found.size)
    told["steps"] = [
        {**msgspec.to_builtins(one), "share": _share(one.kept, one.size)} for one in found.steps
    ]
    return told


def _share(kept: int, size: int) -> float | None:
    return round(kept / size, 6) if size else None


def _print(found: Stability, everything: bool) -> None:
    shown = found.steps if everything else found.breaks
    rows = [
        (
            f"{one.before} to {one.step}",
            f"{one.kept:,} of {one.size:,}",
            _percent(one.kept, one.size),
            f"{one.kept_entries:,} of {one.entries:,}",
            _told(one),
        )
        for one in shown
    ]
    if rows:
        table(rows, header=("steps", "bytes kept", "share", "entries", "cause"))
        say()
    breaks = ", ".join(f"{cause} {times}" for cause, times in found.causes.items()) or "none"
    packets = counted(len(found.steps), "packet")
    say(
        f"{visible(found.name or found.session)}: {packets} with a next one; it "
        f"keeps {found.kept:,} of {found.size:,} bytes ({_percent(found.kept, found.size)})"
    )
    say(f"breaks: {breaks}")


def _told(one: Kept) -> str:
    if not one.causes:
        return ""
    told = ", ".join(_CAUSES.get(cause, cause) for cause in one.causes)
    cost = f"{one.units:,} units" if one.units else ""
    bound = f"{one.bound} sealed" if one.bound else ""
    costs = ", ".join(filter(None, (cost, bound)))
    return f"{told} ({costs})" if costs else told


def _percent(kept: int, size: int) -> str:
    # Rounded down: only all of it is 100 %.
    return f"{kept * 1000 // size / 10:.1f} %" if size else "-"
