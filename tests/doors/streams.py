"""Streams of the fake provider as the official clients read them, and put together again by hand.

The putting together is the test's own: it takes an event for what the provider's pages say of it,
and knows nothing of how the fake made it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from copy import deepcopy
from typing import Any, cast

import anthropic
import openai
from pydantic import BaseModel

from sawlog.providers.fake import FakeProvider, Received, Reply
from sawlog.providers.fake_rendering import Request, render
from sawlog.providers.strict import FAKE_KEY
from tests.doors.provoke import STARTS, Json

GEMINI = "gemini"  # beside the APIs: Chat with a model that signs its calls
KINDS = [*STARTS, GEMINI]


def start_of(kind: str) -> Json:
    """A first request of an API, or of Gemini's."""
    if kind == GEMINI:
        return STARTS["openai-chat"] | {"model": "gemini-3-pro"}
    return STARTS[kind]


def api_of(kind: str) -> str:
    return "openai-chat" if kind == GEMINI else kind


def read(fake: FakeProvider, kind: str, body: Json) -> Iterator[BaseModel]:
    """The events that the synchronous client gives for a request that streams."""
    url = fake.base_url(api_of(kind))
    if kind == "anthropic":
        with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
            yield from cast(Any, client.messages.create(**body, stream=True))
        return
    with openai.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        make = client.chat.completions if api_of(kind) != "openai-responses" else client.responses
        yield from cast(Any, make).create(**body, stream=True)


async def read_async(fake: FakeProvider, kind: str, body: Json) -> AsyncIterator[BaseModel]:
    """The same of the asynchronous client."""
    url = fake.base_url(api_of(kind))
    if kind == "anthropic":
        async with anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as client:
            async for event in cast(Any, await client.messages.create(**body, stream=True)):
                yield event
        return
    async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        make = client.chat.completions if api_of(kind) != "openai-responses" else client.responses
        async for event in await cast(Any, make).create(**body, stream=True):
            yield event


def whole_of(received: Received, reply: Reply, number: int = 0) -> Json:
    """What the fake would say to this very request without a stream."""
    request = Request(str(received.api), json.loads(received.body), received.body, number)
    return cast(Json, json.loads(render(request, reply, FAKE_KEY)))


def as_json(events: Sequence[BaseModel]) -> list[Json]:
    """The events as they were sent."""
    return [cast(Json, event.to_dict()) for event in cast(Any, events)]


def assembled(kind: str, events: list[Json]) -> Json:
    """The reply that a stream tells, as far as a stream tells it."""
    events = deepcopy(events)  # they are built upon
    if kind == "anthropic":
        return _message(events)
    return _response(events) if kind == "openai-responses" else _completion(events)


def _message(events: list[Json]) -> Json:
    message: Json = {}
    block: Json
    delta: Json
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        so_far = inputs.get(event["index"], "")
                        inputs[event["index"]] = so_far + delta["partial_json"]
                    case "citations_delta":
                        block["citations"].append(delta["citation"])
                    case "compaction_delta":
                        block["content"] = delta["content"]
                    case kind:
                        name = kind.removesuffix("_delta")
                        block[name] += delta[name]
            case "content_block_stop":
                if event["index"] in inputs:
                    source = inputs[event["index"]]
                    message["content"][event["index"]]["input"] = json.loads(source)
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case other:
                assert other == "message_stop" and event is events[-1]
    return message


def _completion(events: list[Json]) -> Json:
    message: Json = {}
    calls: dict[int, Json] = {}
    found = {name: events[0][name] for name in ("id", "created", "model", "system_fingerprint")}
    for event in events:
        assert found.items() <= event.items()
        assert event["object"] == "chat.completion.chunk"
    for event in events:
        if event.get("usage"):
            assert event is events[-1]
            found["usage"] = event["usage"]
        for choice in event["choices"]:
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for piece in value:
                        _add_call(calls, piece)
                elif isinstance(value, str) and name != "role":
                    message[name] = (message.get(name) or "") + value
                else:
                    message.setdefault(name, value)
            found["finish_reason"] = choice["finish_reason"]
    if calls:
        message["tool_calls"] = [calls[number] for number in sorted(calls)]
    return found | {"message": message}


def _add_call(calls: dict[int, Json], piece: Json) -> None:
    index = piece["index"]
    if index not in calls:
        calls[index] = {name: value for name, value in piece.items() if name != "index"}
        return
    (kind,) = piece.keys() - {"index"}
    for name, text in piece[kind].items():
        calls[index][kind][name] += text


def _response(events: list[Json]) -> Json:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    output: list[Json] = []
    done: list[Json] = []
    for event in events[2:-1]:
        match event["type"]:
            case "response.output_item.added":
                output.append(event["item"])
            case "response.output_item.done":
                done.append(event["item"])
            case _:
                index: int = event["output_index"]
                _fill(output[index], event)
    for begun, ended in zip(output, done, strict=True):
        # What is only known at the end: how it ended, and the seal of reasoning.
        late = {name: ended[name] for name in ("status", "encrypted_content") if name in ended}
        assert begun | late == ended
    last: Json = events[-1]["response"]
    assert last["output"] == done
    assert events[-1]["type"] == f"response.{last['status']}"
    for event, name in zip(events, ("created", "in_progress"), strict=False):
        assert event["type"] == f"response.{name}"
        assert (event["response"]["id"], event["response"]["output"]) == (last["id"], [])
        assert event["response"]["status"] == "in_progress"
    return last


def _fill(item: Json, event: Json) -> None:
    """Adds to an item what an event says of it."""
    assert event["item_id"] == item["id"]
    contents: list[Json] = item.get("content", [])
    summary: list[Json] = item.get("summary", [])
    at = int(event.get("content_index") or event.get("summary_index") or 0)
    match event["type"].removeprefix("response."):
        case "content_part.added":
            contents.append(event["part"])
        case "output_text.delta":
            contents[at]["text"] += event["delta"]
        case "output_text.annotation.added":
            contents[at]["annotations"].append(event["annotation"])
        case "output_text.done":
            assert contents[at]["text"] == event["text"]
        case "content_part.done":
            assert contents[at] == event["part"]
        case "reasoning_summary_part.added":
            summary.append(event["part"])
        case "reasoning_summary_text.delta":
            summary[at]["text"] += event["delta"]
        case "reasoning_summary_text.done":
            assert summary[at]["text"] == event["text"]
        case "reasoning_summary_part.done":
            assert summary[at] == event["part"]
        case "function_call_arguments.delta":
            item["arguments"] += event["delta"]
        case "function_call_arguments.done":
            assert item["arguments"] == event["arguments"]
        case "custom_tool_call_input.delta":
            item["input"] += event["delta"]
        case "custom_tool_call_input.done":
            assert item["input"] == event["input"]
        case stage:
            assert stage.startswith(f"{item['type']}.")
