"""Work: decisions that a session waits for, outcomes of calls that nobody recorded."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, SessionName
from sawlog.cli.output import first_line, say, table, visible, write_json

By = Annotated[
    str, typer.Option(metavar="NAME", help="Who says so; else the name you are logged in under.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; the model is told.")]
Approval = Annotated[
    str,
    typer.Argument(
        metavar="APPROVAL", help="The approval's whole id; without one those that wait."
    ),
]


def approve(
    context: typer.Context,
    name: SessionName,
    approval: Approval = "",
    by: By = "",
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Allow a call that waits for approval, whoever drives the session; without an id list them.

    The first decision counts: the same again changes nothing, another one is refused (exit 3).

    \b
      sawlog approve fix-refund
      sawlog approve fix-refund 01a22a886d4c7e66b40ebe68b8104788 --reason "I have a backup"
    """
    _decide(context, name, approval, by, reason, allow=True, as_json=as_json)


def deny(
    context: typer.Context,
    name: SessionName,
    approval: Approval = "",
    by: By = "",
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Deny a call that waits for approval, whoever drives the session; without an id list them.

    The call is not run, and the model is told so, with the reason. The first decision counts, as
    with `sawlog approve`.

    \b
      sawlog deny fix-refund
      sawlog deny fix-refund 01a22a886d4c7e66b40ebe68b8104788 --reason "not on a Friday"
    """
    _decide(context, name, approval, by, reason, allow=False, as_json=as_json)


def _decide(
    context: typer.Context,
    name: str,
    approval: str,
    by: str,
    reason: str,
    *,
    allow: bool,
    as_json: bool,
) -> None:
    if not approval:
        _list(context, name, as_json)
        return
    log = place.changing(context)
    log.decide(name, approval, allow=allow, by=by or getpass.getuser(), reason=reason)
    if as_json:
        write_json({"approval": approval, "allow": allow})
    else:
        say(f"{visible(approval)}: {'allowed' if allow else 'denied'}")


def _list(context: typer.Context, name: str, as_json: bool) -> None:
    waiting = place.auditing(context).read(name).recover().waiting
    if as_json:
        write_json([{"approval": w.approval, "call": w.call.event_id, "name": w.call.name,
                     "arguments": w.call.arguments} for w in waiting])  # fmt: skip
        return
    if not waiting:
        say("no call waits for approval")
        return
    rows = [(visible(w.approval), first_line(f"{w.call.name} {w.call.arguments}")) for w in waiting]
    table(rows, header=("approval", "call"))


def resolve(
    context: typer.Context,
    name: SessionName,
    call: Annotated[
        str,
        typer.Argument(
            metavar="CALL",
            help="The call's event id, as `sawlog recover` shows it, or its beginning.",
        ),
    ],
    outcome: Annotated[str, typer.Argument(metavar="TEXT", help="What came of it.")],
    error: Annotated[bool, typer.Option("--error", help="It failed.")] = False,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Say what really came of a call that was started and has no result: that becomes its result.

    `sawlog recover SESSION` lists such calls. Look in the world first: the call may have been done.
    Where the model was told already that nobody knows, it is told the outcome once, as news. Calls
    of one reply have ids that begin alike: give enough of it.

    \b
      sawlog recover fix-refund
      sawlog resolve fix-refund 01a22a886d4c7c34 "the refund was booked at 12:03"
    """
    log = place.changing(context)
    session = log.resume(name)
    found = [one for one in session.open_calls() if one.event_id.startswith(call)]
    if len(found) != 1:
        from sawlog.store.errors import ToolError

        raise ToolError(
            f"{'no open call begins' if not found else f'{len(found)} open calls begin'} with "
            f"{call!r}: `sawlog recover {name}` lists them"
        )
    session.resolve(found[0], outcome, error=error, by=by or getpass.getuser())
    if as_json:
        write_json({"call": found[0].event_id, "name": found[0].name, "error": error})
    else:
        say(f"{visible(found[0].name)}: {'failed' if error else 'done'}, as you say")
