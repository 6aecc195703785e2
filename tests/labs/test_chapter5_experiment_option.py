"""`sawlog eval chapter5 --experiment`: one experiment alone, of the lab's five or of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sawlog.labs.chapter5.experiments import CLAIMS
from tests.cli.command import sawlog
from tests.labs.chapter5_data import own_line, variants


def eval_(*arguments: object) -> tuple[int, str, str]:
    done = sawlog("eval", "chapter5", *arguments)
    return done.code, done.text, done.err


@pytest.mark.parametrize("experiment", CLAIMS)
def test_one_experiment_has_the_records_that_the_whole_report_has_of_it(experiment: str) -> None:
    whole = json.loads(eval_()[1])
    code, text, _ = eval_("--experiment", experiment)
    report = json.loads(text)
    assert code == 0
    assert report["records"] == [one for one in whole["records"] if one["experiment"] == experiment]
    assert report["total_attempts"] == report["valid_decisions"] == len(report["records"]) > 0
    assert report["comparison_scope"] == whole["comparison_scope"]


def test_two_policies_are_compared_on_one_experiment() -> None:
    code, text, err = eval_(
        "--experiment", "tool_description", "--baseline", "chapter5", "--candidate", "chapter5",
        "--json",
    )  # fmt: skip
    assert (code, json.loads(text)["cases"]) == (0, 3), err


def test_of_ones_own_cases_those_of_the_experiment_run(tmp_path: Path) -> None:
    chosen = [one for one in variants() if one["variant"] in ("complete", "precise", "vague")]
    path = tmp_path / "mine.jsonl"
    lines = [json.dumps(own_line(one), ensure_ascii=False) + "\n" for one in chosen]
    path.write_text("".join(lines), "utf-8")
    _, text, _ = eval_("--cases", path, "--experiment", "tool_description", "--json")
    assert json.loads(text)["cases"] == 2
    code, _, err = eval_("--cases", path, "--experiment", "noise_and_injection")
    assert code == 2
    assert "no experiment 'noise_and_injection': name one of assembly_ablation, tool_des" in err


@pytest.mark.parametrize("live", [(), ("--live", "--output", "live.json")])
def test_an_unknown_experiment_is_refused_by_name_and_writes_nothing(
    live: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    code, text, err = eval_("--experiment", "tools", *live)
    assert (code, text) == (2, "")
    assert "no experiment 'tools': name one of " + ", ".join(CLAIMS) in err
    assert not list(tmp_path.iterdir())
