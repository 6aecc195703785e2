"""One pass over a session's log, and what it gathers for a plan of recovery."""

from __future__ import annotations

import msgspec

from sawlog.builder import effects
from sawlog.builder.effects import Effects
from sawlog.store.directory import SessionRow
from sawlog.store.event import Event, decoded
from sawlog.store.events.conversation import ApprovalDecided, ApprovalRequested
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from sawlog.store.log import Log
from sawlog.work.driven import Driven
from sawlog.work.plan import OpenCompaction, ResumeFrom

_WANTED = effects.TYPES | frozenset(
    "approval.decided approval.requested compaction.completed compaction.failed "
    "compaction.started history.rewound session.forked".split()
)


class Gathered(msgspec.Struct):
    """What one pass over the log gathers. `fences` are by seq."""

    effects: Effects = msgspec.field(default_factory=Effects)
    fences: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    asked: dict[str, tuple[int, ApprovalRequested]] = msgspec.field(
        default_factory=dict[str, tuple[int, ApprovalRequested]]
    )
    approved: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    compactions: list[ResumeFrom] = msgspec.field(default_factory=list[ResumeFrom])
    open: OpenCompaction | None = None


def gather(log: Log, row: SessionRow, who: Driven) -> Gathered:
    """Read what the log says up to the row's head of effects, approvals and compactions."""
    read = Gathered()
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


def _note(read: Gathered, event: Event, who: Driven) -> None:
    content = event.content
    match content:
        case ApprovalRequested():
            read.asked[content.call] = (event.seq, content)
        case ApprovalDecided():
            for call, (_, asked) in read.asked.items():
                if asked.approval == content.approval and content.allow:
                    read.approved.setdefault(call, event.seq)
        case SessionForked():
            read.open = None  # it is the parent's, who may be at it still
        case HistoryRewound():
            read.compactions = [one for one in read.compactions if one.seq <= content.to]
        case _:
            _note_compaction(read, event, who)


def _note_compaction(read: Gathered, event: Event, who: Driven) -> None:
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
