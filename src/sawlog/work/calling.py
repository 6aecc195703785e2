"""The part of a session that offers tools and runs calls: what the log says of each, and when.

What a tool run does between its start and its result is the run's own (`toolrun`); whether a call
may start is said by the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sawlog.builder.effects import SIDE_EFFECT, Effect
from sawlog.builder.state import Waiting
from sawlog.store.codec import sealed
from sawlog.store.envelope import Blob
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import ApprovalRequested, ToolRequested
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.work.call import Call
from sawlog.work.checking import Checks
from sawlog.work.credentials import Credentials
from sawlog.work.effecting import EffectLog
from sawlog.work.rewinding import Rewinding
from sawlog.work.toolrun import ToolRun
from sawlog.work.tools import Declared, declare_all


class Calling(Rewinding):
    """The part of a session that offers tools and runs calls. See `Session`."""

    checks: Checks
    credentials: Credentials
    _effects: EffectLog
    _declared: dict[str, Declared]

    def tools(self, tools: Sequence[Any]) -> None:
        """Offer these tools: functions, JSON schemas or MCP tools; equal tools append nothing.

        Raises ConfigError, naming it, for what is no tool and for a name given twice.
        """
        declared = declare_all(tools)
        with self._driver.lock:
            state = self._driver.load()
            self._declared = {str(one.tool.name): one for one in declared}
            wanted = tuple(one.tool for one in declared)
            if state.tools[0]:
                now = self._driver.window.event(state.tools[0]).content
                if isinstance(now, ToolsChanged) and _same_tools(now.tools, wanted):
                    return
            elif not wanted:
                return
            self._driver.append([self._driver.new(ToolsChanged(wanted), "harness")])

    def tool(self, call: Call, *, effect: str | None = None, again: bool = False) -> ToolRun:
        """Run a call: as a context manager, its start is durable before, its result after.

        Entering it raises ToolError when this session has no such open call, or when the call runs
        already, waits for an approval or needs one first, as it does again when it was started by a
        run that left no result; CallDenied, and the model is told, when it may not run.
        EffectUnknown when another run, such as that of a process that was killed, may have done
        what it does: `again` decides that it is run once more all the same.
        """
        declared = self._declared.get(call.name)
        chosen = effect or (declared.tool.effect if declared else SIDE_EFFECT)
        return ToolRun(self, call, chosen, again)

    def started(self, call: Call, effect: str, again: bool = False) -> None:
        """Append the verdict and the start of a call; what a ToolRun does on entry."""
        self._driver.drives("the run of a tool")
        self.checks.start(call, effect, again)

    def intended(self, call: Call, name: str, effect: str, what: str) -> Effect:
        """Append that a run is about to do an effect; what a RunEffect does on entry."""
        scrub = self.credentials.scrub
        waiting = self.checks.open(call.event_id)
        return self._effects.intend(call, waiting, name, effect, scrub(what))

    def settled(self, call: Call, key: str, outcome: str, receipt: str) -> None:
        """Append what became of an effect; what a RunEffect does on exit."""
        self._effects.settle(call, key, outcome, self.credentials.scrub(receipt))

    def finished(self, call: Call, payload: Payload, blobs: Sequence[Blob] = ()) -> None:
        """Append the result of a call; what a ToolRun does on exit."""
        with self._driver.lock:
            if call.event_id not in self._abandoned:
                self.open_call(call.event_id)
            new = self._driver.new(payload, tool_source(call.name), step=call.step, blobs=blobs)
            self._driver.append([new])

    def ended(self, call: Call) -> None:
        """The run of a call is over, with a result or without one: it may be entered again."""
        self.checks.ended(call.event_id)

    def open_call(self, event_id: str) -> Waiting:
        """The open call of that event id. Raises ToolError when there is none."""
        return self.checks.open(event_id)

    def open_calls(self) -> list[Call]:
        """The calls that have no result and were not denied, in the order in which they were asked
        for. What was not checked yet is checked when it is run."""
        with self._driver.lock:
            calls: list[Call] = []
            for waiting in self._driver.catch_up().waiting:
                content = self._driver.window.event(waiting.seq).content
                if isinstance(content, ToolRequested) and not waiting.denied:
                    calls.append(
                        Call.of(self, waiting.id, waiting.step, content, self._driver.window)
                    )
            return calls

    def ask(self, call: Call, question: str = "") -> str:
        """Ask for approval of a call; gives the id under which it is decided."""
        with self._driver.lock:
            approval = self.checks.approval_id(self.checks.askable(call))
            payload = ApprovalRequested(call.event_id, approval, self._scrubbed(question))
            self._driver.append([self._driver.new(payload, "harness", step=call.step)])
            return approval

    def declared(self, name: str) -> Declared | None:
        """The tool of that name as it was last offered through this handle."""
        return self._declared.get(name)

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the tools that were last offered through this handle."""
        return tuple(self._declared)


def _same_tools(now: tuple[Tool, ...], wanted: tuple[Tool, ...]) -> bool:
    stored, _ = sealed(ToolsChanged(wanted))
    return isinstance(stored, ToolsChanged) and now == stored.tools


def tool_source(name: str) -> str:
    """The channel of what a tool of that name gives."""
    plain = name.isascii() and not any(c <= " " or c == "\x7f" for c in name) and len(name) <= 200
    return f"tool:{name}" if name and plain else "tool:unnamed"
