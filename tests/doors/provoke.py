"""Provoking refusals by hand: one fake provider, the official clients, and cases with neighbours.

A case is a request that is refused and one next to it that is not, so that a checker that refuses
everything, or nothing, fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import anthropic
import httpx2
import openai

from sawlog.providers.fake import FakeProvider, Reply
from sawlog.providers.strict import Refusal, check

PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "deepseek-chat": "/chat/completions",
}

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Fix the test."}
STARTS: dict[str, Json] = {
    "anthropic": {"model": "claude-opus-5-5", "max_tokens": 100, "messages": [USER]},
    "openai-chat": {"model": "gpt-6", "messages": [USER]},
    "openai-responses": {
        "model": "gpt-6",
        "input": [USER],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    },
    "deepseek-chat": {"model": "deepseek-v4-pro", "messages": [USER]},
}


@dataclass(frozen=True)
class Case:
    """`message` is the whole sentence of the refusal, as a pattern."""

    name: str
    refused: object
    message: str
    accepted: object
    param: str | None = None
    code: str | None = None
    status: int = 400
    type: str = "invalid_request_error"


class Clients:
    """The official clients, pointed at a fake; they send the very bytes that they are given."""

    def __init__(self, url: str) -> None:
        self._anthropic = anthropic.Anthropic(api_key="fake", base_url=url, max_retries=0)
        self._openai = openai.OpenAI(api_key="fake", base_url=f"{url}/v1", max_retries=0)
        self._deepseek = openai.OpenAI(api_key="fake", base_url=url, max_retries=0)

    def post(self, api: str, body: bytes) -> httpx2.Response:
        """The response, an error one, too."""
        path = PATHS[api]
        try:
            if api == "anthropic":
                return self._anthropic.post(path, content=body, cast_to=httpx2.Response)
            client = self._deepseek if api == "deepseek-chat" else self._openai
            return client.post(path, content=body, cast_to=httpx2.Response)
        except (anthropic.APIStatusError, openai.APIStatusError) as error:
            return error.response

    def close(self) -> None:
        for client in (self._anthropic, self._openai, self._deepseek):
            client.close()


@contextmanager
def connected(fake: FakeProvider) -> Generator[Clients]:
    """The clients of a fake that is started and ended around them."""
    with fake:
        clients = Clients(fake.url)
        try:
            yield clients
        finally:
            clients.close()


@contextmanager
def always_ok() -> Generator[Clients]:
    """The clients of a fake that answers every legal request."""
    with connected(FakeProvider(lambda api, request, number: Reply("ok"))) as clients:
        yield clients


def as_bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode("utf-8")


def provoke(clients: Clients, api: str, case: Case) -> None:
    """The refused request is refused as the case says, over HTTP and by the library alike, and its
    neighbour is taken."""
    body = as_bytes(case.refused)
    response = clients.post(api, body)
    answer = cast(dict[str, Any], response.json())
    error = cast(dict[str, Any], answer["error"])
    assert re.fullmatch(case.message, error["message"], re.DOTALL), error["message"]
    assert (response.status_code, error["type"]) == (case.status, case.type)
    if api == "anthropic":
        assert answer["type"] == "error" and answer["request_id"] == response.headers["request-id"]
    elif api == "deepseek-chat":
        assert (error["param"], error["code"]) == (None, "invalid_request_error")
    else:
        assert (error["param"], error["code"]) == (case.param, case.code)
    try:
        check(api, body)
    except Refusal as refusal:
        assert refusal.message == error["message"] and refusal.status == response.status_code
    else:
        raise AssertionError("refused over HTTP and not by check()")
    neighbour = clients.post(api, as_bytes(case.accepted))
    assert neighbour.status_code == 200, neighbour.text


def answered(clients: Clients, api: str, body: object) -> Json:
    response = clients.post(api, as_bytes(body))
    assert response.status_code == 200, response.text
    return cast(Json, response.json())


def goes_on(api: str, body: Json, reply: Json) -> tuple[Json, list[str]]:
    """The next request: history as before, the reply as received, a result for each call."""
    if api == "anthropic":
        ids = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids]
        added = [
            {"role": "assistant", "content": reply["content"]},
            {"role": "user", "content": results or "Thanks."},
        ]
        return body | {"messages": body["messages"] + added}, ids
    if api == "openai-responses":
        ids = [item["call_id"] for item in reply["output"] if "call_id" in item]
        results = [{"type": "function_call_output", "call_id": id, "output": "ok"} for id in ids]
        return body | {"input": body["input"] + reply["output"] + (results or [USER])}, ids
    message = reply["choices"][0]["message"]
    ids = [call["id"] for call in message.get("tool_calls", [])]
    results = [{"role": "tool", "tool_call_id": id, "content": "ok"} for id in ids]
    return body | {"messages": [*body["messages"], message, *(results or [USER])]}, ids
