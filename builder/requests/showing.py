"""A recorded request as the entries of a packet: what each of its parts says, part by part.

The request's bytes are the truth; this is how a person, a difference and a search look at them. A
part that has no form known here shows its JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sawlog.builder.packet import Entry
from sawlog.builder.requests.cutting import Body
from sawlog.store.jsonslices import elements, fields, string

_ROLES = ("system", "developer", "user", "assistant")
_RESULTS = ("tool_result", "function_call_output", "custom_tool_call_output")
_CALLS = ("tool_use", "function_call", "custom_tool_call")
_ARGUMENTS = ("arguments", "input")
_TEXTS = ("text", "input_text", "output_text")


class Shown(msgspec.Struct, frozen=True):
    """What one part says: role, kind (empty for text), name, call id, status, text."""

    role: str
    part: str
    text: str
    name: str = ""
    call_id: str = ""
    status: str = ""


def entries_of(body: Body) -> list[Entry]:
    """The entries of a request, in the order of its bytes."""
    entries: list[Entry] = []
    for piece in body.pieces:
        source = body.source(piece)
        first = True
        for one in _shown(piece.kind, source):
            entries.append(_entry(first, piece.kind, one, body.api))
            first = False
    return entries


def _entry(first: bool, kind: str, one: Shown, api: str) -> Entry:
    section = {"system": "system", "tool": "tools"}.get(kind, "history")
    authority = one.role if one.role in _ROLES else "tool" if one.role == "result" else "none"
    if one.role == "call":
        authority = "assistant"
    return Entry(
        first=first,
        section=section,
        kind=f"{one.role}/{one.part}" if one.part else one.role,
        authority=authority,
        trust="trusted" if one.role != "result" else "untrusted",
        status=one.status,
        name=one.name,
        text=one.text,
        call_id=one.call_id,
        api=api if one.part else "",
    )


def _shown(kind: str, source: str) -> Iterator[Shown]:
    text = string(source)
    given = _fields(source)
    if kind == "system":
        yield Shown("system", "", text if text is not None else _text(given, "text") or source)
    elif kind == "tool":
        inner = _fields(given.get("function") or given.get("custom") or "") or given
        yield Shown("tool", "", source, name=_text(inner, "name") or _text(given, "type"))
    elif text is not None:
        yield Shown("user", "", text)
    elif not given:
        yield Shown("user", "raw", source)
    else:
        yield from _item(given, source)


def _item(given: dict[str, str], source: str) -> Iterator[Shown]:
    role, kind = _text(given, "role"), _text(given, "type")
    if role in ("tool", "function"):
        yield Shown(
            "result", "", _said(given.get("content")), _text(given, "name"),
            _text(given, "tool_call_id"), "ok",
        )  # fmt: skip
    elif role in _ROLES:
        yield from _message(role, given)
    elif kind in _CALLS or kind in _RESULTS:
        yield _block("assistant", source)
    else:
        yield Shown("assistant" if kind else "user", "raw", source)


def _message(role: str, given: dict[str, str]) -> Iterator[Shown]:
    content = given.get("content", "null")
    text = string(content)
    if given.get("reasoning_content", "null") != "null":
        yield Shown(role, "bound", given["reasoning_content"])
    if text:
        yield Shown(role, "", text)
    elif content.startswith("["):
        for block in elements(content):
            yield _block(role, block)
    for call in _elements(given.get("tool_calls")):
        outer = _fields(call)
        inner = _fields(outer.get("function") or outer.get("custom") or "")
        arguments = next((inner[name] for name in _ARGUMENTS if name in inner), "")
        yield Shown("call", "", _plain(arguments), _text(inner, "name"), _text(outer, "id"))


def _block(role: str, source: str) -> Shown:
    given = _fields(source)
    kind = _text(given, "type")
    if kind in _TEXTS:
        return Shown(role, "", _text(given, "text"))
    if kind in _CALLS:
        arguments = next((given[name] for name in _ARGUMENTS if name in given), "")
        id = _text(given, "call_id") or _text(given, "id")
        return Shown("call", "", _plain(arguments), _text(given, "name"), id)
    if kind in _RESULTS:
        status = "error" if given.get("is_error") == "true" else "ok"
        said = _said(given.get("content") or given.get("output"))
        id = _text(given, "tool_use_id") or _text(given, "call_id")
        return Shown("result", "", said, call_id=id, status=status)
    bound = kind in ("thinking", "redacted_thinking", "reasoning", "compaction")
    return Shown(role, "bound" if bound else "raw", source)


def _said(source: str | None) -> str:
    """The text of a content: a string, the texts of a list, else the source."""
    if source is None:
        return ""
    text = string(source)
    if text is not None:
        return text
    texts = [_text(_fields(one), "text") or one for one in _elements(source)]
    return "".join(texts) if texts else source


def _plain(source: str) -> str:
    text = string(source)
    return source if text is None else text


def _text(given: dict[str, str], name: str) -> str:
    return string(given.get(name)) or ""


def _fields(source: str) -> dict[str, str]:
    try:
        return fields(source) if source[:1] == "{" else {}
    except ValueError:
        return {}


def _elements(source: str | None) -> list[str]:
    try:
        return elements(source) if source is not None and source[:1] == "[" else []
    except ValueError:
        return []
