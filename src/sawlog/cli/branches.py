"""Work: branches of a session: forks of it, its history taken back, the family that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, SessionName, SessionOrStep, Wait
from sawlog.cli.output import counted, first_line, progress, say, visible, write_json
from sawlog.cli.quick import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sawlog.agentlog import AgentLog
    from sawlog.audit.branches import Branch, Mark
    from sawlog.work.rewinding import Rewound


def fork(
    context: typer.Context,
    name: SessionOrStep,
    at: Annotated[
        str,
        typer.Option(
            metavar="SEQ", help="Share the events up to this one. Instead of @STEP; else all."
        ),
    ] = "",
    called: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="The fork's name; else SESSION~SEQ."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Fork a session: another one that shares its events up to a place and goes its own way.

    At a step the packet is the last thing that both share: what was shown there is the same, byte
    for byte, and the reply is the fork's own. Nothing is copied and the session is not touched, so
    it may be driven meanwhile. Calls that were open there show as `forked`; messages that wait stay
    with the parent. Step numbers go on. Open the fork by its name, as any session, to drive it.

    \b
      sawlog fork fix-refund@12 --name second-try
      sawlog fork - --at 180
    """
    log = place.changing(context)
    session, step, seq = _place(log, name, "--at", at)
    made = log.fork(session, step=step, at=seq, name=called or None)
    row = log.find(made.id)
    shared = log.read(made.id).last_step()
    if as_json:
        parent = log.find(session)
        write_json(
            {
                "session": made.id,
                "name": made.name,
                "parent": parent.id.hex(),
                "parent_name": parent.name or "",
                "at": row.base,
                "step": shared,
            }
        )
        return
    say(
        f"{visible(made.name)} shares {visible(session)} up to event {row.base} (step {shared}); "
        f"{visible(session)} is as it was"
    )


def rewind(
    context: typer.Context,
    name: SessionOrStep,
    to: Annotated[
        str, typer.Option(metavar="SEQ", help="Go back to this event. Instead of @STEP.")
    ] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the event keeps it.")] = "",
    wait: Wait = "0",
    as_json: Json = False,
) -> None:
    """Take a session's history back to a step or an event, and say what that cannot undo.

    The next step follows on the packet of the step as it was sent, or on the event; what came after
    is shown no more, stays in the log, and replays as before. The world is not taken back: calls
    that ran and files that changed are listed. It takes the session's lease, so nobody may be
    driving it: exit code 3 otherwise; --wait waits for a lease that nobody renews. `sawlog fork`
    leaves the session as it is.

    \b
      sawlog rewind fix-refund@12 --reason "a dead end"
      sawlog rewind - --to 180
    """
    from sawlog.store.errors import ConfigError

    seconds = whole_number("--wait", wait)
    log = place.changing(context)
    session, step, seq = _place(log, name, "--to", to)
    if step is None and seq is None:
        raise ConfigError("say where to: SESSION@STEP, or SESSION --to SEQ")
    with log.resume(session, wait=float(seconds)) as s:
        done = s.rewind(step=step, to=seq, reason=reason)
    if as_json:
        import msgspec

        write_json({"session": s.id, "name": s.name, **msgspec.to_builtins(done)})
        return
    say(f"{visible(s.name or s.id)}: the next step follows on event {done.to}")
    for line in _not_undone(done):
        say(line)


def _not_undone(done: Rewound) -> Iterator[str]:
    if not done.calls and not done.files:
        yield "nothing that ran or changed since is known"
        return
    yield "not undone:"
    for call in done.calls:
        yield f"  the call {first_line(str(call.name), 60)} ran: {call.status} ({call.call[:8]}…)"
    for path in done.files:
        yield f"  the file {visible(str(path))} changed"


# --- tree -----------------------------------------------------------------------------------------


def tree(context: typer.Context, name: SessionName, as_json: Json = False) -> None:
    """Show the family of a session: forks, children, rewinds, compactions, and each one's head.

    It begins with the session that the others came from; the one you named has a star. A child
    was started by its parent to do a part of the work; an heir is a child that began with all that
    its parent had read.

    \b
      sawlog tree fix-refund
    """
    from sawlog.audit.branches import family

    log = place.auditing(context)
    row = log.find(name)
    with progress() as tell:
        found = family(log.store, row, lambda done, total: tell("reading", done, total))
    if as_json:
        import msgspec

        write_json(msgspec.to_builtins(found))
        return
    for line in _lines(found, row.id.hex(), ""):
        say(line)


def _lines(branch: Branch, named: str, indent: str) -> Iterator[str]:
    from sawlog.audit.branches import Mark

    yield _told(branch, named)
    below: list[tuple[int, Mark | Branch]] = [(one.seq, one) for one in branch.marks]
    # A child that shares nothing has no place in its parent's log: those come last.
    below += [(one.at or branch.head + 1, one) for one in branch.branches]
    below.sort(key=lambda one: one[0])
    for at, (_, one) in enumerate(below):
        last = at == len(below) - 1
        head, body = (f"{indent}└─ ", f"{indent}   ") if last else (f"{indent}├─ ", f"{indent}│  ")
        if isinstance(one, Mark):
            yield head + _mark(one)
            continue
        first, *rest = _lines(one, named, body)
        yield head + first
        yield from rest


def _told(branch: Branch, named: str) -> str:
    name = first_line(branch.name or branch.session, 60)
    star = " *" if branch.session == named else ""
    at = f" at event {branch.at} (step {branch.shared})" if branch.at else ""
    where = "" if branch.kind == "root" else f"{branch.kind}{at}: "
    owner = f", driven by {first_line(branch.owner, 40)}" if branch.owner else ""
    return f"{where}{name}{star}  head {branch.head}, step {branch.step}{owner}"


def _mark(mark: Mark) -> str:
    if mark.kind != "rewound":
        return f"compacted by event {mark.seq}, behind step {mark.step}"
    left = ", ".join(
        counted(count, what)
        for count, what in ((mark.calls, "call"), (mark.files, "file"))
        if count
    )
    undone = f", not undone: {left}" if left else ""
    why = f": {first_line(mark.reason, 80)}" if mark.reason else ""
    return f"rewound by event {mark.seq}, behind step {mark.step}, to event {mark.to}{undone}{why}"


# --- places ---------------------------------------------------------------------------------------


def _place(log: AgentLog, text: str, option: str, given: str) -> tuple[str, int | None, int | None]:
    """The session, the step and the seq that are named; a name may hold an @ itself."""
    if given:
        return text, None, whole_number(option, given)
    if "@" in text and not log.store.find(text):
        session, step = place.split_step(text)
        return session, step, None
    return text, None, None
