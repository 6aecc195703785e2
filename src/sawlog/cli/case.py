"""Move: a recorded step as a case that policies are compared on."""

from __future__ import annotations

from typing import Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, StepName
from sawlog.cli.output import write_bytes, write_json


def case(
    context: typer.Context,
    name: StepName,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect",
            metavar="ITEM",
            help="An item that must be selected, by its source's id; give it once for each.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a recorded step as one line of a case file, to compare policies on it.

    The line holds the items that the step weighed, with their texts, signals and units; the room
    that was there for them; the requirements of the task; and what must come of it. That is what
    --expect names, and without it what the recorded packet showed. Append the lines of several
    steps to one file, and let `sawlog eval chapter5 --cases FILE` check policies on them.

    The texts stand in the line as they are in the log: look at them before you pass it on.

    \b
      sawlog case fix-refund@4 --expect docs/refunds.md >> cases.jsonl
      sawlog eval chapter5 --cases cases.jsonl --baseline dump-all-v1 --candidate default
    """
    import msgspec

    from sawlog.audit.casemaking import case as make
    from sawlog.labs.chapter5.casefile import case_of

    log = place.auditing(context)
    session, step = place.split_step(name)
    found = make(log.read(session), step, expect or ())
    line = msgspec.json.encode(found)
    case_of(line)  # what is written must be read again
    if as_json:
        write_json(found)
    else:
        write_bytes(line + b"\n")
