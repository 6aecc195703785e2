"""From a whole reply's bytes to what the log keeps of it.

`parse` chooses the API's reader. What a reader finds is the reply's content in order, each part and
each call as the exact source that arrived (`source`), so that it can go back as it came. A body
that is no reply gives a `RefusedReply` with its class (`refusals`); nothing here raises on what a
provider sends. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sawlog.builder.replies import anthropic, deepseek_chat, openai_chat, openai_responses
from sawlog.builder.replies.answer import (
    Answered,
    Malformed,
    Received,
    RefusedReply,
    Running,
    received,
)
from sawlog.builder.replies.refusals import error_in, malformed, refusal, refused
from sawlog.builder.replies.source import is_object
from sawlog.store.errors import ConfigError

__all__ = ["Answered", "RefusedReply", "Running", "parse"]

Reader = Callable[[Received], Answered | RefusedReply | Running]

_READERS: dict[str, Reader] = {
    "anthropic": anthropic.read,
    "openai-chat": openai_chat.read,
    "openai-responses": openai_responses.read,
    "deepseek-chat": deepseek_chat.read,
}


def parse(
    api: str, status: int, headers: Mapping[str, str], body: bytes
) -> Answered | RefusedReply | Running:
    """What an HTTP answer is: a reply, a refusal, or (Responses in the background) neither yet.

    `body` is as received, its content encoding undone; header names count in any case. Raises
    ConfigError for an API that is not known, and nothing else.
    """
    check_api(api)
    return read(received(api, status, headers, body))


def check_api(api: str) -> None:
    """Raise ConfigError for an API that is not known."""
    if api not in _READERS:
        raise ConfigError(f"there is no API {api!r}; known are {', '.join(_READERS)}")


def read(reply: Received) -> Answered | RefusedReply | Running:
    """What an answer of a known API is; see `parse`."""
    reader = _READERS[reply.api]
    try:
        return _read(reader, reply)
    except Malformed as error:
        return malformed(reply, str(error))
    except RecursionError:
        return malformed(reply, "the body is nested too deeply")


def _read(reader: Reader, reply: Received) -> Answered | RefusedReply | Running:
    if not 200 <= reply.status < 300:
        return refused(reply)
    if not is_object(reply.body):
        raise Malformed(_why_no_object(reply.body))
    fault = error_in(reply.body)
    return reader(reply) if fault is None else refusal(reply, fault)


def _why_no_object(body: str) -> str:
    if not body.strip(" \t\r\n"):
        return "the body is empty"
    if body.lstrip(" \t\r\n").startswith(("data:", "event:")):
        return "the body is a stream of events, where a whole reply was expected"
    return "the body is no JSON object"
