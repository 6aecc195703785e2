"""The Responses API of OpenAI: POST /v1/responses, the whole history in `input`.

- System text of the header is the field `instructions`, its parts joined by an empty line; it
  stands in front of the growing history as a system field does. Other standings are message items.
- A reply is a row of items: a message for each run of texts, reasoning as received, calls. Item
  ids of messages and calls are left out: the API takes them or none, and they are no part of the
  history.
- Reasoning goes back while its binding holds and it is whole (`encrypted_content`); it must be
  followed by the item that it was made for. Behind a call's reasoning that call is known by its
  `call_id`; a message would be known by its id alone, so the reasoning of a message stays out, if
  it has an id itself. Calls whose reasoning stays out are sent bare, provider-run items with an id
  are not sent.
- A free-form call and its result are `custom_tool_call` items; a tool search is sent as an ordinary
  function call, for its own item wants its result as tools and not as text.
- A result stands where the packet has it, which may be apart from its call.
- A compaction that the API made for a checkpoint is an item in front of the history.
- `store`, `include` and `previous_response_id` are the caller's parameters.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.packet import Entry
from sawlog.builder.render import frames
from sawlog.builder.render.base import Call, Piece, Rendering, incomplete_call
from sawlog.builder.render.beside import Placed
from sawlog.builder.render.body import Section
from sawlog.builder.render.media import Shown
from sawlog.builder.render.source import members, string_value
from sawlog.builder.render.writing import Writing

_RUN_BY_PROVIDER = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_call",
        "mcp_approval_request",
        "mcp_approval_response",
        "program",
        "program_output",
    }
)


class OpenAIResponses(Rendering):
    """Renderer `openai-responses@1`."""

    api = "openai-responses"
    owned = ("input", "instructions", "tools", "model")
    may_set: ClassVar[tuple[str, ...]] = ("openai-beta",)
    beside = False
    free_form = True
    system = Section(b',"instructions":"', b'"', rb"\n\n")
    tools = Section(b',"tools":[', b"]")
    messages = b',"input":['
    raw_types: ClassVar[dict[str, frozenset[str]]] = {
        "user": frozenset({"input_text", "input_image", "input_file", "input_audio"}),
        "result": frozenset({"input_text", "input_image", "input_file"}),
        "assistant": _RUN_BY_PROVIDER,
    }

    def _system_text(self, at: int, text: str) -> bytes:
        return self.write.quoted(at, text)[1:-1]

    def _message_of(self, role: str, pieces: list[Piece]) -> bytes:
        parts = b",".join(self._part(at, piece, b"input_text") for at, piece in pieces)
        return b'{"type":"message","role":"' + role.encode() + b'","content":[' + parts + b"]}"

    def _part(self, at: int, piece: str | bytes, kind: bytes) -> bytes:
        if isinstance(piece, bytes):
            return piece
        return b'{"type":"' + kind + b'","text":' + self.write.quoted(at, piece) + b"}"

    # --- replies ---------------------------------------------------------------------------------

    def _reply(self, group: list[Placed]) -> None:
        items = _Items(self.write, self.profile.needs.reasoning_item)
        verdicts = self._verdicts(group)
        lost = False
        for at, entry in group:
            if entry.role == "call":
                items.put(*self._call(at, entry))
                continue
            match entry.part:
                case "":
                    items.text(self._said(at, entry.text))
                case "bound":
                    why = verdicts[at] or self._fault(entry)
                    if why:
                        self.write.note(at, "left_out", why)
                        lost = True
                    elif entry.bound == "reasoning":
                        items.reasoning(at, entry.text)
                    else:
                        items.put(entry.text.encode(), True)
                case "raw":
                    self._own(at, entry, items, lost)
                case "incomplete" if self.profile.incomplete == "text":
                    self.write.note(at, "as_text", "incomplete")
                    items.text(self._said(at, incomplete_call(entry)))
                case "media":
                    self.write.note(at, "placeholder", "medium")
                    items.text(self._said(at, frames.not_shown(entry.name)))
                case "incomplete" | "withheld":
                    self.write.note(at, "left_out", entry.part)
                case _:
                    self.write.note(at, "left_out", "no_place")
        data = items.joined()
        if not data:
            self.write.note(group[0][0], "placeholder", "empty")
            items.text(self._said(group[0][0], frames.EMPTY))
            data = items.joined()
        self._message("assistant", data)

    def _said(self, at: int, text: str) -> bytes:
        return self._part(at, text, b"output_text")

    def _fault(self, entry: Entry) -> str:
        """What a bound item lacks that it could be sent."""
        ours = self._ours(entry)
        if isinstance(ours, str):
            return ours
        if string_value(ours.get("type")) != entry.bound:
            return "not_json"
        # Without its content it is a reference to what the provider may still hold.
        return "" if string_value(ours.get("encrypted_content")) else "reference"

    def _compaction(self, entry: Entry) -> str | bytes:
        return self._fault(entry) or entry.text.encode()

    def _own(self, at: int, entry: Entry, items: _Items, lost: bool) -> None:
        ours = self._ours(entry)
        if isinstance(ours, str):
            self.write.note(at, "left_out", ours)
        elif string_value(ours.get("type")) not in _RUN_BY_PROVIDER:
            self.write.note(at, "left_out", "no_place")
        elif (lost or items.dropped) and "id" in ours:
            self.write.note(at, "left_out", "partner_absent")
        else:
            items.put(entry.text.encode(), True)

    def _call(self, at: int, entry: Entry) -> tuple[bytes, bool]:
        """A call as an item, and whether reasoning that was made for it still knows it."""
        custom = entry.call_kind == "text" and self.profile.custom
        kind, member = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        if entry.call_kind == "search":
            self.write.note(at, "mapped", "tool_search")
        id = self._ask(at, entry, kind)
        name = self.write.name(at, entry.name)
        if entry.call_kind == "text" and not custom:
            arguments = self.write.quoted(at, self.write.object(at, entry).decode())
        else:
            arguments = self.write.quoted(at, entry.text)
        namespace = b""
        if entry.namespace:
            namespace = b',"namespace":' + self.write.quoted(at, entry.namespace)
        item = (
            b'{"type":"' + kind.encode() + b'","call_id":' + self.write.quoted(at, id)
            + b',"name":' + self.write.quoted(at, name) + namespace
            + b',"' + member.encode() + b'":' + arguments + b"}"
        )  # fmt: skip
        same = entry.call_kind == ("text" if custom else "json")
        return item, same and id == entry.call_id

    # --- results ---------------------------------------------------------------------------------

    def _result(self, call: Call, group: list[Placed]) -> None:
        pieces = self._result_pieces(group)
        only = pieces[0][1] if len(pieces) == 1 else b""
        if isinstance(only, str):
            output = self.write.quoted(group[0][0], only)
        else:
            parts = b",".join(self._part(at, piece, b"input_text") for at, piece in pieces)
            output = b"[" + parts + b"]"
        id = self.write.quoted(group[0][0], call.wire)
        kind = call.shape.encode() + b"_output"
        item = b'{"type":"' + kind + b'","call_id":' + id + b',"output":' + output + b"}"
        self._message("tool", item)

    # --- tools and media -------------------------------------------------------------------------

    def _tool(self, at: int, name: str, tool: dict[str, str], *, custom: bool) -> bytes:
        custom = custom and self.profile.custom
        kind = b"custom" if custom else b"function"
        parts = [b'{"type":"' + kind + b'","name":' + self.write.quoted(at, name)]
        if string_value(tool.get("description")):
            parts.append(b',"description":' + self.write.source(at, tool["description"]))
        if custom:
            if "format" in tool:
                parts.append(b',"format":' + self.write.source(at, tool["format"]))
            return b"".join((*parts, b"}"))
        free = string_value(tool.get("type")) == "custom"
        schema = self.write.wrapping_schema(at) if free else self.write.schema(at, tool)
        # The API's default is strict, which refuses most schemas that are not written for it.
        strict = b"true" if tool.get("strict") == "true" else b"false"
        return b"".join((*parts, b',"parameters":' + schema + b',"strict":' + strict + b"}"))

    def _medium_part(self, shown: Shown) -> bytes:
        if shown.shape == "image":
            member = b"file_id" if shown.source == "file" else b"image_url"
            value = self.write.quoted(-1, shown.url)
            return b'{"type":"input_image","detail":"auto","' + member + b'":' + value + b"}"
        start = b'{"type":"input_file","'
        value = self.write.quoted(-1, shown.url)
        match shown.source:
            case "file":
                return start + b'file_id":' + value + b"}"
            case "url":
                return start + b'file_url":' + value + b"}"
            case _:
                return start + b'filename":"document.pdf","file_data":' + value + b"}"


class _Items:
    """The items of one reply while they are put in a row; reasoning waits for what follows it."""

    def __init__(self, write: Writing, strict: bool) -> None:
        self._write = write
        self._strict = strict
        self._items: list[bytes] = []
        self._texts: list[bytes] = []
        self._reasoning: list[tuple[int, str]] = []
        self.dropped = False

    def text(self, part: bytes) -> None:
        """A further text of a message."""
        # A message goes out without its id; reasoning that has one would look for it in vain.
        self._follow(not any("id" in (members(text) or {}) for _, text in self._reasoning))
        self._texts.append(part)

    def reasoning(self, at: int, text: str) -> None:
        """A reasoning item, if what it was made for comes next."""
        self._close()
        self._reasoning.append((at, text))

    def put(self, item: bytes, known: bool) -> None:
        """A call or another item. `known`: reasoning in front of it may be sent."""
        self._close()
        self._follow(known)
        self._items.append(item)

    def joined(self) -> bytes:
        """All items."""
        self._close()
        self._follow(False)
        return b",".join(self._items)

    def _follow(self, known: bool) -> None:
        for at, text in self._reasoning:
            if known or not self._strict:
                self._items.append(text.encode())
            else:
                self._write.note(at, "left_out", "no_partner")
                self.dropped = True
        self._reasoning = []

    def _close(self) -> None:
        if self._texts:
            content = b",".join(self._texts)
            head = b'{"type":"message","role":"assistant","content":['
            self._items.append(head + content + b"]}")
            self._texts = []
