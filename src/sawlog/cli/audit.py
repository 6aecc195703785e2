"""Audit: what packets differ in, whether all comes out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import errors, place
from sawlog.cli.options import Json, StepName
from sawlog.cli.output import first_line, progress, say, table, visible, write_json

if TYPE_CHECKING:
    from sawlog.audit.findings import Report, Told
    from sawlog.audit.recorded import Recorded
    from sawlog.store.errors import Damaged
    from sawlog.store.log import Log

# --- diff -----------------------------------------------------------------------------------------


def diff(
    context: typer.Context,
    old: StepName,
    new: StepName,
    as_json: Json = False,
) -> None:
    """Show what two packets differ in, entry by entry.

    The steps may be of one session or of two, and either may be a request that another program
    built: against a packet of sawlog's it is compared by what it says, not by how. Entries that
    only the second has are added (+), those that only the first has removed (-); header values
    (model, parameters, profile) come first.

    \b
      sawlog diff fix-refund@3 fix-refund@4
    """
    from sawlog.audit.auditing import diff as compare

    log = place.auditing(context)
    before, after = place.recorded_step(log, old), place.recorded_step(log, new)
    changes = compare(before, after)
    if as_json:
        import msgspec

        write_json(
            {
                "old": {"session": before.session.id, "step": before.number, "sent": before.sent},
                "new": {"session": after.session.id, "step": after.number, "sent": after.sent},
                "changes": msgspec.to_builtins(changes),
            }
        )
        return
    if not changes:
        say("the two packets show the same")
    for change in changes:
        at = f"entry {change.new_at}" if change.new_at >= 0 else "header"
        say(f"{change.op} at {at}")
        for sign, side in (("-", change.old), ("+", change.new)):
            for entry in side:
                say(f"  {sign} {_entry(entry)}")


def _entry(entry: Told) -> str:
    what = " ".join(filter(None, (entry.kind, visible(entry.name), entry.status)))
    return f"{what}  {entry.size:,} bytes sha256:{entry.digest[:16]}…  {first_line(entry.excerpt)}"


# --- verify ---------------------------------------------------------------------------------------


def verify(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="SESSION", help="A name, an id, its beginning, or - (the newest)."),
    ] = "",
    everyone: Annotated[bool, typer.Option("--all", help="Check every session.")] = False,
    anchor: Annotated[
        str,
        typer.Option(
            metavar="HEAD", help="A head's digest noted earlier: the session must still hold it."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Replay every step of a session by independent paths, and check its chain and its blobs.

    Path `stored` takes each packet from its manifest, `cold` folds the log from its first event
    and builds it again, `snapshot` goes on from a saved state; imports, which have no manifests,
    compare `cold`, `snapshot` and `incremental`. `recorded` puts requests that other programs
    built together again, by the digest that was logged before they left. Exit code 1: a packet
    came out otherwise. 4: the stored data is damaged.

    A chain cannot show that its end was cut off: note a head's digest (`sawlog ls --json`) where
    nobody can change it, and hand it to --anchor. An unkeyed chain proves nothing against the
    owner of the store.

    \b
      sawlog verify -
      sawlog verify --all --json
      sawlog verify fix-refund --anchor 3f6c…
    """
    from sawlog.audit.recorded import Recorded
    from sawlog.store.errors import ConfigError

    if bool(name) == everyone:
        raise ConfigError("name the session to check, or say --all")
    if anchor and everyone:
        raise ConfigError("--anchor is the head of one session: name the session")
    wanted = _digest(anchor) if anchor else b""
    log = place.auditing(context)
    rows = log.sessions() if everyone else [log.find(name)]
    reports: list[Report] = []
    with progress() as tell:
        for row in rows:
            session = Recorded(log.store, row)
            reports.append(_verified(session, tell))
    held = _anchored(Recorded(log.store, rows[0]), wanted) if wanted else None
    rows_hurt = _damaged_rows(log.store, None if everyone else rows[0].id.hex(), reports)
    facts = _facts(reports, rows_hurt, {row.id.hex(): row.digest.hex() for row in rows}, held)
    if as_json:
        write_json(facts)
    else:
        _tell(reports, facts)
    raise typer.Exit(_verdict_code(facts))


def _verified(session: Recorded, tell: Any) -> Report:
    from sawlog.audit.verifying import verify as check

    name = session.name or session.id
    return check(session, lambda done, total: tell(name, done, total))


def _digest(text: str) -> bytes:
    from sawlog.store.errors import ConfigError

    try:
        digest = bytes.fromhex(text.removeprefix("sha256:"))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ConfigError("--anchor takes the 64 hex digits that `sawlog ls --json` calls digest")
    return digest


def _anchored(session: Recorded, digest: bytes) -> int:
    """The seq at which the session has that digest; -1 when it has it nowhere."""
    from sawlog.store.codec import genesis

    if digest == genesis(session.row.id):
        return 0
    if digest == session.row.digest:
        return session.row.head
    for place_ in session.log.stored(session.row):
        if place_.event is not None and place_.event.digest == digest:
            return place_.seq
    return -1


def _damaged_rows(log: Log, only: str | None, reports: list[Report]) -> list[Damaged]:
    """Damage of the directory's own rows that no report names yet."""
    from sawlog.store.checked import directory_damage

    told = {report.session for report in reports if report.chain != "ok"}
    return [
        error
        for error in directory_damage(log)
        if error.session not in told and only in (None, error.session)
    ]


def _verdict_code(facts: dict[str, Any]) -> int:
    if facts["damaged"] or facts.get("anchor") == "missing":
        return errors.DAMAGED
    return 1 if facts["differences"] or facts["blocked"] else 0


def _facts(
    reports: list[Report], rows: list[Damaged], heads: dict[str, str], held: int | None
) -> dict[str, Any]:
    import msgspec

    paths: dict[str, str] = {}
    for report in reports:
        for path, state in report.paths.items():
            paths[path] = _worse(paths.get(path), state)
    differences = [(report, one) for report in reports for one in report.differences]
    first = None
    if differences:
        report, one = differences[0]
        first = {"session": report.session, **msgspec.to_builtins(one), "text": str(one)}
    damaged = [
        {"session": one.session, "name": one.name, "seq": one.bad_seq, "why": one.chain}
        for one in reports
        if one.chain != "ok"
    ]
    # A row of the directory has no seq: it stands as 0.
    damaged += [{"session": one.session, "name": "", "seq": 0, "why": str(one)} for one in rows]
    facts: dict[str, Any] = {
        "sessions": len(reports),
        "steps": sum(report.steps for report in reports),
        "events": sum(report.events for report in reports),
        "paths": paths,
        "differences": len(differences),
        "first": first,
        "chain": damaged[0]["seq"] if damaged else "ok",
        "damaged": damaged,
        "blocked": [
            {"session": one.session, "name": one.name, "at": one.blocked}
            for one in reports
            if one.blocked
        ],
        "heads": heads,
    }
    if held is not None:
        facts["anchor"] = "missing" if held < 0 else held
    return facts


def _worse(one: str | None, other: str) -> str:
    """What two sessions' states of a path come to: a difference outweighs all, `ok` absence."""
    order = ("absent", "ok", "differs")
    return max(one or other, other, key=order.index)


def _tell(reports: list[Report], facts: dict[str, Any]) -> None:
    rows = [
        (
            first_line(report.name or report.session, 60),
            str(report.events),
            str(report.steps),
            " ".join(f"{path}={state}" for path, state in report.paths.items()),
            "ok" if report.chain == "ok" else f"DAMAGED {visible(report.chain)}",
        )
        for report in reports
    ]
    if rows:
        table(rows, header=("session", "events", "steps", "paths", "chain"))
        say()
    for report in reports:
        if report.blocked:
            say(f"{visible(report.name or report.session)}: stopped at {visible(report.blocked)}")
        for difference in report.differences[:5]:
            say(f"{visible(report.name or report.session)}: {difference}")
        if len(report.differences) > 5:
            say(f"  and {len(report.differences) - 5} more")
    known = {report.session for report in reports}
    for one in facts["damaged"]:
        if one["session"] not in known:
            say(f"DAMAGED {visible(one['why'])}")
    if "anchor" in facts:
        held = facts["anchor"]
        say(
            "the anchor is no longer in the session: its end was cut off, or its log rewritten"
            if held == "missing"
            else f"the anchor holds: it is the digest at event {held}"
        )
    say(
        f"sessions: {facts['sessions']}, steps: {facts['steps']}, "
        f"differences: {facts['differences']}, damaged: {len(facts['damaged'])}"
    )
