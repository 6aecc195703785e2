"""Work: put a checkpoint in the place of older history, and list the checkpoints there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, SessionName, Wait
from sawlog.cli.output import counted, first_line, say, table, visible, write_json
from sawlog.cli.quick import whole_number

if TYPE_CHECKING:
    from sawlog import Provider
    from sawlog.store.errors import NotCompacted
    from sawlog.work.compacting import Compacted, Route

_EXTRACTIVE = "extractive"


def compact(
    context: typer.Context,
    name: SessionName,
    budget: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="Units (about tokens) that the history may take afterwards; 0: as few as can be.",
        ),
    ] = "0",
    route: Annotated[
        str,
        typer.Option(
            metavar="rules|local|provider",
            help="Who writes: code alone, a summariser, or the provider itself.",
        ),
    ] = "local",
    summarizer: Annotated[
        str,
        typer.Option(
            metavar="extractive|API/MODEL",
            help="Who writes the prose: code (offline), or a model, with the key from the "
            "environment.",
        ),
    ] = _EXTRACTIVE,
    keep_user: Annotated[
        str,
        typer.Option(
            "--keep-user",
            metavar="N",
            help="Units that the user's older messages may go on taking.  [default: 20 % of the "
            "budget, 2000 without one]",
            show_default=False,
        ),
    ] = "",
    wait: Wait = "0",
    as_json: Json = False,
) -> None:
    """Put a checkpoint in the place of a session's older history.

    The checkpoint says what the task is, which constraints hold, what is done, changed and open,
    and where what is no longer shown can be fetched. It is checked before it counts; when nothing
    can give way, packets stay as they are, the reason is named and the exit code is 1. Old packets
    never change: every recorded step still replays.

    A session that somebody drives just now is theirs: the exit code is 3. --wait waits for the
    lease of a run that was killed.

    \b
      sawlog compact fix-refund --budget 20000
      sawlog compact fix-refund --summarizer anthropic/claude-sonnet-4-5
      sawlog compact - --route rules --json
    """
    from sawlog.audit.inforce import rules_in_force
    from sawlog.store.errors import NotCompacted

    units = whole_number("--budget", budget)
    kept = whole_number("--keep-user", keep_user) if keep_user else None
    seconds = whole_number("--wait", wait)
    how = _route(route, summarizer)
    summariser = _summariser(summarizer)
    log = place.changing(context)
    now = log.resume(name)
    done: Compacted | None = None
    rules = rules_in_force(now.state, now.window)
    while done is None:
        with log.resume(now.id, rules=rules, wait=float(seconds)) as session:
            # Its units are in the measure that it was built under last, and whoever drove it while
            # this waited may have gone over to another one.
            if (found := rules_in_force(session.state, session.window)) != rules:
                rules = found
                continue
            try:
                done = session.compact(
                    budget=units, route=how, keep_user=kept, summariser=summariser
                )
            except NotCompacted as refused:
                _say_refused(refused, as_json)
                raise typer.Exit(1) from None
    _say_done(done, now.id, name, as_json)


def _route(given: str, summarizer: str) -> Route:
    from typing import get_args

    from sawlog.store.errors import ConfigError
    from sawlog.work.compacting import Route

    if given not in get_args(Route):
        raise ConfigError(f"--route {given}: use rules, local or provider")
    if given == "provider" and summarizer == _EXTRACTIVE:
        raise ConfigError(
            "--route provider asks a provider to compact: name it with --summarizer API/MODEL, "
            "such as --summarizer anthropic/claude-sonnet-4-5"
        )
    return cast("Route", given)


def _summariser(given: str) -> Provider | None:
    """The model that is meant, None for code. Raises ConfigError when it can be asked nothing."""
    if given == _EXTRACTIVE:
        return None  # nothing of models is loaded
    from sawlog.work.summarisers import provider_named

    return provider_named(given)


def _say_refused(refused: NotCompacted, as_json: bool) -> None:
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
        return
    say(visible(str(refused)))
    say(
        f"units: {refused.fixed:,} fixed, {refused.history:,} the history, whose last "
        f"{refused.last:,} always stay"
    )


def _say_done(done: Compacted, id: str, name: str, as_json: bool) -> None:
    if as_json:
        write_json(
            {
                "session": id,
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
                "units": done.checkpoint.units,
                "fixed": done.fixed,
                "refused": done.refused,
            }
        )
        return
    before = counted(done.before, "unit")
    say(
        f"checkpoint {done.checkpoint.number}: the history took {before} and takes "
        f"{done.after:,}, of which {done.checkpoint.units:,} are the checkpoint; {done.fixed:,} "
        "more are fixed"
    )
    for at, reasons in enumerate(done.refused, 1):
        say(f"draft {at} did not count: {', '.join(sorted({code for code, _ in reasons}))}")
    say(f"sawlog checkpoints {visible(name)} tells what it says")


def checkpoints(context: typer.Context, name: SessionName, as_json: Json = False) -> None:
    """List a session's checkpoints: what each covers, what it says, whether it still stands.

    Compactions of imported files are listed, too, marked as foreign, with what they can say.

    \b
      sawlog checkpoints fix-refund
      sawlog checkpoints - --json | jq -r '.checkpoints[-1].text'
    """
    import msgspec

    from sawlog.audit.checkpoints import checkpoints_of

    recorded = place.auditing(context).read(name)
    found = checkpoints_of(recorded)
    if as_json:
        listed = [msgspec.structs.asdict(one) for one in found]
        write_json({"session": recorded.id, "checkpoints": listed})
        return
    if not found:
        say("no checkpoints: nothing was compacted")
        return
    rows = [
        (
            f"{'*' if one.stands else ' '} {one.number or '-'}",
            str(one.seq),
            visible(one.by),
            visible(one.trigger) or "-",
            f"1-{one.through}" if one.through else "-",
            f"{one.region:,} -> {one.units:,}" if one.region >= 0 else "-",
        )
        for one in found
    ]
    table(rows, ("number", "event", "by", "trigger", "covers", "units"))
    for one in found:
        if one.stands:
            say()
            say(visible(one.text))
        elif not one.number and one.text:
            say(f"event {one.seq}: {first_line(one.text)}")
