"""Reads out of a session's log what its driver left open: the plan that recovery goes by.

Nothing is written and nothing is guessed: what the log does not say is unknown, and what a live
lease began is under way and nobody else's to end.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from sawlog.builder import freshness
from sawlog.builder.contents import text_of
from sawlog.builder.facts import File
from sawlog.builder.inbox import wakes
from sawlog.builder.state import State
from sawlog.store.directory import SessionRow
from sawlog.store.errors import OutsideRoot
from sawlog.store.event import decoded
from sawlog.store.events.steps import (
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    PacketBuilt,
    PacketRecorded,
)
from sawlog.store.log import Log
from sawlog.work.believing import believed
from sawlog.work.call import Declares
from sawlog.work.driven import Driven
from sawlog.work.gathering import gather
from sawlog.work.outstanding import Calls, actions, approvals, unknown
from sawlog.work.plan import (
    ChangedFile,
    CutStep,
    LostAttempt,
    Plan,
    WaitingMessage,
)
from sawlog.work.window import Window
from sawlog.workspace.comparing import changes


class Undeclared:
    """What calls are handed out for where nobody offers tools: they can be read, and not run."""

    offered: tuple[str, ...] = ()

    def declared(self, name: str) -> None:
        """None: there is no tool."""


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
    read = gather(log, row, who)
    calls = Calls(log, row, state, window, declares)
    open_effects = tuple(unknown(read, calls, who))
    files, outside = _files(state, window, root)
    step, lost = _cut(log, row, state, window, who)
    safe = tuple(actions(state, read, calls, open_effects, who))
    may_run = {one.key for one in safe if one.do == "run"}
    begun = {one.event_id for one in open_effects if not one.what}
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
        unknown=open_effects,
        waiting=tuple(approvals(state, read, calls)),
        inbox=tuple(
            WaitingMessage(one.id, one.seq, window.event(one.seq).source, one.target, one.wakes)
            for one in state.inbox
        ),
        changed_files=files,
        outside=outside,
        open_compaction=read.open,
        checkpoint=read.compactions[-1] if read.compactions else None,
        next=safe,
        news=wakes(state) and not _answered(state),
    )


# --- the step -------------------------------------------------------------------------------------


def _answered(state: State) -> bool:
    """True where no packet of ours settled anything and the model had the last word: a program that
    was recorded, or a file, that is through."""
    return not state.sent and bool(state.news) and state.news[-1].kind == "message.assistant"


def _cut(
    log: Log, row: SessionRow, state: State, window: Window, who: Driven
) -> tuple[CutStep | None, tuple[LostAttempt, ...]]:
    if not state.open_step:
        return None, ()
    stands, lost, packet, since, live = "built", None, "", 0, False
    for stored in log.read(row, after=state.sent_at - 1, upto=row.head):
        if stored.step != state.open_step:
            continue
        content = decoded(stored, log.registry).content
        match content:
            case PacketBuilt() | PacketRecorded():
                packet, since, live = stored.id.hex(), stored.seq, who.lives(stored.fence)
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
    step = CutStep(state.open_step, stands, state.attempts, since, packet, live)
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
