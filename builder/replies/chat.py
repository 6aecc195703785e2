"""Replies of the Chat Completions API, as OpenAI and those who follow it give them.

    content            text, or a list: its text parts are text, all others raw parts
    refusal            a raw part, the content part of that type
    reasoning_content  a bound part of that kind, also when it is empty: DeepSeek wants it back with
                       every message that has calls
    tool_calls         calls: `function` with JSON, `custom` with free text; the last one of a reply
                       that was cut off is an incomplete part when its arguments do not end

Other fields of the message (`reasoning`, `audio`), a text or a call stand behind it, see `extras`;
`annotations` are left to the body, for no request has a place for them. Of several choices the
first is the reply; the others stay in the body, too.
"""

from __future__ import annotations

from sawlog.builder.replies.answer import Answered, Assembly, Malformed, Received, RefusedReply
from sawlog.builder.replies.extras import add_extras
from sawlog.builder.replies.refusals import Fault, error_fault, refusal
from sawlog.builder.replies.source import closes, elements, fields, is_empty, text_of
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.jsonslices import string

_CUT = ("length", "content_filter")
_MESSAGE = ("role", "content", "refusal", "tool_calls", "annotations", "reasoning_content")
_TEXT = frozenset({"type", "text", "annotations"})


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
    thought = string(message.get("reasoning_content"))
    if thought is not None:
        source = message["reasoning_content"]
        assembly.part(BoundPart("reasoning_content", reply.api, source, thought))
    _content(assembly, reply.api, message.get("content"))
    refused = message.get("refusal")
    if text_of(refused):
        # The one part that is put together: the same text as a part of the content.
        _refusal(assembly, reply.api, f'{{"type":"refusal","refusal":{refused}}}', refused)
    add_extras(assembly, reply.api, "message", message, _MESSAGE)
    calls = elements(message.get("tool_calls")) or []
    for at, source in enumerate(calls):
        unended = reply.left_open(at)
        cut = stop in _CUT and at == len(calls) - 1
        _call(assembly, reply.api, at, source, cut=cut, unended=unended)
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


def _content(assembly: Assembly, api: str, content: str | None) -> None:
    text = text_of(content)
    if text:
        assembly.part(TextPart(text), text)
    for source in elements(content) or []:
        part = fields(source)
        kind, text = text_of(part.get("type")), text_of(part.get("text"))
        if kind == "text":
            assembly.part(TextPart(text), text)
            add_extras(assembly, api, "text", part, _TEXT)
        elif kind == "refusal":
            _refusal(assembly, api, source, part.get("refusal"))
        else:
            assembly.part(RawPart(api, source))


def _refusal(assembly: Assembly, api: str, source: str, words: str | None) -> None:
    assembly.part(RawPart(api, source))
    assembly.refusals.append(text_of(words))


def _call(assembly: Assembly, api: str, at: int, source: str, *, cut: bool, unended: bool) -> None:
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
    if unended or (cut and (kind == "text" or not closes(arguments))):
        assembly.part(IncompletePart(name, arguments))
        return
    call_id = text_of(call.get("id"))
    assembly.call(ToolRequested(call_id=call_id, name=name, arguments=arguments, kind=kind))
    known = {"id", "index", form}
    if text_of(call.get("type")) == form:
        known.add("type")
    add_extras(assembly, api, "call", call, known)
