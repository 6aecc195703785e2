"""Learn: the published labs, run again, and policies compared on cases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sawlog.cli.evaluate_reliability import reliability_lab
from sawlog.cli.options import Json
from sawlog.cli.output import note, progress, say, table, visible, write_bytes, write_json
from sawlog.cli.quick import QuickCommand, QuickGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sawlog.labs.chapter5.casefile import OwnCase
    from sawlog.labs.comparing import Comparison, Sample

_HELP = """Run a published lab again, or compare two policies on cases.

\b
  sawlog eval chapter5                       the report of the 30 variants
  sawlog eval chapter5 --cases mine.jsonl --baseline chapter5 --candidate mine.toml
  sawlog eval reliability-lab                eight questions, graded, and a gate

Every command of it takes --json.
"""

app = typer.Typer(
    cls=QuickGroup,
    help=_HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def chapter5(
    output: Annotated[
        str,
        typer.Option(metavar="FILE", show_default=False, help="Write the report there."),
    ] = "",
    experiment: Annotated[
        str,
        typer.Option(metavar="NAME", show_default=False, help="Only the cases of this experiment."),
    ] = "",
    live: Annotated[
        bool,
        typer.Option("--live", help="Ask DeepSeek's model; needs DEEPSEEK_API_KEY and --output."),
    ] = False,
    repeats: Annotated[
        str, typer.Option(metavar="N", help="Attempts at each variant; only with --live.")
    ] = "1",
    model: Annotated[
        str, typer.Option(metavar="NAME", show_default=False, help="Another model for --live.")
    ] = "",
    endpoint: Annotated[
        str,
        typer.Option(
            metavar="URL", show_default=False, help="Where --live asks, if not at DeepSeek's own."
        ),
    ] = "",
    cases: Annotated[
        str,
        typer.Option(
            metavar="FILE", show_default=False, help="Check these cases, one JSON object a line."
        ),
    ] = "",
    baseline: Annotated[
        str,
        typer.Option(
            metavar="POLICY", show_default=False, help="The policy to start from: a name or a file."
        ),
    ] = "",
    candidate: Annotated[
        str,
        typer.Option(
            metavar="POLICY", show_default=False, help="The policy to try: a name or a file."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Build, decide and grade 30 variants of one repair task; or cases of your own.

    Offline, a rule-based probe decides: no network, the same bytes each time. Without --output the
    report is printed as JSON. With --live a model is asked, once for each variant and repeat;
    what the provider or the network refuses is told apart from decisions. Without a key the report
    says so, and the exit code is 2.

    --experiment runs one of the lab's five: assembly_ablation, instruction_conflict,
    information_position, tool_description, noise_and_injection; or one of your own cases'.

    --cases takes a file with one case a line: `experiment`, `variant`, `input` and, if you like,
    `expected`, with the fields that the lab's data has (fixtures/seed-cases), the texts standing
    in `candidates_in_order`. A case fails where something is not as `expected` says, or where a
    grade that it does not speak of is not passed.

    --baseline and --candidate compare two policies on these cases (without --cases: on the lab's
    own): chapter5, context-packet-v1, dump-all-v1, default, each also as NAME@NUMBER, or the TOML
    file of a policy of your own.

    Exit code 1: a case of yours fails or, when two policies are compared, one that passed with the
    baseline fails with the candidate, or is unsafe in a new way.

    \b
      sawlog eval chapter5 --output report.json
      sawlog eval chapter5 --experiment tool_description
      sawlog eval chapter5 --live --repeats 3 --output live.json
      sawlog eval chapter5 --cases mine.jsonl
      sawlog eval chapter5 --cases mine.jsonl --baseline chapter5 --candidate default
    """
    from sawlog.labs.chapter5.running import check_repeats
    from sawlog.store.errors import ConfigError

    attempts = _number(repeats)
    check_repeats(attempts, live=live)
    if bool(baseline) != bool(candidate):
        raise ConfigError("two policies are compared: give --baseline and --candidate")
    if (model or endpoint) and not live:
        raise ConfigError("--model and --endpoint say whom --live asks: add --live")
    if cases or baseline:
        if live:
            raise ConfigError("cases of your own run offline: leave --live out")
        _check(cases, experiment, baseline, candidate, output, as_json)
    elif live:
        _live(output, attempts, experiment, model, endpoint, as_json)
    else:
        from sawlog.labs.chapter5.report import report_bytes
        from sawlog.labs.chapter5.running import run_offline

        _give(report_bytes(run_offline(experiment)), output, as_json)


app.command("chapter5", cls=QuickCommand, short_help="30 variants of one repair task.")(chapter5)
app.command(
    "reliability-lab", cls=QuickCommand, short_help="Evidence for eight questions, and a gate."
)(reliability_lab)


@app.callback()
def _eval() -> None:
    """Makes a group of it, also while it has one command."""


def _number(text: str) -> int:
    from sawlog.store.errors import ConfigError

    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"--repeats takes a number, not {text!r}") from None


def _live(
    output: str, repeats: int, experiment: str, model: str, endpoint: str, as_json: bool
) -> None:
    from datetime import date

    from sawlog.labs.chapter5.experiments import lab_cases
    from sawlog.labs.chapter5.provider import ENDPOINT, KEY_VARIABLE, MODEL
    from sawlog.labs.chapter5.report import missing_credential, report_bytes
    from sawlog.labs.chapter5.running import run_live
    from sawlog.store.errors import ConfigError

    if not output:
        raise ConfigError("a live run costs money and is kept: say where with --output FILE")
    lab_cases(experiment)  # before anything is written
    today = date.today().isoformat()
    asked = model or MODEL
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        _write(report_bytes(missing_credential(asked, today)), output)
        raise ConfigError(f"missing_credential: set {KEY_VARIABLE}; {output} says so as well")
    # Last, for it needs an HTTP library, and a report of a missing key does not.
    from sawlog.labs.chapter5.live import LiveProbe

    with LiveProbe(key, model=asked, endpoint=endpoint or ENDPOINT) as probe, progress() as tell:
        report = run_live(
            probe,
            model=asked,
            run_date=today,
            repeats=repeats,
            experiment=experiment,
            progress=tell,
        )
    failed = report.total_attempts - report.valid_decisions
    if failed:
        note(f"{failed} of {report.total_attempts} attempts came to no decision")
    _give(report_bytes(report), output, as_json)


def _give(report: bytes, output: str, as_json: bool) -> None:
    """The report on stdout, or in its file and the file's name on stdout."""
    if not output:
        write_bytes(report)
        return
    _write(report, output)
    if as_json:
        write_json({"output": output})
    else:
        say(output)


def _write(report: bytes, output: str) -> None:
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(report)


# --- cases of one's own ---------------------------------------------------------------------------


def _check(
    cases: str, experiment: str, baseline: str, candidate: str, output: str, as_json: bool
) -> None:
    from sawlog.labs.chapter5.casefile import Expected, OwnCase, read_cases
    from sawlog.labs.chapter5.checking import samples
    from sawlog.labs.chapter5.experiments import lab_cases, of_experiment
    from sawlog.labs.comparing import compare, policy_named

    policies = [policy_named(given) for given in (baseline, candidate) if given]
    owned: Sequence[OwnCase] = (
        read_cases(Path(cases)) if cases else [OwnCase(case, Expected()) for case in lab_cases()]
    )
    if experiment:
        of_experiment((own.case for own in owned), experiment)  # refuses one without cases
        owned = [own for own in owned if own.case.experiment == experiment]
    if not policies:
        policy = policy_named("chapter5")
        _checked(str(policy.named), samples(owned, policy), output, as_json)
    before, after = (samples(owned, policy) for policy in policies)
    compared = compare(str(policies[0].named), before, str(policies[1].named), after)
    _tell(compared, output, as_json)
    raise typer.Exit(0 if compared.ok else 1)


def _checked(policy: str, found: list[Sample], output: str, as_json: bool) -> NoReturn:
    import msgspec

    failing = [sample for sample in found if not sample.passed]
    report = {
        "policy": policy,
        "cases": len(found),
        "passed": len(found) - len(failing),
        "failing": msgspec.to_builtins(failing),
    }
    if not _machine(report, output, as_json):
        say(f"{report['passed']} of {len(found)} cases pass")
        _failures([(sample.case, sample.failures) for sample in failing])
    raise typer.Exit(1 if failing else 0)


def _tell(compared: Comparison, output: str, as_json: bool) -> None:
    import msgspec

    if _machine(msgspec.to_builtins(compared), output, as_json):
        return
    rows = [
        ("baseline", visible(compared.baseline), f"{compared.baseline_passed}/{compared.cases}"),
        ("candidate", visible(compared.candidate), f"{compared.candidate_passed}/{compared.cases}"),
    ]
    table(rows, header=("", "policy", "pass"))
    for what, names in (
        ("improvements", compared.improvements),
        ("regressions", compared.regressions),
    ):
        say(f"{what}: {visible(', '.join(names)) or 'none'}")
    _failures([(f"{one.case} with {one.policy}", one.failures) for one in compared.failing])


def _machine(report: object, output: str, as_json: bool) -> bool:
    """Write the report as JSON where that is asked for; True when nothing more is to be said."""
    import json

    if output:
        text = json.dumps(report, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
        _write(text.encode(), output)
        if not as_json:
            say(output)
    if as_json:
        write_json(report)
    return as_json


def _failures(failing: Sequence[tuple[str, Sequence[str]]]) -> None:
    for name, failures in failing:
        say(f"{visible(name)}:")
        for failure in failures:
            say(f"  {visible(failure)}")
