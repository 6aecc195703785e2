"""The check between a call that a model asked for and its run, and its verdict in the log.

A call that is denied is told to the model and never runs; the start of one that runs says what
allowed it. A start follows exactly the events that it was checked against.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from sawlog.builder.contents import text_of
from sawlog.builder.effects import DONE, FAILED, IDEMPOTENT
from sawlog.builder.gateway import ASK, DENY, GatewayVerdict
from sawlog.builder.pairing import find_waiting
from sawlog.builder.state import State, Waiting
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import CallDenied, Conflict, EffectUnknown, SawlogError, ToolError
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    ToolChecked,
    ToolDenied,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.text import Text
from sawlog.work.call import Call
from sawlog.work.driver import Driver
from sawlog.work.effecting import EffectLog, may_repeat
from sawlog.work.verdicts import Denied, Guard, Verdicts, ascii_line


class Checks:
    """The checks of one driver's session."""

    def __init__(self, driver: Driver, guard: Guard, effects: EffectLog) -> None:
        self._driver = driver
        self._verdicts = Verdicts(driver, guard)
        self._effects = effects
        self._starts: dict[str, int] = {}  # event ids of calls, and the start that is this handle's
        self._running: set[str] = set()  # event ids of calls that this handle runs

    # --- when a reply arrives --------------------------------------------------------------------

    def of_reply(self, calls: Sequence[Call]) -> tuple[Denied, ...]:
        """Those calls of a reply that are denied.

        What a caller's gateway raises is not known here: the call stays undecided until its start.
        """
        denied: list[Denied] = []
        self._verdicts.forget()
        for call in calls:
            try:
                verdict = self._verdicts.of(call)
            except Exception:
                # The reply has to be kept, and the start of the call asks, and raises, again.
                continue
            if verdict is not None and verdict.kind == DENY:
                denied.append(self._verdicts.denied(call, verdict))
        return tuple(denied)

    def denials(self, denied: Iterable[Denied]) -> list[NewEvent]:
        """The events that say so: for each call its verdict, then that it was denied."""
        events: list[NewEvent] = []
        for one in denied:
            kind = "unknown_tool" if one.reason == "unknown_tool" else "denied"
            checked = ToolChecked(one.call.event_id, self._verdicts.policy, DENY, one.reason)
            events.append(self._new(one.call, checked))
            by = f"gateway:{self._verdicts.policy}"
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
            verdict = self._verdicts.of(call)
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
            raise _refusal(call, self._verdicts.denied(call, verdict).told)

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
            return self.denials([self._verdicts.denied(call, verdict)])
        reason = ascii_line(verdict.reason)
        if verdict.kind == ASK:
            if not self._verdicts.asks:
                reason = f"{reason}: this session asks for no approvals"
            elif self._approved(waiting):
                reason = f"{reason}: approved"
            else:
                raise ToolError(
                    f"the call {call.event_id} of {call.name!r} needs an approval first "
                    f"({reason}): ask for it with s.ask(call)"
                )
        started = structs.replace(started, allowed_by=self._verdicts.policy, reason=reason)
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
                    given = given and effect == IDEMPOTENT
                case _:
                    pass
        return given

    def _new(self, call: Call, payload: Payload) -> NewEvent:
        return self._driver.new(payload, "harness", step=call.step)


def _refusal(call: Call, why: str) -> CallDenied:
    return CallDenied(
        f"the call {call.event_id} of {call.name!r} was denied ({why}): the model is told so, and "
        "it does not run",
        reason=why,
    )
