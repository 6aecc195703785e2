"""Audit: which steps of a session would differ under other rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import place
from sawlog.cli.options import All, Json, SessionName
from sawlog.cli.output import first_line, progress, say, visible, write_json
from sawlog.cli.quick import whole_number
from sawlog.cli.sent import must_be_ours

if TYPE_CHECKING:
    from sawlog.audit.findings import Differs, Moved, WhatIf
    from sawlog.audit.otherwise import Other, Share
    from sawlog.audit.recorded import Recorded

_SHOWN = 5
"""Entries of a step that are told one by one, unless all are asked for."""


def what_if(
    context: typer.Context,
    name: SessionName,
    policy: Annotated[
        str,
        typer.Option(
            metavar="P", help="A policy by its name (default, default@1, chapter5, …) or TOML file."
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(
            metavar="N", help="The window in units, or N% of the session's largest packet."
        ),
    ] = "",
    reserve: Annotated[
        str, typer.Option(metavar="N", help="Units of it that are kept for the reply.")
    ] = "",
    provider: Annotated[
        str,
        typer.Option(
            metavar="A", help="anthropic, openai-chat, openai-responses or deepseek-chat."
        ),
    ] = "",
    model: Annotated[str, typer.Option(metavar="M", help="Another model.")] = "",
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Build every step of a session again under other rules, and list those that would differ.

    What is not given stays as it was recorded. For each step that would differ: what fell out and
    what came in for the first time there, by entry and units, with the reason; how many entries
    differ in all; a step that would have no packet, by the refusal's name. No model is called and
    nothing is written: the replies and results are those of the log.

    A cut follows from the cuts before it: each step builds on what this run would have sent, not on
    what was sent. Imported sessions are compared with the packets that their files show; with a
    budget alone they are built under the policy `default`.

    Units are those that packets are counted in: of the session's measure, about tokens. A window
    that was recorded is given in the model's tokens, and stands here in units as usage had taught
    them by each step. A budget of 50% gives packets the room of half of the largest one that the
    session had, and what is kept for the reply comes on top; 100% is what it had.

    \b
      sawlog what-if fix-refund --budget 50%
      sawlog what-if fix-refund --policy mine.toml --json
      sawlog what-if fix-refund --provider openai-responses --model gpt-5
    """
    from sawlog.audit.otherwise import Other
    from sawlog.audit.whatif import what_if as ask
    from sawlog.store.errors import ConfigError

    if not (policy or budget or reserve or provider or model):
        raise ConfigError(
            "say what would be otherwise: --policy, --budget, --reserve, --provider or --model"
        )
    log = place.auditing(context)
    session = log.read(name)
    must_be_ours(
        session,
        "so no rules of sawlog's chose what they show: `sawlog packet SESSION@STEP --provider P` "
        "shows the same history for another provider",
    )
    with progress() as tell:

        def told(done: int, total: int) -> None:
            tell(session.name or session.id, done, total)

        other = Other(
            policy=_policy(policy),
            budget=_budget(session, budget) if budget else None,
            reserve=whole_number("--reserve", reserve) if reserve else None,
            api=_api(provider),
            model=model or None,
        )
        found = ask(session, other, told)
    if as_json:
        import msgspec

        write_json(msgspec.to_builtins(found))
    else:
        _print(found, other, everything)


def _policy(given: str) -> Any:
    """The name of a built-in policy, the policy of a file, or None."""
    if not given:
        return None
    from sawlog.audit.otherwise import is_built_in

    if is_built_in(given):
        return given
    from sawlog.labs.comparing import policy_named

    return policy_named(given)


def _budget(session: Recorded, given: str) -> int | Share:
    from sawlog.audit.otherwise import Other, Share
    from sawlog.audit.whatif import what_if as ask

    if not given.endswith("%"):
        return whole_number("--budget", given)
    share = whole_number("--budget", given[:-1])
    return Share(share, ask(session, Other()).largest)


def _api(given: str) -> str | None:
    from sawlog.work.apis import api_of

    return api_of(given) if given else None


# --- for people -----------------------------------------------------------------------------------


def _print(found: WhatIf, other: Other, everything: bool) -> None:
    say(f"{visible(found.name or found.session)} under {', '.join(_rules(found, other))}")
    say(
        f"{len(found.differing):,} of {found.steps:,} steps would differ in what they show, "
        f"{found.refused:,} would have no packet; {_bytes(found, other)}"
    )
    for one in found.differing:
        _print_step(one, everything)


def _rules(found: WhatIf, other: Other) -> list[str]:
    """The rules of this run: what is otherwise, and what stays as each step had it."""
    from sawlog.audit.otherwise import Share

    if len(found.policies) > 1:
        rules = [f"the policy of each step ({visible(', '.join(found.policies))})"]
    else:
        rules = [f"policy {visible(found.policy)}"]
    if isinstance(other.budget, Share) and other.budget.percent != 100:
        rules.append(f"packets of at most {other.budget.units:,} units")
    elif len(found.budgets) > 1:
        rules.append(f"the window of each step ({_windows(found.budgets)})")
    else:
        rules.append(f"a window of {found.budget:,} units" if found.budget else "no bound")
    if other.reserve is not None:
        rules.append(f"{other.reserve:,} units kept for the reply")
    elif isinstance(other.budget, int) and found.reserve:
        rules.append(f"{found.reserve:,} units kept for the reply at the newest step")
    if other.api is not None or other.model is not None:
        rules.append(f"{found.api}, model {visible(found.model)}")
    return rules


def _windows(budgets: tuple[int, ...]) -> str:
    bounds = [one for one in budgets if one]
    least, most = min(bounds), max(bounds)
    told = f"{least:,} units" if least == most else f"{least:,} to {most:,} units"
    return told if len(bounds) == len(budgets) else f"{told}, or no bound"


def _bytes(found: WhatIf, other: Other) -> str:
    """How many requests stay as they were, and why those differ that show the same."""
    same = f"{found.same_bytes:,} would be the same byte for byte"
    if not found.elsewhere:
        return same
    asked = "model" if other.api is None else "API"
    why = f"in bytes, because another {asked} is asked"
    if found.elsewhere == found.steps:
        return f"all requests differ {why}"
    return f"{found.elsewhere:,} requests differ {why}; {same}"


def _print_step(one: Differs, everything: bool) -> None:
    if one.refusal:
        say(f"\nstep {one.step}: refused: {one.refusal}: {visible(one.message)}")
        return
    breaks = f"; {', '.join(one.breaks)}" if one.breaks else ""
    say(
        f"\nstep {one.step}: {one.units:,} units, where {one.was:,} were sent{breaks}; "
        f"out {_counted(one.out, one.out_units)}, in {_counted(one.more, one.more_units)}"
    )
    for sign, moved in (("-", one.fell_out), ("+", one.came_in)):
        _print_moved(sign, moved, everything)


def _print_moved(sign: str, moved: tuple[Moved, ...], everything: bool) -> None:
    few = moved if everything else moved[:_SHOWN]
    for each in few:
        what = " ".join(filter(None, (each.kind, visible(each.name))))
        origin = f"event {each.seq}" if each.seq else each.form
        reason = f": {each.reason}" if each.reason else ""
        say(
            f"  {sign} {what}  {each.units:,} units  ({origin}{reason})  {first_line(each.excerpt)}"
        )
    if len(few) < len(moved):
        units = sum(each.units for each in moved[len(few) :])
        say(f"  {sign} and {_counted(len(moved) - len(few), units)} more; --all names them")


def _counted(entries: int, units: int) -> str:
    return f"{entries:,} entries ({units:,} units)"
