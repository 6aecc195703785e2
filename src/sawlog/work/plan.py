"""A plan of recovery: what an earlier driver left open, and what is safe to do next.

Values only, in the order of the log. `recovering` reads them out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from sawlog.store.errors import NotEntered
from sawlog.store.events.base import EventId
from sawlog.store.events.world import FileChanged
from sawlog.work.call import Call

Do = Literal["run", "ask", "wait"]


class Written(msgspec.Struct, frozen=True):
    """An event that applying a plan appended."""

    seq: int
    type: str


class CutStep(msgspec.Struct, frozen=True):
    """The step that has a packet and no end.

    `stands` is `built` (nothing left), `sent` (a request left, and nobody knows its outcome),
    `running` (the provider works on it), `refused` or `lost` (so its last attempt ended, and the
    same bytes may leave again). `since` is the seq of its packet, `packet` that event's id.
    `under_way`: whoever built it drives the session still.
    """

    step: int
    stands: str
    attempts: int
    since: int
    packet: EventId
    under_way: bool = False


class LostAttempt(msgspec.Struct, frozen=True):
    """An attempt without an outcome: sent by event `since`, to `url` as far as it is known.

    `handle` is the provider's own, where it said that it works on it.
    """

    step: int
    number: int
    since: int
    client: str = ""
    url: str = ""
    handle: str = ""
    under_way: bool = False


class UnknownEffect(msgspec.Struct, frozen=True):
    """Something that was begun, and nobody recorded what became of it.

    `key` is what it was to be done once by, `effect` its class, `since` the seq of the event that
    says it was begun. `name` is the tool's; `what` names an effect inside the run, empty for the
    whole call. `call` is None when packets no longer ask for it. `told`: the model was sent that
    the outcome is unknown. `finished`: the call has its result all the same.
    """

    key: str
    effect: str
    since: int
    step: int
    name: str
    event_id: EventId
    call: Call | None
    what: str = ""
    told: bool = False
    finished: bool = False
    under_way: bool = False


class AwaitedApproval(msgspec.Struct, frozen=True):
    """A call that waits for a decision under the id `approval`, asked for by event `since`."""

    call: Call
    approval: str
    question: str
    since: int


class WaitingMessage(msgspec.Struct, frozen=True):
    """A message in the inbox: the id and seq of its event, who it is from, when it is claimed."""

    id: EventId
    seq: int
    source: str
    target: str
    wakes: bool


class ChangedFile(msgspec.Struct, frozen=True):
    """A file that is no longer as packets show it.

    `state` is `present`, `absent` or `unreadable`; `version` what it is now. `by` is `log`, and
    `since` the event that says so, or `workspace`, where it was looked at: then `change` is the
    event that says it.
    """

    path: str
    state: str
    version: str
    by: str
    since: int = 0
    change: FileChanged | None = None


class OpenCompaction(msgspec.Struct, frozen=True):
    """A compaction that began with event `since` and has no end: packets are as before it."""

    since: int
    trigger: str = ""
    under_way: bool = False


class ResumeFrom(msgspec.Struct, frozen=True):
    """The newest completed compaction that no rewind took back, by the seq of its end.

    `foreign`: an imported file's own.
    """

    seq: int
    foreign: bool = False


class Action(msgspec.Struct, frozen=True):
    """What is safe to do about one call, or one effect of it.

    `do` is `run` (`s.run(call)`: it was not done, or may be done again), `ask` (find out, or ask a
    person, and say it with `s.resolve` or `s.reconcile`), or `wait`. `why` says it in words.
    """

    do: Do
    key: str
    why: str
    call: Call | None = None


class Applies(Protocol):
    """What carries a plan out."""

    def apply(self, plan: Plan) -> tuple[Written, ...]:
        """Append what the plan says is over."""
        ...


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's log leaves open after event `seq`, and what to do about it.

    `ends` is what `apply` appends, by type. `driven_by` names another owner whose lease is live.
    `outside` are paths that lead out of the workspace and were not looked at.
    """

    session: str
    name: str
    seq: int
    blocked: str = ""
    driven_by: str = ""
    cut_step: CutStep | None = None
    lost: tuple[LostAttempt, ...] = ()
    not_started: tuple[Call, ...] = ()
    unknown: tuple[UnknownEffect, ...] = ()
    waiting: tuple[AwaitedApproval, ...] = ()
    inbox: tuple[WaitingMessage, ...] = ()
    changed_files: tuple[ChangedFile, ...] = ()
    outside: tuple[str, ...] = ()
    open_compaction: OpenCompaction | None = None
    checkpoint: ResumeFrom | None = None
    next: tuple[Action, ...] = ()
    news: bool = False
    applies: Applies | None = None

    def apply(self) -> tuple[Written, ...]:
        """Append the ends of what was cut, under the session's lease; twice is once.

        Attempts become `attempt.lost`, the step `step.abandoned`, an open compaction
        `compaction.failed`, changes seen in the workspace `file.changed`. Nothing is run and
        nothing is sent. Gives what was appended. Raises StalePlan when the log moved on since,
        NotEntered without the lease, Refused (`blocked`) when the state cannot be read.
        """
        if self.applies is None:
            raise NotEntered(
                "this plan was made by reading alone: enter the session and plan it there, as in "
                f"with log.session({self.name or self.session!r}) as s: s.recover().apply()"
            )
        return self.applies.apply(self)

    @property
    def ends(self) -> tuple[str, ...]:
        """The types of the events that `apply` appends, in their order."""
        if self.blocked:
            return ()
        types = ["attempt.lost" for one in self.lost if not one.under_way]
        if self.cut_step is not None and not self.cut_step.under_way:
            types.append("step.abandoned")
        if self.open_compaction is not None and not self.open_compaction.under_way:
            types.append("compaction.failed")
        types += ["file.changed"] * len(self.changes)
        return tuple(types)

    @property
    def changes(self) -> tuple[FileChanged, ...]:
        """What was seen in the workspace and is not in the log; unreadable says no content."""
        found = (one.change for one in self.changed_files if one.state != "unreadable")
        return tuple(change for change in found if change is not None)

    @property
    def sentence(self) -> str:
        """What stands where, and what to do first, in a few words."""
        return " ".join((*_stands(self), _first(self)))


_STANDS = {
    "built": "was cut before its request left",
    "sent": "was cut after its request left, and nobody knows whether it was answered",
    "running": "was left while the provider worked on it",
    "refused": "was left after the provider refused",
    "lost": "was left after its request was lost",
}


def _stands(plan: Plan) -> list[str]:
    step = plan.cut_step
    said: list[str] = []
    if step is not None:
        how = "is under way" if step.under_way else _STANDS[step.stands]
        said.append(f"Step {step.step} {how}.")
    counted = [
        _counted(plan.next, "run", "may be run", "may be run"),
        _counted(plan.next, "ask", "has an unknown outcome", "have an unknown outcome"),
        _counted(plan.next, "wait", "waits", "wait"),
    ]
    calls = ", ".join(one for one in counted if one)
    if calls:
        said.append(f"Of the calls {calls}.")
    if plan.open_compaction is not None and not plan.open_compaction.under_way:
        said.append("A compaction has no end, and packets are as before it.")
    if plan.inbox:
        said.append(f"{_some(len(plan.inbox), 'message waits', 'messages wait')} in the inbox.")
    if plan.changed_files:
        said.append(f"{_some(len(plan.changed_files), 'file', 'files')} changed meanwhile.")
    return said


def _first(plan: Plan) -> str:
    if plan.blocked:
        return f"Nothing can be built from here on: {plan.blocked}."
    if plan.driven_by:
        return f"{plan.driven_by} drives the session: leave it, or wait until its lease ends."
    does = {one.do for one in plan.next}
    if "ask" in does:
        return "First find out what became of the unknown, and say it; nothing does it again."
    if "run" in does:
        return "Run what may be run, then build the next step."
    if plan.waiting:
        return "Decide the approvals, then go on."
    if plan.cut_step is not None and not plan.cut_step.under_way:
        return "The next step asks again."
    if plan.news or any(one.wakes for one in plan.inbox):
        return "Build the next step."
    return "Nothing was cut, and nothing waits for a step."


def _counted(actions: Sequence[Action], do: Do, one: str, many: str) -> str:
    count = sum(action.do == do for action in actions)
    return f"{count} {one if count == 1 else many}" if count else ""


def _some(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
