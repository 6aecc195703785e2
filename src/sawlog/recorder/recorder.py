"""One conversation of another program, recorded in one session as it happens.

Each request is kept as its very bytes. What it says that the log does not hold yet becomes ordinary
events, each once; what it no longer repeats is an event, too. So the session can be shown, searched
and gone on with like any other.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from sawlog.builder.contents import text_of
from sawlog.builder.render.wire import before_body
from sawlog.builder.requests.cutting import Body, text_of_body
from sawlog.builder.requests.quoting import quotable
from sawlog.builder.requests.reading import body_at
from sawlog.builder.requests.spans import LEAST, Listed, Span, texts_of, written
from sawlog.builder.state import State
from sawlog.recorder.alike import gists
from sawlog.recorder.exchange import Exchange
from sawlog.recorder.items import Said, system_text, tools_of
from sawlog.recorder.mirror import Mirror, News, shown
from sawlog.store.content import TextPart
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import Conflict
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageSystem, ToolFinished, ToolRequested
from sawlog.store.events.lifecycle import HistoryEdited
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    PacketRecorded,
    StepAbandoned,
    StepFailed,
)
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.jsonslices import SCANNER
from sawlog.work.attempts import Attempts, Clean, Kept
from sawlog.work.calling import tool_source
from sawlog.work.dials import Dialled
from sawlog.work.session import Session

_CONFLICTS = 8
"""How often a request is read again because others appended meanwhile."""


class Asked(msgspec.Struct, frozen=True):
    """A request about to leave: the API that its path belongs to, and its very bytes.

    `headers` are those that change what the model does; `to` says where it goes, `clean` takes the
    client's keys out of what comes back.
    """

    api: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    to: Dialled = Dialled("")
    clean: Clean = str


class Recorder:
    """Records the exchanges of one conversation, one at a time. Threads may share it.

    What came to a request and cannot be written is an error of the log, where it is `strict`.
    """

    def __init__(self, session: Session, *, strict: bool = True) -> None:
        self.session = session
        self.reserved = False
        """True while it is kept for a request that `sent` is to take."""
        self._strict = strict
        self._lock = threading.RLock()
        self._mirror: Mirror | None = None
        self._listed: Listed | None = None
        self._system: str | None = None
        self._tools: tuple[Tool, ...] | None = None
        self._known: dict[str, tuple[int, int]] = {}
        self._calls: dict[str, tuple[str, int, str]] = {}
        self._last: tuple[bytes, Exchange] | None = None
        self._handles: set[str] | None = None
        self._cut = True
        """True while no whole reply came to the last request, as far as this handle knows."""

    @property
    def busy(self) -> bool:
        """True while an exchange is under way, or about to be."""
        return self.reserved or (self._last is not None and not self._last[1].done)

    def matches(self, body: Body) -> int:
        """How much of this conversation a request goes on from; 0 when it is of another one."""
        with self._lock:
            if body.handle:
                return int(body.handle in self._kept_there())
            news = self._mirrored(body).news(body)
            # A program that is started again asks the same again, and so does one that got no
            # whole reply: it goes on in its session.
            return news.belongs or (news.matched if self._cut and news.begins else 0)

    def repeated(self, items: tuple[str, ...]) -> int:
        """How many of a request's first items stood as they are in the last one."""
        with self._lock:
            return self._mirror.repeated(items) if self._mirror is not None else 0

    def waits_for(self, digest: bytes) -> bool:
        """True when bytes of that SHA-256 were sent last, and there is no reply to them."""
        return self._again(digest) is not None

    def has_built(self, asked: Asked, body: Body) -> bool:
        """True when the request is a packet of the session's own that waits to be sent."""
        with self._lock:
            built = self._built(self.session.state)
            return built is not None and _same(built, asked, body)

    @property
    def unanswered(self) -> bool:
        """True when no model said anything in this session yet: another start is as good."""
        with self._lock:
            state = self.session.state
            return not state.sent and not any(
                one.kind in ("message.assistant", "tool.requested") for one in state.news
            )

    def sent(self, asked: Asked, body: Body | None) -> Exchange:
        """Record a request and that its bytes are about to leave; durable when this returns.

        `body` is what it reads as; None for what is no JSON object. The same bytes again while the
        step has no reply are another attempt of it.
        """
        with self._lock:
            self.session.sending()
            digest = hashlib.sha256(asked.body).digest()
            exchange = self._again(digest) or self._recorded(asked, body)
            self._last = digest, exchange
            exchange.opened(asked.to, asked.clean)
            return exchange

    def close(self) -> None:
        """Log what is still under way as broken off."""
        # Without the lock: whoever settles the exchange asks for it.
        last = self._last
        if last is not None:
            last[1].broken(ConnectionError("the recording ended"))

    def _again(self, digest: bytes) -> Exchange | None:
        if self._last is None or self._last[0] != digest or not self._last[1].done:
            return None
        return self._last[1] if self.session.state.open_step == self._last[1].step else None

    def _recorded(self, asked: Asked, body: Body | None) -> Exchange:
        for _ in range(_CONFLICTS):
            state = self.session.state
            try:
                return self._append(asked, body, state)
            except Conflict:
                # Others appended, such as a message to the inbox: the places are other ones now.
                self.session.caught_up()
        raise Conflict("others kept appending to the session while a request was recorded")

    # --- what a request says ----------------------------------------------------------------------

    def _append(self, asked: Asked, body: Body | None, state: State) -> Exchange:
        built = self._built(state) if body is not None else None
        if body is not None and built is not None and _same(built, asked, body):
            return self._rewritten(built, asked, body, state)
        step = state.step + 1
        events = self._ends(state)
        news: News | None = None
        new: list[NewEvent] = []
        header: tuple[str | None, tuple[Tool, ...]] | None = None
        if body is not None:
            header = system_text(body), tools_of(body)
            events.extend(self._header(state, *header))
            mirror = self._mirrored(body)
            news = mirror.added(body) if body.handle else mirror.news(body)
            if news.gone:
                events.append(self._new(HistoryEdited(news.gone), "harness"))
            for one, _, _ in news.new:
                new.append(self._event(one, state))
            events.extend(new)
        first = self.session.next_seq
        known = {**self._known, **_texts(enumerate(events, first))}
        seq = first + len(events)
        texts = texts_of(body) if body is not None else [text_of_body(asked.body)]
        spans, base, listing = written(texts, seq, self._list(state), known)
        model = body.model if body is not None else ""
        packet = _packet(asked, model, spans, base)
        event = self.session.new(packet, "recorder", step=step)
        self.session.record([*events, event], expected_seq=state.seq)
        assert event.id is not None
        if body is not None and news is not None and header is not None:
            self._mirrored(body).take(news, [one.id.hex() for one in new if one.id])
            self._system, self._tools = header
            self._listed = listing
        self._known = {}
        if body is not None and body.handle:
            self._kept_there().add(body.handle)
        attempts = Attempts(self.session, step, event.id.hex(), asked.api)
        return Exchange(attempts, asked.api, self._settled, strict=self._strict)

    def _built(self, state: State) -> bytes | None:
        """The body of the packet of ours that waits to be sent; None when none does."""
        if not state.open_step or state.sent_step != state.open_step or state.attempts:
            return None
        return self.session.built_body(state.open_step)

    def _rewritten(self, built: bytes, asked: Asked, body: Body, state: State) -> Exchange:
        """Record that a packet of ours leaves: as it was built, or as the client wrote it again."""
        packet = self.session.window.event(state.sent_at).id
        if built != asked.body:
            seq = self.session.next_seq
            spans, base, listing = written(texts_of(body), seq, self._list(state), self._known)
            again = _packet(asked, body.model, spans, base, origin="rewritten")
            event = self.session.new(again, "recorder", step=state.open_step)
            self.session.record([event], expected_seq=state.seq)
            assert event.id is not None
            packet = event.id.hex()
            self._listed = listing
        # What the packet shows came by the session itself: the history is to be read from there.
        self._mirror = self._system = self._tools = None
        self._known = {}
        attempts = Attempts(self.session, state.open_step, packet, asked.api)
        return Exchange(attempts, asked.api, self._settled, strict=self._strict)

    def _ends(self, state: State) -> list[NewEvent]:
        """An end for a step that has none: nobody asks for it again."""
        if not state.open_step:
            return []
        events: list[NewEvent] = []
        step = state.open_step
        if state.unsettled:
            lost = AttemptLost(number=state.unsettled, reason="no outcome was recorded")
            events.append(self._new(lost, "harness", step=step))
        end: Payload = StepAbandoned(reason="another step began before it had a reply")
        mine = self._last[1] if self._last is not None else None
        if mine is not None and mine.step == step and mine.refusal:
            end = StepFailed(reason=mine.refusal)
        events.append(self._new(end, "harness", step=step))
        return events

    def _header(self, state: State, system: str | None, tools: tuple[Tool, ...]) -> list[NewEvent]:
        events: list[NewEvent] = []
        if system and system != self._system_now(state):
            events.append(self._new(MessageSystem((TextPart(system),)), "system"))
        if _named(tools) != _named(self._tools_now(state)):
            events.append(self._new(ToolsChanged(tools), "harness"))
        return events

    def _event(self, one: Said, state: State) -> NewEvent:
        blobs = [Blob(hashlib.sha256(raw).digest(), raw, media) for raw, media in one.blobs]
        payload, source, step = one.payload, one.source, 0
        if isinstance(payload, ToolFinished):
            call, step, name = self._call(str(payload.call_id), state)
            name = str(payload.name) or name
            payload = msgspec.structs.replace(payload, call=call, name=name if not call else "")
            source = tool_source(name)
        return self._new(payload, source, step=step or None, blobs=blobs)

    def _call(self, call_id: str, state: State) -> tuple[str, int, str]:
        """The event of the call that a result answers, its step and its tool's name."""
        found = self._calls.get(call_id)
        if found is not None:
            return found
        for one in state.waiting:
            if text_of(one.call_id, self.session.window) == call_id:
                content = self.session.window.event(one.seq).content
                name = ""
                if isinstance(content, ToolRequested):
                    name = text_of(content.name, self.session.window)
                return one.id, one.step, name
        return "", 0, ""

    # --- what is known ----------------------------------------------------------------------------

    def _mirrored(self, body: Body) -> Mirror:
        if self._mirror is None:
            header = system_text(body) is not None
            self._mirror = Mirror(shown(self.session.state, self.session.window, header=header))
        return self._mirror

    def _kept_there(self) -> set[str]:
        """What the provider keeps of this conversation: ids of responses, and of itself."""
        if self._handles is None:
            self._handles = set()
            step = self.session.state.step
            for event in self.session.events_from(self.session.place(step) if step else 0):
                if isinstance(event.content, AttemptAnswered):
                    self._handles.add(text_of(event.content.response_id, self.session.window))
        return self._handles

    def _system_now(self, state: State) -> str | None:
        if self._system is None:
            window = self.session.window
            seqs = [seq for seq, _ in state.system] + [one.seq for one in state.news]
            for seq in reversed(seqs):
                event = window.event(seq)
                if isinstance(event.content, MessageSystem) and event.source == "system":
                    self._system = "".join(
                        text_of(part.text, window)
                        for part in event.content.parts
                        if isinstance(part, TextPart)
                    )
                    break
        return self._system

    def _tools_now(self, state: State) -> tuple[Tool, ...]:
        if self._tools is None:
            self._tools = ()
            window = self.session.window
            content = window.event(state.tools[0]).content if state.tools[0] else None
            if isinstance(content, ToolsChanged):
                self._tools = tuple(
                    Tool(text_of(one.name, window), text_of(one.source, window), one.effect)
                    for one in content.tools
                )
        return self._tools

    def _list(self, state: State) -> Listed | None:
        """The last recorded body, which the next one goes on from."""
        if self._listed is None and state.step:
            seq = self.session.place(state.step)
            window = self.session.window
            if isinstance(window.event(seq).content, PacketRecorded):
                _, self._listed = body_at(seq, window)
        return self._listed

    # --- what comes back --------------------------------------------------------------------------

    def _settled(self, exchange: Exchange, kept: Kept | None) -> None:
        with self._lock:
            answered = kept.events[0].payload if kept is not None else None
            self._cut = not isinstance(answered, AttemptAnswered) or answered.interrupted
            if kept is None:
                return
            for new in kept.events:
                assert new.id is not None
                if isinstance(new.payload, AttemptAnswered) and self._handles is not None:
                    self._handles.add(text_of(new.payload.response_id, _Own(new)))
                if self._mirror is not None:
                    self._mirror.heard(gists(new.payload, _Own(new)), new.id.hex())
            for new, asked in kept.calls:
                assert new.id is not None
                self._calls[str(asked.call_id)] = new.id.hex(), new.step or 0, str(asked.name)
            self._known = _texts(zip(kept.seqs, kept.events, strict=True))

    def _new(self, payload: Payload, source: str, **options: Any) -> NewEvent:
        return self.session.new(payload, source, **options)


def _packet(
    asked: Asked, model: str, spans: tuple[Span, ...], base: int, origin: str = "recorded"
) -> PacketRecorded:
    before = before_body(asked.method, asked.path, asked.headers)
    return PacketRecorded(
        api=asked.api,
        method=asked.method,
        path=asked.path,
        headers=asked.headers,
        model=model,
        request=hashlib.sha256(before + asked.body).hexdigest(),
        size=len(asked.body),
        base=base,
        spans=spans,
        origin=origin,
    )


def _same(built: bytes, asked: Asked, body: Body) -> bool:
    """Whether a request is the packet that was built, written again by the client that sends it.

    Clients order members anew, spell numbers otherwise, and add `stream` and members that are null.
    """
    if built == asked.body:
        return True
    ours = _members(text_of_body(built))
    sent = _members(body.text)
    added = {name for name, value in sent.items() if name not in ours and value is not None}
    return added <= {"stream"} and all(
        sent.get(name, value) == value for name, value in ours.items()
    )


def _members(text: str) -> dict[str, Any]:
    try:
        value: Any = SCANNER.decode(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


class _Own:
    """The contents that came with an event."""

    def __init__(self, new: NewEvent) -> None:
        self._blobs = {blob.digest.hex(): blob.data for blob in new.blobs}

    def event(self, seq: int) -> Event:
        raise KeyError(seq)

    def blob(self, digest: str) -> bytes:
        return self._blobs[digest]


def _texts(events: Iterable[tuple[int, NewEvent]]) -> dict[str, tuple[int, int]]:
    """The texts of these events that are worth quoting: text to (seq, part)."""
    found: dict[str, tuple[int, int]] = {}
    for seq, new in events:
        for part, text in quotable(new.payload):
            said = text_of(text, _Own(new))
            if len(said) >= LEAST:
                found.setdefault(said, (seq, part))
    return found


def _named(tools: Iterable[Tool]) -> list[tuple[str, str]]:
    return [(str(one.name), str(one.source)) for one in tools]
