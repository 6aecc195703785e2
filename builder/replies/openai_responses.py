"""Replies of OpenAI's Responses API.

    message             text, part by part; a refusal in it a raw part; with content that is not
                        known the whole item is a raw part
    reasoning           a bound part
    function_call       a call with JSON, custom_tool_call one with free text, tool_search_call by
                        the client a search
    computer_call, local_shell_call, shell_call, apply_patch_call
                        calls, too, named `computer`, …; what they ask for is the arguments
    compaction          a bound part
    all others          raw parts: what the provider runs itself, approvals it asks for, and what is
                        not known

A call that did not end (its status, or the last item of a reply that was cut off) is an incomplete
part; reasoning that a broken stream left unfinished is of the kind `unsigned_thinking`, which never
goes back. Item ids are kept for calls alone. Other fields of a message (`phase`), a text
(`annotations`) or a call stand behind it, see `extras`. The stop reason is that of
`incomplete_details`, else the status.
"""

from __future__ import annotations

import msgspec

from sawlog.builder.replies.answer import (
    Answered,
    Assembly,
    Malformed,
    Received,
    RefusedReply,
    Running,
)
from sawlog.builder.replies.extras import add_extras
from sawlog.builder.replies.refusals import Fault, refusal
from sawlog.builder.replies.source import closes, elements, fields, is_empty, text_of
from sawlog.store.content import BoundPart, IncompletePart, RawPart, TextPart
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.jsonslices import string

API = "openai-responses"
_RUNNING = ("queued", "in_progress")
_UNENDED = ("incomplete", "in_progress")

# Calls that the client runs: where their arguments stand, and what kind of call they are.
_CALLS: dict[str, tuple[tuple[str, ...], str]] = {
    "function_call": (("arguments",), "json"),
    "custom_tool_call": (("input",), "text"),
    "tool_search_call": (("arguments",), "search"),
    "computer_call": (("action", "actions"), "json"),
    "local_shell_call": (("action",), "json"),
    "shell_call": (("action",), "json"),
    "apply_patch_call": (("operation",), "json"),
}
_NAMED = ("function_call", "custom_tool_call")
_CALL = frozenset({"id", "call_id", "name", "namespace", "status", "created_by"})
_MESSAGE = frozenset({"id", "type", "role", "status", "content", "created_by"})
_TEXT = frozenset({"type", "text", "logprobs"})


class _Item(msgspec.Struct, frozen=True):
    """An item of the output: its source, its fields, its type, and whether the client runs it."""

    source: str
    fields: dict[str, str]
    type: str
    ours: bool

    def text(self, name: str) -> str:
        return text_of(self.fields.get(name))


def read(reply: Received) -> Answered | RefusedReply | Running:
    """The reply that a Responses body is, or that it is none yet. Raises Malformed for another."""
    body = fields(reply.body)
    status = text_of(body.get("status"))
    response = text_of(body.get("id"))
    if status in _RUNNING:
        return Running(
            status=reply.status, request_id=reply.request_id, handle=response, body=reply.body
        )
    if status in ("failed", "cancelled"):
        return refusal(reply, Fault((), f"the response {response} is {status}"))
    sources = elements(body.get("output"))
    if sources is None:
        raise Malformed("this is no reply of Responses: it has no list `output`")
    items = _items(sources)
    why = text_of(fields(body.get("incomplete_details")).get("reason"))
    assembly = Assembly()
    for at, item in enumerate(items):
        if item.ours:
            if reply.left_open(at):
                _unended(assembly, item)
            else:
                # Of a broken stream it is known which items ended.
                whole = reply.unended is None
                _call(assembly, at, item, cut=_is_cut(items, at, status if whole else ""))
        elif item.type == "reasoning":
            kind = "unsigned_thinking" if reply.left_open(at) else "reasoning"
            assembly.part(BoundPart(kind, API, item.source, _reasoning(item)))
        elif item.type == "message":
            _message(assembly, item)
        elif item.type == "compaction":
            assembly.part(BoundPart("compaction", API, item.source))
        else:
            assembly.part(RawPart(API, item.source))
    filtered = why if why == "content_filter" else ""
    return Answered(
        request_id=reply.request_id,
        response_id=response,
        model=text_of(body.get("model")),
        account=reply.account,
        stop_reason=why or status,
        usage="" if is_empty(body.get("usage")) else body["usage"],
        parts_and_calls=assembly.done(),
        text=assembly.text(),
        paused=status == "incomplete",
        refusal="".join(assembly.refusals) or filtered,
        body=reply.body,
    )


def _items(sources: list[str]) -> list[_Item]:
    found: list[_Item] = []
    # A call whose output stands in the same reply was the provider's to run.
    outputs = {
        (text_of(one.get("type")), text_of(one.get("call_id"))) for one in map(fields, sources)
    }
    for at, source in enumerate(sources):
        item = fields(source)
        kind = text_of(item.get("type"))
        if not kind:
            raise Malformed(f"output {at} of the reply is no item with a type")
        ours = kind in _CALLS and (f"{kind}_output", text_of(item.get("call_id"))) not in outputs
        if kind == "tool_search_call":
            ours = text_of(item.get("execution")) == "client"
        if text_of(fields(item.get("environment")).get("type")) == "container_reference":
            ours = False
        found.append(_Item(source, item, kind, ours))
    return found


def _reasoning(item: _Item) -> str:
    for name in ("summary", "content"):
        texts = [
            text_of(fields(part).get("text")) for part in elements(item.fields.get(name)) or []
        ]
        if any(texts):
            return "\n\n".join(texts)
    return ""


# --- messages ------------------------------------------------------------------------------------


def _message(assembly: Assembly, item: _Item) -> None:
    contents = elements(item.fields.get("content")) or []
    kinds = {text_of(fields(source).get("type")) for source in contents}
    if not kinds <= {"output_text", "refusal"} or item.text("role") != "assistant":
        assembly.part(RawPart(API, item.source))
        return
    for source in contents:
        part = fields(source)
        if text_of(part.get("type")) == "refusal":
            assembly.part(RawPart(API, source))
            assembly.refusals.append(text_of(part.get("refusal")))
        else:
            text = text_of(part.get("text"))
            assembly.part(TextPart(text), text)
            add_extras(assembly, API, "text", part, _TEXT)
    add_extras(assembly, API, "message", item.fields, _MESSAGE)


# --- calls ---------------------------------------------------------------------------------------


def _is_cut(items: list[_Item], at: int, status: str) -> bool:
    """Whether a call did not end."""
    item = items[at]
    if item.text("status") in _UNENDED:
        return True
    if status != "incomplete" or at != len(items) - 1 or item.text("status") == "completed":
        return False
    _, written = _arguments(at, item)
    # Free text shows no end, so what was cut off last is not taken for whole.
    return item.type == "custom_tool_call" or not closes(written)


def _arguments(at: int, item: _Item) -> tuple[str, str]:
    """The field that holds a call's arguments, and the arguments: a string's text, else source."""
    names, _ = _CALLS[item.type]
    for name in names:
        source = item.fields.get(name)
        if source is not None and source != "null":
            written = string(source)
            return name, source if written is None else written
    if item.type in _NAMED:
        return names[0], ""
    raise Malformed(f"output {at} of the reply, a {item.type}, has no {names[0]}")


def _name(item: _Item) -> str:
    return item.text("name") if item.type in _NAMED else item.type.removesuffix("_call")


def _unended(assembly: Assembly, item: _Item) -> None:
    """Add a call that broke off, which may not have come to its arguments."""
    names, _ = _CALLS[item.type]
    given = next((item.fields[name] for name in names if not is_empty(item.fields.get(name))), "")
    written = string(given)
    assembly.part(IncompletePart(_name(item), given if written is None else written))


def _call(assembly: Assembly, at: int, item: _Item, *, cut: bool) -> None:
    field, arguments = _arguments(at, item)
    name = _name(item)
    if not name:
        raise Malformed(f"output {at} of the reply, a {item.type}, has no name")
    if cut:
        assembly.part(IncompletePart(name, arguments))
        return
    assembly.call(
        ToolRequested(
            call_id=item.text("call_id") or item.text("id"),
            name=name,
            arguments=arguments,
            kind=_CALLS[item.type][1],
            namespace=item.text("namespace"),
            item=item.text("id"),
        )
    )
    known = _CALL | {field}
    if item.type in (*_NAMED, "tool_search_call"):
        known |= {"type", "execution"}  # which the kind of the call says
    add_extras(assembly, API, "call", item.fields, known)
