"""A log in memory for tests of the pure builder: real events, real bytes, no database."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sawlog.builder.branching import attended, resuming
from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Entry, Header
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import fold, fold_all
from sawlog.builder.render import renderer_for
from sawlog.builder.replies import Answered, parse
from sawlog.builder.state import State
from sawlog.providers.fake_rendering import Request, render
from sawlog.providers.fake_replies import Reply
from sawlog.providers.strict import FAKE_KEY
from sawlog.store import codec
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import NewEvent, StoredEvent
from sawlog.store.event import Event, decoded
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    MessageAssistant,
    MessageUser,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.registry import Registry
from sawlog.store.events.steps import AttemptAnswered, StepCompleted

SESSION = b"\x07" * 16
RENDERERS = ("openai-chat", "openai-responses", "anthropic", "deepseek-chat")


def text(value: str) -> tuple[Part, ...]:
    return (TextPart(value),)


def sending(api: str = "openai-chat", params: str = "", model: str = "test-model") -> Sending:
    profile, _ = profile_for(api, model)
    body = params or ('{"max_tokens":1000}' if api == "anthropic" else "{}")
    return Sending(Header(api, model, body, profile.named, renderer_for(api)), profile)


class MemoryLog:
    """Appends payloads as a store would and folds them; contents are held in dicts."""

    def __init__(self, registry: Registry = CORE) -> None:
        self.registry = registry
        self.events: list[Event] = []
        self.stored: list[StoredEvent] = []
        self.blobs: dict[str, bytes] = {}
        self.digest = codec.genesis(SESSION)
        self.state = State()
        self.cache = Cache()

    def event(self, seq: int) -> Event:
        return self.events[seq - 1]

    def blob(self, digest: str) -> bytes:
        return self.blobs[digest]

    def append(
        self, payload: Payload, *, step: int = 0, source: str = "user", ignorable: bool = False
    ) -> Event:
        seq = len(self.events) + 1
        event_id = seq.to_bytes(16, "big")
        new = NewEvent(payload=payload, source=source, step=step, id=event_id, ignorable=ignorable)
        ready = codec.prepare(new, self.registry, seq, lambda: event_id, lambda: bytes(16))
        for blob in ready.blobs:
            self.blobs[blob.digest.hex()] = blob.data
        head = codec.header(
            SESSION, seq, ready.id, ready.type, ready.version, ready.flags, ready.step,
            ready.source, ready.occurred_at, seq, 0,
        )  # fmt: skip
        commitment = codec.commit(ready.salt, ready.payload)
        self.digest = codec.link(self.digest, head, commitment)
        stored = StoredEvent(
            seq=seq, id=ready.id, type=ready.type, version=ready.version, flags=ready.flags,
            step=ready.step, source=ready.source, occurred_at=ready.occurred_at, recorded_at=seq,
            fence=0, salt=ready.salt, commitment=commitment, digest=self.digest,
            payload=ready.payload,
        )  # fmt: skip
        self.stored.append(stored)
        [event] = attended([decoded(stored, self.registry)], self.resuming, self.state.settled_at)
        self.events.append(event)
        self.state = fold(self.state, event)
        return event

    def resuming(self, rewind: Event) -> State:
        """The state that a rewind goes back to, folded from the first event on."""
        return resuming(rewind, lambda to: fold_all(State(), self.events[:to]), self.between)

    def between(self, after: int, upto: int) -> list[Event]:
        """The events after one seq, up to another."""
        return self.events[after:upto]

    def build(
        self,
        rules: Rules | None = None,
        api: str = "openai-chat",
        model: str = "test-model",
        **options: Any,
    ) -> Built | Refusal:
        under = sending(api, model=model)
        return build(
            self.state, rules or Rules(), under, len(self.events), self, self.cache, **options
        )

    def reply(self, built: Built, reply: Reply) -> bytes:
        """Append what the fake provider answers to a packet, as a session would; gives the body."""
        api = built.header.api
        request = Request(api, json.loads(built.request.body), built.request.body, len(self.events))
        body = render(request, reply, FAKE_KEY)
        parsed = parse(api, 200, {}, body)
        assert isinstance(parsed, Answered), parsed
        step, source = self.state.step, f"provider:{api}"
        self.append(AttemptAnswered(stop_reason=parsed.stop_reason), step=step, source=source)
        for piece in parsed.parts_and_calls:
            payload = piece if isinstance(piece, ToolRequested) else MessageAssistant(piece)
            self.append(payload, step=step, source=source)
        self.append(StepCompleted(), step=step, source=source)
        return body

    def packet(self, rules: Rules | None = None, api: str = "openai-chat", **options: Any) -> Built:
        """Build the next step's packet and append its packet.built."""
        built = self.build(rules, api, **options)
        assert isinstance(built, Built), built
        event = self.append(built.event(), step=self.state.step + 1, source="harness")
        self.cache.settle(event.seq)
        return built


class Story:
    """Runs the notation of the cases: `U A[c1,c2] S1 R1 P …` on a memory log."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.calls: dict[str, str] = {}
        self.built: list[Built] = []
        self._users = 0

    def run(self, story: str) -> Story:
        for token in story.split():
            self.one(token)
        return self

    def one(self, token: str) -> None:
        log = self.log
        if token[0] == "U":
            log.append(MessageUser(text(token)))
        elif token == "P":
            self.built.append(log.packet())
        elif match := re.fullmatch(r"A(\w*)\[(.*)\]", token):
            step = log.state.open_step or log.state.step + 1
            log.append(MessageAssistant(text(token)), step=step, source="provider:openai-chat")
            for name in filter(None, match[2].split(",")):
                event = log.append(
                    ToolRequested(name, "tool", f'{{"n":"{name}"}}'),
                    step=step,
                    source="provider:openai-chat",
                )
                self.calls[name] = event.id
        elif match := re.fullmatch(r"S(\d+)", token):
            log.append(ToolStarted(call=self.calls["c" + match[1]]), source="harness")
        elif match := re.fullmatch(r"R(\d+)('*)", token):
            log.append(
                ToolFinished(call_id="c" + match[1], name="tool", parts=text(token)),
                source="tool:tool",
            )
        elif match := re.fullmatch(r"D(\d+)", token):
            log.append(ToolDenied(call=self.calls["c" + match[1]], reason="no"), source="harness")
        elif match := re.fullmatch(r"Q(\d+)", token):
            log.append(
                ApprovalRequested(self.calls["c" + match[1]], "q" + match[1]), source="harness"
            )
        elif match := re.fullmatch(r"(Y|N)(\d+)", token):
            log.append(ApprovalDecided("q" + match[2], match[1] == "Y"), source="user")
        else:
            raise AssertionError(token)

    def shown(self, **options: Any) -> str:
        built = self.log.build(**options)
        if isinstance(built, Refusal):
            return built.reason
        return told(built.entries)


def told(entries: Sequence[Entry]) -> str:
    """Entries in the notation of the cases."""
    out: list[str] = []
    for entry in entries:
        if entry.kind == "call":
            out.append(entry.call_id)
        elif entry.kind == "result" and entry.trust == "trusted":
            out.append(f"syn({entry.status}){entry.call_id}")
        elif entry.kind == "late":
            out.append("late:" + entry.text.rpartition("\n")[2])
        elif entry.role == "notice":
            out.append("notice")
        else:
            out.append(entry.text)
    return " ".join(out)
