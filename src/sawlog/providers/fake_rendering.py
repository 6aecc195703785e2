"""A neutral reply as the whole-reply body of each API, with ids, usage and signatures.

Ids come from the request's bytes and its number, so the same conversation gets the same ones, and
a fake that was started again never repeats those of an earlier request.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from sawlog.providers.fake_compaction import kept_messages, sealed_block, signed_block
from sawlog.providers.fake_json import Source, dump, encoded
from sawlog.providers.fake_replies import Call, Part, Raw, Reply, ScriptError, Text, Thinking
from sawlog.providers.strict.gemini import first_call_content, signs_calls
from sawlog.providers.strict.reading import JsonObject, as_list, as_object, parse
from sawlog.providers.strict.signing import (
    PrefixDigest,
    Sealed,
    item_id,
    reasoning_id,
    seal,
    sign_thinking,
)

_EPOCH = 1_764_000_000  # `created` of the first reply, in seconds; no clock is read
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Request(NamedTuple):
    """An accepted request: its API, its JSON, its bytes and how many were accepted before it."""

    api: str
    json: JsonObject
    body: bytes
    number: int
    compacts: bool = False  # it came to the path on which Responses compacts

    def id(self, what: str, length: int) -> str:
        """Letters and digits that name `what` in the reply to this request."""
        value = int.from_bytes(hashlib.sha256(self.seed(what).encode("utf-8")).digest(), "big")
        letters: list[str] = []
        for _ in range(length):
            value, digit = divmod(value, len(_ALPHABET))
            letters.append(_ALPHABET[digit])
        return "".join(letters)

    def seed(self, what: str) -> str:
        """A text that is different for each `what` of each reply."""
        return f"{self.api} {self.number} {hashlib.sha256(self.body).hexdigest()} {what}"


def render(request: Request, reply: Reply, key: bytes) -> bytes:
    """The body of a reply. Raises ScriptError if the API cannot hold it."""
    if reply.raw is not None:
        return reply.raw.encode("utf-8") if isinstance(reply.raw, str) else reply.raw
    return _bytes(body_of(request, reply, key))


def body_of(request: Request, reply: Reply, key: bytes) -> JsonObject:
    """The body of a reply that is not raw, as a value; the input of a call of Anthropic's is a
    Source. Raises ScriptError if the API cannot hold it."""
    match request.api:
        case "anthropic":
            return _anthropic(request, reply, key)
        case "openai-responses" if request.compacts:
            return _compacted(request, key)
        case "openai-responses":
            return _responses(request, reply, key)
        case _:
            return _chat(request, reply, key)


def _anthropic(request: Request, reply: Reply, key: bytes) -> JsonObject:
    prefix = PrefixDigest(request.json)
    messages = [as_object(item) or {} for item in as_list(request.json["messages"]) or []]
    for message in messages:
        prefix.add_message(message)
    parts = reply.in_order()
    compacts = request.json.get("compaction") is not None and reply.stop is None
    if compacts:
        text = "".join(part.text for part in parts if isinstance(part, Text))
        parts = [Raw(signed_block(text, key))]
    elif _must_think(request, messages, parts):
        parts.insert(0, Thinking(""))
    blocks: list[object] = []
    for number, part in enumerate(parts):
        if isinstance(part, Thinking):
            kind = "redacted_thinking" if part.redacted else "thinking"
            text = "" if part.redacted else part.text
            before = [parse(dump(block)) for block in blocks]
            signature = sign_thinking(key, kind, prefix.before(before), text)
            block: JsonObject = {"type": kind, "data": signature}
            if not part.redacted:
                block = {"type": kind, "thinking": text, "signature": signature}
            blocks.append(block)
        elif isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, Call):
            id = part.id or f"toolu_01{request.id(f'call {number}', 22)}"
            source = _object_source(part, reply.stop)
            blocks.append({"type": "tool_use", "id": id, "name": part.name, "input": source})
        else:
            blocks.append(dict(part.value))
    called = any(isinstance(part, Call) for part in parts)
    return {
        "id": f"msg_01{request.id('message', 22)}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.json["model"],
        "content": blocks,
        "stop_reason": reply.stop
        or ("compaction" if compacts else "tool_use" if called else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": _tokens(request.body),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": _tokens(_bytes(blocks)),
            "service_tier": "standard",
        },
    }


def _must_think(request: Request, messages: list[JsonObject], parts: list[Part]) -> bool:
    """With thinking enabled a turn that calls tools opens with thinking, if only with none to
    show; the API demands it back."""
    enabled = (as_object(request.json.get("thinking")) or {}).get("type") == "enabled"
    last = as_list(messages[-1].get("content")) or []
    inside = any((as_object(block) or {}).get("type") == "tool_result" for block in last)
    called = any(isinstance(part, Call) for part in parts)
    return enabled and called and not inside and not isinstance(parts[0], Thinking)


def _object_source(call: Call, stop: str | None) -> Source:
    value = None if call.custom else _json(call.source)
    if as_object(value) is not None:
        return Source(call.source)
    # A call that the limit cut: a stream shows how far its arguments came, a whole reply nothing.
    if value is None and not call.custom and stop == "max_tokens":
        return Source("{}", cut=call.source)
    raise ScriptError(
        f"the arguments of the call {call.name!r} are not a JSON object, and Anthropic has no "
        f"other: {call.source[:80]!r}; cut arguments need the stop max_tokens"
    )


def _json(source: str) -> object:
    """The value of a JSON text; None if it is none."""
    try:
        return parse(source)
    except Exception:  # whatever parse raises: it is no JSON
        return None


def _chat(request: Request, reply: Reply, key: bytes) -> JsonObject:
    deepseek = request.api == "deepseek-chat"
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    for number, part in enumerate(reply.in_order()):
        match part:
            case Text(text):
                texts.append(text)
            case Thinking(text):
                thoughts.append(text)
            case Call():
                made = f"{'call_00_' if deepseek else 'call_'}{request.id(f'call {number}', 24)}"
                calls.append(_chat_call(part, part.id or made))
            case Raw():
                raise ScriptError("Chat Completions have no place for a raw part; give raw a body")
    message: JsonObject = {"role": "assistant", "content": "".join(texts) or None}
    if deepseek:
        message["content"] = "".join(texts)
        if (as_object(request.json.get("thinking")) or {}).get("type") != "disabled":
            message["reasoning_content"] = "".join(thoughts)
        calls = [{"index": number, **call} for number, call in enumerate(calls)]
    else:
        message |= {"refusal": None, "annotations": []}
    if calls:
        message["tool_calls"] = calls
        if not deepseek and signs_calls(str(request.json["model"])):
            calls[0]["extra_content"] = first_call_content(key, calls[0])
    asked, answered = _tokens(request.body), _tokens(_bytes(message))
    return {
        "id": request.id("message", 32) if deepseek else f"chatcmpl-{request.id('message', 29)}",
        "object": "chat.completion",
        "created": _EPOCH + request.number,
        "model": reply.model or request.json["model"],
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": reply.stop or ("tool_calls" if calls else "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": sum(map(len, thoughts)) // 4},
        },
        "system_fingerprint": f"fp_{request.id('fingerprint', 10)}",
    }


def _chat_call(call: Call, id: str) -> JsonObject:
    kind, argument = ("custom", "input") if call.custom else ("function", "arguments")
    return {"id": id, "type": kind, kind: {"name": call.name, argument: call.source}}


def _responses(request: Request, reply: Reply, key: bytes) -> JsonObject:
    output: list[JsonObject] = []
    reasoning: str | None = None  # the id of the reasoning that the next items need
    thoughts = 0
    for number, part in enumerate(reply.in_order()):
        seed = request.seed(f"item {number}")
        match part:
            case Thinking(text):
                reasoning = reasoning_id(key, seed)
                summary = [{"type": "summary_text", "text": text}] if text else []
                output.append({"id": reasoning, "type": "reasoning", "summary": summary})
                thoughts += len(text)
            case Text(text):
                none: list[object] = []
                content: JsonObject = {"type": "output_text", "text": text}
                content |= {"annotations": none, "logprobs": none}
                message: JsonObject = {
                    "id": item_id(key, "msg", seed, reasoning),
                    "type": "message",
                }
                message |= {"status": "completed", "role": "assistant"}
                output.append({**message, "content": [content]})
            case Call():
                kind, prefix = "function_call", "fc"
                argument = "arguments"
                if part.custom:
                    kind, prefix, argument = "custom_tool_call", "ctc", "input"
                call_id = part.id or f"call_{request.id(f'call {number}', 24)}"
                item = {"id": item_id(key, prefix, seed, reasoning), "type": kind}
                cut = reply.stop == "max_output_tokens" and not part.custom
                whole = not cut or _json(part.source) is not None
                item |= {"status": "completed" if whole else "incomplete", argument: part.source}
                output.append({**item, "call_id": call_id, "name": part.name})
            case Raw(value):
                block = value.get("type") == "compaction" and "encrypted_content" not in value
                output.append(_sealed_block(request, key, number) if block else dict(value))
    if "reasoning.encrypted_content" in (as_list(request.json.get("include")) or []):
        _seal(output, key)
    incomplete = reply.stop in ("max_output_tokens", "content_filter")
    asked, answered = _tokens(request.body), _tokens(_bytes(output))
    return {
        "id": f"resp_{hashlib.sha256(request.seed('response').encode('utf-8')).hexdigest()[:48]}",
        "object": "response",
        "created_at": _EPOCH + request.number,
        "status": "incomplete" if incomplete else reply.stop or "completed",
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reply.stop} if incomplete else None,
        "instructions": request.json.get("instructions"),
        "max_output_tokens": request.json.get("max_output_tokens"),
        "metadata": {},
        "model": reply.model or request.json["model"],
        "output": output,
        "parallel_tool_calls": request.json.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": request.json.get("reasoning") or {"effort": None, "summary": None},
        "service_tier": "default",
        "store": request.json.get("store", True),
        "temperature": 1.0,
        "text": request.json.get("text") or {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": request.json.get("tool_choice", "auto"),
        "tools": request.json.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answered,
            "output_tokens_details": {"reasoning_tokens": thoughts // 4},
            "total_tokens": asked + answered,
        },
        "user": None,
    }


def _sealed_block(request: Request, key: bytes, number: int) -> JsonObject:
    digest = hashlib.sha256(request.seed(f"block {number}").encode("utf-8")).hexdigest()
    return sealed_block(f"cmp_{digest[:48]}", key)


def _compacted(request: Request, key: bytes) -> JsonObject:
    """What Responses gives on its path to compact: the user's messages and one item."""
    ids = hashlib.sha256(request.seed("kept").encode("utf-8")).hexdigest()[:40]
    output = [*kept_messages(request.json.get("input"), ids), _sealed_block(request, key, 0)]
    asked, answered = _tokens(request.body), _tokens(_bytes(output))
    return {
        "id": f"resp_{hashlib.sha256(request.seed('response').encode('utf-8')).hexdigest()[:48]}",
        "object": "response.compaction",
        "created_at": _EPOCH + request.number,
        "output": output,
        "usage": {
            "input_tokens": asked,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answered,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked + answered,
        },
    }


def _seal(output: list[JsonObject], key: bytes) -> None:
    """Gives each reasoning item its encrypted content, which knows the item that follows."""
    for number, item in enumerate(output):
        if item.get("type") != "reasoning" or "encrypted_content" in item:
            continue
        follower = output[number + 1] if number + 1 < len(output) else {}
        fields = (item["id"], follower.get("type"), follower.get("id"), follower.get("call_id"))
        item["encrypted_content"] = seal(key, Sealed(*(str(field or "") for field in fields)))


def _tokens(data: bytes) -> int:
    return max(1, len(data) // 4)


def _bytes(value: object) -> bytes:
    return encoded(dump(value))
