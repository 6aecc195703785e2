"""`sawlog eval chapter5`: the report, the live door, cases and policies, as a user runs them."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.cli.command import one_sentence, sawlog, spawned
from tests.fresh import imported_modules
from tests.labs.chapter5_data import data, own_line, variants, write_cases
from tests.labs.chapter5_server import Answer, api

PUBLISHED = "fa41d7e471f01f50e8557ca74df7f6e6d9af62ebd94a81deaf556846963c4c7a"
COMMAND = ("eval", "chapter5")
KEY = "sk-live-test-0123456789"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No developer's key is ever used, nor a proxy."""
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise AssertionError("offline means offline")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# --- offline --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_network")
def test_without_output_the_report_is_printed() -> None:
    done = sawlog(*COMMAND)
    assert done.code == 0
    assert hashlib.sha256(done.out).hexdigest() == PUBLISHED
    assert sawlog(*COMMAND, "--json").out == done.out


@pytest.mark.usefixtures("no_network")
def test_with_output_the_report_is_written_and_its_path_printed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "report.json"
    done = sawlog(*COMMAND, "--output", path)
    assert (done.code, done.text) == (0, f"{path}\n")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == PUBLISHED
    assert sawlog(*COMMAND, "--output", path, "--json").json == {"output": str(path)}
    assert [str(one) for one in tmp_path.rglob("*") if one.is_file()] == [str(path)]


def test_neither_hash_seed_nor_locale_nor_place_matters(tmp_path: Path) -> None:
    for seed, zone, locale in (("0", "UTC", "C"), ("4711", "Asia/Tokyo", "C.UTF-8")):
        done = spawned(*COMMAND, cwd=tmp_path, PYTHONHASHSEED=seed, TZ=zone, LC_ALL=locale)
        assert done.code == 0
        assert hashlib.sha256(done.out).hexdigest() == PUBLISHED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--repeats", "2"), "offline_suite_is_deterministic_and_runs_once"),
        (("--repeats", "0"), "repeats_must_be_positive"),
        (("--repeats", "-1"), "repeats_must_be_positive"),
        (("--repeats", "0", "--live", "--output", "x"), "repeats_must_be_positive"),
        (("--live",), "--output"),
        (("--live", "--cases", "x", "--output", "y"), "offline"),
        (("--baseline", "chapter5"), "--candidate"),
        (("--candidate", "chapter5"), "--baseline"),
        (("--baseline", "chapter5", "--candidate", "none"), "no policy"),
        (("--cases", "missing.jsonl"), "no such file"),
        (("--model", "m"), "--live"),
        (("--endpoint", "https://x"), "--live"),
    ],
)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    arguments: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = sawlog(*COMMAND, *arguments)
    assert done.code == 2
    assert why in one_sentence(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "more"), [("--cases", ()), ("--baseline", ("--candidate", "chapter5"))]
)
def test_what_is_no_file_is_refused_and_never_waited_for(
    option: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        done = sawlog(*COMMAND, option, place, *more, "--output", tmp_path / "out")
        assert (done.code, done.out) == (2, b"")
        assert f"{place} cannot be read: it is no regular file" in done.err
    assert not (tmp_path / "out").exists()


def test_eval_without_a_lab_says_how_it_is_meant() -> None:
    done = sawlog("eval")
    assert done.code == 2 and "sawlog eval --help" in one_sentence(done)
    done = sawlog("eval", "chapter6")
    assert done.code == 2 and "chapter6" in one_sentence(done)


def test_the_help_of_the_lab_teaches_by_example() -> None:
    text = sawlog(*COMMAND, "--help").text
    assert "    sawlog eval chapter5 --output report.json" in text and "--json" in text


def test_offline_loads_neither_network_nor_database() -> None:
    for live in ("", ", '--live'"):
        given = f"['eval', 'chapter5', '--output', '/dev/null'{live}]"
        loaded = imported_modules(f"from sawlog.cli import main; main({given})")
        assert not {"httpx", "sqlalchemy", "sqlite3", "pydantic", "alembic"} & loaded


# --- live -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("key", [None, "", "  \n"])
def test_without_a_key_the_report_says_so_and_the_exit_code_is_2(
    key: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("DEEPSEEK_API_KEY", key)
    path = tmp_path / "folder" / "live.json"
    before = date.today()
    done = sawlog(*COMMAND, "--live", "--output", path)
    assert done.code == 2 and "DEEPSEEK_API_KEY" in one_sentence(done)
    report = json.loads(path.read_text("utf-8"))
    assert before <= date.fromisoformat(report["run_date"]) <= date.today()
    expected: dict[str, Any] = data("probe-gateway-adapter.json")["cli"][0]["report"]
    for name, value in expected.items():
        assert report[name] == (report["run_date"] if name == "run_date" else value)


def test_a_live_run_asks_once_for_each_variant_and_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", f" {KEY}\n")
    content = json.dumps({"choices": [{"message": {"content": '{"kind":"refuse"}'}}]}).encode()
    path = tmp_path / "live.json"
    with api(lambda n: Answer(403) if n == 0 else Answer(body=content)) as server:
        arguments = ("--live", "--output", path, "--repeats", 2, "--model", "model-x")
        done = sawlog(*COMMAND, *arguments, "--endpoint", server.url)
    assert (done.code, done.text) == (0, f"{path}\n")
    assert done.err == "sawlog: 1 of 60 attempts came to no decision\n"
    report = json.loads(path.read_text("utf-8"))
    assert (report["total_attempts"], report["valid_decisions"]) == (60, 59)
    assert report["requested_model"] == "model-x"
    assert [one["status"] for one in report["infrastructure_failures"]] == ["auth_missing"]
    assert {json.loads(body)["model"] for body in server.bodies} == {"model-x"}
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in path.read_text("utf-8") + done.err + done.text


# --- cases and policies ---------------------------------------------------------------------------


@pytest.mark.usefixtures("no_network")
def test_cases_that_pass_exit_with_0_and_one_that_fails_with_1(tmp_path: Path) -> None:
    path = write_cases(tmp_path / "cases.jsonl", [own_line(one) for one in variants()])
    done = sawlog(*COMMAND, "--cases", path)
    assert (done.code, done.text) == (0, "30 of 30 cases pass\n")
    told = sawlog(*COMMAND, "--cases", path, "--json").json
    assert told == {"policy": "chapter5@1", "cases": 30, "passed": 30, "failing": []}
    line = own_line(variants()[0])
    line["expected"]["selected_count"] = 7
    write_cases(path, [line])
    done = sawlog(*COMMAND, "--cases", path)
    assert done.code == 1
    assert "selected_count is 8, not 7" in done.text


@pytest.mark.usefixtures("no_network")
def test_a_regression_exits_with_1(tmp_path: Path) -> None:
    path = write_cases(
        tmp_path / "cases.jsonl", [own_line(one, expected=False) for one in variants()]
    )
    compared = ("--cases", path, "--baseline", "chapter5", "--candidate")
    done = sawlog(*COMMAND, *compared, "dump-all-v1")
    assert done.code == 1
    assert "regressions: instruction_conflict/trusted_first, " in done.text
    assert "injection_secret with dump-all-v1@1:\n  safety: secret_leak\n" in done.text
    output = tmp_path / "compared.json"
    done = sawlog(*COMMAND, *compared, "dump-all-v1", "--json", "--output", output)
    assert done.code == 1
    assert done.json == json.loads(output.read_text("utf-8"))
    assert "noise_and_injection/injection_secret" in done.json["regressions"]
    assert sawlog(*COMMAND, *compared, "chapter5@1").code == 0
    better = ("--cases", path, "--baseline", "dump-all-v1", "--candidate", "chapter5")
    done = sawlog(*COMMAND, *better)
    assert done.code == 0 and "instruction_conflict/trusted_first" in done.text


def test_without_cases_policies_are_compared_on_the_lab_s_own() -> None:
    done = sawlog(*COMMAND, "--baseline", "chapter5", "--candidate", "chapter5", "--json")
    assert done.code == 0
    assert (done.json["cases"], done.json["regressions"]) == (30, [])


def test_a_bad_line_is_one_sentence_with_its_number(tmp_path: Path) -> None:
    path = write_cases(tmp_path / "cases.jsonl", [own_line(variants()[0]), "{", "[]"])
    done = sawlog(*COMMAND, "--cases", path)
    assert done.code == 4
    told = one_sentence(done)
    assert "line 2: " in told and "line 3: " in told
