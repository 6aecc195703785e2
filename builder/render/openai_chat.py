"""Chat Completions of OpenAI and of the servers that follow it: POST /v1/chat/completions.

- System and developer messages stand where they were said, those of the header first.
- A reply is one message: its texts joined in order, then all its calls; texts that stood apart are
  joined by an empty line. A tool message follows for each call, in call order, as text: the API
  takes no images in it.
- Arguments are a string here and go out as the model wrote them, be they JSON or not.
- Bound items are not part of this API; a profile that names `reasoning_content` has them sent.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.packet import Entry
from sawlog.builder.render import frames
from sawlog.builder.render.base import Call, Piece, Rendering, incomplete_call
from sawlog.builder.render.beside import Placed
from sawlog.builder.render.body import Section
from sawlog.builder.render.media import Shown
from sawlog.builder.render.source import is_string, string_value

_JOINT = "\n\n"


class OpenAIChat(Rendering):
    """Renderer `openai-chat@1`."""

    api = "openai-chat"
    owned = ("messages", "tools", "model")
    may_set: ClassVar[tuple[str, ...]] = ("openai-beta",)
    free_form = True
    system = Section(b"", b"")  # system text is a message here
    tools = Section(b',"tools":[', b"]")
    messages = b',"messages":['
    raw_types: ClassVar[dict[str, frozenset[str]]] = {
        "user": frozenset({"text", "image_url", "input_audio", "file"}),
        "assistant": frozenset({"text", "refusal"}),
    }

    def _system_text(self, at: int, text: str) -> bytes:
        raise AssertionError("a profile of this API names no system field")

    def _message_of(self, role: str, pieces: list[Piece]) -> bytes:
        return b'{"role":"' + role.encode() + b'","content":' + self._content(pieces) + b"}"

    def _content(self, pieces: list[Piece]) -> bytes:
        """A string where one text is all there is, else parts."""
        at, first = pieces[0]
        if len(pieces) == 1 and isinstance(first, str):
            return self.write.quoted(at, first)
        texts = [piece for _, piece in pieces if isinstance(piece, str)]
        strings = len(texts) == len(pieces)
        if strings and (len(texts) == 1 or self.profile.needs.string_content):
            return self.write.quoted(pieces[0][0], _JOINT.join(texts))
        return b"[" + b",".join(self._part(at, piece) for at, piece in pieces) + b"]"

    def _part(self, at: int, piece: str | bytes) -> bytes:
        if isinstance(piece, bytes):
            return piece
        return b'{"type":"text","text":' + self.write.quoted(at, piece) + b"}"

    # --- replies ---------------------------------------------------------------------------------

    def _reply(self, group: list[Placed]) -> None:
        verdicts = self._verdicts(group)
        texts: list[Piece] = []
        calls: list[bytes] = []
        thoughts: list[tuple[int, Entry]] = []
        apart = False
        for at, entry in group:
            kind = entry.kind
            part = entry.part if "/" in kind else ""
            if kind == "call" or (part and entry.role == "call"):
                calls.append(self._call(at, entry))
                apart = True
                continue
            if part == "bound":
                if verdicts[at] or entry.bound != "reasoning_content":
                    self.write.note(at, "left_out", verdicts[at] or "not_sent")
                else:
                    thoughts.append((at, entry))
                continue
            piece = self._piece(at, entry) if part else entry.text
            last = texts[-1][1] if texts else b""
            if isinstance(last, str) and isinstance(piece, str) and piece:
                joint = _JOINT if apart or part else ""
                texts[-1] = (texts[-1][0], last + joint + piece)
            elif piece:
                texts.append((at, piece))
            apart = (apart and not piece) or bool(part)
        at = group[-1][0]
        split = self.profile.needs.whole_turns and self._last_role == "assistant"
        if not texts and (split or not calls):
            self.write.note(at, "placeholder", "split_turn" if calls else "empty")
            texts.append((at, frames.EMPTY))
        content = self._content(texts) if texts else b"null"
        thought = self._thought(thoughts, bool(calls))
        asked = b',"tool_calls":[' + b",".join(calls) + b"]" if calls else b""
        said = (b'{"role":"assistant","content":', content, thought, asked, b"}")
        self._message("assistant", b"".join(said))

    def _piece(self, at: int, entry: Entry) -> str | bytes:
        """A part of a reply that is neither call nor bound; empty when it stays out."""
        match entry.part:
            case "":
                return entry.text
            case "raw":
                return self._raw(at, entry, "assistant")
            case "incomplete" if self.profile.incomplete == "text":
                self.write.note(at, "as_text", "incomplete")
                return incomplete_call(entry)
            case "media":
                self.write.note(at, "placeholder", "medium")
                return frames.not_shown(entry.name)
            case "incomplete" | "withheld":
                self.write.note(at, "left_out", entry.part)
            case _:
                self.write.note(at, "left_out", "no_place")
        return ""

    def _thought(self, thoughts: list[Placed], calls: bool) -> bytes:
        """The member `reasoning_content`, where the profile wants it or there is something in it.

        What was received as one JSON string goes back as that string's source.
        """
        wanted = calls and self.profile.needs.reasoning_content and self.thinking != "disabled"
        if not thoughts:
            return b',"reasoning_content":""' if wanted else b""
        at, entry = thoughts[0]
        if len(thoughts) == 1 and is_string(entry.text):
            return b',"reasoning_content":' + self.write.source(at, entry.text)
        text = "".join(string_value(one.text) or one.readable for _, one in thoughts)
        return b',"reasoning_content":' + self.write.quoted(at, text)

    def _call(self, at: int, entry: Entry) -> bytes:
        custom = entry.call_kind == "text" and self.profile.custom
        kind, member = ("custom", "input") if custom else ("function", "arguments")
        id = self.write.quoted(at, self._ask(at, entry, kind))
        name = self.write.quoted(at, self.write.name(at, entry.name, entry.namespace))
        if entry.call_kind == "text" and not custom:
            # A function's arguments are JSON: the free text goes into the one documented object.
            arguments = self.write.quoted(at, self.write.object(at, entry).decode())
        else:
            arguments = self.write.quoted(at, entry.text)
        shape = kind.encode()
        return b"".join(
            (b'{"id":', id, b',"type":"', shape, b'","', shape, b'":{"name":', name, b',"',
             member.encode(), b'":', arguments, b"}}")
        )  # fmt: skip

    # --- results ---------------------------------------------------------------------------------

    def _result(self, call: Call, group: list[Placed]) -> None:
        pieces = self._result_pieces(group)
        id = self.write.quoted(group[0][0], call.wire)
        content = self._content(pieces)
        said = (b'{"role":"tool","tool_call_id":', id, b',"content":', content, b"}")
        self._message("tool", b"".join(said))

    # --- tools and media -------------------------------------------------------------------------

    def _tool(self, at: int, name: str, tool: dict[str, str], *, custom: bool) -> bytes:
        parts = [b'{"name":' + self.write.quoted(at, name)]
        if string_value(tool.get("description")):
            parts.append(b',"description":' + self.write.source(at, tool["description"]))
        if custom and self.profile.custom:
            if "format" in tool:
                parts.append(b',"format":' + self.write.source(at, tool["format"]))
            return b'{"type":"custom","custom":' + b"".join(parts) + b"}}"
        schema = self.write.wrapping_schema(at) if custom else self.write.schema(at, tool)
        parts.append(b',"parameters":' + schema)
        if tool.get("strict") in ("true", "false"):
            parts.append(b',"strict":' + tool["strict"].encode())
        return b'{"type":"function","function":' + b"".join(parts) + b"}}"

    def _medium_part(self, shown: Shown) -> bytes:
        if shown.shape == "image":
            url = self.write.quoted(-1, shown.url)
            return b'{"type":"image_url","image_url":{"url":' + url + b"}}"
        if shown.source == "file":
            return b'{"type":"file","file":{"file_id":' + self.write.quoted(-1, shown.value) + b"}}"
        data = self.write.quoted(-1, shown.url)
        return b'{"type":"file","file":{"filename":"document.pdf","file_data":' + data + b"}}"
