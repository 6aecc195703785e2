"""Large and missing contents: previews, media, and what is refused when a blob is gone."""

from __future__ import annotations

import hashlib
import json

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call as Asked
from sawlog.providers.fake import Reply
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.errors import InvalidEvent, Refused
from sawlog.store.text import TextObject
from tests.session.agents import APIS, next_step, one, provided, results, sound

apis = pytest.mark.parametrize("api", APIS)
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02")


# --- previews: case 43 ----------------------------------------------------------------------------


def test_case_43_a_result_above_its_limit_is_shown_as_a_preview_with_a_locator(
    log: AgentLog,
) -> None:
    text = "".join(f"line {n}\n" for n in range(5000))
    digest = hashlib.sha256(text.encode()).hexdigest()
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result(text, limit=2000)
        with s.tool(one(s)) as run:
            run.result("short", limit=2000)
        step = next_step(s, "openai-chat")
    first, second = results(log)
    stored = first.parts[0]
    assert isinstance(stored, TextPart) and isinstance(stored.text, TextObject)
    assert (stored.text.blob, stored.text.size, stored.text.limit) == (digest, len(text), 2000)
    assert second.parts == (TextPart("short"),)
    shown = [m["content"] for m in json.loads(step.body)["messages"] if m["role"] == "tool"]
    assert len(shown[0].encode()) <= 2000
    assert shown[0].startswith("line 0\nline 1\n") and shown[0].endswith("line 4998\nline 4999\n")
    assert f"sha256:{digest}" in shown[0]
    assert shown[1] == "short"
    raw = bytes.fromhex(digest)
    assert log.store.blob(log.find("task"), raw) == text.encode()


def test_case_43_the_packet_is_the_same_when_the_blob_is_gone(log: AgentLog) -> None:
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result("x" * 50_000, limit=1000)
        body = next_step(s, "openai-chat").body
    drop_blobs(log)
    assert log.read("task").steps[2].packet.body == body
    with log.session("task") as s:
        assert next_step(s, "openai-chat").body == body


def test_a_limit_that_leaves_no_room_is_the_least_that_there_is(log: AgentLog) -> None:
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result("x" * 600, limit=100)
        [shown] = [e.text for e in next_step(s, "openai-chat").packet.entries if e.kind == "result"]
    assert len(shown.encode()) <= 512 and "sha256:" in shown


# --- media and missing contents: case 61 ----------------------------------------------------------


def drop_blobs(log: AgentLog) -> None:
    """Lose every blob of the store."""
    with log.store.database.write() as tx:
        assert tx.run("DELETE FROM sawlog.blobs") > 0


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
def test_an_image_is_logged_with_the_message_or_the_result_that_shows_it(
    log: AgentLog, api: str
) -> None:
    with provided(api, [Reply(calls=[Asked("look")]), Reply("A dot.")]) as (fake, client):
        with log.session("task") as s:
            s.tools([{"name": "look", "parameters": {"type": "object"}}])
            s.user([TextPart("What is this?"), s.media(PNG, "image/png")])
            [call] = next_step(s, api).send(client).tool_calls
            with s.tool(call) as run:
                run.result([s.media(PNG + b"1", "image/png", name="shot.png"), TextPart("a shot")])
            next_step(s, api).send(client)
        assert len(fake.bodies(api)) == 2
    held = log.read("task")
    for data in (PNG, PNG + b"1"):
        assert log.store.blob(held.row, hashlib.sha256(data).digest()) == data
    sound(log, "task")


@apis
def test_case_61_a_missing_content_is_refused_before_anything_leaves(
    log: AgentLog, api: str
) -> None:
    part = MediaPart("image/png", blob=hashlib.sha256(PNG).hexdigest())
    with log.session("task") as s:
        with pytest.raises(InvalidEvent, match="blob"):
            s.user([part])
        s.user([s.media(PNG, "image/png")])
    drop_blobs(log)
    with log.session("task") as s:
        head = log.find("task").head
        with pytest.raises(Refused) as refused:
            next_step(s, api)
        assert refused.value.reason == "missing_blob"
        assert refused.value.needs == (part.blob,)
        assert f"sha256:{part.blob}" in str(refused.value)
        assert log.find("task").head == head
