"""The check between a call that a model asked for and its run, and its verdict in the log.

A call that is denied is told to the model and never runs; the start of one that runs says what
allowed it. A start follows exactly the events that it was checked against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from os import PathLike, fspath
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal, cast

import msgspec
from msgspec import structs

from sawlog.builder.contents import text_of
from sawlog.builder.effects import DONE, FAILED
from sawlog.builder.gateway import (
    ALLOW,
    ASK,
    DENY,
    GatewayVerdict,
    check,
    check_undeclared,
)
from sawlog.builder.offered import is_the_providers, may_find_more, offered
from sawlog.builder.pairing import find_waiting
from sawlog.builder.paths import ABSOLUTE, DRIVE
from sawlog.builder.state import State, Waiting
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import (
    CallDenied,
    ConfigError,
    Conflict,
    EffectUnknown,
    InvalidArguments,
    SawlogError,
    ToolError,
)
from sawlog.store.events.base import Named, Payload
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    ToolChecked,
    ToolDenied,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.text import Text
from sawlog.work.call import Call
from sawlog.work.driver import Driver
from sawlog.work.effecting import EffectLog, may_repeat

Gateway = Callable[[Call], GatewayVerdict]
"""A caller's own gateway. It is asked when the reply arrives and again when the call is started, by
any thread; what it raises leaves the call undecided, and such a call does not run."""

STRICT = Named("strict", 1)
OWN = Named("caller", 1)

_SHOWN = 80
_REASON = 300


class Denied(msgspec.Struct, frozen=True):
    """A call that does not run: why, and the path that is the reason, if one is.

    `told` is what the model reads as the reason.
    """

    call: Call
    reason: str
    path: str
    told: str


class Guard(msgspec.Struct, frozen=True):
    """What a session checks calls by, as it was opened.

    `gateway` is `strict`, a caller's own or None for no check; `root` the absolute folder that
    absolute paths may lead into; `approve` says what needs an approval: `side_effects`, or nothing.
    """

    gateway: Gateway | Literal["strict"] | None = "strict"
    root: str = ""
    approve: str = ""

    @classmethod
    def of(
        cls,
        gateway: Gateway | Literal["strict"] | None,
        root: str | PathLike[str],
        approve: str | None,
    ) -> Guard:
        """The options of a session. Raises ConfigError, naming the one that will not do."""
        if gateway is not None and gateway != "strict" and not callable(gateway):
            raise ConfigError(f"{gateway!r} is no gateway: give 'strict', a function, or None")
        folder = fspath(root)
        if folder and not _is_absolute(folder):
            raise ConfigError(f"the root {folder!r} is no absolute folder")
        if approve not in (None, "", "side_effects"):
            raise ConfigError(f"approve is 'side_effects' or nothing, not {approve!r}")
        if approve and gateway is None:
            raise ConfigError("approve needs a gateway, which says what has side effects")
        return cls(gateway, folder, approve or "")


class Checks:
    """The checks of one driver's session."""

    def __init__(self, driver: Driver, guard: Guard, effects: EffectLog) -> None:
        self._driver = driver
        self._guard = guard
        self._effects = effects
        self._starts: dict[str, int] = {}  # event ids of calls, and the start that is this handle's
        self._policy = STRICT if guard.gateway == "strict" else OWN
        self._tools: tuple[int, tuple[Tool, ...]] = (0, ())
        self._running: set[str] = set()  # event ids of calls that this handle runs
        # What the newest reply's calls were found to be, under the tools of that event: a verdict
        # of the strict gateway depends on nothing else.
        self._found: dict[str, GatewayVerdict] = {}
        self._found_at = 0

    # --- when a reply arrives --------------------------------------------------------------------

    def of_reply(self, calls: Sequence[Call]) -> tuple[Denied, ...]:
        """Those calls of a reply that are denied.

        What a caller's gateway raises is not known here: the call stays undecided until its start.
        """
        denied: list[Denied] = []
        self._found = {}
        for call in calls:
            try:
                verdict = self._verdict(call)
            except Exception:
                # The reply has to be kept, and the start of the call asks, and raises, again.
                continue
            if verdict is not None and verdict.kind == DENY:
                denied.append(self._denied(call, verdict))
        return tuple(denied)

    def denials(self, denied: Iterable[Denied]) -> list[NewEvent]:
        """The events that say so: for each call its verdict, then that it was denied."""
        events: list[NewEvent] = []
        for one in denied:
            kind = "unknown_tool" if one.reason == "unknown_tool" else "denied"
            checked = ToolChecked(one.call.event_id, self._policy, DENY, one.reason)
            events.append(self._new(one.call, checked))
            by = f"gateway:{self._policy}"
            gone = ToolDenied(call=one.call.event_id, kind=kind, reason=one.told, by=by)
            events.append(self._new(one.call, gone))
        return events

    # --- when a call is started ------------------------------------------------------------------

    def start(self, call: Call, effect: str, again: bool = False) -> None:
        """Append the verdict and the start of a call.

        Raises CallDenied when it was denied or is denied now, ToolError when it waits for an
        approval, needs one first, runs already, or is no open call of this session, and
        EffectUnknown, unless it is to run `again`, when a run that this handle knows nothing of may
        have done it.
        """
        with self._driver.lock:
            if call.event_id in self._running:
                raise ToolError(
                    f"the call {call.event_id} of {call.name!r} is running already: a call runs "
                    "once at a time, so wait for the result of that run"
                )
            self._running.add(call.event_id)
        try:
            self._start_checked(call, effect, again)
        except BaseException:
            self.ended(call.event_id)
            raise

    def ended(self, event_id: str) -> None:
        """This handle does not run that call any more; it may be started again."""
        with self._driver.lock:
            self._running.discard(event_id)

    def _start_checked(self, call: Call, effect: str, again: bool) -> None:
        self._check_unchanged(self.runnable(call), call)
        try:
            verdict = self._verdict(call)
        except SawlogError:
            raise
        except Exception as error:
            raise ToolError(
                f"the gateway did not say whether the call {call.event_id} may run "
                f"({type(error).__name__}): it was not run"
            ) from error
        driver = self._driver
        with driver.lock:
            while True:
                waiting = self.runnable(call)
                state = driver.load()
                events = self._start(state, waiting, call, verdict, effect)
                starts = isinstance(events[-1].payload, ToolStarted)
                if starts and not again:
                    self._check_again(waiting, call, effect)
                try:
                    seqs = driver.append(events, expected_seq=state.seq)
                except Conflict:
                    # Somebody else's event came first; it may be the decision on this very call.
                    driver.catch_up()
                    continue
                if starts:
                    self._starts[waiting.id] = seqs[-1]
                break
        if verdict is not None and verdict.kind == DENY:
            raise _refusal(call, self._denied(call, verdict).told)

    def _check_unchanged(self, waiting: Waiting, call: Call) -> None:
        """Raise ToolError for a call that is not the one that was asked for: what is checked, and
        what somebody approved, stands in the log."""
        window = self._driver.window
        asked = window.event(waiting.seq).content
        if isinstance(asked, ToolRequested):
            own = (asked.name, asked.arguments, asked.namespace)
            if tuple(text_of(one, window) for one in own) != (
                call.name,
                call.arguments,
                call.namespace,
            ):
                raise ToolError(
                    f"the call {call.event_id} of {call.name!r} is not as the model asked for it: "
                    "run one of reply.tool_calls or s.open_calls(), unchanged"
                )

    @property
    def running(self) -> frozenset[str]:
        """The event ids of the calls that this handle runs."""
        with self._driver.lock:
            return frozenset(self._running)

    def _check_again(self, waiting: Waiting, call: Call, effect: str) -> None:
        """Raise EffectUnknown unless a call that was started may run once more."""
        if not waiting.started or self._starts.get(waiting.id) == waiting.since:
            return
        start = self._effects.start_of(waiting)
        if may_repeat(start, effect) or self._approved(waiting):
            return
        raise EffectUnknown(
            f"the call {call.event_id} of {call.name!r} was started before, and "
            + (
                "its result left the history"
                if start and start.state in (DONE, FAILED)
                else "nobody knows whether it was done"
            )
            + ": say what came of it with s.resolve(call, outcome), or that nothing did with "
            f"s.reconcile({call.event_id!r}, 'not_done'); s.tool(call, again=True) runs it anyway",
            key=call.event_id,
        )

    def runnable(self, call: Call) -> Waiting:
        """The open call, when nothing in the log keeps it from running. Raises as `start` does."""
        waiting = self.askable(call)
        if waiting.approval:
            # What this handle knows may be old: others append decisions.
            self._driver.catch_up()
            waiting = self.askable(call)
        if waiting.approval:
            raise ToolError(
                f"the call {call.event_id} waits for the approval {waiting.approval}: decide it "
                "with log.decide(session, approval, allow=…, by=…)"
            )
        return waiting

    def askable(self, call: Call) -> Waiting:
        """The open call, when it was not denied. Raises CallDenied, and as `open` does."""
        waiting = self.open(call.event_id)
        if waiting.denied:
            raise _refusal(call, waiting.denied)
        return waiting

    def open(self, event_id: str) -> Waiting:
        """The open call of that event id. Raises ToolError when there is none."""
        state = self._driver.load()
        at = find_waiting(state, event_id, "")
        if at is None:
            raise ToolError(
                f"this session has no open call {event_id}: it was never asked for, or it has "
                "its result already"
            )
        return state.waiting[at]

    def _start(
        self,
        state: State,
        waiting: Waiting,
        call: Call,
        verdict: GatewayVerdict | None,
        effect: str,
    ) -> list[NewEvent]:
        started = ToolStarted(call=call.event_id, effect=effect, key=call.event_id)
        if verdict is None:
            return [self._new(call, started)]
        if verdict.kind == DENY:
            return self.denials([self._denied(call, verdict)])
        reason = _plain(verdict.reason)
        if verdict.kind == ASK:
            if not self._guard.approve:
                reason = f"{reason}: this session asks for no approvals"
            elif self._approved(waiting):
                reason = f"{reason}: approved"
            else:
                raise ToolError(
                    f"the call {call.event_id} of {call.name!r} needs an approval first "
                    f"({reason}): ask for it with s.ask(call)"
                )
        started = structs.replace(started, allowed_by=self._policy, reason=reason)
        return [self._new(call, started)]

    def approval_id(self, waiting: Waiting) -> str:
        """The id under which to ask for a call: another one after each start, for each id is
        decided once."""
        starts = [
            event.seq
            for event in self._driver.events(waiting.seq)
            if isinstance(event.content, ToolStarted) and event.content.call == waiting.id
        ]
        return f"{waiting.id}.{starts[-1]}" if starts else waiting.id

    def _approved(self, waiting: Waiting) -> bool:
        """True when the newest approval that was asked for this call was given, and is not used.

        A start that has no result may have acted: to act again is another decision, unless the
        tool does a thing once for one key.
        """
        asked: Text = ""
        given = False
        for event in self._driver.events(waiting.seq):
            match event.content:
                case ApprovalRequested(call=call, approval=approval) if call == waiting.id:
                    asked, given = approval, False
                case ApprovalDecided(approval=approval, allow=allow) if approval == asked != "":
                    asked, given = "", allow
                case ToolStarted(call=call, effect=effect) if call == waiting.id:
                    given = given and effect == "idempotent"
                case _:
                    pass
        return given

    # --- verdicts --------------------------------------------------------------------------------

    def _verdict(self, call: Call) -> GatewayVerdict | None:
        gateway = self._guard.gateway
        if gateway is None:
            return None
        if callable(gateway):
            verdict = cast("object", gateway(call))
            if not isinstance(verdict, GatewayVerdict) or not _is_whole(verdict):
                raise ToolError(
                    f"the gateway gave {verdict!r} for the call {call.event_id}: it gives a "
                    "GatewayVerdict that allows, denies or asks"
                )
            return verdict
        tools = self._in_force()
        if self._found_at != self._tools[0]:
            self._found, self._found_at = {}, self._tools[0]
        found = self._found.get(call.event_id)
        if found is None:
            found = self._found[call.event_id] = self._strict(call, tools)
        return found

    def _strict(self, call: Call, tools: tuple[Tool, ...] | None) -> GatewayVerdict:
        root, free_form = self._guard.root, call.kind == "text"
        if tools is None:
            return check_undeclared(call.arguments, root, free_form=free_form)
        tool = offered(call.name, call.namespace, tools)
        if tool is None and may_find_more(tools):
            return check_undeclared(call.arguments, root, free_form=free_form)
        if tool is not None and is_the_providers(tool):
            return check_undeclared(call.arguments, root)
        return check(call.name, call.arguments, () if tool is None else (tool,), root)

    def _in_force(self) -> tuple[Tool, ...] | None:
        """The tools that are in force in the log; None when it never told of any."""
        with self._driver.lock:
            seq = self._driver.load().tools[0]
            if not seq:
                return None
            if self._tools[0] != seq:
                window = self._driver.window
                content = window.event(seq).content
                if not isinstance(content, ToolsChanged):
                    return ()  # erased: nothing is known of them
                tools = tuple(
                    Tool(text_of(one.name, window), text_of(one.source, window), one.effect)
                    for one in content.tools
                )
                self._tools = (seq, tools)
            return self._tools[1]

    def _denied(self, call: Call, verdict: GatewayVerdict) -> Denied:
        reason = _plain(verdict.reason)
        told = reason
        if verdict.path:
            told = f"{reason}: {_quoted(verdict.path)}{self._path_mend(reason)}"
        elif self._policy == STRICT and (more := self._in_words(call, reason)):
            told = f"{reason}: {more}"
        return Denied(call, reason, verdict.path, told)

    def _path_mend(self, reason: str) -> str:
        """What mends an absolute path: for the model, and for who reads the log."""
        if self._policy != STRICT or reason not in (ABSOLUTE, DRIVE):
            return ""
        if self._guard.root:
            return f"; absolute paths lead into {_quoted(self._guard.root)}, others are relative"
        return "; give a relative path (absolute ones are for sessions that were opened with root=)"

    def _in_words(self, call: Call, reason: str) -> str:
        """What the model needs to do better, beside the reason."""
        if reason == "unknown_tool":
            names = ", ".join(str(tool.name) for tool in self._in_force() or ())
            return _plain(f"the tools are {names}") if names else "there are no tools"
        if reason in ("invalid_arguments", "missing_required_arguments"):
            try:
                _ = call.args
            except InvalidArguments as error:
                return _plain(str(error))
            except Exception:
                # A check of the function's own that broke; the reason stands without it.
                return ""
        return ""

    def _new(self, call: Call, payload: Payload) -> NewEvent:
        return self._driver.new(payload, "harness", step=call.step)


def _refusal(call: Call, why: str) -> CallDenied:
    return CallDenied(
        f"the call {call.event_id} of {call.name!r} was denied ({why}): the model is told so, and "
        "it does not run",
        reason=why,
    )


def _is_whole(verdict: GatewayVerdict) -> bool:
    """True for a verdict that says one of three things, in texts; its type does not see to it."""
    texts = cast("tuple[object, ...]", (verdict.reason, verdict.path))
    return verdict.kind in (ALLOW, DENY, ASK) and all(isinstance(one, str) for one in texts)


def _is_absolute(folder: str) -> bool:
    return PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()


def _quoted(path: str) -> str:
    """A path as a JSON string of ASCII, shortened: it says nothing to who reads it."""
    text = json.dumps(path[:_SHOWN])
    return text if len(path) <= _SHOWN else f"{text} and {len(path) - _SHOWN} characters more"


def _plain(text: str) -> str:
    """A text in ASCII on one line, shortened."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    line = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in escaped)
    return line if len(line) <= _REASON else f"{line[:_REASON]}..."
