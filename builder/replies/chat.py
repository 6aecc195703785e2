"""Replies of the Chat Completions API, as OpenAI and those who follow it give them.

    content                      text, or a list: text parts are text, a part that is not plain or
                                 not known is a raw part
    reasoning_content            a bound part of that kind, also when it is empty: DeepSeek wants
                                 it back with every message that has calls
    refusal                      a bound part of that kind, wherever it stands
    tool_calls                   calls: `function` with JSON, `custom` with free text; the last one
                                 of a reply that was cut off is an incomplete part when its
                                 arguments do not end
    other fields that are set    bound parts of the kind `message.FIELD`, such as
                                 `message.reasoning` or `message.audio`; `annotations` are left to
                                 the body, for no request has a place for them

Every bound part's source is the value of its field. A field of a call that is not known stands
right behind the call as a bound part of the kind `call.FIELD`. Of several choices the first is the
reply; the others stay in the body.
"""

from __future__ import annotations

from sawlog.builder.replies.answer import Answered, Assembly, Malformed, Received, RefusedReply
from sawlog.builder.replies.extras import add_extras
from sawlog.builder.replies.refusals import Fault, error_fault, refusal
from sawlog.builder.replies.source import closes, elements, fields, is_empty, string, text_of
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested

_CUT = ("length", "content_filter")
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_OTHER_WAYS = ("role", "content", "refusal", "tool_calls", "annotations", *_REASONING)
_TEXT = frozenset({"type", "text"})


def read_chat(reply: Received, broken: tuple[str, ...]) -> Answered | RefusedReply:
    """The reply that a Chat Completions body is, or the error that stands in its choice.

    `broken` are reasons to finish that mean that the provider failed. Raises Malformed when the
    body is no such reply.
    """
    body = fields(reply.body)
    choices = elements(body.get("choices"))
    choice = fields(choices[0]) if choices else {}
    message = fields(choice.get("message"))
    stop = text_of(choice.get("finish_reason"))
    if choice.get("error", "").startswith("{"):
        return refusal(reply, error_fault(choice["error"]))
    if stop in broken:
        return refusal(reply, Fault((stop,), f"the provider broke the reply off: {stop}"))
    if not message:
        raise Malformed("this is no Chat Completions reply: it has no `choices` with a message")
    assembly = Assembly()
    _fields(assembly, reply.api, message, _REASONING)
    _content(assembly, reply.api, message.get("content"))
    _refused(assembly, reply.api, message.get("refusal"))
    _fields(assembly, reply.api, message, [name for name in message if name not in _OTHER_WAYS])
    calls = elements(message.get("tool_calls")) or []
    for at, source in enumerate(calls):
        _call(assembly, reply.api, at, source, cut=stop in _CUT and at == len(calls) - 1)
    filtered = stop if stop == "content_filter" else ""
    return Answered(
        request_id=reply.request_id,
        response_id=text_of(body.get("id")),
        model=text_of(body.get("model")),
        account=reply.account,
        stop_reason=stop,
        usage="" if is_empty(body.get("usage")) else body["usage"],
        parts_and_calls=assembly.done(),
        text=assembly.text(),
        paused=False,
        refusal="".join(assembly.refusals) or filtered,
        body=reply.body,
    )


def _fields(
    assembly: Assembly, api: str, message: dict[str, str], names: list[str] | tuple[str, ...]
) -> None:
    for name in names:
        value = message.get(name)
        if value is None or (is_empty(value) and (name, value) != ("reasoning_content", '""')):
            continue
        text = text_of(value) or text_of(fields(value).get("transcript"))
        kind = name if name == "reasoning_content" else f"message.{name}"
        assembly.part(BoundPart(kind, api, value, text))


def _content(assembly: Assembly, api: str, content: str | None) -> None:
    text = text_of(content)
    if text:
        assembly.part(TextPart(text), text)
    for source in elements(content) or []:
        part = fields(source)
        kind, text = text_of(part.get("type")), text_of(part.get("text"))
        if kind == "refusal":
            _refused(assembly, api, part.get("refusal"))
        elif kind == "text" and all(n in _TEXT or is_empty(v) for n, v in part.items()):
            assembly.part(TextPart(text), text)
        else:
            assembly.part(RawPart(api, source), text if kind == "text" else "")


def _refused(assembly: Assembly, api: str, source: str | None) -> None:
    words = text_of(source)
    if source is not None and words:
        assembly.part(BoundPart("refusal", api, source, words))
        assembly.refusals.append(words)


def _call(assembly: Assembly, api: str, at: int, source: str, *, cut: bool) -> None:
    call = fields(source)
    form, argument, kind = "function", "arguments", "json"
    if "custom" in call:
        form, argument, kind = "custom", "input", "text"
    inner = fields(call.get(form))
    name = string(inner.get("name"))
    if name is None:
        raise Malformed(f"call {at} of the reply has no name")
    given = inner.get(argument, "null")
    # A string as the API says; servers that follow it send an object, or null where there are none.
    written = string(given)
    arguments = written if written is not None else "" if given == "null" else given
    # Free text shows no end, so what was cut off last is not taken for whole.
    if cut and (kind == "text" or not closes(arguments)):
        assembly.part(IncompletePart(name, arguments))
        return
    ordinary = text_of(call.get("type")) == form
    add_extras(assembly, api, call, {"id", "index", form, *(["type"] if ordinary else [])})
    assembly.call(
        ToolRequested(call_id=text_of(call.get("id")), name=name, arguments=arguments, kind=kind)
    )
