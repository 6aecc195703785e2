"""One session at work: what an agent's loop calls, each call an append.

A session holds the folded state, a warm builder and the lease. It decides nothing: what a packet
holds is the builder's word, what may be written the log's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from sawlog.builder.build import Built, Cache, Refusal, Sending, build
from sawlog.builder.packet import Header
from sawlog.builder.pairing import find_waiting
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import Profile, profile_for
from sawlog.builder.projector import FOLD, fold
from sawlog.builder.render import renderer_for
from sawlog.builder.snapshot import CODEC, decode, encode
from sawlog.builder.state import State, Waiting
from sawlog.call import Call
from sawlog.step import Step
from sawlog.store.codec import sealed
from sawlog.store.content import Part, TextPart
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import (
    ConfigError,
    Conflict,
    InvalidEvent,
    Leased,
    Refused,
    ToolError,
)
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    ApprovalRequested,
    MessageSystem,
    MessageUser,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.lifecycle import SessionCreated
from sawlog.store.events.steps import AttemptLost, PolicySet, StepAbandoned
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.ids import keyed_id, new_id
from sawlog.store.jsontext import source_of
from sawlog.store.lease import Lease, Renewer
from sawlog.store.log import Log
from sawlog.toolrun import ToolRun
from sawlog.tools import Declared, declare_all
from sawlog.window import Window

APIS = {
    "anthropic": "anthropic",
    "openai": "openai-responses",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "deepseek": "deepseek-chat",
    "deepseek-chat": "deepseek-chat",
}
"""Names that a step may be asked for under, and the API that each means."""

_SNAPSHOT_EVERY = 400
"""Events after which a session leaves a snapshot, so that opening it reads a short tail."""


class Session:
    """A session being written. Made by `AgentLog.session`; use it as a context manager.

    It may be shared by threads: calls wait for each other and never conflict among themselves.
    """

    def __init__(
        self,
        log: Log,
        row: SessionRow,
        *,
        rules: Rules,
        profile: Profile | None = None,
        owner: str,
        ttl: float,
        clock: Callable[[], int],
        make_id: Callable[[], bytes] = new_id,
        wait: float = 0.0,
    ) -> None:
        self._log = log
        self._row = row
        self._rules = rules
        self._profile = profile
        self._owner = owner
        self._ttl = ttl
        self._clock = clock
        self._make_id = make_id
        self._wait = wait
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._renewer: Renewer | None = None
        self._window = Window(log, row)
        self._cache = Cache()
        self._declared: dict[str, Declared] = {}
        self._state: State | None = None
        self._head_digest = b""
        self._snapshot_at = 0

    # --- life ----------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lease and read where the session stands.

        Raises Leased, naming the owner, when another process drives it.
        """
        with self._lock:
            if self._lease is None:
                self._lease = self._acquired()
                self._renewer = Renewer(self._log.leases, self._lease, self._ttl).start()
            self._load()

    def _acquired(self) -> Lease:
        until = time.monotonic() + self._wait
        while True:
            try:
                return self._log.leases.acquire(self._row.id, self._owner, self._ttl)
            except Leased:
                if time.monotonic() >= until:
                    raise
            time.sleep(0.05)

    def release(self) -> None:
        """Give the lease back; any process may go on from here."""
        with self._lock:
            renewer, lease = self._renewer, self._lease
            self._renewer = self._lease = None
            if renewer is not None:
                renewer.stop()
            if lease is not None:
                self._log.leases.release(lease)

    @property
    def id(self) -> str:
        """The session's id, 32 hex digits."""
        return self._row.id.hex()

    @property
    def name(self) -> str:
        """The session's name; empty when it has none."""
        return self._row.name or ""

    @property
    def state(self) -> State:
        """The projector's state after the newest event that this handle knows."""
        with self._lock:
            return self._load()

    # --- what is said ---------------------------------------------------------------------------

    def system(self, text: str) -> None:
        """Set the system text; equal text appends nothing.

        Before the first step it is the header's; later it is an instruction that stands where it
        was said.
        """
        with self._lock:
            state = self._load()
            said = [self._texts(seq) for seq, _ in state.system]
            if text in said or text in self._later_system(state):
                return
            self._append([self._new(MessageSystem((TextPart(text),)), "system")])

    def tools(self, tools: Sequence[Any]) -> None:
        """Offer these tools: functions, JSON schemas or MCP tools; equal tools append nothing.

        Raises ConfigError, naming it, for what is no tool and for a name given twice.
        """
        declared = declare_all(tools)
        with self._lock:
            state = self._load()
            self._declared = {_text(one.tool.name): one for one in declared}
            wanted = tuple(one.tool for one in declared)
            if state.tools[0]:
                now = self._window.event(state.tools[0]).content
                if isinstance(now, ToolsChanged) and _same_tools(now.tools, wanted):
                    return
            elif not wanted:
                return
            self._append([self._new(ToolsChanged(wanted), "harness")])

    def user(self, content: str | Sequence[Part], *, key: str | None = None) -> None:
        """Append a user message. With a key it is appended once, however often this runs."""
        parts: tuple[Part, ...]
        parts = (TextPart(content),) if isinstance(content, str) else tuple(content)
        with self._lock:
            self._append([self._new(MessageUser(parts), "user", key=key)])

    def append(
        self,
        payload: Payload,
        *,
        source: str = "harness",
        step: int | None = None,
        key: str | None = None,
        ignorable: bool = False,
    ) -> int:
        """Append any event and return its seq: the way for registered event types."""
        with self._lock:
            new = self._new(payload, source, step=step, key=key, ignorable=ignorable)
            return self._append([new])[0]

    # --- steps ----------------------------------------------------------------------------------

    def step(
        self,
        api: str,
        *,
        model: str,
        headers: dict[str, str] | None = None,
        profile: Profile | None = None,
        fallback_of: Step | None = None,
        allow_waiting: bool = False,
        strict: bool = False,
        params: str | None = None,
        **parameters: Any,
    ) -> Step:
        """Build the next packet and log it: it is durable before this returns.

        `api` is one of `anthropic`, `openai-chat`, `openai-responses` (also `openai`),
        `deepseek-chat`. Parameters go to the provider as they are, in this order; `params` gives
        them as JSON text instead. `strict` refuses a model without a profile of its own.
        Raises Refused with the reason when there is no packet.
        """
        chosen = APIS.get(api)
        if chosen is None:
            raise ConfigError(f"there is no API {api!r}: use one of {', '.join(APIS)}")
        if params is not None and parameters:
            raise ConfigError("give the parameters either as keywords or as JSON text, not both")
        exact = True
        used = profile or self._profile
        if used is None or used.api != chosen:
            used, exact = profile_for(chosen, model)
        if strict and not exact:
            raise ConfigError(f"no profile of its own for {model!r}: give one, or drop strict")
        body = source_of(parameters, "parameters") if params is None else params
        sending = Sending(
            Header(chosen, model, body, used.named, renderer_for(chosen)),
            used,
            tuple(sorted((name.lower(), value) for name, value in (headers or {}).items())),
        )
        with self._lock:
            before = self._before_step(sending)
            built, number, event = self._build_and_log(sending, before, allow_waiting, fallback_of)
            return Step(self, number, built, event)

    def _before_step(self, sending: Sending) -> list[NewEvent]:
        """Events that the step adds in front of its packet: an end for a cut step, new rules."""
        state = self._load()
        events: list[NewEvent] = []
        if state.open_step:
            if state.unsettled:
                lost = AttemptLost(number=state.unsettled, reason="no outcome was recorded")
                events.append(self._new(lost, "harness", step=state.open_step))
            gone = StepAbandoned(reason="another step began before it had a reply")
            events.append(self._new(gone, "harness", step=state.open_step))
        rules = self._policy(sending)
        if not self._in_force(state, rules):
            events.append(self._new(rules, "harness"))
        return events

    def _policy(self, sending: Sending) -> PolicySet:
        rules = self._rules_for(sending)
        own = sending.profile.own_digest
        return PolicySet(
            policy=rules.policy,
            fold=FOLD,
            measure=rules.measure,
            profile=sending.profile.named if own else None,
            window=rules.window,
            reserve=rules.reserve,
            profile_text=sending.profile.text if own else "",
        )

    def _rules_for(self, sending: Sending) -> Rules:
        window = self._rules.window or sending.profile.window
        return Rules(self._rules.policy, self._rules.measure, window, self._rules.reserve)

    def _in_force(self, state: State, wanted: PolicySet) -> bool:
        if not state.policy:
            return False
        now = self._window.event(state.policy).content
        return isinstance(now, PolicySet) and now == sealed(wanted)[0]

    def _build_and_log(
        self,
        sending: Sending,
        before: list[NewEvent],
        allow_waiting: bool,
        fallback_of: Step | None,
    ) -> tuple[Built, int, Event]:
        rules = self._rules_for(sending)
        fallback = fallback_of.event_id if fallback_of is not None else ""
        for attempt in range(4):
            state = self._load()
            ahead = self._as_events(state, before)
            folded = state
            for event in ahead:
                folded = fold(folded, event)
            self._window.hold(ahead)
            built = self._build(folded, rules, sending, allow_waiting)
            number = folded.step + 1
            packet = self._new(built.event(fallback_of=fallback), "harness", step=number)
            try:
                seqs = self._append([*before, packet], expected_seq=state.seq)
            except Conflict:
                if attempt == 3:
                    raise
                self._catch_up()
                continue
            self._cache.settle(seqs[-1])
            return built, number, self._window.event(seqs[-1])
        raise AssertionError("unreachable")

    def _build(self, state: State, rules: Rules, sending: Sending, allow_waiting: bool) -> Built:
        if self._cache.assembly is None:
            self._window.prefetch(state.sent)
        result = build(
            state,
            rules,
            sending,
            self._clock(),
            self._window,
            self._cache,
            allow_waiting=allow_waiting,
        )
        if isinstance(result, Refusal):
            raise Refused(result.reason, result.message, result.needs)
        return result

    # --- tools ----------------------------------------------------------------------------------

    def tool(self, call: Call, *, effect: str | None = None) -> ToolRun:
        """Run a call: as a context manager, its start is durable before, its result after.

        Raises ToolError when this session has no such open call.
        """
        declared = self._declared.get(call.name)
        chosen = effect or (declared.tool.effect if declared else "side_effect")
        return ToolRun(self, call, chosen)

    def started(self, call: Call, effect: str) -> None:
        """Append the start of a call; what a ToolRun does on entry."""
        with self._lock:
            self.open_call(call.event_id)
            payload = ToolStarted(call=call.event_id, effect=effect, key=call.event_id)
            self._append([self._new(payload, "harness", step=call.step)])

    def finished(self, call: Call, payload: Payload, blobs: Sequence[Blob] = ()) -> None:
        """Append the result of a call; what a ToolRun does on exit."""
        with self._lock:
            self.open_call(call.event_id)
            new = self._new(payload, _tool_source(call.name), step=call.step, blobs=tuple(blobs))
            self._append([new])

    def open_call(self, event_id: str) -> Waiting:
        """The open call of that event id. Raises ToolError when there is none."""
        state = self._load()
        at = find_waiting(state, event_id, "")
        if at is None:
            raise ToolError(
                f"this session has no open call {event_id}: it was never asked for, or it has "
                "its result already"
            )
        return state.waiting[at]

    def open_calls(self) -> list[Call]:
        """The calls that have no result, in the order in which they were asked for."""
        with self._lock:
            calls: list[Call] = []
            for waiting in self._load().waiting:
                content = self._window.event(waiting.seq).content
                if isinstance(content, ToolRequested):
                    calls.append(Call.of(self, waiting.id, waiting.step, content, self._window))
            return calls

    def ask(self, call: Call, question: str = "") -> str:
        """Ask for approval of a call; gives the id under which it is decided."""
        with self._lock:
            self.open_call(call.event_id)
            payload = ApprovalRequested(call.event_id, call.event_id, question)
            self._append([self._new(payload, "harness", step=call.step)])
            return call.event_id

    def declared(self, name: str) -> Declared | None:
        """The tool of that name as it was last offered through this handle."""
        return self._declared.get(name)

    # --- the log underneath ----------------------------------------------------------------------

    def record(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> tuple[int, ...]:
        """Append prepared events under this handle's lease; gives their seqs."""
        with self._lock:
            self._load()
            return self._append(events, expected_seq=expected_seq)

    def new(
        self,
        payload: Payload,
        source: str,
        *,
        step: int | None = None,
        blobs: tuple[Blob, ...] = (),
    ) -> NewEvent:
        """An event ready for `record`."""
        return self._new(payload, source, step=step, blobs=blobs)

    @property
    def window(self) -> Window:
        """The contents that this handle reads packets from."""
        return self._window

    def _new(
        self,
        payload: Payload,
        source: str,
        *,
        step: int | None = None,
        key: str | None = None,
        ignorable: bool = False,
        blobs: tuple[Blob, ...] = (),
    ) -> NewEvent:
        stored, made = sealed(payload)
        id = keyed_id(key) if key is not None else self._make_id()
        return NewEvent(
            payload=stored,
            source=source,
            step=step,
            id=id,
            ignorable=ignorable,
            blobs=(*blobs, *made),
        )

    def _append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> tuple[int, ...]:
        """Append and fold. An event that was known already is not folded again."""
        state = self._load()
        made = state.seq == 0
        if made:
            created = self._new(SessionCreated(name=self.name), "harness")
            events = [created, *events]
        done = self._log.append(self._row, events, expected_seq=expected_seq, lease=self._lease)
        if done.new and done.seqs[0] == state.seq + 1 and done.new == len(events):
            fresh = self._as_events(state, events)
            for event in fresh:
                state = fold(state, event)
            self._window.hold(fresh)
            for new in events:
                self._window.hold((), ((blob.digest.hex(), blob.data) for blob in new.blobs))
            self._state = state
            self._head_digest = done.digest
        else:
            self._catch_up()
        self._snapshot()
        return done.seqs[1:] if made else done.seqs

    def _as_events(self, state: State, events: Sequence[NewEvent]) -> list[Event]:
        """The events that an append at this state makes, without reading them back."""
        out: list[Event] = []
        for at, new in enumerate(events):
            kind = self._log.registry.declared(type(new.payload))
            if new.id is None:
                raise InvalidEvent("an event of a session carries its id", path="id")
            out.append(
                Event(
                    seq=state.seq + 1 + at,
                    id=new.id.hex(),
                    type=kind.name,
                    version=kind.version,
                    source=new.source,
                    step=new.step or 0,
                    occurred_at=0,
                    content=new.payload,
                    shown=kind.shown,
                    ignorable=new.ignorable,
                )
            )
        return out

    def _load(self) -> State:
        """The state, read from the newest snapshot and the events after it the first time."""
        if self._state is None:
            self._state = self._from_snapshot() or State()
            self._catch_up()
        assert self._state is not None
        return self._state

    def _from_snapshot(self) -> State | None:
        found = self._log.snapshot_get(self._row, fold=FOLD, layout=CODEC)
        if found is None:
            return None
        self._snapshot_at = found.seq
        return decode(found.data)

    def _catch_up(self) -> None:
        state = self._state or State()
        for stored in self._log.read(self._row, after=state.seq):
            event = decoded(stored, self._log.registry)
            state = fold(state, event)
            self._window.hold((event,))
            self._head_digest = stored.digest
        self._state = state

    def _snapshot(self) -> None:
        state = self._state
        if state is None or state.seq - self._snapshot_at < _SNAPSHOT_EVERY or state.news:
            return
        # The last two are kept: should the newest not fit the chain, the one before it does.
        self._log.snapshot_drop(self._row, upto=self._snapshot_at - 1)
        self._snapshot_at = state.seq
        self._window.forget()
        self._log.snapshot_put(
            self._row,
            state.seq,
            self._head_digest,
            fold=FOLD,
            layout=CODEC,
            data=encode(state),
        )

    def _texts(self, seq: int) -> str:
        content = self._window.event(seq).content
        if not isinstance(content, MessageSystem):
            return ""
        return "".join(_text(part.text) for part in content.parts if isinstance(part, TextPart))

    def _later_system(self, state: State) -> list[str]:
        """System texts that stand in the news: said again at once, they are not said twice."""
        return [self._texts(one.seq) for one in state.news if one.kind == "message.system"]


def _text(text: Any) -> str:
    return text if isinstance(text, str) else f"sha256:{text.blob or text.wtf8}"


def _same_tools(now: tuple[Tool, ...], wanted: tuple[Tool, ...]) -> bool:
    stored, _ = sealed(ToolsChanged(wanted))
    return isinstance(stored, ToolsChanged) and now == stored.tools


def _tool_source(name: str) -> str:
    plain = name.isascii() and not any(c <= " " or c == "\x7f" for c in name) and len(name) <= 200
    return f"tool:{name}" if name and plain else "tool:unnamed"
