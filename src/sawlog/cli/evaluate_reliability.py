"""Learn: the reliability lab, run again or on cases of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sawlog.cli.options import Json
from sawlog.cli.output import say, visible, write_json
from sawlog.cli.quick import whole_number


def reliability_lab(
    budget: Annotated[
        str,
        typer.Option(
            metavar="N", show_default=False, help="One budget in estimated tokens for every case."
        ),
    ] = "",
    output: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the four reports go.")
    ] = "reports/local",
    cases: Annotated[
        str,
        typer.Option(
            metavar="FILE", show_default=False, help="Run these cases, one JSON object a line."
        ),
    ] = "",
    sources: Annotated[
        str,
        typer.Option(
            metavar="FILE", show_default=False, help="The sources of the cases, written the same."
        ),
    ] = "",
    baseline: Annotated[
        str, typer.Option(metavar="POLICY", help="The policy to start from: a name or a file.")
    ] = "dump-all-v1",
    candidate: Annotated[
        str, typer.Option(metavar="POLICY", help="The policy to try: a name or a file.")
    ] = "context-packet-v1",
    as_json: Json = False,
) -> None:
    """Put evidence into the packets of eight questions with two policies, and grade the packets.

    Six graders look at each packet: is the evidence that was there in it, is what is missing
    named, is nothing forbidden or irrelevant in it, does it fit, can each source be traced. The
    gate passes when the candidate policy loses no case, wins one, and lets nothing slip. Offline;
    no model is asked, and the same bytes come out each time.

    Prints the comparison as JSON and the paths of four reports: the comparison as JSON and as
    Markdown, the cases that failed, and every packet with its grades.

    --cases and --sources take files with one JSON object a line, or one JSON array, with the
    fields that the lab's own data has (fixtures/seed-cases/lab2). --baseline and --candidate take
    dump-all-v1, context-packet-v1, chapter5, default, each also as NAME@NUMBER, or the TOML file
    of a policy of your own.

    Exit code 1: the gate failed.

    \b
      sawlog eval reliability-lab
      sawlog eval reliability-lab --budget 10
      sawlog eval reliability-lab --cases mine.jsonl --sources texts.jsonl --candidate mine.toml
    """
    import msgspec

    from sawlog.labs.comparing import policy_named
    from sawlog.labs.reliability.loading import published_lab, read_lab, with_budget
    from sawlog.labs.reliability.reports import CLAIMS_LIMIT, comparison_json, reports, write
    from sawlog.labs.reliability.running import run
    from sawlog.labs.reliability.summary import report_of

    policies = [policy_named(given) for given in (baseline, candidate)]
    if cases or sources:
        lab = read_lab(Path(cases) if cases else None, Path(sources) if sources else None)
    else:
        lab = published_lab()
    if budget:
        lab = with_budget(lab, whole_number("--budget", budget))
    before, after = (run(policy, lab) for policy in policies)
    report = report_of(before, after)
    paths = write(reports(report, before, after), Path(output))
    if as_json:
        told = {
            "report": msgspec.to_builtins(report),
            "reports": [str(path) for path in paths],
            "claims_limit": CLAIMS_LIMIT,
        }
        write_json(told)
    else:
        say(visible(comparison_json(report).rstrip()))
        for path in paths:
            say(visible(str(path)))
    raise typer.Exit(0 if report.gate_passed else 1)
