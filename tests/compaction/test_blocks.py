"""A provider's own compaction: asked for, taken out of a reply, and sent where it can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sawlog.builder.blocks import made, maker_of
from sawlog.builder.build import Built, build
from sawlog.builder.forms import block_entry, checkpoint_entry
from sawlog.builder.packet import Binding, Request
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import decode, encode, state_digest
from sawlog.builder.state import State
from sawlog.compaction.blocks import (
    BETA,
    block_of,
    compactor_of,
    request_for_block,
    with_beta,
)
from sawlog.errors import ConfigError
from sawlog.providers.fake import FakeProvider, Raw, Reply, Step, Text
from sawlog.providers.strict import check
from sawlog.store.content import BoundPart, TextPart
from sawlog.store.events.compaction import Checkpoint, CompactionFailed, CompactionStarted
from sawlog.store.events.conversation import MessageSystem, MessageUser
from sawlog.work.summarising import Answered, Provider
from tests.builder.memory import MemoryLog, sending
from tests.compaction.pasts import compacted, known_of, past_of, work

SUMMARY = "The parser was mended; vendor/ must not be touched."
SEALING = ("anthropic", "openai-responses")
PARAMS = {
    "anthropic": '{"max_tokens":1000,"stop_sequences":["x"],"tool_choice":{"type":"any"},'
    '"output_config":{"effort":"low","format":{"type":"json"}},'
    '"context_management":{"edits":[{"type":"compact_20260112"}]}}',
    "openai-responses": '{"store":false,"include":["reasoning.encrypted_content"],'
    '"prompt_cache_key":"k","reasoning":{"effort":"low"}}',
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "any")


def asked(log: MemoryLog, api: str, script: list[Step], params: str = "") -> Answered:
    """What the fake provider answers when it is asked to compact the log's region."""
    request = request_for_block(past_of(log), sending(api, params or PARAMS[api])).request
    with FakeProvider(script) as fake:
        provider = Provider(api=api, model="test-model", base_url=fake.base_url(api), retries=0)
        return provider.ask(request)


def block(log: MemoryLog, api: str) -> BoundPart:
    """The block that the provider makes of the log's region."""
    answered = asked(log, api, [Reply(SUMMARY)])
    assert answered.error == "", answered
    found = block_of(answered.parts)
    assert found is not None
    return found


def headed(api: str, *, model: str = "test-model") -> tuple[MemoryLog, Checkpoint]:
    """A log whose checkpoint has that provider's block, and more behind it."""
    log = work(api)
    checkpoint = replace(known_of(log), block=block(log, api), summariser=maker_of(api, model))
    compacted(log, checkpoint)
    return log, checkpoint


def built(log: MemoryLog, api: str, model: str = "test-model", **headers: str) -> Built:
    """The next packet under an API, a model and HTTP headers."""
    under = replace(
        sending(api, model=model),
        headers=tuple((name.replace("_", "-"), value) for name, value in headers.items()),
    )
    found = build(log.state, Rules(), under, len(log.events), log)
    assert isinstance(found, Built), found
    return found


def messages(request: Request) -> list[Any]:
    """The messages or items of a request."""
    body = json.loads(request.body)
    return list(body.get("messages") or body["input"])


# --- asked for ------------------------------------------------------------------------------------


def test_responses_is_asked_on_a_path_of_its_own() -> None:
    """The model, the instructions, the items: nothing that shapes a reply."""
    log = work("openai-responses")
    past = past_of(log)
    request = request_for_block(
        past, sending("openai-responses", PARAMS["openai-responses"])
    ).request
    assert request.path == "/v1/responses/compact"
    body = json.loads(request.body)
    assert list(body) == ["prompt_cache_key", "model", "instructions", "input"]
    assert len(body["input"]) == len(past.region.entries)
    check("openai-responses", request.body, compacts=True)


def test_anthropic_is_asked_by_a_parameter_and_a_header() -> None:
    log = work("anthropic")
    request = request_for_block(past_of(log), sending("anthropic", PARAMS["anthropic"])).request
    assert request.path == "/v1/messages"
    assert dict(request.headers)["anthropic-beta"] == BETA
    body = json.loads(request.body)
    assert body["compaction"] == {"type": "summarize"}
    assert body["output_config"] == {"effort": "low"}
    assert not {"stop_sequences", "tool_choice", "context_management"} & set(body)
    assert [one["name"] for one in body["tools"]] == ["read_file"]
    assert body["messages"][-1]["role"] == "assistant", "nothing is added behind the region"
    check("anthropic", request.body, dict(request.headers))


def test_a_header_of_the_callers_stays() -> None:
    given = (("anthropic-beta", "files-api-2025-04-14"), ("anthropic-version", "2023-06-01"))
    both = dict(with_beta(given))
    assert both["anthropic-beta"] == f"files-api-2025-04-14,{BETA}"
    assert with_beta(with_beta(given)) == with_beta(given)


@pytest.mark.parametrize("api", ["openai-chat", "deepseek-chat"])
def test_other_apis_do_not_compact(api: str) -> None:
    with pytest.raises(ConfigError, match="does not compact; those that do: anthropic, openai-re"):
        request_for_block(past_of(work(api)), sending(api))


@pytest.mark.parametrize("api", SEALING)
def test_the_answer_holds_a_block(api: str) -> None:
    found = block(work(api), api)
    assert (found.kind, found.api) == ("compaction", api)
    assert isinstance(found.source, str) and json.loads(found.source)["type"] == "compaction"
    assert found.text == (SUMMARY if api == "anthropic" else ""), "one can be read, one cannot"


def test_a_compaction_that_failed_gives_none() -> None:
    answered = asked(work("anthropic"), "anthropic", [Reply("")])
    assert answered.error == "" and block_of(answered.parts) is None
    answered = asked(work("anthropic"), "anthropic", [Reply("I go on.", stop="end_turn")])
    assert answered.error == "" and block_of(answered.parts) is None


# --- not asked for --------------------------------------------------------------------------------


@pytest.mark.parametrize("api", SEALING)
def test_a_block_is_found_in_an_ordinary_reply(api: str) -> None:
    """A threshold in the caller's own parameters has the provider compact when it likes."""
    raw: dict[str, object] = {"type": "compaction"}
    if api == "anthropic":
        raw["content"] = "Summary: so far."
    log = work(api)
    packet = log.build(api=api)
    assert isinstance(packet, Built)
    with FakeProvider([Reply(parts=[Raw(raw), Text("I go on.")])]) as fake:
        provider = Provider(api=api, model="m", base_url=fake.base_url(api), retries=0)
        answered = provider.ask(packet.request)
    assert answered.text == "I go on."
    found = block_of(answered.parts)
    assert found is not None and found.kind == "compaction"


def test_the_last_block_that_holds_something_counts() -> None:
    def one(content: object) -> BoundPart:
        return BoundPart("compaction", "anthropic", json.dumps({"content": content}))

    assert block_of([one("a"), TextPart("x"), one("b"), one(None)]) == one("b")
    assert block_of([TextPart("x"), BoundPart("thinking", "anthropic", "{}")]) is None


# --- in a packet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("api", SEALING)
def test_it_heads_the_packet_for_the_model_that_made_it(api: str) -> None:
    log, checkpoint = headed(api)
    packet = built(log, api, anthropic_beta=BETA) if api == "anthropic" else built(log, api)
    kinds = [entry.kind for entry in packet.entries]
    assert kinds == ["system", "tool", "checkpoint/bound", "checkpoint", "user"]
    assert packet.entries[2].text == checkpoint.block.source  # type: ignore[union-attr]
    first, second, *_ = messages(packet.request)
    block = first["content"][0] if api == "anthropic" else first
    assert block == json.loads(str(checkpoint.block.source))  # type: ignore[union-attr]
    # What was checked stands behind it: nobody can say what a sealed summary kept.
    assert "Never touch vendor/." in second["content"][0]["text"]
    assert not [note for note in packet.request.notes if note[1] == "left_out"]
    check(api, packet.request.body, dict(packet.request.headers))


@pytest.mark.parametrize("api", SEALING)
@pytest.mark.parametrize(
    "reader", ["anthropic", "openai-chat", "openai-responses", "deepseek-chat"]
)
def test_every_other_model_gets_the_text(api: str, reader: str) -> None:
    log, _ = headed(api, model="another-model")
    packet = (
        built(log, reader, anthropic_beta=BETA) if reader == "anthropic" else built(log, reader)
    )
    why = "other_model" if api == reader else "other_provider"
    assert (2, "left_out", why) in packet.request.notes
    assert "compaction" not in packet.request.body.decode()
    assert b"Never touch vendor/." in packet.request.body
    check(reader, packet.request.body, dict(packet.request.headers))


def test_all_models_have_one_packet() -> None:
    """What one may not read is left out by its renderer; the packet is the same."""
    log, _ = headed("anthropic")
    digests = {built(log, api).semantic for api in ("anthropic", "openai-chat", "openai-responses")}
    assert len(digests) == 1


def test_without_its_header_anthropic_gets_the_text() -> None:
    """The API would refuse the block."""
    log, _ = headed("anthropic")
    packet = built(log, "anthropic")
    assert (2, "left_out", "no_header") in packet.request.notes
    assert messages(packet.request)[0]["role"] == "user"
    check("anthropic", packet.request.body, dict(packet.request.headers))


def test_behind_system_text_of_others_it_would_not_be_first() -> None:
    log = MemoryLog()
    told = MessageSystem((TextPart("a hook's rule"),), "system")
    log.append(told, source="hook:start")
    log.append(MessageUser((TextPart("go"),)))
    log.packet(api="anthropic")
    log.append(MessageUser((TextPart("more"),)))
    source = json.dumps({"type": "compaction", "content": "x", "signature": "c2ln"})
    checkpoint = Checkpoint(
        "", block=BoundPart("compaction", "anthropic", source, "x"),
        summariser=maker_of("anthropic", "test-model"), goal="g",
    )  # fmt: skip
    compacted(log, checkpoint)
    packet = built(log, "anthropic", anthropic_beta=BETA)
    at = [entry.kind for entry in packet.entries].index("checkpoint/bound")
    assert (at, "left_out", "no_place") in packet.request.notes


def test_a_block_of_nobody_stays_out() -> None:
    log = work("openai-responses")
    checkpoint = replace(known_of(log), block=block(log, "openai-responses"))
    compacted(log, checkpoint)
    packet = built(log, "openai-responses")
    assert (2, "left_out", "binding_unknown") in packet.request.notes


def test_a_checkpoint_without_a_block_is_as_it_was() -> None:
    log = work("anthropic")
    compacted(log, known_of(log))
    assert log.state.blocks == ()
    assert [entry.kind for entry in built(log, "anthropic").entries][2:] == ["checkpoint", "user"]


def test_the_next_checkpoint_has_its_own() -> None:
    log, checkpoint = headed("openai-responses")
    log.packet(api="openai-responses")
    log.append(MessageUser((TextPart("More."),)))
    seq = log.state.checkpoint
    asked = request_for_block(past_of(log, checkpoint), sending("openai-responses"))
    assert [entry.kind for entry in asked.entries[: asked.head]] == [
        "system", "checkpoint/bound", "checkpoint",
    ]  # fmt: skip
    check("openai-responses", asked.request.body, compacts=True)
    compacted(log, known_of(log, 2))
    assert log.state.checkpoint > seq and log.state.blocks == ()
    assert "checkpoint/bound" not in [e.kind for e in built(log, "openai-responses").entries]


# --- in the fold ----------------------------------------------------------------------------------


def test_a_draft_that_fails_leaves_the_block_that_stands() -> None:
    log, checkpoint = headed("openai-responses")
    before = built(log, "openai-responses")
    log.append(CompactionStarted("manual", route="provider", through=3), source="harness")
    log.append(checkpoint, source="harness")
    assert built(log, "openai-responses").request.body == before.request.body
    log.append(CompactionFailed("no"), source="harness")
    assert built(log, "openai-responses").request.body == before.request.body


def test_it_comes_back_from_every_snapshot() -> None:
    log, _ = headed("openai-responses")
    log.packet(api="openai-responses")
    for at in range(len(log.events) + 1):
        early = decode(encode(fold_all(State(), log.events[:at])))
        assert state_digest(fold_all(early, log.events[at:])) == state_digest(log.state)


# --- who made it ----------------------------------------------------------------------------------


def test_the_checkpoint_says_who_made_its_block() -> None:
    part = BoundPart("compaction", "anthropic", "{}", "")
    one = Checkpoint("", block=part, summariser=maker_of("anthropic", "a:b/c"))
    assert made(one) == Binding("compacted", "anthropic", "a:b/c", "")
    assert compactor_of(sending("anthropic", model="a:b/c")) == one.summariser
    assert made(replace(one, block=None)) is None
    assert made(replace(one, summariser=None)) is None
    log = MemoryLog()
    assert block_entry(replace(one, block=None), log) is None
    entry = block_entry(one, log)
    assert entry is not None and entry.made == made(one)
    assert checkpoint_entry(one, log) == checkpoint_entry(replace(one, block=None), log)
