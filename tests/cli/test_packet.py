"""packet: what the model saw, its bytes, and the same for another provider."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.providers.strict import check
from tests.cli import written
from tests.cli.command import one_sentence, sawlog, spawned

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")

CHAT = [
    {"role": "user", "content": "How warm is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"town": "Bern"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"},
    {"role": "assistant", "content": "It is 21 degrees warm."},
]


@pytest.fixture
def imported(tmp_path: Path) -> str:
    """A store that holds an imported transcript."""
    store = tmp_path / "imported.db"
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    assert sawlog("--store", store, "import", chat).code == 0
    return str(store)


def test_raw_is_the_body_that_the_library_sent_byte_for_byte(store: str) -> None:
    with open_log(store, read_only=True) as log:
        recorded = log.read(written.NAME)
        bodies = {step.number: step.packet.body for step in recorded.steps}
    assert len(bodies) == written.STEPS
    for step, body in bodies.items():
        assert sawlog("--store", store, "packet", f"-@{step}", "--raw").out == body
    done = spawned("--store", store, "packet", f"-@{written.WRONG}", "--raw")
    assert (done.code, done.out, done.err) == (0, bodies[written.WRONG], "")


def test_a_packet_is_told_section_by_section(store: str) -> None:
    done = sawlog("--store", store, "packet", f"{written.NAME}@2")
    assert done.code == 0
    lines = done.text.splitlines()
    assert [line for line in lines if line in ("system", "tools", "history")] == [
        "system",
        "tools",
        "history",
    ]
    assert written.RULE in done.text
    assert "as it was built before it was sent" in done.text
    assert "reconstructed" not in done.text


def test_a_packet_as_json_holds_entries_and_digests(store: str) -> None:
    found = sawlog("--store", store, "packet", f"-@{written.WRONG}", "--json").json
    raw = sawlog("--store", store, "packet", f"-@{written.WRONG}", "--raw").out
    assert found["origin"] == "built"
    assert found["size"] == len(raw)
    assert found["body_sha256"] == hashlib.sha256(raw).hexdigest()
    assert found["model"] == "claude-sonnet-4-5"
    with open_log(store, read_only=True) as log:
        packet = log.read("-").steps[written.WRONG].packet
    assert found["packet_digest"] == packet.semantic
    assert found["request_digest"] == packet.request.digest
    assert [entry["text"] for entry in found["entries"]] == [e.text for e in packet.entries]
    assert all(entry["seq"] or entry["form"] == "notice" for entry in found["entries"])


def test_a_long_text_is_cut_unless_all_is_asked_for(file_store: str) -> None:
    short = sawlog("--store", file_store, "packet", "-@4").text
    whole = sawlog("--store", file_store, "packet", "-@4", "--all").text
    weather = "It rains in every town. " * 38
    assert weather not in short
    assert "more characters; --all shows them" in short
    assert weather in whole


def test_a_call_leads_to_the_packet_on_which_it_was_decided(store: str) -> None:
    found = sawlog("--store", store, "packet", "-", "--call", written.CALL, "--json").json
    assert found["step"] == written.WRONG
    direct = sawlog("--store", store, "packet", f"-@{written.WRONG}", "--raw").out
    assert sawlog("--store", store, "packet", "-", "--call", written.CALL, "--raw").out == direct
    done = sawlog("--store", store, "packet", "-", "--call", "toolu_none")
    assert done.code == 2
    assert "toolu_none" in one_sentence(done)


@pytest.mark.parametrize("api", APIS)
def test_a_packet_is_rendered_for_every_other_provider(api: str, file_store: str) -> None:
    """The entries stay; the bytes are such as the other provider takes, by its strict checker."""
    name = f"-@{written.WRONG}"
    here = sawlog("--store", file_store, "packet", name, "--json").json
    there = sawlog("--store", file_store, "packet", name, "--provider", api, "--json").json
    assert there["api"] == api
    assert there["packet_digest"] == here["packet_digest"]
    body = sawlog("--store", file_store, "packet", name, "--provider", api, "--raw").out
    headers = {**there["headers"], "x-api-key": "k", "authorization": "Bearer k"}
    check(api, body, {**headers, "content-type": "application/json"})
    assert there["origin"] == ("built" if api == "anthropic" else "rendered")
    assert json.loads(body)["model"] == "claude-sonnet-4-5"


def test_a_packet_is_rendered_for_another_model(file_store: str) -> None:
    arguments = ("--store", file_store, "packet", "-@2", "--provider", "openai", "--model", "gpt-5")
    found = sawlog(*arguments, "--json").json
    assert (found["api"], found["model"]) == ("openai-responses", "gpt-5")
    assert json.loads(sawlog(*arguments, "--raw").out)["model"] == "gpt-5"
    assert "never sent like this" in sawlog(*arguments).text


def test_a_provider_that_does_not_exist_is_named(file_store: str) -> None:
    done = sawlog("--store", file_store, "packet", "-@1", "--provider", "nobody")
    assert done.code == 2
    assert "openai-chat" in one_sentence(done)


def test_a_step_that_does_not_exist_is_named(store: str) -> None:
    done = sawlog("--store", store, "packet", "-@99")
    assert done.code == 2
    assert f"last one is {written.STEPS}" in one_sentence(done)


# --- imports --------------------------------------------------------------------------------------


def test_an_import_s_packet_says_that_it_is_reconstructed(imported: str) -> None:
    """What the model saw and the file does not hold is named, and nothing is invented."""
    found = sawlog("--store", imported, "packet", "-@2", "--json").json
    assert found["origin"] == "reconstructed"
    assert found["missing"][:3] == ["system_text", "tool_schemas", "request_parameters"]
    assert [entry["kind"] for entry in found["entries"]] == ["user", "call", "result"]
    text = sawlog("--store", imported, "packet", "-@2").text
    assert "reconstructed" in text
    assert "system_text" in text


@pytest.mark.parametrize("api", APIS)
def test_an_import_s_packet_is_rendered_for_every_provider(api: str, imported: str) -> None:
    found = sawlog("--store", imported, "packet", "-@2", "--provider", api, "--json").json
    assert (found["api"], found["origin"]) == (api, "reconstructed")
    body = sawlog("--store", imported, "packet", "-@2", "--provider", api, "--raw").out
    headers = {**found["headers"], "x-api-key": "k", "authorization": "Bearer k"}
    check(api, body, {**headers, "content-type": "application/json"})
    assert b"21 degrees" in body
