"""Going on where another run ended: the plan, carrying it out, and saying what really happened.

What nobody knows is never done again by inference. Somebody says what came of it, from any
process; or what may be done again is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, get_args

from msgspec.structs import replace

from sawlog.builder.effects import DONE, FAILED, NOT_DONE, UNKNOWN, Effect
from sawlog.builder.pairing import find_waiting
from sawlog.builder.state import State
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import ConfigError, Conflict, Refused, StalePlan, ToolError, quoted
from sawlog.store.event import Event, decoded
from sawlog.store.events.base import EventId, Payload
from sawlog.store.events.compaction import CompactionFailed
from sawlog.store.events.conversation import ToolFinished, ToolRequested
from sawlog.store.events.effects import EffectReconciled
from sawlog.store.events.steps import AttemptLost, StepAbandoned
from sawlog.store.ids import keyed_id
from sawlog.work.call import Call
from sawlog.work.calling import Calling
from sawlog.work.driven import Driven, driven
from sawlog.work.outstanding import is_foreign
from sawlog.work.plan import Action, AwaitedApproval, Plan, UnknownEffect, Written
from sawlog.work.recovering import plan_of
from sawlog.work.toolrun import ToolRun, shown_as
from sawlog.workspace.gitversion import git_version

Outcome = Literal["done", "failed", "not_done"]
"""What became of an effect: it was done, it was tried and changed nothing, it was not done."""

OneCall = Call | UnknownEffect | Action | EventId
"""A call, however a plan names it, or the event id of its request."""


class Resolving(Calling):
    """The part of a session that goes on where another run ended. See `Session`."""

    # --- the plan --------------------------------------------------------------------------------

    def recover(self, root: str | os.PathLike[str] | None = None) -> Plan:
        """What stands open and what is safe next: a plan, which writes nothing until it is applied.

        With `root`, the folder that the session's files are in, those that packets show are looked
        at. What a live lease began is under way: the plan names it and ends nothing of it. Raises
        ConfigError when `root` is no directory.
        """
        with self._driver.lock:
            state = self._driver.catch_up()
            row = self._log.get(self._driver.row)
            if not state.blocked:
                row = replace(row, head=state.seq)
            made = plan_of(
                self._log,
                row,
                state,
                self._driver.window,
                self,
                self._driven(),
                root=root,
            )
            commit = ""
            if root is not None and made.changes:
                version = git_version(root)
                commit = version.commit if version is not None else ""
            files = tuple(
                replace(one, change=replace(one.change, commit=commit)) if one.change else one
                for one in made.changed_files
            )
            return replace(made, changed_files=files, applies=self)

    def apply(self, plan: Plan) -> tuple[Written, ...]:
        """Append the ends of what a plan says was cut; see `Plan.apply`."""
        driver = self._driver
        driver.drives("a recovery")
        if plan.session != driver.row.id.hex():
            raise ConfigError(
                f"this plan is of the session {plan.name or plan.session!r}: apply it there"
            )
        if plan.blocked:
            raise Refused("blocked", f"nothing is ended blindly: {plan.blocked}")
        with driver.lock:
            events = self._ends(plan)
            if not events:
                if driver.catch_up().seq != plan.seq:
                    raise _stale(plan)
                return ()
            try:
                seqs = driver.append(events, expected_seq=plan.seq)
            except Conflict as error:
                raise _stale(plan) from error
            kinds = plan.ends
            return tuple(Written(*one) for one in zip(seqs, kinds, strict=True))

    def _ends(self, plan: Plan) -> list[NewEvent]:
        """The events that the plan ends with, in the order of `Plan.ends`."""
        events: list[tuple[Payload, str, int]] = []
        for one in plan.lost:
            if not one.under_way:
                gone = AttemptLost(one.number, "no outcome was recorded")
                events.append((gone, "harness", one.step))
        if plan.cut_step is not None and not plan.cut_step.under_way:
            cut = StepAbandoned(reason="it was cut before it had a reply")
            events.append((cut, "harness", plan.cut_step.step))
        if plan.open_compaction is not None and not plan.open_compaction.under_way:
            events.append((CompactionFailed("it was cut before its end"), "harness", 0))
        events += [(change, "watch", 0) for change in plan.changes]
        # By keys of the place: the same plan again is the same events.
        return [
            self._driver.new(payload, source, step=step, key=f"recovered {plan.seq} {at}")
            for at, (payload, source, step) in enumerate(events)
        ]

    # --- what really happened --------------------------------------------------------------------

    def resolve(
        self, call: OneCall, outcome: Any, *, error: bool = False, by: str = "caller"
    ) -> None:
        """Say what really came of a call that was started and has no result: that is its result.

        `outcome` is what the model reads, as in `run.result`; `by` is who found out. From any
        process, whoever drives the session, with or without the lease. Where the model was told
        already that the outcome is unknown, it is shown once, as news. The same again is once.
        Raises ToolError for a call that was never started, is running or has its result; Conflict
        when something else was said of it.
        """
        asked = self._asked(call)
        parts, blobs = shown_as(outcome, self.credentials)
        content = asked.content
        assert isinstance(content, ToolRequested)
        driver = self._driver
        with driver.lock:
            while True:
                state = driver.catch_up()
                known = self._effects.known(asked.seq)
                start = known.starts.get(asked.id)
                # Run or taken back since, it is another outcome that is told.
                since = f"{start.since if start else 0} {known.rewound}"
                keys = [f"effect.{what} {since} {asked.id}" for what in ("resolved", "result")]
                if self._log.by_event_id(driver.row, keyed_id(keys[0])) is None:
                    self._resolvable(asked, start)
                status = "error" if error else "ok"
                said = EffectReconciled(asked.id, FAILED if error else DONE, self._scrubbed(by))
                result = ToolFinished(asked.id, content.call_id, content.name, status, parts)
                events = [
                    driver.new(said, "harness", step=asked.step, key=keys[0]),
                    driver.new(result, "harness", step=asked.step, key=keys[1], blobs=blobs),
                ]
                if self._appended(events, state, f"the call {asked.id}"):
                    return

    def reconcile(
        self, key: str, outcome: Outcome, *, by: str = "caller", receipt: str = ""
    ) -> None:
        """Say what became of an effect whose outcome nobody recorded.

        `key` is the effect's, as a plan or EffectUnknown names it. `done` is not done again, and
        `receipt` is what its run gets for it; `failed` and `not_done` may be done again. Of a whole
        call that is open only `not_done` can be said: what came of it is its result, and `resolve`
        says that.
        From any process, with or without the lease. The same again is once. Raises ToolError for a
        key that nothing was begun under, and while it is being done; Conflict when something else
        was said of it.
        """
        if outcome not in get_args(Outcome):
            raise ToolError(f"{quoted(outcome)} is no outcome: say 'done', 'failed' or 'not_done'")
        driver = self._driver
        with driver.lock:
            while True:
                state = driver.catch_up()
                known = self._effects.known(1)
                found = known.find(key) if isinstance(key, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
                if found is None:
                    raise ToolError(
                        f"nothing was begun under the key {quoted(key)}: s.recover().unknown names "
                        "the keys that there are"
                    )
                asked = find_waiting(state, found.call, "") is not None
                if asked and found.key not in known.inside and outcome != NOT_DONE:
                    raise ToolError(
                        f"{quoted(key)} is the key of a whole call: what came of it is its result, "
                        "so say it with s.resolve(call, outcome)"
                    )
                name = f"effect.reconciled {found.since} {key}"
                if self._log.by_event_id(driver.row, keyed_id(name)) is None:
                    if found.state != UNKNOWN:
                        raise Conflict(f"the effect {quoted(key)} is known already: {found.state}")
                    self._rests(found.call, found)
                said = EffectReconciled(key, outcome, self._scrubbed(by), self._scrubbed(receipt))
                events = [driver.new(said, "harness", step=found.step, key=name)]
                if self._appended(events, state, f"the effect {quoted(key)}"):
                    return

    def _appended(self, events: list[NewEvent], state: State, what: str) -> bool:
        """Append what is said behind this state, or know it already; False when others came first.

        Raises Conflict when something else was said under the same keys.
        """
        driver = self._driver
        known = [
            self._log.by_event_id(driver.row, new.id) is not None
            for new in events
            if new.id is not None
        ]
        try:
            driver.append(events, expected_seq=state.seq)
        except Conflict as error:
            if any(known):
                raise Conflict(f"of {what} something else was said already") from error
            return False
        return True

    def _asked(self, call: OneCall) -> Event:
        """The request of a call. Raises ToolError when this session has none."""
        id = _id_of(call)
        try:
            raw = bytes.fromhex(id)
        except ValueError:
            raw = b""
        stored = self._log.by_event_id(self._driver.row, raw) if len(raw) == 16 else None
        if stored is None or stored.type != "tool.requested":
            raise ToolError(
                f"this session has no call {quoted(id)}: name it by the event id of its request, "
                "as call.event_id does"
            )
        event = decoded(stored, self._log.registry)
        if not isinstance(event.content, ToolRequested):
            raise ToolError(f"the request of the call {id} was erased: nothing can be said of it")
        return event

    def _resolvable(self, asked: Event, start: Effect | None) -> None:
        """Raise ToolError unless a call was started, rests, and has no result."""
        waiting = self.checks.open(asked.id)
        content = asked.content
        assert isinstance(content, ToolRequested)
        call = Call.of(self, asked.id, asked.step, content, self._driver.window)
        self.checks.askable(call)
        if not waiting.started and not is_foreign(asked):
            raise ToolError(
                f"the call {asked.id} of {call.name!r} was never started, so that nothing came of "
                "it: run it, as in s.run(call)"
            )
        if start is not None:
            self._rests(asked.id, start)

    def _rests(self, call: EventId, effect: Effect) -> None:
        """Raise ToolError while whoever began an effect may be doing it still."""
        [begun] = self._log.events(self._driver.row, [effect.since])
        who = self._driven()
        if who.runs(call, begun.fence):
            owner = "this handle" if call in who.running else who.by_another
            raise ToolError(
                f"{owner} may be doing {quoted(effect.key)} at this moment: its own word counts, "
                "so wait for it, or until its lease ends"
            )

    def _driven(self) -> Driven:
        row = self._log.get(self._driver.row)
        return driven(self._log, row, self._driver.fence, self.checks.running)

    # --- running what may run --------------------------------------------------------------------

    def run(self, call: OneCall, using: Callable[[ToolRun], Any] | None = None) -> ToolRun:
        """Run a call of a declared tool, its start in the log before and its result after.

        `using` is given the run instead of the declared function, such as
        `lambda run: charge(key=run.key, **run.call.args)`; what it returns is the result. Gives the
        run, whose `status` is `ok` or `error`. Raises EffectUnknown when another run may have done
        it and it is none that may be repeated, and as `tool` does.
        """
        one = call_of(call)
        with self.tool(one) as run:
            value = one.run() if using is None else using(run)
            if value is not None or not run.status:
                run.result(value)
        return run

    def suspend(self) -> tuple[AwaitedApproval, ...]:
        """Give the lease back with all waits open, and name them: any process may go on from here.

        A packet whose reply is outstanding stays open, too. Raises ToolError while this handle runs
        calls, which nobody else could tell from cut ones.
        """
        with self._driver.lock:
            self._driver.drives("to suspend a session")
            running = self.checks.running
            if running:
                raise ToolError(
                    f"{len(running)} calls are running: wait for their results, then suspend"
                )
            waits = self.recover().waiting
            self._driver.release()
            return waits


def call_of(call: object) -> Call:
    """The open call that is meant. Raises ToolError for what is none."""
    found = call if isinstance(call, Call) else getattr(call, "call", None)
    if not isinstance(found, Call):
        raise ToolError(
            f"{quoted(call)} is no open call: give one of reply.tool_calls, of s.open_calls() or "
            "of a plan"
        )
    return found


def _id_of(call: OneCall) -> EventId:
    match call:
        case Action():
            return call.call.event_id if call.call is not None else call.key
        case Call() | UnknownEffect():
            return call.event_id
        case _:
            return call


def _stale(plan: Plan) -> StalePlan:
    return StalePlan(
        f"the log moved on since this plan was made at event {plan.seq}: plan again, with "
        "s.recover(), which writes nothing",
        expected=plan.seq,
    )
