"""What the four renderers share: entries become messages of a request that grows at its end.

`Request.notes` say what was not sent as it stands in the packet: (entry, what, why). `entry` is the
place of the entry in the order added, -1 the header.

    left_out     not sent: `binding_unknown`, `binding_broken`, `other_provider`, `other_model`,
                 `other_account`, `not_sent`, `thinking_off`, `unsigned`, `reference`, `not_json`,
                 `no_partner`, `partner_absent`, `no_place`, `withheld`, `incomplete`, `empty`,
                 `no_header`, `duplicate_tool`, `tool_member`
    wrapped      in an object of one member: `arguments`, `free_form`
    mapped       under another `id` or `name`; `tool_search` as an ordinary call
    repaired     `surrogate`, `media_type`, `schema`, `error_with_media`
    placeholder  a fixed text in its place: `medium`, `not_base64`, `too_large`, `too_many`,
                 `empty`, `split_turn`, `withheld`, `signature`
    as_text      shown as text: `partner_absent`, `incomplete`, `raw_part`, `no_call`
    escaped      `own_tag`: it would have begun a tag of sawlog's own
    added        a fixed user message in front (`opening`) or behind (`closing`)
    moved        a result that stood apart from its call: `beside_call`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from sawlog.builder.packet import Binding, Entry, Header, Request
from sawlog.builder.profiles import Medium, Profile
from sawlog.builder.render import frames, media
from sawlog.builder.render.beside import Placed, any_apart, beside_calls
from sawlog.builder.render.body import MESSAGES, SYSTEM, TOOLS, Body, Section
from sawlog.builder.render.source import members, mended, string_value
from sawlog.builder.render.wire import before_body, headers_of
from sawlog.builder.render.writing import Writing, blank
from sawlog.store.errors import ConfigError

Piece = tuple[int, "str | bytes"]
"""A part of a message, a text or JSON that is ready to be sent, with its entry's place."""

Bindings = Callable[[int], Binding | None]
"""What the bound items of a step are bound to; None when nobody recorded it."""


class Call(NamedTuple):
    """A call that waits for its result: its id, and the id and shape that it went out under."""

    id: str
    wire: str
    shape: str


class Rendering(ABC):
    """A request that grows at its end.

    `bindings` may be set anew before each `add`. After an error a rendering is of no more use.
    """

    api: ClassVar[str]
    method: ClassVar[str] = "POST"
    owned: ClassVar[tuple[str, ...]]
    """Members of the body that are the renderer's and never the caller's."""
    wanted: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Parameters without which the API refuses every request, each with an example."""
    may_set: ClassVar[tuple[str, ...]] = ()
    """HTTP headers that the caller may set, for they change what the model does."""
    system: ClassVar[Section]
    tools: ClassVar[Section]
    messages: ClassVar[bytes]
    """How the sections of the body begin and end."""
    beside: ClassVar[bool] = True
    """True of an API that takes a result nowhere but behind the reply that called."""
    free_form: ClassVar[bool] = False
    """True of an API that has calls without JSON."""
    body: ClassVar[type[Body]] = Body
    marks: ClassVar[bool] = False
    """True of a renderer that sets cache marks."""
    signs: ClassVar[bool] = False
    """True of a renderer whose first call of a reply has a thought signature."""
    raw_types: ClassVar[dict[str, frozenset[str]]]
    """Types of this API's own parts that may stand in `user`, `result`, `assistant`."""

    def __init__(
        self,
        header: Header,
        profile: Profile,
        bindings: Bindings,
        headers: Sequence[tuple[str, str]],
        account: str | None,
        *,
        prefixed: bool = True,
    ) -> None:
        self.header = header
        self.profile = profile
        self.bindings = bindings
        self.write = Writing(profile)
        self._account = account
        self._carriers = {(one.authority, one.trust): one for one in profile.carriers}
        self._bound = {bound.kind: bound.to for bound in profile.bound}
        self._headers = headers_of(profile.headers, headers, self.may_set)
        self._tool_names: set[str] = set()
        self._media: dict[Medium, int] = {}
        self._open: list[Call] = []
        self._left_open: list[Call] = []
        self._moved: frozenset[int] = frozenset()
        self._count = 0
        self._last_role = ""
        self._paused = False
        if not self.system.opens and any(one.head == "system" for one in profile.carriers):
            raise ConfigError(f"profile {profile.named}: {self.api} has no field for system text")
        if profile.custom and not self.free_form:
            raise ConfigError(f"profile {profile.named}: {self.api} has no free-form calls")
        head = self._head()
        before = before_body(self.method, profile.path, self._headers)
        self._body = self.body(
            before, head, self.system, self.tools, self.messages, prefixed=prefixed
        )

    def _head(self) -> bytes:
        source = self.header.params.strip(" \t\n\r") or "{}"
        params = members(source)
        if params is None:
            raise ConfigError("the parameters are no JSON object")
        for name in self.owned:
            if name in params:
                raise ConfigError(
                    f"the parameter {name!r} is the renderer's: the packet's header and entries "
                    "say it; leave it out"
                )
        for name, example in self.wanted:
            if name not in params:
                raise ConfigError(
                    f"the API {self.api} refuses a request without {name!r}: give it, such as "
                    f"{name}={example}"
                )
        thinking = members(params.get("thinking", ""))
        self.thinking = string_value(thinking.get("type")) if thinking else ""
        """The type that the caller's parameter `thinking` names."""
        inner = self.write.source(-1, source[1:-1]) + (b"," if params else b"")
        return b"{" + inner + b'"model":' + self.write.quoted(-1, self.header.model)

    # --- growing ---------------------------------------------------------------------------------

    def add(self, entries: Sequence[Entry]) -> None:
        """Append whole messages, in packet order: system text, tools, history.

        Raises ValueError when an addition begins inside a message or goes back to a section that
        is closed, BlobMissing for a medium whose bytes are not there.
        """
        placed: Iterable[Placed] = enumerate(entries, self._count)
        end = self._count + len(entries)
        self._moved = frozenset()
        if self.beside and any_apart(entries):
            placed, self._moved = beside_calls(list(placed))
        group: list[Placed] = []
        section = ""
        for one in placed:
            entry = one[1]
            if group and (entry.first or entry.section != section):
                self._add(group)
                group = []
            if not group:
                section = entry.section
                if not entry.first and section not in ("system", "tools"):
                    raise ValueError("an addition begins inside a message; add whole messages")
            group.append(one)
            self._count = one[0] + 1
        if group:
            self._add(group)
        self._count = end

    def _add(self, group: list[Placed]) -> None:
        entry = group[0][1]
        stage = _STAGES.get(entry.section, MESSAGES)
        if self._body.stage > stage:
            raise ValueError("system text, then tools, then history: an entry came too late")
        kind = entry.kind
        role = entry.role if "/" in kind else kind
        if stage == SYSTEM:
            self._say(group, head=True)
        elif stage == TOOLS:
            for at, tool in group:
                self._offer(at, tool)
        elif kind == "checkpoint/bound":
            self._take_block(*group[0])
        elif role in ("assistant", "call"):
            if not self.beside:
                self._left_open.extend(self._open)
            self._open = []
            self._reply(group)
        elif role == "result" and len(group) == 1:
            self._take_result(group)
        elif role == "result":
            begin = 0
            for end in range(1, len(group) + 1):
                if end == len(group) or group[end][1].call_id != group[begin][1].call_id:
                    self._take_result(group[begin:end])
                    begin = end
        else:
            self._say(group, head=False)

    def request(self) -> Request:
        """The request for all that was added so far. Costs one copy of the list of chunks."""
        notes = self.write.notes
        closing = b""
        if self.profile.needs.last_user and (
            not self._body.messages or (self._last_role == "assistant" and not self._paused)
        ):
            closing = self._message_of("user", [(-1, frames.CLOSING)])
            notes = [*notes, (self._count - 1, "added", "closing")]
        chunks, size, digest, prefix = self._body.whole(closing)
        return Request(
            method=self.method,
            path=self.profile.path,
            headers=self._headers,
            chunks=chunks,
            size=size,
            digest=digest,
            prefix=prefix,
            notes=tuple(notes),
        )

    def _message(self, role: str, data: bytes, *, may_open: bool = False) -> None:
        """Append a message of this role. `may_open`: it may come first, whoever it is of."""
        first = not self._body.messages and self.profile.needs.first_user
        if first and role != "user" and not may_open:
            self.write.note(self._count - 1, "added", "opening")
            self._body.message(self._message_of("user", [(-1, frames.OPENING)]))
        self._body.message(data)
        self._last_role = role
        self._paused = False

    # --- messages that are not the assistant's ---------------------------------------------------

    def _say(self, group: list[Placed], *, head: bool) -> None:
        first = group[0][1]
        carrier = self._carriers.get((first.authority, first.trust))
        to = "framed" if carrier is None else carrier.head if head else carrier.history
        if to == "system":
            self._say_in_field(group)
            return
        role = to.removesuffix("_message") if to.endswith("_message") else "user"
        tag = ""
        if to == "framed":
            claims = first.trust != "trusted" and first.role in ("system", "developer")
            tag = "text" if claims else first.role
        pieces = self._pieces(group, "user" if role == "user" else "system", tag=tag)
        data = self._message_of(role, self._filled(group, pieces))
        if head:
            self._body.wait(data)
            self._last_role = role
        else:
            self._message(role, data)

    def _say_in_field(self, group: list[Placed]) -> None:
        for at, piece in self._pieces(group, "system", tag=""):
            if isinstance(piece, bytes):
                self.write.note(at, "left_out", "no_place")
            elif self.profile.needs.text and blank(piece):
                self.write.note(at, "left_out", "empty")
            else:
                self._body.put(SYSTEM, self._system_text(at, piece))

    def _pieces(self, group: list[Placed], place: str, *, tag: str) -> list[Piece]:
        """The parts of a message that is not the assistant's.

        `place` is `system`, `user` or `result`; `tag` frames the texts. Without it they stand as
        they are, but for tags of sawlog's own in what a user says.
        """
        pieces: list[Piece] = []
        for at, entry in group:
            match entry.part:
                case "":
                    pieces.append((at, self._text(at, entry, place, tag)))
                case "media":
                    pieces.append((at, self._medium(at, entry, place)))
                case "raw":
                    raw = self._raw(at, entry, place)
                    if raw:
                        pieces.append((at, raw))
                case "withheld":
                    self.write.note(at, "placeholder", "withheld")
                    text = frames.framed("withheld", entry.text, trusted=False, name=entry.name)
                    pieces.append((at, text))
                case "incomplete":
                    self.write.note(at, "as_text", "incomplete")
                    pieces.append((at, incomplete_call(entry)))
                case _:
                    self.write.note(at, "left_out", "no_place")
        return pieces

    def _text(self, at: int, entry: Entry, place: str, tag: str) -> str:
        if tag:
            trusted = entry.trust == "trusted"
            return frames.framed(tag, entry.text, trusted=trusted, name=entry.name)
        if place != "user":
            return entry.text
        text = frames.guarded(entry.text)
        if text is not entry.text:
            self.write.note(at, "escaped", "own_tag")
        return text

    def _result_pieces(self, group: list[Placed]) -> list[Piece]:
        """The parts of a result; never none."""
        if len(group) == 1:  # as nearly all are: one text
            at, entry = group[0]
            if "/" not in entry.kind and not (self.profile.needs.text and blank(entry.text)):
                return [(at, entry.text)]
        return self._filled(group, self._pieces(group, "result", tag=""))

    def _filled(self, group: list[Placed], pieces: list[Piece]) -> list[Piece]:
        """The pieces without empty texts, where the API refuses them; never none."""
        if self.profile.needs.text:
            kept: list[Piece] = []
            for at, piece in pieces:
                if isinstance(piece, str) and blank(piece):
                    self.write.note(at, "left_out", "empty")
                else:
                    kept.append((at, piece))
            pieces = kept
        if not pieces:
            self.write.note(group[0][0], "placeholder", "empty")
            pieces = [(group[0][0], frames.EMPTY)]
        return pieces

    def _medium(self, at: int, entry: Entry, place: str) -> str | bytes:
        """A medium as a part, or the text that stands for it."""
        shown, why = media.shown(entry, place, self.profile.media)
        if shown is None:
            self.write.note(at, "placeholder", why)
            return frames.not_shown(entry.name)
        count = self._media.get(shown.rule, 0) + 1
        if shown.rule.most and count > shown.rule.most:
            # The first ones stay: what was sent does not vanish because another one came.
            self.write.note(at, "placeholder", "too_many")
            return frames.not_shown(entry.name)
        self._media[shown.rule] = count
        if why:
            self.write.note(at, "repaired", why)
        return self._medium_part(shown)

    def _raw(self, at: int, entry: Entry, place: str) -> str | bytes:
        """A part of this API as received; any other is a result's text, or nothing."""
        ours = self._ours(entry)
        if isinstance(ours, dict):
            if string_value(ours.get("type")) in self.raw_types.get(place, ()):
                return entry.text.encode()
            ours = "no_place"
        if place == "result":
            self.write.note(at, "as_text", "raw_part")
            return entry.text
        self.write.note(at, "left_out", ours)
        return b""

    def _ours(self, entry: Entry) -> dict[str, str] | str:
        """The members of a part that this API can take back as received, or why it cannot."""
        if entry.api != self.api:
            return "other_provider"
        found = members(entry.text)
        return "not_json" if found is None or mended(entry.text) != entry.text else found

    # --- bound items, calls, results -------------------------------------------------------------

    def _verdict(self, entry: Entry, standing: str) -> str:
        """Why a bound item is not sent; empty while its binding holds."""
        if entry.api != self.api:
            return "other_provider"
        to = self._bound.get(entry.bound)
        if to is None:
            return "not_sent"
        if self.thinking == "disabled" and entry.bound in _SWITCHED:
            return "thinking_off"
        if to == "none":
            return ""
        binding = entry.made or self.bindings(entry.step)
        if binding is None or not binding.prefix:
            return "binding_unknown"
        if binding.api != self.api:
            return "other_provider"
        if binding.model != self.header.model:
            return "other_model"
        if self._account is not None and binding.account != self._account:
            return "other_account"
        if to == "prefix" and binding.prefix != standing:
            return "binding_broken"
        return ""

    def _verdicts(self, group: list[Placed]) -> dict[int, str]:
        """The verdict of each bound item of a reply, by place."""
        bound = [one for one in group if "/" in one[1].kind and one[1].part == "bound"]
        if not bound:
            return {}
        standing = self._body.standing()
        return {at: self._verdict(entry, standing) for at, entry in bound}

    def _take_block(self, at: int, entry: Entry) -> None:
        """A provider's own compaction in front of the history, where this API can read it."""
        why = self._verdict(entry, self._body.standing())
        block = why or self._compaction(entry)
        if isinstance(block, str):
            self.write.note(at, "left_out", block)
        else:
            self._message("assistant", block, may_open=True)

    def _ask(self, at: int, entry: Entry, shape: str) -> str:
        """The id under which a call goes out; its result will find it."""
        wire = self.write.id(at, entry.call_id)
        self._open.append(Call(entry.call_id, wire, shape))
        return wire

    def _take_result(self, group: list[Placed]) -> None:
        id = group[0][1].call_id
        if group[0][0] in self._moved:
            self.write.note(group[0][0], "moved", "beside_call")
        # A result without an id (its content is erased) answers the next call in order.
        at: int | None = 0
        if not self._open or self._open[0].id != id:  # the first is nearly always the one
            at = next((n for n, call in enumerate(self._open) if call.id == id or not id), None)
        if at is None:
            far = [n for n, call in enumerate(self._left_open) if call.id == id and id]
            if far:
                self._result(self._left_open.pop(far[-1]), group)
                return
            self.write.note(group[0][0], "as_text", "no_call")
            self._result_as_text(group)
            return
        call = self._open.pop(at)
        if call.shape == "text":
            self._result_as_text(group)
        else:
            self._result(call, group)

    def _result_as_text(self, group: list[Placed]) -> None:
        pieces = self._filled(group, self._pieces(group, "user", tag="result"))
        self._message("user", self._message_of("user", pieces))

    # --- tools -----------------------------------------------------------------------------------

    def _offer(self, at: int, entry: Entry) -> None:
        tool = members(entry.text)
        if tool is None:
            raise ConfigError(f"the source of the tool {entry.name!r} is no JSON object")
        kind = string_value(tool.get("type"))
        name = entry.name or string_value(tool.get("name"))
        if kind not in ("", "function", "custom"):  # a tool that the provider runs
            if entry.api not in ("", self.api):
                self.write.note(at, "left_out", "other_provider")
                return
            name = name or kind
            data = self.write.source(at, entry.text)
        else:
            name = self.write.name(at, name)
            if set(tool) - _TOOL_MEMBERS:
                self.write.note(at, "left_out", "tool_member")
            data = self._tool(at, name, tool, custom=kind == "custom")
        if name in self._tool_names:
            self.write.note(at, "left_out", "duplicate_tool")
            return
        self._tool_names.add(name)
        self._body.put(TOOLS, data)

    # --- what each API writes in its own way -----------------------------------------------------

    @abstractmethod
    def _system_text(self, at: int, text: str) -> bytes:
        """A text of the field for system text."""

    @abstractmethod
    def _message_of(self, role: str, pieces: list[Piece]) -> bytes:
        """A message that is not the assistant's."""

    @abstractmethod
    def _reply(self, group: list[Placed]) -> None:
        """Append the message of one reply."""

    @abstractmethod
    def _result(self, call: Call, group: list[Placed]) -> None:
        """Append the result of a call."""

    @abstractmethod
    def _tool(self, at: int, name: str, tool: dict[str, str], *, custom: bool) -> bytes:
        """A tool, its members given as source."""

    @abstractmethod
    def _medium_part(self, shown: media.Shown) -> bytes:
        """A medium as a part of a message or a result."""

    def _compaction(self, entry: Entry) -> str | bytes:
        """A compaction of this API's own as the message that it is, or why it is not sent."""
        return "no_place"


# Bound items that the parameter `thinking` switches on and off.
_SWITCHED = frozenset({"thinking", "redacted_thinking", "reasoning_content"})
_STAGES = {"system": SYSTEM, "tools": TOOLS}
_TOOL_MEMBERS = frozenset({"type", "name", "description", "parameters", "strict", "format"})


def incomplete_call(entry: Entry) -> str:
    """The text that shows a call whose arguments never ended."""
    return frames.framed("incomplete-call", entry.text, trusted=False, name=entry.name)


def call_as_text(entry: Entry) -> str:
    """The text that shows a call which is no call in this request."""
    return frames.framed("call", entry.text, trusted=False, name=entry.name)
