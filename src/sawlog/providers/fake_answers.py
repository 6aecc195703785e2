"""A step of the script as the answer that goes back: a body, a stream, an error, or silence."""

from __future__ import annotations

import json

from sawlog.providers.fake_faults import At, Cut, Fault
from sawlog.providers.fake_rendering import Request, body_of, render
from sawlog.providers.fake_replies import (
    Drop,
    Hang,
    HttpError,
    Reply,
    ScriptError,
    Step,
    Streamed,
)
from sawlog.providers.fake_server import Answer
from sawlog.providers.fake_streams import Event, Piece
from sawlog.providers.fake_streams_anthropic import stream as anthropic_stream
from sawlog.providers.fake_streams_broken import Broken, in_chunks, leaves
from sawlog.providers.fake_streams_chat import stream as chat_stream
from sawlog.providers.fake_streams_responses import stream as responses_stream
from sawlog.providers.strict import error_body
from sawlog.providers.strict.gemini import signs_calls
from sawlog.providers.strict.reading import JsonObject, as_object

_ANTHROPIC_ERRORS = {  # the type that goes with a status; 400 and others: invalid_request_error
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI_ERRORS = {429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
_PARTS = {"anthropic": "content", "openai-responses": "output"}  # of Chat: choices


def answer_of(request: Request, step: Step, headers: dict[str, str], key: bytes) -> Answer:
    """The answer that a step gives to a request. Raises ScriptError if it gives none."""
    if isinstance(step, HttpError):
        return error_answer(request.api, step, headers)
    reply = step if isinstance(step, Reply) else step.reply
    delay = step.seconds if isinstance(step, Hang) else 0.0
    if reply is None:
        return Answer(0, delay=delay)
    if request.json.get("stream") is True:
        return _streamed(request, reply, step, headers, key)
    if isinstance(step, Streamed):
        raise ScriptError("the faults of a stream need a request with `stream`: true")
    cut = step.sent if isinstance(step, Drop) else None
    return Answer(200, render(request, reply, key), headers, delay, cut)


def headers_of(api: str, request_id: str) -> dict[str, str]:
    """The headers that an API sends with every answer."""
    if api == "anthropic":
        return {
            "request-id": f"req_{request_id}",
            "anthropic-organization-id": "00000000-0000-4000-8000-00000000fa4e",
        }
    if api == "deepseek-chat":
        return {"x-ds-trace-id": request_id}
    return {
        "x-request-id": f"req_{request_id}",
        "openai-organization": "org-fake",
        "openai-version": "2020-10-01",
        "openai-processing-ms": "1",
    }


def error_answer(api: str, error: HttpError, headers: dict[str, str]) -> Answer:
    """An error in the shape of an API."""
    types = _ANTHROPIC_ERRORS if api == "anthropic" else _OPENAI_ERRORS
    kind = error.type or types.get(error.status, "invalid_request_error")
    code = error.code or (kind if api == "deepseek-chat" else None)
    message = error.message or f"The fake provider was told to answer {error.status}."
    body = error_body(api, kind, message, error.param, code, headers.get("request-id", ""))
    sent = body if error.body is None else error.body
    return Answer(error.status, sent, {**headers, **error.headers})


def _streamed(
    request: Request, reply: Reply, step: Step, headers: dict[str, str], key: bytes
) -> Answer:
    raw = None if reply.raw is None else render(request, reply, key)
    body = body_of(request, reply, key) if raw is None else _whole(request.api, raw)
    if body is None:  # raw, and no body of the API: what the script wants to be read as a stream
        if isinstance(step, Streamed) and step.faults:
            raise ScriptError("faults are placed by events, and this raw text has none; put the "
                              "fault into the text")  # fmt: skip
        pieces, drops = [Piece(raw or b"")], False
    else:
        events = _events(request, body)
        faults: list[Fault] = list(step.faults) if isinstance(step, Streamed) else []
        place = Broken(request.api, body, headers.get("request-id", ""))
        if isinstance(step, Drop):
            longest = sum(len(event.sent()) for event in events)
            faults.append(Cut(At(bytes=min(step.sent, longest))))
        pieces, drops = leaves(events, faults, place)
    delay = step.seconds if isinstance(step, Hang) else 0.0
    if isinstance(step, Streamed):
        first = pieces[0]
        pieces = [Piece(first.data, first.wait + step.wait), *pieces[1:]]
        if step.chunk is not None:
            if step.chunk < 1:
                raise ScriptError(f"a chunk has at least one byte, and not {step.chunk}")
            pieces = in_chunks(pieces, step.chunk)
    sent = b"".join(piece.data for piece in pieces)
    return Answer(200, sent, headers, delay, pieces=pieces, drops=drops)


def _events(request: Request, body: JsonObject) -> list[Event]:
    match request.api:
        case "anthropic":
            return anthropic_stream(body)
        case "openai-responses":
            return responses_stream(body)
        case api:
            options = as_object(request.json.get("stream_options")) or {}
            return chat_stream(
                body,
                api=api,
                usage=options.get("include_usage") is True,
                whole_calls=api == "openai-chat" and signs_calls(str(request.json["model"])),
            )


def _whole(api: str, raw: bytes) -> JsonObject | None:
    """The whole body that a script gives as text; None if it is none of the API."""
    try:
        body = as_object(json.loads(raw))
    except ValueError:
        return None
    return body if body is not None and _PARTS.get(api, "choices") in body else None
