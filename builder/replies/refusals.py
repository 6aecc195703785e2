"""The class of an error that a provider answered with, and its own words about it.

Errors come with an HTTP status, or inside a body with 200 (a gateway had already begun to answer).
What the error's own type and code say counts before the status, and the status before the wording
of its message, which is looked at only where neither tells: providers have one status and type for
any bad request.
"""

from __future__ import annotations

import msgspec

from sawlog.builder.replies.answer import Received, RefusedReply
from sawlog.builder.replies.source import (
    ascii_low,
    elements,
    fields,
    is_empty,
    is_object,
    text_of,
)

_WORDS = {
    "auth": (
        "authentication_error",
        "permission_error",
        "permission_denied",
        "billing_error",
        "invalid_api_key",
        "invalid_authentication_error",
        "account_deactivated",
        "insufficient_quota",
        "insufficient_balance",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
    ),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded", "rate_limit_reached_error"),
    "overload": (
        "overloaded_error",
        "engine_overloaded",
        "engine_overloaded_error",
        "server_is_overloaded",
        "slow_down",
        "service_unavailable_error",
        "insufficient_system_resource",
    ),
    "timeout": ("timeout_error", "request_timeout", "gateway_timeout", "vector_store_timeout"),
    "context_overflow": (
        "context_length_exceeded",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "request_too_large",
    ),
    "refused_content": (
        "content_filter",
        "content_policy_violation",
        "image_content_policy_violation",
        "invalid_prompt",
        "moderation_blocked",
        "bio_policy",
        "cyber_policy",
        "misalignment_policy_violation",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
    ),
    "malformed": ("tool_use_failed",),
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words}

# What a bad request's message says when its type and code do not.
_PHRASES = (
    ("auth", ("credit balance is too low", "insufficient balance")),
    (
        "context_overflow",
        (
            "prompt is too long",
            "input is too long",
            "context length",
            "context window",
            "context limit",
            "maximum number of tokens allowed",
        ),
    ),
    (
        "refused_content",
        (
            "content filter",
            "content_filter",
            "content management policy",
            "content policy",
            "content exists risk",
            "usage policy",
            "usage policies",
            "safety system",
        ),
    ),
)

# Types and codes that name no cause: the status and the message say more. Of the others in a body
# with 200 the class is their own.
_GENERAL = {
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
    "data_residency_mismatch": "invalid_request",
    "server_error": "provider_error",
    "internal_server_error": "provider_error",
    "api_error": "provider_error",
}
_STATUSES = {
    401: "auth",
    402: "auth",
    403: "auth",
    408: "timeout",
    409: "provider_error",
    429: "rate_limit",
    499: "provider_error",
    503: "overload",
    504: "timeout",
    524: "timeout",
    529: "overload",
}
_SHOWN = 2000
"""Characters of a body that is no JSON which stand as the provider's message."""


class Fault(msgspec.Struct, frozen=True):
    """What an error object says: its type and codes in ASCII lower case, and its message."""

    words: tuple[str, ...]
    message: str
    status: int = 0
    request_id: str = ""


def refused(reply: Received) -> RefusedReply:
    """The refusal that an answer with an error status is."""
    fault = error_in(reply.body) or _listed(reply.body) or _bare(reply.body)
    if fault is None:
        shown = reply.body.strip(" \t\r\n")[:_SHOWN]
        fault = Fault((), shown or f"status {reply.status} without a body")
    return refusal(reply, fault)


def refusal(reply: Received, fault: Fault) -> RefusedReply:
    """The refusal that an error object says, whatever the status it came with."""
    return RefusedReply(
        kind=kind_of(reply.status, fault),
        status=reply.status,
        request_id=reply.request_id or fault.request_id,
        message=fault.message,
        body=reply.body,
    )


def malformed(reply: Received, why: str) -> RefusedReply:
    """The refusal of an answer that is no reply of its API."""
    return RefusedReply(
        kind="malformed",
        status=reply.status,
        request_id=reply.request_id,
        message=why,
        body=reply.body,
    )


def error_in(body: str) -> Fault | None:
    """What the `error` of a body says; None when the body is no JSON object or has none."""
    outer = fields(body) if is_object(body) else {}
    source = outer.get("error", "null")
    if fields(source):
        return error_fault(source, text_of(outer.get("request_id")))
    if text_of(source):
        return Fault(_low(text_of(source)), text_of(outer.get("message")) or text_of(source))
    if text_of(outer.get("object")) == "error" or text_of(outer.get("type")) == "error":
        return error_fault(body)
    return None


def _listed(body: str) -> Fault | None:
    """An error object that stands in a list, as in Google's answers."""
    listed = elements(body) if is_object(f'{{"":{body}}}') else None
    return error_in(listed[0]) if listed else None


def _bare(body: str) -> Fault | None:
    """An error without an object around it."""
    outer = fields(body) if is_object(body) else {}
    if not is_empty(outer.get("message")):
        return error_fault(body)
    detail = outer.get("detail")
    return None if is_empty(detail) else Fault((), text_of(detail) or (detail or "")[:_SHOWN])


def error_fault(source: str, request_id: str = "") -> Fault:
    """What an error object says."""
    error = fields(source)
    details = fields(error.get("details"))
    inner = fields(error.get("innererror"))
    words = _low(
        text_of(error.get("code")),
        text_of(details.get("error_code")),
        text_of(inner.get("code")),
        text_of(error.get("type")),
        text_of(error.get("status")),
    )
    return Fault(
        words,
        text_of(error.get("message")) or source[:_SHOWN],
        _number(error.get("code")),
        request_id,
    )


def kind_of(status: int, fault: Fault) -> str:
    """The class of an error: by its words, then by its status, then by its message."""
    if status == 413:
        return "context_overflow"  # though some call it a rate: sent again it is as large
    for word in fault.words:
        if word.endswith("spend_limit_reached"):
            return "auth"
        if word in _KINDS:
            return _KINDS[word]
    if 200 <= status < 300:
        status = fault.status
    if status in _STATUSES:
        return _STATUSES[status]
    general = next((_GENERAL[word] for word in fault.words if word in _GENERAL), "")
    if status in (400, 422) or (not status and general != "provider_error"):
        message = ascii_low(fault.message)
        for kind, phrases in _PHRASES:
            if any(phrase in message for phrase in phrases):
                return kind
    if 400 <= status < 500:
        return "invalid_request"
    if not status and any("image" in word for word in fault.words):
        return "invalid_request"  # a dozen codes of Responses say what is wrong with an image
    return general or "provider_error" if not status else "provider_error"


def _low(*words: str) -> tuple[str, ...]:
    return tuple(ascii_low(word) for word in words if word)


def _number(source: str | None) -> int:
    """A status given as a number, as gateways do inside a body with 200."""
    return (
        int(source) if source and len(source) == 3 and source.isascii() and _digits(source) else 0
    )


def _digits(text: str) -> bool:
    return all("0" <= char <= "9" for char in text)
