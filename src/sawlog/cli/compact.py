"""Work: put a checkpoint in the place of older history, and list the checkpoints there are."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sawlog.cli import place
from sawlog.cli.output import first_line, say, table, visible, write_json
from sawlog.cli.show import Json, SessionName


def compact(
    context: typer.Context,
    name: SessionName,
    budget: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Units (about tokens) that the history may take afterwards; 0: as few as can be.",
        ),
    ] = 0,
    route: Annotated[
        Literal["rules", "local", "provider"],
        typer.Option(help="Who writes: code alone, a summariser, or the provider itself."),
    ] = "local",
    summarizer: Annotated[
        str,
        typer.Option(
            metavar="extractive|PROVIDER/MODEL",
            help="Who writes the prose: code (offline), or a model, with the key from the "
            "environment.",
        ),
    ] = "extractive",
    keep_user: Annotated[
        int | None,
        typer.Option(
            "--keep-user", metavar="N", min=0, help="Units of the user's messages that stay."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put a checkpoint in the place of a session's older history.

    The checkpoint says what the task is, which constraints hold, what is done, changed and open,
    and where what is no longer shown can be fetched. It is checked before it counts; when nothing
    can give way, packets stay as they are, the reason is named and the exit code is 1. Old packets
    never change: every recorded step still replays.

    \b
      sawlog compact fix-refund --budget 20000
      sawlog compact - --route rules --json
    """
    from sawlog.store.errors import NotCompacted
    from sawlog.work.summarisers import provider_named

    log = place.writing(context)
    summariser = provider_named(summarizer)
    with log.resume(name) as session:
        try:
            done = session.compact(
                budget=budget, route=route, keep_user=keep_user, summariser=summariser
            )
        except NotCompacted as refused:
            if as_json:
                write_json(
                    {
                        "compacted": False,
                        "reason": refused.reason,
                        "code": refused.code,
                        "message": str(refused),
                        "fixed": refused.fixed,
                        "history": refused.history,
                        "last": refused.last,
                    }
                )
            else:
                say(
                    f"{refused}; {refused.fixed} units are fixed in front of a history of "
                    f"{refused.history}"
                )
            raise typer.Exit(1) from None
    if as_json:
        write_json(
            {
                "compacted": True,
                "checkpoint": done.checkpoint.number,
                "seq": done.seq,
                "trigger": done.trigger,
                "route": done.route,
                "through": done.through,
                "kept": done.kept,
                "before": done.before,
                "after": done.after,
                "region": done.region,
                "fixed": done.fixed,
                "refused": done.refused,
            }
        )
        return
    say(
        f"checkpoint {done.checkpoint.number}: the history took {done.before} units and takes "
        f"{done.after} ({done.checkpoint.units} the checkpoint); {done.fixed} more are fixed. "
        f"sawlog checkpoints {name} tells what it says."
    )


def checkpoints(context: typer.Context, name: SessionName, as_json: Json = False) -> None:
    """List a session's checkpoints: what each covers, what it says, whether it still stands.

    Compactions of imported files are listed, too, marked as foreign, with what they can say.

    \b
      sawlog checkpoints fix-refund
    """
    import msgspec

    from sawlog.audit.checkpoints import checkpoints_of

    found = checkpoints_of(place.auditing(context).read(name))
    if as_json:
        write_json([msgspec.structs.asdict(one) for one in found])
        return
    if not found:
        say("no checkpoints: nothing was compacted")
        return
    rows = [
        (
            f"{'*' if one.stands else ' '} {one.number or '-'}",
            str(one.seq),
            one.by,
            one.trigger or "-",
            f"1-{one.through}" if one.through else "-",
            f"{one.region} -> {one.units}" if one.region >= 0 else "-",
        )
        for one in found
    ]
    table(rows, ("number", "event", "by", "trigger", "covers", "units"))
    for one in found:
        if one.stands:
            say()
            say(visible(one.text))
        elif not one.number:
            say(f"event {one.seq}: {first_line(one.text)}")
