"""What is put together here is what the official clients put together from the same bytes."""

from __future__ import annotations

import json
from typing import Any, cast

import anthropic
import httpx2
import openai
import pytest

from sawlog.builder.replies.assembling import assembler
from tests.builder.streams import Json, spell, stream_of
from tests.builder.test_assembling import WHOLE


def serving(data: bytes) -> httpx2.Client:
    """An HTTP client that gets this stream for any request."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def put_together(api: str, data: bytes) -> Json:
    """The body that the assembler makes of a stream."""
    one = assembler(api)
    one.feed(data)
    return cast(Json, json.loads(one.result(closed=True).body))


MORE: list[Json] = [
    {"type": "redacted_thinking", "data": "EqQ="},
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "é"}},
    {"type": "compaction", "content": "So far."},
]


@pytest.mark.parametrize("more", [[], MORE])
def test_messages(more: list[Json]) -> None:
    whole = WHOLE["anthropic"]
    body = {**whole, "content": [*whole["content"], *more]}
    data = spell(stream_of("anthropic", body))
    client = anthropic.Anthropic(api_key="k", http_client=serving(data))
    with client.beta.messages.stream(
        max_tokens=9, model="m", messages=[{"role": "user", "content": "go"}]
    ) as stream:
        theirs = stream.get_final_message()
    ours = put_together("anthropic", data)
    assert ours == body
    assert without_null(theirs.to_dict(mode="json")) == without_null(ours)


def test_chat_completions() -> None:
    data = spell(stream_of("openai-chat", WHOLE["openai-chat"]))
    client = openai.OpenAI(api_key="k", http_client=serving(data))
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "go"}]
    ) as stream:
        for _ in stream:
            pass
        theirs = without_null(stream.current_completion_snapshot.to_dict(mode="json"))
    for call in theirs["choices"][0]["message"]["tool_calls"]:
        del call["index"]  # which a whole reply does not have
        call["function"].pop("parsed_arguments", None)
    ours = without_null(put_together("openai-chat", data))
    assert ours == theirs


def test_responses() -> None:
    data = spell(stream_of("openai-responses", WHOLE["openai-responses"]))
    client = openai.OpenAI(api_key="k", http_client=serving(data))
    with client.responses.stream(model="m", input="go") as stream:
        theirs = stream.get_final_response()
    assert put_together("openai-responses", data) == WHOLE["openai-responses"]
    found = without_null(theirs.to_dict(mode="json"))
    for item in found["output"]:
        item.pop("parsed_arguments", None)
    assert found == WHOLE["openai-responses"]


def without_null(value: Any) -> Any:
    """A value without fields that are null: the client gives some that never came."""
    if isinstance(value, dict):
        pairs = cast(Json, value).items()
        return {key: without_null(one) for key, one in pairs if one is not None}
    if isinstance(value, list):
        return [without_null(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value
