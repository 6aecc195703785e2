"""The Messages API of Anthropic: POST /v1/messages.

- System text stands in the field `system`, one text block for each part; instructions of system or
  developer that come later are user messages in a frame, unless the profile lets them ride higher.
- Messages are never merged, for a merged one would change when its neighbour comes; only the
  results of one reply share a user message, which stays open until something else follows.
- A result has `is_error` for every status but `ok`: a synthetic result is none of the tool's. With
  media in it the API allows no mark; then its first block says so.
- Thinking goes back as received while its binding holds: same API, model, account, and the same
  system, tools and messages before it, byte for byte. Anything that is not sent as received breaks
  what follows it in its own message, too.
- With `thinking` of type `enabled` the API wants a turn that calls tools to open with thinking; of
  one that cannot, calls and results are shown as text. With type `disabled` no thinking is sent.
- A reply that ends with a part that the provider runs was paused and goes back as it is, last.
- A compaction that the API made for a checkpoint is the first message and the only compaction. It
  is sent under a header that switches compaction on, and not without: the API would refuse it.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.packet import Entry
from sawlog.builder.render import frames
from sawlog.builder.render.base import (
    Call,
    Piece,
    Rendering,
    call_as_text,
    incomplete_call,
)
from sawlog.builder.render.beside import Placed
from sawlog.builder.render.body import Section
from sawlog.builder.render.media import Shown
from sawlog.builder.render.source import members, string_value
from sawlog.builder.render.writing import blank

_THINKING = ("thinking", "redacted_thinking")


class Anthropic(Rendering):
    """Renderer `anthropic@1`."""

    api = "anthropic"
    owned = ("messages", "system", "tools", "model")
    wanted = (("max_tokens", "8000"),)
    may_set = ("anthropic-version", "anthropic-beta")
    system = Section(b',"system":[', b"]")
    tools = Section(b',"tools":[', b"]")
    messages = b',"messages":['
    raw_types: ClassVar[dict[str, frozenset[str]]] = {
        "user": frozenset({"document", "image", "search_result", "container_upload"}),
        "result": frozenset({"document", "image", "search_result", "tool_reference"}),
        "assistant": frozenset({"server_tool_use", "mcp_tool_use", "container_upload"}),
    }

    _headed = False
    """Whether a compaction stands in front of the history."""

    _turn: bool | None = None
    """Whether the turn that runs opened with thinking; None between turns."""

    def _message(self, role: str, data: bytes, *, may_open: bool = False) -> None:
        if role == "user":
            self._turn = None
        super()._message(role, data, may_open=may_open)

    def _system_text(self, at: int, text: str) -> bytes:
        return self._placed(self._text_block(at, text))

    def _placed(self, block: bytes, *, markable: bool = True) -> bytes:
        """A block of a message, of the system text or a tool as it stands in the body."""
        return block

    def _text_block(self, at: int, text: str) -> bytes:
        return b'{"type":"text","text":' + self.write.quoted(at, text) + b"}"

    def _blocks(self, pieces: list[Piece]) -> list[bytes]:
        return [
            piece if isinstance(piece, bytes) else self._text_block(at, piece)
            for at, piece in pieces
        ]

    def _message_of(self, role: str, pieces: list[Piece]) -> bytes:
        # The API has no developer; a profile that lets developers ride so means the operator.
        role = "system" if role == "developer" else role
        blocks = b",".join(
            self._placed(block, markable=isinstance(piece, str))
            for (_, piece), block in zip(pieces, self._blocks(pieces), strict=True)
        )
        return b'{"role":"' + role.encode() + b'","content":[' + blocks + b"]}"

    # --- replies ---------------------------------------------------------------------------------

    def _reply(self, group: list[Placed]) -> None:
        verdicts = self._verdicts(group)
        opens = group[0][0] in verdicts and not self._fault(group[0][1], verdicts[group[0][0]])
        opens = opens and group[0][1].bound in _THINKING
        if self._turn is None:
            self._turn = opens
        shape = "tool_use"
        if (
            self.profile.needs.thinking_first and self.thinking == "enabled" and not self._turn
        ) or (self.profile.absent == "text" and any(verdicts.values())):
            shape = "text"
        blocks: list[bytes] = []
        before = len(self.write.notes)
        compacted = paused = thought = False
        for at, entry in group:
            altered = len(self.write.notes) > before
            block = self._block(at, entry, verdicts, altered, shape)
            if block:
                ours = entry.role == "call" or entry.part in ("", "incomplete", "media")
                blocks.append(self._placed(block, markable=ours))
                compacted = compacted or entry.bound == "compaction"
                paused = entry.part == "raw"
                thought = entry.part == "bound" and entry.bound in _THINKING
        if not blocks or thought:
            self.write.note(group[-1][0], "placeholder", "empty")
            blocks.append(self._placed(self._text_block(group[-1][0], frames.EMPTY)))
        data = b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"
        self._message("assistant", data, may_open=compacted)
        self._paused = paused

    def _block(
        self, at: int, entry: Entry, verdicts: dict[int, str], altered: bool, shape: str
    ) -> bytes:
        """A part of a reply as a block; empty when it stays out."""
        if entry.role == "call":
            return self._call(at, entry, shape)
        match entry.part:
            case "" if blank(entry.text) and self.profile.needs.text:
                self.write.note(at, "left_out", "empty")
            case "":
                return self._text_block(at, entry.text)
            case "bound":
                why = self._fault(entry, verdicts[at])
                if not why and altered and self._bound[entry.bound] == "prefix":
                    why = "binding_broken"
                if not why:
                    return entry.text.encode()
                self.write.note(at, "left_out", why)
            case "raw":
                return self._own(at, entry)
            case "incomplete" if self.profile.incomplete == "text":
                self.write.note(at, "as_text", "incomplete")
                return self._text_block(at, incomplete_call(entry))
            case "media":
                self.write.note(at, "placeholder", "medium")
                return self._text_block(at, frames.not_shown(entry.name))
            case "incomplete" | "withheld":
                self.write.note(at, "left_out", entry.part)
            case _:
                self.write.note(at, "left_out", "no_place")
        return b""

    def _fault(self, entry: Entry, verdict: str) -> str:
        """Why a bound item is not sent: its verdict, or what it lacks."""
        if verdict:
            return verdict
        if self._headed and entry.bound == "compaction":
            return "no_place"
        ours = self._ours(entry)
        if isinstance(ours, str):
            return ours
        if string_value(ours.get("type")) != entry.bound:
            return "not_json"
        signed = {"thinking": "signature", "redacted_thinking": "data"}.get(entry.bound)
        return "unsigned" if signed and not string_value(ours.get(signed)) else ""

    def _compaction(self, entry: Entry) -> str | bytes:
        why = self._fault(entry, "")
        if why or self._body.messages:
            return why or "no_place"
        if not string_value((members(entry.text) or {}).get("content")):
            return "empty"  # it failed: the API takes it and passes it over
        switches = dict(self._headers).get("anthropic-beta", "").split(",")
        if not any(one.strip(" ").startswith("compact-") for one in switches):
            return "no_header"
        self._headed = True
        block = self._placed(entry.text.encode(), markable=False)
        return b'{"role":"assistant","content":[' + block + b"]}"

    def _own(self, at: int, entry: Entry) -> bytes:
        """A part of a reply that only this API knows: a call that it runs, or its result."""
        ours = self._ours(entry)
        if isinstance(ours, str):
            self.write.note(at, "left_out", ours)
            return b""
        kind = string_value(ours.get("type"))
        if kind.endswith("_tool_result"):
            if not self.write.ids.is_used(string_value(ours.get("tool_use_id"))):
                self.write.note(at, "left_out", "partner_absent")
                return b""
        elif kind not in self.raw_types["assistant"]:
            self.write.note(at, "left_out", "no_place")
            return b""
        elif kind.endswith("_tool_use") and not self.write.ids.take(string_value(ours.get("id"))):
            self.write.note(at, "left_out", "no_place")
            return b""
        return entry.text.encode()

    def _call(self, at: int, entry: Entry, shape: str) -> bytes:
        if shape == "text":
            self.write.note(at, "as_text", "partner_absent")
            self._open.append(Call(entry.call_id, "", "text"))
            return self._text_block(at, call_as_text(entry))
        id = self._ask(at, entry, shape)
        name = self.write.name(at, entry.name, entry.namespace)
        return (
            b'{"type":"tool_use","id":' + self.write.quoted(at, id)
            + b',"name":' + self.write.quoted(at, name)
            + b',"input":' + self.write.object(at, entry) + b"}"
        )  # fmt: skip

    # --- results ---------------------------------------------------------------------------------

    def _result(self, call: Call, group: list[Placed]) -> None:
        at, entry = group[0]
        pieces = self._result_pieces(group)
        failed = entry.status != "ok"
        if failed and any(isinstance(piece, bytes) for _, piece in pieces):
            self.write.note(at, "repaired", "error_with_media")
            pieces.insert(0, (at, frames.FAILED))
            failed = False
        only = pieces[0][1] if len(pieces) == 1 else b""
        if isinstance(only, str):
            content = self.write.quoted(at, only)
        else:
            content = b"[" + b",".join(self._blocks(pieces)) + b"]"
        mark = b',"is_error":true}' if failed else b"}"
        id = self.write.quoted(at, call.wire)
        block = self._placed(
            b'{"type":"tool_result","tool_use_id":' + id + b',"content":' + content + mark
        )
        if self._body.is_open:
            self._body.grow(block)
            return
        turn = self._turn
        self._message("user", b'{"role":"user","content":[' + block)
        self._body.leave_open(b"]}")
        self._turn = turn  # results are part of the turn that asked for them

    # --- tools and media -------------------------------------------------------------------------

    def _tool(self, at: int, name: str, tool: dict[str, str], *, custom: bool) -> bytes:
        parts = [b'{"name":' + self.write.quoted(at, name)]
        if string_value(tool.get("description")):
            parts.append(b',"description":' + self.write.source(at, tool["description"]))
        schema = self.write.wrapping_schema(at) if custom else self.write.schema(at, tool)
        parts.append(b',"input_schema":' + schema + b"}")
        return self._placed(b"".join(parts))

    def _medium_part(self, shown: Shown) -> bytes:
        match shown.source:
            case "data":
                source = b'{"type":"base64","media_type":' + self.write.quoted(-1, shown.type)
                source += b',"data":' + self.write.quoted(-1, shown.value) + b"}"
            case "url":
                source = b'{"type":"url","url":' + self.write.quoted(-1, shown.value) + b"}"
            case _:
                source = b'{"type":"file","file_id":' + self.write.quoted(-1, shown.value) + b"}"
        return b'{"type":"' + shown.shape.encode() + b'","source":' + source + b"}"
