"""The four reports (S1-22): the same bytes for the same runs on every system, line feeds only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from sawlog.labs.reliability.running import CaseRun
from sawlog.labs.reliability.summary import LabReport, Summary

CLAIMS_LIMIT = (
    "These numbers say how packets were assembled on these cases. They say nothing about how well "
    "a model answers, what it costs, or how production traffic behaves; estimated tokens are the "
    "lab's own estimate and no provider's count."
)
"""What the numbers may not be cited for, in words that stay (S1-24)."""

COMPARISON = "context-comparison.json"
COMPARISON_TEXT = "context-comparison.md"
FAILURES = "context-failures.md"
PACKETS = "context-packets.jsonl"


def reports(
    report: LabReport, baseline: Sequence[CaseRun], candidate: Sequence[CaseRun]
) -> dict[str, bytes]:
    """The four reports by file name, in the order in which they are told."""
    return {
        COMPARISON: _plain(comparison_json(report)),
        COMPARISON_TEXT: _plain(comparison_text(report)),
        FAILURES: _plain(failures_text([*baseline, *candidate])),
        PACKETS: _plain(packet_lines([*baseline, *candidate])),
    }


def write(found: dict[str, bytes], folder: Path) -> list[Path]:
    """Write reports into a folder, which is made where it is not there; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in found]
    for path, data in zip(paths, found.values(), strict=True):
        path.write_bytes(data)
    return paths


def comparison_json(report: LabReport) -> str:
    """The comparison for programs, as published."""
    return json.dumps(msgspec.to_builtins(report), ensure_ascii=False, indent=2) + "\n"


def packet_lines(runs: Iterable[CaseRun]) -> str:
    """One line a run: the case's gold labels, the whole packet, its grades, as published."""
    return "".join(json.dumps(_packet_line(one), ensure_ascii=False) + "\n" for one in runs)


def _packet_line(one: CaseRun) -> dict[str, object]:
    return {
        "strategy": one.packet.strategy,
        "case": {
            "id": one.case.id,
            "required_topics": one.case.required_topics,
            "expected_missing_topics": one.case.expected_missing_topics,
            "forbidden_source_ids": one.case.forbidden_source_ids,
        },
        "packet": msgspec.to_builtins(one.packet),
        "grades": msgspec.to_builtins(one.grades),
        "passed": one.passed,
    }


_FIGURES = (
    ("cases passed", "passed_cases"),
    ("pass rate", "case_pass_rate"),
    ("coverage of required topics", "required_topic_coverage"),
    ("cases with a forbidden source", "invalid_source_cases"),
    ("cases with an irrelevant source", "irrelevant_source_cases"),
    ("packets within their budget", "budget_compliance_rate"),
    ("missing evidence named rightly", "missing_evidence_accuracy"),
    ("average estimated tokens", "average_estimated_tokens"),
)


def comparison_text(report: LabReport) -> str:
    """The comparison for people, as Markdown, with what it does not prove."""
    before, after = report.baseline, report.candidate
    lines = [
        "# Two policies on the same cases",
        "",
        f"Lab {report.version}, {before.cases} cases: "
        f"the gate {'passed' if report.gate_passed else '**failed**'}.",
        "",
        *_table(
            ("", before.strategy, after.strategy),
            [(what, _figure(before, name), _figure(after, name)) for what, name in _FIGURES],
        ),
        "",
        f"- Improved: {_list(report.improvements, 'none')}",
        f"- Worse: {_list(report.regressions, 'none')}",
        "",
        "## Gate",
        "",
    ]
    checks = msgspec.structs.asdict(report.gate_checks)
    lines.extend(f"- [{'x' if held else ' '}] {name}" for name, held in checks.items())
    lines.extend(("", "## Limit of these claims", "", CLAIMS_LIMIT))
    return "\n".join(lines) + "\n"


def failures_text(runs: Iterable[CaseRun]) -> str:
    """The ledger of failures, as Markdown: each case that a policy fails, and by which graders."""
    rows = [
        (
            one.packet.strategy,
            one.case.id,
            _list(one.failed),
            _list(source.id for source in one.packet.selected),
            _list(one.packet.missing_topics),
        )
        for one in runs
        if not one.passed
    ]
    head = ("Policy", "Case", "Failed graders", "Selected", "Missing topics")
    body = _table(head, rows) if rows else ["No case failed."]
    return "\n".join(["# Cases that failed", "", *body]) + "\n"


def _figure(summary: Summary, name: str) -> str:
    value: object = getattr(summary, name)
    return f"{value}/{summary.cases}" if name == "passed_cases" else str(value)


def _list(names: Iterable[str], none: str = "-") -> str:
    return ", ".join(names) or none


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    told = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(told)} |"


def _plain(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
