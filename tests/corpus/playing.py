"""A transcript played through the library as if it happened now.

The replies of the file are the script of the fake provider, which signs their thinking itself;
what the file's user and tools said is appended in the file's order, and between that the steps are
built and sent. What a foreign harness did to its history (compactions, rewinds) is left out; so is
a result without a call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import anthropic
import msgspec
import openai

from sawlog.agentlog import AgentLog
from sawlog.builder.profiles import Profile, profile_for
from sawlog.formats.base import ForeignEvent, ForeignSession
from sawlog.providers.fake import Call, FakeProvider, Part, Raw, Reply, Text, Thinking
from sawlog.store.content import BoundPart, RawPart, TextPart
from sawlog.store.content import Part as StoredPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import Refused
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import (
    CompactionStarted1,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import (
    HistoryTrimmed,
)
from sawlog.store.events.world import ToolsChanged
from sawlog.work.call import Call as LiveCall
from sawlog.work.session import Session

WINDOW = 200_000
"""Tokens that the models of the transcripts take whose files name no window."""

REOPENED = 60
"""Steps after which the session is closed and opened again."""


def events_of(foreign: ForeignSession) -> Iterator[ForeignEvent]:
    """The events of a file but those that belong to a compaction."""
    for record in foreign.records:
        if not any(isinstance(event.payload, CompactionStarted1) for event in record.events):
            yield from record.events


def played_profile(foreign: ForeignSession, window: int = 0) -> Profile:
    """A caller's own profile: the API's base with the file's window, or with another."""
    base, _ = profile_for(foreign.api, "")
    window = window or foreign.window or WINDOW
    return msgspec.structs.replace(base, name=f"{foreign.api}/played", window=window)


def params_of(api: str, *, thinking: bool) -> dict[str, Any]:
    """Parameters as the harness of such a file sends them."""
    if api == "anthropic":
        on = {"thinking": {"type": "enabled", "budget_tokens": 4000}} if thinking else {}
        return {"max_tokens": 8000, **on}
    if api == "openai-responses":
        return {"store": False, "include": ["reasoning.encrypted_content"]}
    return {}


# --- the script ----------------------------------------------------------------------------------


class Decision(NamedTuple):
    """One step of a file: what the model answered, its calls with the hex ids of their events, and
    the model that the file names."""

    reply: Reply
    calls: list[tuple[str, ToolRequested]]
    model: str


class Script:
    """The steps of a foreign session; for the fake provider what it answers next."""

    def __init__(self, foreign: ForeignSession) -> None:
        self.next = Reply()
        parts: dict[int, list[Part]] = {}
        calls: dict[int, list[tuple[str, ToolRequested]]] = {}
        models: dict[int, str] = {}
        for event in events_of(foreign):
            payload = event.payload
            if isinstance(payload, MessageAssistant) and event.step:
                given = parts.setdefault(event.step, [])
                given.extend(_reply_part(part) for part in payload.parts)
                models.setdefault(event.step, str(payload.model))
            elif isinstance(payload, ToolRequested):
                parts.setdefault(event.step, []).append(_call(payload, foreign.api))
                calls.setdefault(event.step, []).append((event.id.hex(), payload))
        self.decisions: dict[int, Decision] = {}
        model = "some-model"
        for step, given in parts.items():
            model = models.get(step) or model
            self.decisions[step] = Decision(Reply(parts=given), calls.get(step, []), model)

    def __call__(self, api: str, request: dict[str, object], number: int) -> Reply:
        return self.next


def _reply_part(part: StoredPart) -> Part:
    match part:
        case TextPart():
            return Text(str(part.text))
        case BoundPart(kind="redacted_thinking"):
            return Thinking("", redacted=True)
        case BoundPart(kind="thinking" | "reasoning"):
            return Thinking(str(part.text))
        case RawPart():
            # The harness keeps no ids of what the provider ran; a reply always has them.
            digest = hashlib.sha256(str(part.source).encode()).hexdigest()
            return Raw({"id": f"ws_{digest[:48]}", **json.loads(str(part.source))})
        case _:
            raise AssertionError(f"no provider answers with {part}")


def _call(payload: ToolRequested, api: str) -> Part:
    name, id, arguments = str(payload.name), str(payload.call_id), str(payload.arguments)
    if api == "openai-responses" and payload.kind == "search":
        call = {"type": "tool_search_call", "execution": "client", "status": "completed"}
        return Raw({**call, "call_id": id, "arguments": json.loads(arguments)})
    if api == "openai-responses" and payload.namespace:
        call = {"type": "function_call", "namespace": str(payload.namespace), "name": name}
        return Raw({**call, "call_id": id, "arguments": arguments, "status": "completed"})
    if api == "anthropic" and not arguments.startswith("{"):
        # The API has no arguments but objects: a model that it serves can write no others.
        arguments = json.dumps({"value": arguments})
    return Call(name, arguments, id, custom=payload.kind == "text")


# --- the play ------------------------------------------------------------------------------------


class Player:
    """Plays one foreign session into the session `name` of a log.

    `sent` are the steps in order; `unasked` those of them for which the file gives no reason: what
    they answered stands before a slice, or in a compaction that is left out.
    """

    def __init__(
        self,
        foreign: ForeignSession,
        log: AgentLog,
        name: str = "played",
        *,
        window: int = 0,
        thinking: bool = False,
    ) -> None:
        self.foreign = foreign
        self.log = log
        self.name = name
        self.script = Script(foreign)
        self.provider = FakeProvider(self.script)
        self.sent: list[int] = []
        self.unasked: list[int] = []
        self._profile = played_profile(foreign, window)
        self._params = params_of(foreign.api, thinking=thinking)
        self._calls: dict[str, LiveCall] = {}
        self._parallel: set[str] = set()
        self._answered: set[str] = set()

    def play(self) -> None:
        """Append what the file holds and send each of its steps, in order."""
        with self.provider:
            client = _client(self.foreign.api, self.provider)
            events = events_of(self.foreign)
            while True:
                # The file's calls ran where it was written: no gateway of today has a say in that.
                with self.log.session(self.name, profile=self._profile, gateway=None) as session:
                    if not self._play(session, client, events):
                        return

    def _play(self, session: Session, client: Any, events: Iterator[ForeignEvent]) -> bool:
        """Play on until the session is to be opened again; False at the end of the file."""
        if not self.sent:
            self._offer(session, ())
        begun = len(self.sent)
        for event in events:
            payload = event.payload
            match payload:
                case MessageAssistant() | ToolRequested() if event.step:
                    if event.step not in self.sent:
                        self._step(session, client, event.step)
                case ToolFinished():
                    self._result(session, event, payload)
                case ToolsChanged():
                    self._offer(session, payload.tools)
                case MessageSystem():
                    _record(session, event, MessageSystem(payload.parts, payload.role), "system")
                case MessageUser():
                    spoken = MessageUser(payload.parts, origin=payload.origin)
                    _record(session, event, spoken, "user")
                case HistoryTrimmed():
                    session.append(HistoryTrimmed(calls=payload.calls, form=payload.form))
                case _:
                    pass
            if len(self.sent) >= begun + REOPENED:
                return True
        return False

    def _offer(self, session: Session, declared: tuple[Any, ...]) -> None:
        """Offer what the file declares, and every other tool that it calls."""
        tools = list(declared)
        names = {tool.name for tool in tools}
        for decision in self.script.decisions.values():
            for _, call in decision.calls:
                name = str(call.name)
                if name not in names and call.kind == "text":
                    tools.append({"type": "custom", "name": name})
                elif name not in names:
                    tools.append({"name": name, "parameters": {"type": "object"}})
                names.add(name)
        session.tools(tools)

    def _step(self, session: Session, client: Any, number: int) -> None:
        decision = self.script.decisions[number]
        try:
            step = session.step(self.foreign.api, model=decision.model, **self._params)
        except Refused as refused:
            assert refused.reason == "nothing_to_send", refused
            self.unasked.append(number)
            session.user("(What was said here is not in the file.)")
            step = session.step(self.foreign.api, model=decision.model, **self._params)
        self.sent.append(number)
        assert step.number == len(self.sent)
        self.script.next = decision.reply
        reply = step.send(client)
        for live, (event, asked) in zip(reply.tool_calls, decision.calls, strict=True):
            assert (live.name, live.call_id) == (asked.name, asked.call_id)
            assert asked.kind == "search" or live.arguments == asked.arguments
            self._calls[event] = live
        if len(reply.tool_calls) > 1:
            self._parallel.update(live.event_id for live in reply.tool_calls)
            for live in reply.tool_calls:
                session.tool(live).start()

    def _result(self, session: Session, event: ForeignEvent, payload: ToolFinished) -> None:
        call = self._calls.get(payload.call)
        if call is None:
            return
        again = payload.call in self._answered
        self._answered.add(payload.call)
        only = payload.parts[0] if len(payload.parts) == 1 else None
        if isinstance(only, TextPart) and call.event_id not in self._parallel and not again:
            with session.tool(call) as run:
                run.result(only.text, error=payload.status != "ok")
            return
        result = ToolFinished(
            call=call.event_id,
            call_id=payload.call_id,
            name=call.name,
            status=payload.status,
            parts=payload.parts,
        )
        if again:
            _record(session, event, result, "harness")  # kept, and never shown
        else:
            session.finished(call, result, _blobs(event))


def _client(api: str, provider: FakeProvider) -> Any:
    url = provider.base_url(api)
    if api == "anthropic":
        return anthropic.Anthropic(api_key="any", base_url=url, max_retries=0)
    return openai.OpenAI(api_key="any", base_url=url, max_retries=0)


def _record(session: Session, event: ForeignEvent, payload: Payload, source: str) -> None:
    session.record([session.new(payload, source, blobs=_blobs(event))])


def _blobs(event: ForeignEvent) -> tuple[Blob, ...]:
    return tuple(Blob(hashlib.sha256(data).digest(), data, media) for data, media in event.blobs)
