"""handoff: the request that continues a session elsewhere, told, described and written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.strict import APIS, check
from tests.cli import written
from tests.cli.command import one_sentence, sawlog, spawned
from tests.session.foreign_files import FOREIGN, TURNS

LIMITS = {
    "anthropic": "max_tokens",
    "openai-chat": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "deepseek-chat": "max_tokens",
}


@pytest.fixture
def imported(tmp_path: Path) -> str:
    """A store that holds a transcript of Codex whose last call has no result."""
    store = tmp_path / "imported.db"
    assert sawlog("--store", store, "import", TURNS).code == 0
    return str(store)


def to(api: str) -> tuple[str, ...]:
    """The options that hand over to an API."""
    return ("--provider", api, "--model", "some-model", "--max-tokens", "900")


@pytest.mark.parametrize("api", APIS)
def test_raw_is_the_request_that_the_provider_takes(api: str, imported: str) -> None:
    raw = sawlog("--store", imported, "handoff", "-", *to(api), "--raw")
    told = sawlog("--store", imported, "handoff", "-", *to(api), "--json").json
    assert raw.code == 0 and raw.err == ""
    check(api, raw.out, told["headers"], key=None)
    body = json.loads(raw.out)
    assert (body["model"], body[LIMITS[api]]) == ("some-model", 900)
    with open_log(imported, read_only=True) as log:
        limit: dict[str, Any] = {LIMITS[api]: 900}
        found = log.read("-").handoff(provider=api, model="some-model", **limit)
        assert raw.out == found.body


def test_it_is_the_same_in_any_store_and_writes_nothing(store: str) -> None:
    before = sawlog("--store", store, "ls", "--json").json
    done = spawned(
        "--store", store, "handoff", written.NAME, *to("openai-responses"), "--say", "Why?", "--raw"
    )
    assert (done.code, done.err) == (0, "")
    check("openai-responses", done.out, {}, key=None)
    assert json.loads(done.out)["input"][-1]["content"] == [{"type": "input_text", "text": "Why?"}]
    assert sawlog("--store", store, "ls", "--json").json == before


def test_as_json_it_is_told_in_full(imported: str) -> None:
    found = sawlog("--store", imported, "handoff", "-", *to("anthropic"), "--json").json
    body: str = found["body"]
    assert hashlib.sha256(body.encode()).hexdigest() == found["body_sha256"]
    assert (found["api"], found["model"], found["said"]) == ("anthropic", "some-model", None)
    assert (found["method"], found["path"]) == ("POST", "/v1/messages")
    assert found["params"] == '{"max_tokens":900}'
    assert (found["missing"], found["summary_lost"]) == (["tool_schemas"], False)
    assert found["undeclared"] == ["exec_command", "apply_patch"]
    assert [(one["name"], one["status"]) for one in found["open_calls"]] == [
        ("exec_command", "not_started")
    ]
    assert found["counts"] == [
        {"count": 2, "what": "left_out", "why": "other_provider", "kind": "assistant/bound",
         "bound": "reasoning"},
        {"count": 1, "what": "wrapped", "why": "free_form", "kind": "call", "bound": ""},
    ]  # fmt: skip
    assert sum(one["count"] for one in found["counts"]) == len(found["notes"])
    for note in found["notes"]:
        entry = found["entries"][note["entry"]]
        assert (entry["kind"], entry["seq"]) == (note["kind"], note["seq"])
    assert found["dropped"] == [] and found["inbox"] == 0
    assert found["sees"] == max(entry["seq"] for entry in found["entries"])


def test_what_is_said_is_told_to_be_in_no_log(imported: str) -> None:
    arguments = ("--store", imported, "handoff", "-", *to("deepseek-chat"), "--say", "Go on.")
    found = sawlog(*arguments, "--json").json
    assert found["said"] == "Go on."
    last = found["entries"][-1]
    assert (last["kind"], last["text"], last["seq"]) == ("user", "Go on.", None)
    text = sawlog(*arguments).text
    assert "in this request, not in the log" in text
    assert "user  (not in the log)" in text
    assert "Go on." not in sawlog("--store", imported, "show", "-", "--all").text


def test_people_are_told_the_entries_and_what_is_not_as_it_was(imported: str) -> None:
    text = sawlog("--store", imported, "handoff", "-", *to("anthropic")).text
    assert "nothing was written or sent" in text
    assert "Sort todo.txt." in text
    below = text.split("what this provider gets otherwise\n")[1]
    assert [line.split() for line in below.splitlines()] == [
        ["2", "reasoning", "left_out", "other_provider"],
        ["1", "call", "wrapped", "free_form"],
    ]
    assert "exec_command  not_started" in text


def test_a_summary_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    file = FOREIGN / "codex" / "compacted-list.jsonl"
    assert sawlog("--store", store, "import", file).code == 0
    arguments = ("--store", store, "handoff", "-", *to("openai-chat"), "--say", "Go on.")
    assert "what it told is lost" in sawlog(*arguments).text
    assert sawlog(*arguments, "--json").json["summary_lost"] is True


def test_a_window_cuts_the_history(file_store: str) -> None:
    arguments = ("--store", file_store, "handoff", "-", *to("openai-chat"), "--say", "Go on.")
    whole = sawlog(*arguments, "--window", "0", "--json").json
    cut = sawlog(*arguments, "--window", "220", "--reserve", "20", "--json").json
    assert len(cut["entries"]) < len(whole["entries"])
    assert {one["reason"] for one in cut["dropped"] if one["stage"] == "budget"}
    assert "left behind: " in sawlog(*arguments, "--window", "200").text
    done = sawlog(*arguments, "--window", "5")
    assert done.code == 2
    assert "the window has 5" in one_sentence(done)


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        ((), "--provider anthropic"),
        (("--provider", "nobody"), "use one of anthropic, "),
        (("--provider", "anthropic", "--model", "m"), "such as --max-tokens 8000"),
        (("--provider", "anthropic", "--max-tokens", "9"), "--model NAME"),
        (("--provider", "anthropic", "--model", "m", "--max-tokens", "x"), "a whole number"),
        (("--provider", "openai", "--window", "-1"), "a whole number"),
        (("--provider", "openai", "--raw", "--json"), "give one of the two"),
    ],
)
def test_what_is_lacking_is_asked_for_by_name(
    arguments: tuple[str, ...], mend: str, imported: str
) -> None:
    done = sawlog("--store", imported, "handoff", "-", *arguments)
    assert done.code == 2
    assert mend in one_sentence(done)


@pytest.mark.parametrize("how", [(), ("--raw",), ("--json",)])
def test_nothing_is_written_where_there_is_nothing_to_answer(
    how: tuple[str, ...], file_store: str
) -> None:
    with open_log(file_store) as log, log.session("answered") as s:
        s.user("hello")
        written.ask(s, written.says("hello"))
    done = sawlog("--store", file_store, "handoff", "answered", *to("openai-chat"), *how)
    assert done.code == 2
    assert "--say TEXT" in one_sentence(done)
    assert done.out == b"" or done.json["error"]["kind"] == "Refused"


def test_a_session_that_does_not_exist_is_named(file_store: str) -> None:
    done = sawlog("--store", file_store, "handoff", "nothing", *to("anthropic"))
    assert done.code == 2
    assert "nothing" in one_sentence(done)
