"""Answers that are no reply: their class, and the provider's own words."""

from __future__ import annotations

import json

import pytest

from sawlog.builder.replies import Answered, RefusedReply, parse
from sawlog.store.errors import ConfigError
from tests.builder.reading import refused

ANTHROPIC, OPENAI, DEEPSEEK = "anthropic", "openai-chat", "deepseek-chat"


def openai(message: str, type: str | None = None, code: object = None) -> str:
    return json.dumps({"error": {"message": message, "type": type, "param": None, "code": code}})


def claude(message: str, type: str, code: str = "") -> str:
    error: dict[str, object] = {"type": type, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return json.dumps({"type": "error", "error": error, "request_id": "req_body"})


INVALID = "invalid_request_error"
AZURE_FILTER = json.dumps(
    {
        "error": {
            "message": "The response was filtered due to the prompt.",
            "type": None,
            "code": "content_filter",
            "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        }
    }
)
CASES = [
    # auth: key, permission, money
    (ANTHROPIC, 401, claude("invalid x-api-key", "authentication_error"), "auth"),
    (ANTHROPIC, 403, claude("not yours", "permission_error"), "auth"),
    (ANTHROPIC, 402, claude("pay", "billing_error"), "auth"),
    (ANTHROPIC, 400, claude("Your credit balance is too low to use it.", INVALID), "auth"),
    (ANTHROPIC, 429, claude("x", "rate_limit_error", "enforced_spend_limit_reached"), "auth"),
    (OPENAI, 401, openai("Incorrect API key provided", INVALID, "invalid_api_key"), "auth"),
    (OPENAI, 429, openai("You exceeded your quota", "insufficient_quota"), "auth"),
    (DEEPSEEK, 402, openai("Insufficient Balance", "unknown_error", INVALID), "auth"),
    # rate_limit, overload, timeout
    (ANTHROPIC, 429, claude("slower", "rate_limit_error"), "rate_limit"),
    (OPENAI, 429, openai("Rate limit reached", "tokens", "rate_limit_exceeded"), "rate_limit"),
    (OPENAI, 429, "", "rate_limit"),
    (ANTHROPIC, 529, claude("Overloaded", "overloaded_error"), "overload"),
    (OPENAI, 503, openai("Slow down", "server_error"), "overload"),
    (OPENAI, 429, openai("busy", "engine_overloaded_error"), "overload"),
    (DEEPSEEK, 503, "busy", "overload"),
    (ANTHROPIC, 504, claude("late", "timeout_error"), "timeout"),
    (OPENAI, 408, openai("late"), "timeout"),
    (OPENAI, 524, "<html>A timeout occurred</html>", "timeout"),
    # context_overflow
    (ANTHROPIC, 400, claude("prompt is too long: 9 tokens > 8 maximum", INVALID), "overflow"),
    (
        ANTHROPIC,
        400,
        claude("input length and `max_tokens` exceed context limit", INVALID),
        "overflow",
    ),
    (ANTHROPIC, 413, claude("Request exceeds the maximum size", "request_too_large"), "overflow"),
    (OPENAI, 400, openai("x", INVALID, "context_length_exceeded"), "overflow"),
    (OPENAI, 400, openai("This model's Maximum Context Length is 8 tokens"), "overflow"),
    (OPENAI, 413, openai("Request too large", "tokens", "rate_limit_exceeded"), "overflow"),
    # refused_content
    (OPENAI, 400, openai("flagged", INVALID, "content_policy_violation"), "refused_content"),
    (OPENAI, 400, openai("flagged", INVALID, "invalid_prompt"), "refused_content"),
    (OPENAI, 400, AZURE_FILTER, "refused_content"),
    (
        ANTHROPIC,
        400,
        claude("Output blocked by content filtering policy", INVALID),
        "refused_content",
    ),
    (DEEPSEEK, 400, openai("Content Exists Risk", INVALID, INVALID), "refused_content"),
    # invalid_request
    (
        ANTHROPIC,
        400,
        claude("messages.1: tool_use ids were found without", INVALID),
        "invalid_request",
    ),
    (ANTHROPIC, 404, claude("model: x", "not_found_error"), "invalid_request"),
    (OPENAI, 400, openai("Invalid 'temperature'", INVALID, "invalid_value"), "invalid_request"),
    (DEEPSEEK, 422, '{"detail":[{"loc":["body"],"msg":"field required"}]}', "invalid_request"),
    # provider_error
    (ANTHROPIC, 500, claude("Internal server error", "api_error"), "provider_error"),
    (OPENAI, 502, "<html>502 Bad Gateway</html>", "provider_error"),
    (OPENAI, 500, openai("The server had an error", "server_error"), "provider_error"),
    (OPENAI, 302, "", "provider_error"),
    # malformed: the model's own call was thrown away
    (OPENAI, 400, openai("Failed to call a function", INVALID, "tool_use_failed"), "malformed"),
    # errors in a body with 200
    (ANTHROPIC, 200, claude("Overloaded", "overloaded_error"), "overload"),
    (ANTHROPIC, 200, claude("x", INVALID), "invalid_request"),
    (ANTHROPIC, 200, claude("prompt is too long: 9", INVALID), "overflow"),
    (OPENAI, 200, openai("slow", code=429), "rate_limit"),
    (OPENAI, 200, openai("no model", code=404), "invalid_request"),
    (OPENAI, 200, openai("gone", code=502), "provider_error"),
    (OPENAI, 200, openai("?"), "provider_error"),
    (OPENAI, 200, openai("x", "server_error"), "provider_error"),
]


@pytest.mark.parametrize(("api", "status", "body", "kind"), CASES)
def test_each_error_has_its_class(api: str, status: int, body: str, kind: str) -> None:
    found = refused(api, status, body, {"x-request-id": "req_1"})
    assert found.kind == {"overflow": "context_overflow"}.get(kind, kind), found.message
    assert (found.status, found.request_id, found.body) == (status, "req_1", body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (openai("No key."), "No key."),
        (claude("No key.", "x"), "No key."),
        ('{"error":"No key."}', "No key."),
        ('{"error":"invalid_request","message":"No key."}', "No key."),
        ('{"object":"error","message":"No key.","type":"BadRequestError","code":400}', "No key."),
        ('{"message":"No key."}', "No key."),
        ('{"detail":"No key."}', "No key."),
        ('{"detail":[{"msg":"No key."}]}', '[{"msg":"No key."}]'),
        ('[{"error":{"code":400,"message":"No key.","status":"INVALID_ARGUMENT"}}]', "No key."),
        ('{"error":{"reason":"No key."}}', '{"reason":"No key."}'),
        ("  <html>\nNo key.</html>\n", "<html>\nNo key.</html>"),
        ("", "status 400 without a body"),
        ("[]", "[]"),
        ("{}", "{}"),
        ("[1", "[1"),
    ],
)
def test_the_message_is_the_providers_own(body: str, message: str) -> None:
    assert refused(OPENAI, 400, body).message == message


def test_a_request_id_comes_from_the_body_when_no_header_has_it() -> None:
    assert refused(ANTHROPIC, 500, claude("x", "api_error")).request_id == "req_body"
    both = refused(ANTHROPIC, 500, claude("x", "api_error"), {"REQUEST-ID": "req_head"})
    assert both.request_id == "req_head"


@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI, DEEPSEEK, "openai-responses"])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"event: message_start\ndata: {}\n\n", "stream"),
        (b"data: [DONE]\n\n", "stream"),
        (b"<html>hello</html>", "no JSON object"),
        (b"[]", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b'{"choices":', "no JSON object"),
        (b'{"choices":[]} {}', "no JSON object"),
        (b'{"choices":[NaN],"output":[NaN],"content":[NaN]}', "no JSON object"),
        (b'{"content":"\x00"}', "no JSON object"),
        (b"\x00\xff\xfe", "no JSON object"),
        (b"{}", "no"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a":"\\ud800","b":' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_reply_is_malformed_and_kept(api: str, body: bytes, why: str) -> None:
    found = refused(api, 200, body)
    assert found.kind == "malformed"
    assert why in found.message
    assert found.body.encode("utf-8", "surrogateescape") == body


def test_a_long_page_is_not_all_a_message() -> None:
    found = refused(OPENAI, 502, "x" * 1_000_000)
    assert len(found.message) == 2000
    assert len(found.body) == 1_000_000


@pytest.mark.parametrize("lead", ["", '"\\ud800",'])
def test_nesting_up_to_the_edge_of_what_python_reads_never_raises(lead: str) -> None:
    """There a whole body is still read, and a part of it, deeper in the stack, no more."""

    def read(depth: int) -> bool:
        value = f"[{lead}{'[' * depth}{']' * depth}]"
        call = f'{{"type":"tool_use","id":"t","name":"n","input":{value}}}'
        assert isinstance(parse(OPENAI, 500, {}, f'{{"error":{value}}}'.encode()), RefusedReply)
        return isinstance(parse(ANTHROPIC, 200, {}, f'{{"content":[{call}]}}'.encode()), Answered)

    low, high = 100, 1_000_000
    assert read(low)
    assert not read(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if read(middle) else (low, middle)
    for depth in range(low - 30, low + 30):
        read(depth)


def test_an_unknown_api_is_named() -> None:
    with pytest.raises(ConfigError, match="no API 'gemini'; known are anthropic, openai-chat"):
        parse("gemini", 200, {}, b"{}")
