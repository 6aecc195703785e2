"""Look: the sessions of a store, the conversation of one, the events of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from sawlog.cli import place
from sawlog.cli.options import All, Json, SessionOrStep, Zones
from sawlog.cli.output import excerpt, first_line, say, table, visible, write_json
from sawlog.cli.sent import SENT
from sawlog.cli.zones import say_zones, zones_json

if TYPE_CHECKING:
    from sawlog.audit.findings import ZoneUse
    from sawlog.cli.lines import Teller
    from sawlog.store.directory import SessionRow
    from sawlog.store.event import Event
    from sawlog.store.log import Log
    from sawlog.store.rows import StoredRow

_LINES = 40
"""Events of the conversation that `show` shows unless told otherwise."""

_CHUNK = 256

_PACKETS = ("packet.built", "packet.recorded")


def ls(context: typer.Context, as_json: Json = False) -> None:
    """List the sessions of the store, oldest first.

    Shows the beginning of each id, its last event (head), who drives it now, the format that it
    was imported from, and its name. With --json also the whole id, the source id, the digest of
    the head, which you can keep and later hand to `sawlog verify --anchor`, and the times.

    \b
      sawlog ls
      sawlog ls --json | jq -r '.[].name'
    """
    log = place.reading(context)
    found = [_listed(log, row) for row in log.sessions()]
    if as_json:
        write_json(found)
        return
    if not found:
        say("no sessions yet: `sawlog import PATH` brings some in, `sawlog demo` makes one")
        return
    short = _short([row["id"] for row in found])
    rows = [
        (
            row["id"][:short],
            str(row["head"]),
            row["format"] or "live",
            first_line(row["owner"], 40) if row["owner"] else "-",
            first_line(row["name"] or row["source_id"] or "-", 120),
        )
        for row in found
    ]
    table(rows, header=("id", "head", "from", "driven by", "name"))


def _listed(log: Log, row: SessionRow) -> dict[str, Any]:
    from sawlog.store.lease import is_live

    return {
        "id": row.id.hex(),
        "name": row.name or "",
        "source_id": row.source_id or "",
        "format": (row.source_id or "").partition(":")[0],
        "head": row.head,
        "digest": row.digest.hex(),
        "fork": row.parent is not None,
        "owner": row.owner if is_live(row, log.clock()) else "",
        "created_at": row.created_at,
        "touched_at": row.touched_at,
    }


def _short(ids: list[str]) -> int:
    """How many characters tell these ids apart: UUIDs by time share their beginnings."""
    size = 8
    while size < 32 and len({id[:size] for id in ids}) < len(ids):
        size += 1
    return size


def show(
    context: typer.Context,
    name: SessionOrStep,
    zones: Zones = False,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Show a session's conversation, or what happened in one step of it.

    Each line is an event: its number (seq), its step, its type, the channel it came in by, and the
    first line of what it says. The newest 40 events of the conversation are shown, and none of the
    bookkeeping; --all shows every event from the first one. A step is shown with all its events
    and more of their texts.

    \b
      sawlog show -              the newest session
      sawlog show fix-refund@4   what happened in step 4
      sawlog show - --all        every event
      sawlog show -@4 --zones    and what each zone of its packet takes
    """
    from sawlog.cli.lines import Teller
    from sawlog.store.errors import ConfigError

    log = place.reading(context)
    row, step = _named(log, name)
    if zones and not step:
        raise ConfigError("--zones is of one packet: write SESSION@STEP, such as -@3")
    teller = Teller(log, row, whole=everything)
    if step:
        uses = _zones(log, row, step) if zones else None
        _show_step(log, row, step, teller, everything, as_json, uses)
    else:
        _show_session(log, row, teller, everything, as_json)


def _named(log: Log, text: str) -> tuple[SessionRow, int]:
    """The session, and the step when one is named; a session's own name may hold an @."""
    session, at, number = text.rpartition("@")
    if not at or not number.isdigit() or log.find(text):
        return log.named(text), 0
    session, step = place.split_step(text)
    return log.named(session), step


# --- a session ------------------------------------------------------------------------------------


def _show_session(
    log: Log, row: SessionRow, teller: Teller, everything: bool, as_json: bool
) -> None:
    hidden = 0
    if everything:
        shown: Iterable[StoredRow] = log.stored(row)
    else:
        shown, hidden = _newest(log, row)
    if as_json:
        events = [_as_json(log, each, teller, everything) for each in shown]
        write_json({"session": _listed(log, row), "events": events, "not_shown": hidden})
        return
    listed = _listed(log, row)
    say(visible(listed["name"] or listed["source_id"] or listed["id"]))
    table(
        [
            ("id", listed["id"]),
            ("from", visible(listed["source_id"]) or "live"),
            ("head", f"{row.head}  sha256:{listed['digest']}"),
            *((("driven by", visible(listed["owner"])),) if listed["owner"] else ()),
        ],
        indent="  ",
    )
    say()
    if everything:
        for each in shown:  # a line at a time: a session may be long
            table([_columns(log, each, teller)])
        return
    table([_columns(log, each, teller) for each in shown])
    if hidden:
        say(f"\n{hidden:,} earlier or bookkeeping events are not shown; --all shows them")


def _newest(log: Log, row: SessionRow) -> tuple[list[StoredRow], int]:
    """The newest events of the conversation, and how many others there are."""
    from sawlog.cli.lines import BOOKKEEPING

    kept: list[StoredRow] = []
    end = row.head
    while end > 0 and len(kept) < _LINES:
        start = max(0, end - _CHUNK)
        told = [
            each
            for each in log.stored(row, start, end)
            if each.event is None or each.event.type not in BOOKKEEPING
        ]
        kept = told + kept
        end = start
    kept = kept[-_LINES:]
    return kept, row.head - len(kept)


def _decoded(log: Log, stored: StoredRow) -> Event | str:
    """The event, or what is wrong with its row."""
    from sawlog.store.errors import Damaged
    from sawlog.store.event import decoded

    if stored.event is None:
        return str(stored.damage or "its row is missing")
    try:
        return decoded(stored.event, log.registry)
    except Damaged as error:
        return str(error)


def _columns(log: Log, stored: StoredRow, teller: Teller) -> tuple[str, ...]:
    event = _decoded(log, stored)
    if isinstance(event, str):
        return (f"{stored.seq:>6}", "", "DAMAGED", "", first_line(event))
    step = str(event.step) if event.step else "·"
    told = first_line(teller.tell(event))
    return (f"{event.seq:>6}", f"{step:>4}", f"{event.type:<18}", f"{event.source:<18}", told)


def _as_json(log: Log, stored: StoredRow, teller: Teller, whole: bool) -> dict[str, Any]:
    event = _decoded(log, stored)
    if isinstance(event, str):
        return {"seq": stored.seq, "damaged": event}
    text = teller.tell(event)
    return {
        "seq": event.seq,
        "id": event.id,
        "type": event.type,
        "source": event.source,
        "step": event.step,
        "occurred_at": _time(event.occurred_at),
        "text": text if whole else text[:2000],
    }


def _time(micros: int) -> int | None:
    from sawlog.store.envelope import UNKNOWN_TIME

    return None if micros == UNKNOWN_TIME else micros


# --- a step ---------------------------------------------------------------------------------------


def _show_step(
    log: Log,
    row: SessionRow,
    step: int,
    teller: Teller,
    everything: bool,
    as_json: bool,
    uses: tuple[ZoneUse, ...] | None,
) -> None:
    from sawlog.store.errors import NoStep

    found = list(_of_step(log, row, step))
    if not found:
        named = visible(row.name or row.id.hex())
        raise NoStep(f"{named} has no step {step}: `sawlog show {named} --all` shows those it has")
    packet = next((e.event for e in found if e.event and e.event.type in _PACKETS), None)
    sent = _sent(log, row, step) if packet is not None else None
    if as_json:
        told: dict[str, Any] = {
            "session": _listed(log, row),
            "step": step,
            "packet": packet.seq if packet else None,
            "sent": sent or None,
            "events": [_as_json(log, each, teller, everything) for each in found],
        }
        write_json(told if uses is None else told | {"zones": zones_json(uses)})
        return
    say(f"step {step} of {visible(row.name or row.id.hex())}")
    if packet is None:
        say("  no packet was recorded with it; `sawlog packet` reconstructs one")
    elif sent is not None:
        say(f"  sent  {SENT[sent]}")
    for each in found:
        event = _decoded(log, each)
        if isinstance(event, str):
            say(f"\n{each.seq}  DAMAGED  {visible(event)}")
            continue
        say(f"\n{event.seq}  {event.type}  {event.source}")
        text = teller.tell(event)
        said = visible(text) if everything else excerpt(text, 12)
        for line in said.split("\n") if said else ():
            say(f"    {line}")
    if uses is not None:
        say_zones(uses)


def _sent(log: Log, row: SessionRow, step: int) -> str | None:
    """How far what was sent is what was seen; None where the packet does not come out again."""
    from sawlog.audit.recorded import Recorded
    from sawlog.store.errors import SawlogError

    try:
        return Recorded(log, row).steps[step].sent
    except SawlogError:
        # A step of a damaged session is shown all the same; `sawlog verify` says what is wrong.
        return None


def _zones(log: Log, row: SessionRow, step: int) -> tuple[ZoneUse, ...]:
    from sawlog.audit.recorded import Recorded

    return Recorded(log, row).steps[step].zones()


def _of_step(log: Log, row: SessionRow, step: int) -> Iterator[StoredRow]:
    for found in log.stored(row):
        if found.event is not None and found.event.step == step:
            yield found
