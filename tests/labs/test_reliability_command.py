"""`sawlog eval reliability-lab`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sawlog.labs.reliability.reports import CLAIMS_LIMIT
from tests.cli.command import Done, sawlog, spawned
from tests.labs.reliability_data import case, data, lines, source

FILES = [
    "context-comparison.json", "context-comparison.md", "context-failures.md",
    "context-packets.jsonl",
]  # fmt: skip

POLICY = """
name = "mine"
number = 1
measure = "lab-estimator"
stages = [
    { stage = "sensitivity" },
    { stage = "scope" },
    { stage = "prefix" },
    { stage = "completeness", requirements = false },
]
"""


def lab(*arguments: object) -> Done:
    return sawlog("eval", "reliability-lab", *arguments)


def test_it_prints_the_summary_and_the_paths_of_four_reports(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "reports"
    done = lab("--output", folder)
    assert done.code == 0, done.err
    *summary, one, two, three, four = done.text.splitlines()
    assert json.loads("\n".join(summary)) == data("expected.json")["report"]
    assert [one, two, three, four] == [str(folder / name) for name in FILES]
    assert (folder / FILES[0]).read_text("utf-8") == "\n".join(summary) + "\n"
    assert CLAIMS_LIMIT in (folder / FILES[1]).read_text("utf-8")


def test_reports_go_to_reports_local_and_are_the_same_each_time(tmp_path: Path) -> None:
    first = spawned("eval", "reliability-lab", cwd=tmp_path, PYTHONHASHSEED="1")
    written = {name: (tmp_path / "reports" / "local" / name).read_bytes() for name in FILES}
    again = spawned("eval", "reliability-lab", cwd=tmp_path, PYTHONHASHSEED="2")
    assert (first.code, again.code) == (0, 0) and first.out == again.out
    assert {name: (tmp_path / "reports/local" / name).read_bytes() for name in FILES} == written
    assert sorted(path.name for path in (tmp_path / "reports" / "local").iterdir()) == FILES


def test_a_budget_of_10_fails_the_gate(tmp_path: Path) -> None:
    done = lab("--budget", "10", "--output", tmp_path, "--json")
    like = data("budget-10.json")
    assert done.code == like["exit_code"] == 1
    assert done.json == {
        "report": like["report"],
        "reports": [str(tmp_path / name) for name in FILES],
        "claims_limit": CLAIMS_LIMIT,
    }


def test_it_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the lab opened a socket")

    monkeypatch.setattr(socket, "socket", refused)
    assert lab("--output", tmp_path).code == 0


def test_cases_sources_and_a_policy_of_ones_own(tmp_path: Path) -> None:
    cases, sources, policy = (tmp_path / name for name in ("c.jsonl", "s.jsonl", "p.toml"))
    cases.write_text(lines(case("one", "old", "new"), case("two", "old")), "utf-8")
    old = source("old", canonical_key="k", updated_at="2025-01-01")
    sources.write_text(lines(old, source("new", canonical_key="k")), "utf-8")
    policy.write_text(POLICY, "utf-8")
    given = ("--cases", cases, "--sources", sources, "--output", tmp_path, "--json")
    done = lab(*given, "--baseline", policy, "--candidate", "context-packet-v1@1")
    assert done.code == 1, "two policies that pass alike show no improvement"
    report = done.json["report"]
    assert report["baseline"]["strategy"] == "mine"
    assert (report["baseline"]["passed_cases"], report["candidate"]["passed_cases"]) == (2, 2)
    packets = [json.loads(line) for line in (tmp_path / FILES[3]).read_text("utf-8").splitlines()]
    assert [[one["id"] for one in packet["packet"]["selected"]] for packet in packets] == [
        ["old", "new"], ["old"], ["new"], ["old"],
    ]  # fmt: skip
    # With a case that the baseline fails, for it knows no date, the gate passes.
    forbidding = case("three", "gone", "new", forbidden_source_ids=["gone"])
    cases.write_text(lines(forbidding), "utf-8")
    gone = source("gone", valid_until="2025-12-31")
    sources.write_text(lines(gone, source("new")), "utf-8")
    done = lab(*given, "--baseline", policy)
    assert (done.code, done.json["report"]["improvements"]) == (0, ["three"])


@pytest.mark.parametrize(
    ("option", "more"), [("--cases", ()), ("--sources", ()), ("--candidate", ())]
)
def test_what_is_no_file_is_refused_and_never_waited_for(
    option: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        done = lab(option, place, *more, "--output", tmp_path / "out")
        assert (done.code, done.out) == (2, b"")
        assert f"{place} cannot be read: it is no regular file" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--budget", "0"), 2, "give 1 or more"),
        (("--budget", "ten"), 2, "--budget ten: give a whole number"),
        (("--baseline", "dump-some"), 2, "'dump-some' is no policy: name chapter5"),
        (("--candidate", "context-packet-v1@9"), 2, "context-packet-v1@9 is not installed"),
        (("--cases", "nowhere.jsonl"), 2, "there is no such file"),
        (("--cases", "BAD"), 4, "line 2: "),
        (("--sources", "OTHER"), 2, "give cases of your own as well"),
    ],
)
def test_an_error_is_one_sentence_and_writes_nothing(
    tmp_path: Path, arguments: tuple[str, str], code: int, why: str
) -> None:
    bad, other = tmp_path / "bad.jsonl", tmp_path / "other.jsonl"
    bad.write_text(lines(case("c", "general-changelog"), {"id": "d"}), "utf-8")
    other.write_text(lines(source("other")), "utf-8")
    named = {"BAD": str(bad), "OTHER": str(other)}
    folder = tmp_path / "out"
    done = lab(*(named.get(each, each) for each in arguments), "--output", folder)
    assert (done.code, done.out) == (code, b""), done.err
    assert why in done.err and done.err.count("\n") == 1
    assert not folder.exists()
