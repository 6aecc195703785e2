"""Work: what a run that ended left open, and ending what was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, SessionName, Wait
from sawlog.cli.output import first_line, note, say, table, visible, write_json
from sawlog.cli.quick import whole_number

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog
    from sawlog.work.call import Call
    from sawlog.work.plan import CutStep, Plan, Written

_TRIES = 5
"""Plans that are made again because somebody else's note came in between."""

_STANDS = {
    "built": "its packet was built, and nothing left",
    "sent": "its request left, and nobody knows the outcome",
    "running": "the provider works on it",
    "refused": "the provider refused",
    "lost": "its request was lost",
}


def recover(
    context: typer.Context,
    name: SessionName,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Append the ends of what was cut; runs and sends nothing."),
    ] = False,
    root: Annotated[
        str,
        typer.Option(metavar="PATH", help="The workspace: find the files that changed meanwhile."),
    ] = "",
    wait: Wait = "0",
    as_json: Json = False,
) -> None:
    """Say what a run that ended left open, and what is safe to do next.

    The step that was cut, requests and calls whose outcome nobody recorded, calls that were never
    started, approvals and messages that wait, a compaction without an end, and with --root the
    files that changed. Each call has one word: run (it was not done, or may be done again), ask (it
    may have been done: find out, then `sawlog resolve`), wait (for an approval: `sawlog approve`
    or `sawlog deny`; or for whoever drives the session). Nothing is written without --apply.

    With --apply the ends of what was cut are appended, once however often you run it: attempts
    become lost, the step abandoned, the compaction failed, changed files are recorded. No tool is
    run and no model is called. Whoever drives the session is named, and nothing of it is ended.

    Exit code 0: nothing stands open. 1: something does. 3: another one drives the session.

    \b
      sawlog recover fix-refund
      sawlog recover fix-refund --apply --root ~/src/shop
    """
    seconds = whole_number("--wait", wait)
    if apply:
        plan, written = _applied(place.changing(context), name, root, seconds)
    else:
        plan, written = place.auditing(context).read(name).recover(root or None), ()
    for path in plan.outside:
        note(f"{path} leads out of {root} and is not looked at")
    if as_json:
        write_json(_json(plan, written))
    else:
        _print(plan, written)
    raise typer.Exit(1 if plan.ends or plan.next or plan.lost or plan.cut_step else 0)


def _applied(log: AgentLog, name: str, root: str, seconds: int) -> tuple[Plan, tuple[Written, ...]]:
    """The plan after it was applied, and what that appended."""
    from sawlog.store.errors import StalePlan

    with log.resume(name, wait=float(seconds)) as session:
        written: tuple[Written, ...] = ()
        for left in range(_TRIES, 0, -1):
            try:
                written = session.recover(root or None).apply()
                break
            except StalePlan:
                if left == 1:
                    raise
        return session.recover(), written


# --- for programs ---------------------------------------------------------------------------------


def _json(plan: Plan, written: tuple[Written, ...]) -> dict[str, Any]:
    from msgspec import structs, to_builtins

    told = {
        name: _plain(value)
        for name, value in structs.asdict(plan).items()
        if name not in ("applies", "news")
    }
    told |= {"sentence": plan.sentence, "ends": list(plan.ends)}
    return {**told, "appended": to_builtins(written)}


def _plain(value: Any) -> Any:
    """A value of a plan as JSON writes it: a call is what names it and what it asks for."""
    from msgspec import Struct, structs, to_builtins

    from sawlog.work.call import Call

    if isinstance(value, tuple):
        return [_plain(each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, Call):
        fields = ("event_id", "call_id", "name", "arguments", "step")
        return {field: getattr(value, field) for field in fields}
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in structs.asdict(value).items()}
    return to_builtins(value)


# --- for people -----------------------------------------------------------------------------------


def _print(plan: Plan, written: tuple[Written, ...]) -> None:
    say(f"{visible(plan.name or plan.session)}, event {plan.seq}: {visible(plan.sentence)}")
    for one in written:
        say(f"  appended event {one.seq}: {one.type}")
    rows = [*_steps(plan), *_calls(plan), *_others(plan)]
    if rows:
        say()
        table(rows, indent="  ")
    if plan.ends:
        say(f"\n--apply appends {', '.join(plan.ends)}")


def _steps(plan: Plan) -> list[list[str]]:
    step = plan.cut_step
    rows = [["step", str(step.step), _step(step)]] if step is not None else []
    for one in plan.lost:
        where = f" to {visible(one.url)}" if one.url else ""
        handle = f"; the provider's handle is {visible(one.handle)}" if one.handle else ""
        rows.append(["attempt", str(one.number), f"left by event {one.since}{where}{handle}"])
    return rows


def _step(step: CutStep) -> str:
    how = "is under way" if step.under_way else _STANDS[step.stands]
    return f"{how} (packet: event {step.since})"


def _calls(plan: Plan) -> list[list[str]]:
    parts = {one.key: one for one in plan.unknown}
    rows: list[list[str]] = []
    for one in plan.next:
        part = parts.get(one.key)
        what = _call(one.call) if one.call is not None else visible(part.name if part else "")
        if part is not None and part.what:
            what = f"{what}: {first_line(part.what, 60)}"
        since = f", since event {part.since}" if part is not None else ""
        rows.append([one.do, first_line(one.key, 60), f"{what} ({visible(one.why)}{since})"])
    return rows


def _call(call: Call) -> str:
    return f"{first_line(call.name, 64)} {first_line(call.arguments, 80)}"


def _others(plan: Plan) -> list[list[str]]:
    rows: list[list[str]] = []
    if plan.open_compaction is not None:
        how = "is under way" if plan.open_compaction.under_way else "has no end"
        rows.append(["compaction", "", f"began with event {plan.open_compaction.since}, {how}"])
    for one in plan.inbox:
        wakes = ", wakes" if one.wakes else ""
        rows.append(["message", one.id[:12], f"from {visible(one.source)}, {one.target}{wakes}"])
    for file in plan.changed_files:
        seen = "in the workspace" if file.by == "workspace" else f"by event {file.since}"
        rows.append(["file", first_line(file.path, 100), f"{file.state} now, {seen}"])
    if plan.checkpoint is not None:
        rows.append(
            ["resume", "", f"from the compaction that event {plan.checkpoint.seq} completed"]
        )
    return rows
