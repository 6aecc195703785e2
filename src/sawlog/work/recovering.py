"""Reads out of a session's log what its driver left open: the plan that recovery goes by.

Nothing is written and nothing is guessed: what the log does not say is unknown, and what a live
lease began is under way and nobody else's to end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from sawlog.builder import effects, freshness
from sawlog.builder.contents import text_of
from sawlog.builder.effects import FAILED, SIDE_EFFECT, UNKNOWN, Effect, Effects
from sawlog.builder.facts import File
from sawlog.builder.inbox import wakes
from sawlog.builder.state import State, Waiting
from sawlog.store.directory import SessionRow
from sawlog.store.errors import OutsideRoot
from sawlog.store.event import Event, decoded
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    ToolRequested,
)
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.events.steps import (
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    PacketBuilt,
)
from sawlog.store.lease import is_live
from sawlog.store.log import Log
from sawlog.work.believing import believed
from sawlog.work.call import Call, Declares
from sawlog.work.effecting import may_repeat
from sawlog.work.plan import (
    Action,
    AwaitedApproval,
    ChangedFile,
    CutStep,
    LostAttempt,
    OpenCompaction,
    Plan,
    ResumeFrom,
    UnknownEffect,
    WaitingMessage,
)
from sawlog.work.window import Window
from sawlog.workspace.comparing import changes

_WANTED = effects.TYPES | frozenset(
    "approval.decided approval.requested compaction.completed compaction.failed "
    "compaction.started history.rewound".split()
)


class Driven(msgspec.Struct, frozen=True):
    """Who drives a session: the live lease's number and owner, and which lease the reader has.

    `running` are the calls that the reader itself runs now.
    """

    fence: int = 0
    owner: str = ""
    mine: int = 0
    running: frozenset[str] = frozenset()

    @property
    def by_another(self) -> str:
        """The owner, when it is not the reader."""
        return self.owner if self.fence and self.fence != self.mine else ""

    def lives(self, fence: int) -> bool:
        """True when what was appended under that number is of the one who drives now."""
        return fence != 0 and fence == self.fence

    def runs(self, call: str, fence: int) -> bool:
        """True when that call, started under that number, may be running still."""
        return call in self.running or (bool(self.by_another) and self.lives(fence))


def driven(
    log: Log, row: SessionRow, mine: int = 0, running: frozenset[str] = frozenset()
) -> Driven:
    """Who drives the session of this row, by the clock that leases go by."""
    with log.database.read() as tx:
        now = tx.now(log.clock)
    if not is_live(row, now):
        return Driven(mine=mine, running=running)
    return Driven(row.fence, row.owner or "", mine, running)


class _Read(msgspec.Struct):
    """What one pass over the log gathers. `fences` are by seq."""

    effects: Effects = msgspec.field(default_factory=Effects)
    fences: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    asked: dict[str, tuple[int, ApprovalRequested]] = msgspec.field(
        default_factory=dict[str, tuple[int, ApprovalRequested]]
    )
    approved: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    compactions: list[ResumeFrom] = msgspec.field(default_factory=list[ResumeFrom])
    open: OpenCompaction | None = None


def plan_of(
    log: Log,
    row: SessionRow,
    state: State,
    window: Window,
    declares: Declares,
    who: Driven,
    *,
    root: str | os.PathLike[str] | None = None,
) -> Plan:
    """What stands open after the state's newest event, which is the row's head.

    `declares` is what calls are handed out for. With a `root` the files that packets show are
    looked at there. Raises ConfigError when it is no directory.
    """
    read = _read(log, row, who)
    calls = _Calls(log, row, state, window, declares)
    unknown = tuple(_unknown(read, calls, who))
    files, outside = _files(state, window, root)
    step, lost = _cut(log, row, state, window, who)
    actions = tuple(_actions(state, read, calls, unknown, who))
    may_run = {one.key for one in actions if one.do == "run"}
    begun = {one.event_id for one in unknown if not one.what}
    return Plan(
        session=row.id.hex(),
        name=row.name or "",
        seq=row.head,
        blocked=state.blocked,
        driven_by=who.by_another,
        cut_step=step,
        lost=lost,
        not_started=tuple(
            call
            for one in state.waiting
            if one.id in may_run and one.id not in begun and (call := calls.of(one)) is not None
        ),
        unknown=unknown,
        waiting=tuple(_approvals(state, read, calls)),
        inbox=tuple(
            WaitingMessage(one.id, one.seq, window.event(one.seq).source, one.target, one.wakes)
            for one in state.inbox
        ),
        changed_files=files,
        outside=outside,
        open_compaction=read.open,
        checkpoint=read.compactions[-1] if read.compactions else None,
        next=actions,
        news=wakes(state),
    )


# --- one pass -------------------------------------------------------------------------------------


def _read(log: Log, row: SessionRow, who: Driven) -> _Read:
    read = _Read()
    told: list[Event] = []
    for stored in log.read(row, upto=row.head):
        if stored.type not in _WANTED:
            continue
        read.fences[stored.seq] = stored.fence
        event = decoded(stored, log.registry)
        told.append(event)
        _note(read, event, who)
    read.effects = effects.read(told)
    return read


def _note(read: _Read, event: Event, who: Driven) -> None:
    content = event.content
    match content:
        case ApprovalRequested():
            read.asked[content.call] = (event.seq, content)
        case ApprovalDecided():
            for call, (_, asked) in read.asked.items():
                if asked.approval == content.approval and content.allow:
                    read.approved.setdefault(call, event.seq)
        case HistoryRewound():
            read.compactions = [one for one in read.compactions if one.seq <= content.to]
        case _:
            _note_compaction(read, event, who)


def _note_compaction(read: _Read, event: Event, who: Driven) -> None:
    # By their names: a bracket is a bracket, whatever version its events are of.
    foreign = bool(getattr(event.content, "foreign", False))
    match event.type:
        case "compaction.started":
            trigger = str(getattr(event.content, "trigger", ""))
            live = who.lives(read.fences[event.seq])
            read.open = OpenCompaction(event.seq, trigger, live)
        case "compaction.completed":
            read.compactions.append(ResumeFrom(event.seq, foreign))
            read.open = None
        case "compaction.failed":
            read.open = None
        case _:
            pass


class _Calls:
    """The calls of a session, handed out once each."""

    def __init__(
        self, log: Log, row: SessionRow, state: State, window: Window, declares: Declares
    ) -> None:
        self._log = log
        self._row = row
        self._window = window
        self._declares = declares
        self.waiting = {one.id: one for one in state.waiting}
        self._made: dict[str, Call | None] = {}
        seqs = [one.seq for one in state.waiting]
        window.hold(
            decoded(stored, log.registry) for stored in (log.events(row, seqs) if seqs else ())
        )

    def of(self, one: Waiting) -> Call | None:
        """The call; None where its request was erased."""
        if one.id not in self._made:
            event = self._window.event(one.seq)
            self._made[one.id] = self._call(event)
        return self._made[one.id]

    def called(self, event_id: str) -> tuple[Call | None, str]:
        """The open call of that id (None: packets ask for it no more), and its tool's name."""
        waiting = self.waiting.get(event_id)
        if waiting is not None and not waiting.denied:
            call = self.of(waiting)
            return call, call.name if call is not None else ""
        stored = self._log.by_event_id(self._row, bytes.fromhex(event_id)) if event_id else None
        if stored is None:
            return None, ""
        call = self._call(decoded(stored, self._log.registry))
        return None, call.name if call is not None else ""

    def _call(self, event: Event) -> Call | None:
        content = event.content
        if not isinstance(content, ToolRequested):
            return None
        return Call.of(self._declares, event.id, event.step, content, self._window)


# --- calls and effects ----------------------------------------------------------------------------


def _unknown(read: _Read, calls: _Calls, who: Driven) -> Iterator[UnknownEffect]:
    found = read.effects
    every = (*found.starts.values(), *found.inside.values())
    for one in sorted(every, key=lambda each: each.since):
        if one.state != UNKNOWN:
            continue
        call, name = calls.called(one.call)
        waiting = calls.waiting.get(one.call)
        inside = found.inside.get(one.key) is one
        start = found.starts.get(one.call)
        yield UnknownEffect(
            key=str(one.key),
            effect=one.effect,
            since=one.since,
            step=one.step,
            name=name,
            event_id=one.call,
            call=call,
            what=_what(one) if inside else "",
            told=waiting is not None and waiting.gone,
            finished=inside and start is not None and start.state != UNKNOWN,
            under_way=who.runs(one.call, read.fences[one.since]),
        )


def _what(one: Effect) -> str:
    """An effect inside a run, in the words that it was given, else by its name."""
    if isinstance(one.what, str) and one.what:
        return one.what
    return str(one.key).partition(":")[2] or str(one.key)


def _approvals(state: State, read: _Read, calls: _Calls) -> Iterator[AwaitedApproval]:
    for one in state.waiting:
        call = calls.of(one) if one.approval and not one.denied else None
        if call is not None and one.id in read.asked:
            since, asked = read.asked[one.id]
            question = asked.question if isinstance(asked.question, str) else "[a long text]"
            yield AwaitedApproval(call, str(one.approval), question, since)


def _actions(
    state: State,
    read: _Read,
    calls: _Calls,
    unknown: tuple[UnknownEffect, ...],
    who: Driven,
) -> Iterator[Action]:
    """What is safe to do about each open call, then about what no open call stands for."""
    inner = [one for one in unknown if one.what]
    for one in state.waiting:
        call = calls.of(one) if not one.denied else None
        if call is None:
            continue
        mine = [each for each in inner if each.event_id == one.id]
        action = _action(one, call, read, mine, who)
        if action is not None:
            yield action
    open_calls = {each.id for each in state.waiting if not each.denied}
    for each in unknown:
        if each.under_way:
            if each.event_id not in open_calls:
                yield Action("wait", each.key, "it is under way", each.call)
        elif each.what or each.event_id not in open_calls:
            safe = each.effect != SIDE_EFFECT and each.event_id in open_calls
            why = "its key makes it once: run the call again" if safe else _ASK
            yield Action("run" if safe else "ask", each.key, why, each.call)


_ASK = "it may have been done: find out, or ask a person"


def _action(
    one: Waiting, call: Call, read: _Read, inner: list[UnknownEffect], who: Driven
) -> Action | None:
    """What is safe to do about an open call; None when the model was told and asks again itself."""
    approved = read.approved.get(one.id, 0)
    if one.approval:
        return Action("wait", one.id, f"it waits for the approval {one.approval}", call)
    start = read.effects.starts.get(one.id)
    if not one.started:
        if one.gone and not approved:
            return None
        return Action("run", one.id, "it was never started", call)
    if start is not None and who.runs(one.id, read.fences[start.since]):
        return Action("wait", one.id, "it is under way", call)
    if any(each.effect == SIDE_EFFECT for each in inner):
        return Action("ask", one.id, "a part of it may have been done", call)
    if approved > (start.since if start is not None else one.since):
        return Action("run", one.id, "a person allowed it after it was started", call)
    if may_repeat(start, start.effect if start is not None else SIDE_EFFECT):
        return Action("run", one.id, _may(start), call)
    if start is None or start.state != UNKNOWN:
        return Action("ask", one.id, "it was done, and its result left the history", call)
    return Action("ask", one.id, _ASK, call)


def _may(start: Effect | None) -> str:
    if start is not None and start.state not in (UNKNOWN, FAILED):
        return "somebody found out that it was not done"
    if start is not None and start.effect == "idempotent":
        return "its key makes it once, however often it runs"
    return "it only reads"


# --- the step -------------------------------------------------------------------------------------


def _cut(
    log: Log, row: SessionRow, state: State, window: Window, who: Driven
) -> tuple[CutStep | None, tuple[LostAttempt, ...]]:
    if not state.open_step:
        return None, ()
    stands, lost, packet, live = "built", None, "", False
    for stored in log.read(row, after=state.sent_at - 1, upto=row.head):
        if stored.step != state.open_step:
            continue
        content = decoded(stored, log.registry).content
        match content:
            case PacketBuilt():
                packet, live = stored.id.hex(), who.lives(stored.fence)
            case AttemptSent():
                stands = "sent"
                url, client = text_of(content.url, window), content.client
                lost = LostAttempt(
                    state.open_step, content.number, stored.seq, client, url, under_way=live
                )
            case AttemptRunning() if lost is not None:
                stands, lost = "running", replace(lost, handle=text_of(content.handle, window))
            case AttemptLost():
                stands, lost = "lost", None
            case AttemptRefused():
                stands, lost = "refused", None
            case _:
                pass
    step = CutStep(state.open_step, stands, state.attempts, state.sent_at, packet, live)
    return step, (lost,) if lost is not None and state.unsettled else ()


# --- files ----------------------------------------------------------------------------------------


def _files(
    state: State, window: Window, root: str | os.PathLike[str] | None
) -> tuple[tuple[ChangedFile, ...], tuple[str, ...]]:
    """The files that changed since they were seen, by path, and those that lead out of the root."""
    found: dict[str, ChangedFile] = {}
    known: dict[str, File] = dict(state.files.items())
    for path in sorted(set(freshness.stale_paths(state).values())):
        file = known.get(path)
        if file is not None:
            stands = "absent" if file.absent else "present"
            found[path] = ChangedFile(path, stands, file.version, "log", file.seq)
    refused: list[OutsideRoot] = []
    if root is not None:
        for one in changes(believed(state, window), root, refused=refused):
            path = str(one.path)
            found[path] = ChangedFile(path, one.state, one.version, "workspace", change=one)
    return tuple(found[path] for path in sorted(found)), tuple(each.path for each in refused)
