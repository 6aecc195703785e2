"""A Chat Completion as its stream: OpenAI's, DeepSeek's with its reasoning, Gemini's with whole
calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from sawlog.providers.fake_json import dump
from sawlog.providers.fake_streams import Event, pieces
from sawlog.providers.strict.chat import calls_of
from sawlog.providers.strict.reading import JsonObject, as_list, as_object

DONE = Event("[DONE]")
_HEAD = ("id", "created", "model", "service_tier", "system_fingerprint")

Delta = tuple[JsonObject, int | None]  # with the number of the call whose arguments are in it


def stream(body: JsonObject, *, api: str, usage: bool, whole_calls: bool) -> list[Event]:
    """The events of a whole reply. `usage`: the request asked for the counts, which OpenAI gives in
    a chunk of their own and DeepSeek in any case with the last one. `whole_calls`: a call comes in
    one piece, as Gemini gives it."""
    head = {name: body[name] for name in _HEAD if name in body}
    head["object"] = "chat.completion.chunk"
    deepseek = api == "deepseek-chat"
    counts = body.get("usage")
    events: list[Event] = []

    def chunk(choices: list[JsonObject], counted: object, call: int | None = None) -> None:
        fields: JsonObject = {**head, "choices": choices}
        if usage or counted is not None:
            fields["usage"] = counted
        events.append(Event(dump(fields, ascii=False), None, call))

    choices = [as_object(choice) or {} for choice in as_list(body.get("choices")) or []]
    for number, choice in enumerate(choices):
        place: JsonObject = {"index": choice.get("index", number)}
        ended = {"logprobs": None, "finish_reason": choice.get("finish_reason")}
        for delta, call in _deltas(as_object(choice.get("message")) or {}, whole_calls):
            chunk([{**place, "delta": delta, "logprobs": None, "finish_reason": None}], None, call)
        nothing: JsonObject = {"content": "", "reasoning_content": None} if deepseek else {}
        last = deepseek and number == len(choices) - 1
        chunk([{**place, "delta": nothing, **ended}], counts if last else None)
    if usage and not deepseek:
        chunk([], counts)
    return [*events, DONE]


def _deltas(message: JsonObject, whole_calls: bool) -> Iterator[Delta]:
    """Role, reasoning, text and calls; the arguments of several calls come in turns."""
    content, thoughts = message.get("content"), message.get("reasoning_content")
    thinks = "reasoning_content" in message
    first: JsonObject = {"role": message.get("role", "assistant")}
    first["content"] = None if content is None or thinks else ""
    if thinks:
        first["reasoning_content"] = ""
    if "refusal" in message:
        first["refusal"] = None
    yield first, None
    for piece in _split(thoughts):
        yield {"content": None, "reasoning_content": piece}, None
    beside: JsonObject = {"reasoning_content": None} if thinks else {}
    if content == "" and thinks:  # the text is there, and empty
        yield {"content": "", **beside}, None
    for piece in _split(content):
        yield {"content": piece, **beside}, None
    for piece in _split(message.get("refusal")):
        yield {"refusal": piece}, None
    if as_list(message.get("annotations")):
        yield {"annotations": message["annotations"]}, None
    yield from _calls(message, whole_calls)


def _calls(message: JsonObject, whole: bool) -> Iterator[Delta]:
    sources: list[list[str]] = []
    kinds: list[str] = []
    fields = [as_object(item) or {} for item in as_list(message.get("tool_calls")) or []]
    for call, field in zip(calls_of(message), fields, strict=True):
        kind = str(call.kind)
        argument = _argument(kind)
        source = str(call.function.get(argument, ""))
        given = {**call.function, argument: source if whole else ""}
        opened = {"index": call.number, **field, kind: given}
        yield {"tool_calls": [opened]}, call.number if whole else None
        sources.append([] if whole else pieces(source))
        kinds.append(kind)
    for turn in zip_longest(*sources):
        for number, piece in enumerate(turn):
            if piece is not None:
                kind = kinds[number]
                added: JsonObject = {"index": number, kind: {_argument(kind): piece}}
                yield {"tool_calls": [added]}, number


def _argument(kind: str) -> str:
    return "input" if kind == "custom" else "arguments"


def _split(text: object) -> list[str]:
    return pieces(text) if isinstance(text, str) else []
