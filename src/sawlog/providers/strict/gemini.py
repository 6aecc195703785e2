"""Gemini behind Chat Completions: the first call of each message brings its signature back.

It stands in the call's `extra_content`, which OpenAI itself refuses, and holds for the name and the
arguments that it was made for. Stricter than Gemini, which looks only at the turn under way. The
text that Google documents for calls of another model, `NO_SIGNATURE`, is taken for any call.
"""

from __future__ import annotations

import json

from sawlog.providers.strict import chat
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import Refusal
from sawlog.providers.strict.signing import check_call, sign_call

NO_SIGNATURE = "skip_thought_signature_validator"


class GeminiRefusal(Refusal):
    """A refusal in Google's shape: a list with one error that has a numeric code and a status."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "INVALID_ARGUMENT", message)

    def body(self, api: str, request_id: str = "") -> bytes:
        """The JSON body, the same for every request."""
        error = {"code": self.status, "message": self.message, "status": self.type}
        return json.dumps([{"error": error}], ensure_ascii=False).encode("utf-8")


def signs_calls(model: str) -> bool:
    """Whether the model signs its calls."""
    return model.startswith("gemini")


def first_call_content(key: bytes, call: JsonObject) -> JsonObject:
    """The `extra_content` of the first call of a reply."""
    signature = sign_call(key, *_signed(chat.calls_of({"tool_calls": [call]})[0]))
    return {"google": {"thought_signature": signature}}


def check_signatures(messages: list[JsonObject], key: bytes | None) -> None:
    """Raises a refusal for the first message whose first call has no signature, or with a `key`
    one that was not made for it."""
    for position, message in enumerate(messages, 1):
        calls = chat.calls_of(message) if message.get("role") == "assistant" else []
        if not calls:
            continue
        first = as_object((as_list(message["tool_calls"]) or [])[0]) or {}
        google = as_object((as_object(first.get("extra_content")) or {}).get("google")) or {}
        signature = google.get("thought_signature")
        name, arguments = _signed(calls[0])
        if not isinstance(signature, str) or not signature:
            raise GeminiRefusal(
                "Function call is missing a thought_signature in functionCall parts. "
                f"Additional data, function call `default_api:{name}` , position {position}."
            )
        if signature == NO_SIGNATURE or key is None:
            continue
        if not check_call(key, name, arguments, signature):
            raise GeminiRefusal("Corrupted thought signature.")


def _signed(call: chat.Call) -> tuple[str, str]:
    argument = "input" if call.kind == "custom" else "arguments"
    return str(call.function.get("name")), str(call.function.get(argument))
