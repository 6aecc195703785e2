"""The projector: fold(state, event) → state. It never raises and never looks at contents.

An unknown required event blocks the state from there on; what is damaged is set aside and named.
Fold number 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from sawlog.builder import around, compacted, freshness, inbox, offers, pairing, world
from sawlog.builder.manifest import BadManifest, expand, known_parts, names_older
from sawlog.builder.rewinding import resumed
from sawlog.builder.state import Bound, News, Ref, State
from sawlog.builder.vec import Index, Vec
from sawlog.store.content import BoundPart, IncompletePart, Part, RawPart, TextPart
from sawlog.store.event import Event
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
)
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, TaskSet
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryEdited,
    HistoryRewound,
    HistoryTrimmed,
    SessionForked,
)
from sawlog.store.events.registry import Erased, Unknown
from sawlog.store.events.steps import (
    AttemptAnswered,
    AttemptLost,
    AttemptRefused,
    AttemptSent,
    Keep,
    MeasureRecorded,
    PacketBuilt,
    PacketRecorded,
    PolicySet,
    StepAbandoned,
    StepCompleted,
    StepFailed,
    StepRefused,
)
from sawlog.store.events.world import (
    FileChanged,
    FileObserved,
    ObservationRecorded,
    ToolsChanged,
    WorldChanged,
)
from sawlog.store.text import Text, TextObject

FOLD = 1
"""The number of this fold. Another fold is another number; this one stays."""


def fold(state: State, event: Event) -> State:
    """The state after one more event."""
    if state.blocked:
        return state
    if event.step > state.step:
        state = replace(state, seq=event.seq, step=event.step, began=True)
    else:
        state = replace(state, seq=event.seq)
    content = event.content
    # Nearly all events are of these types; to ask for one type after another takes longer.
    often = _OFTEN.get(type(content))
    if often is not None:
        return often(state, event, content)
    match content:
        case MessageSystem() if not state.began and content.role == "system" and not content.copy:
            return replace(state, system=(*state.system, (event.seq, len(content.parts))))
        case ObservationRecorded():
            state = freshness.saw(state, event.seq, content.saw)
            return replace(state, news=state.news.append(_news(event, content.parts)))
        case MessageUser() | MessageSystem():
            return replace(state, news=state.news.append(_news(event, content.parts)))
        case ToolDenied() | ApprovalRequested() | ApprovalDecided():
            return pairing.noted(state, event)
        case ToolsChanged():
            gone = (state.tools[0],) if state.tools[0] else ()
            tools = (event.seq, len(content.tools))
            return replace(state, tools=tools, gaps=_gaps(state, gone))
        case PacketRecorded():
            # It settles nothing: another program chose what it shows. Its step is under way.
            written = content.origin == "rewritten" and event.step == state.open_step
            return replace(
                state,
                began=True,
                open_step=event.step,
                attempts=0,
                unsettled=0,
                # A packet of ours, written again by a client: what it binds is what it was.
                current=state.current if written else None,
            )
        case AttemptRefused() | AttemptLost() if event.step == state.open_step:
            return replace(state, unsettled=0)
        case StepFailed() | StepAbandoned():
            return _ended(state, event, content)
        case StepRefused() if event.step == state.open_step:
            # What the model said instead of an answer must not come back to it.
            said = [one.id for one in state.news if one.step == event.step]
            return _ended(pairing.edited(state, said), event, content)
        case PolicySet():
            return replace(state, policy=event.seq, pairing=content.pairing)
        case HistoryRewound():
            return _rewound(state, event, content.to)
        case HistoryTrimmed():
            return _trimmed(state, content)
        case HistoryEdited():
            state = pairing.edited(state, content.gone)
            return freshness.rebuilt(state, state.sent, frozenset(state.trims))
        case CompactionStarted() if content.through:
            return replace(state, compacting=event.seq)
        case Checkpoint() if content.block is not None and state.compacting:
            stands = tuple(seq for seq in state.blocks if seq == state.checkpoint)
            return replace(state, blocks=(*stands, event.seq))
        case CompactionCompleted() if content.checkpoint in (0, event.seq - 1):
            return compacted.compacted(state, content)
        case CompactionCompleted():
            return state  # half of an append: what it would stand for is not there, as verify tells
        case CompactionFailed() if state.compacting:
            return replace(state, compacting=0)
        case WorldChanged():
            return world.changed(state, event.seq, content)
        case TaskSet():
            return world.task_set(state, event.seq, content)
        case FileObserved():
            return freshness.observed(state, event.seq, content)
        case FileChanged():
            return freshness.changed(state, event.seq, content)
        case ItemOffered():
            return offers.offered(state, event, content)
        case ItemWithdrawn():
            return offers.withdrawn(state, event, content)
        case InboxInjected():
            return inbox.injected(state, event, content)
        case InboxClaimed() | InboxCancelled():
            return inbox.left(state, content)
        case MeasureRecorded():
            return replace(state, per_mille=max(1, content.per_mille))
        case Unknown():
            if event.ignorable:
                return state
            return replace(
                state,
                blocked=f"event {event.seq} is of type {event.type} version {event.version}, "
                "which is not known here",
            )
        case SessionForked():
            state = pairing.forked(state)
            return replace(state, open_step=0, attempts=0, unsettled=0, inbox=(), compacting=0)
        case Erased() if event.shown:
            parts = entry_count(event)
            one = News(event.seq, event.id, event.type, event.step, parts, erased=True)
            return replace(state, news=state.news.append(one))
        case _:
            return state


def fold_all(state: State, events: Iterable[Event]) -> State:
    """The state after these events."""
    for event in events:
        state = fold(state, event)
    return state


def entry_count(event: Event) -> int:
    """How many entries an event has when it is shown whole."""
    content = event.content
    match content:
        case ToolRequested():
            return 1
        case ToolFinished():
            # A result without parts still is one: it shows as an empty text.
            return len(content.parts) or 1
        case MessageAssistant() | MessageUser() | MessageSystem() | ObservationRecorded():
            return len(content.parts)
        case ToolsChanged():
            return len(content.tools)
        case ItemOffered():
            return len(content.parts)
        case Erased():
            return content.parts
        case _:
            return 1


def _news(event: Event, parts: tuple[Part, ...]) -> News:
    content = event.content
    copy = isinstance(content, MessageUser | MessageSystem | MessageAssistant) and content.copy
    return News(
        event.seq,
        event.id,
        event.type,
        event.step,
        entry_count(event),
        tuple(at for at, part in enumerate(parts, 1) if _is_preview(part)),
        content.call_id if isinstance(content, ToolFinished) else "",
        flag="copy" if copy else "",
    )


def _is_preview(part: Part) -> bool:
    text: Text
    match part:
        case TextPart() | IncompletePart():
            text = part.text
        case BoundPart() | RawPart():
            text = part.source
        case _:
            return False
    return isinstance(text, TextObject) and text.is_preview


def _ended(state: State, event: Event, content: object) -> State:
    if event.step != state.open_step:
        return state
    return replace(state, open_step=0, attempts=0, unsettled=0)


def _requested(state: State, event: Event, content: ToolRequested) -> State:
    one = News(event.seq, event.id, event.type, event.step, 1, call_id=content.call_id)
    return pairing.requested(state, event, content, one)


def _finished(state: State, event: Event, content: ToolFinished) -> State:
    since = pairing.began(state, content) if content.saw else 0
    state = pairing.finished(state, content, _news(event, content.parts))
    if state.news[-1].flag in ("duplicate", "no_call"):
        return state
    return freshness.saw(state, event.seq, content.saw, since)


def _sent(state: State, event: Event, content: AttemptSent) -> State:
    if event.step != state.open_step:
        return state
    return replace(state, attempts=content.number, unsettled=content.number)


def _answered(state: State, event: Event, content: AttemptAnswered) -> State:
    if event.step != state.open_step:
        return state
    current = state.current
    if current is not None and current.step == event.step:
        current = replace(current, account=content.account)
    return replace(state, current=current, unsettled=0)


def _assistant(state: State, event: Event, content: MessageAssistant) -> State:
    state = replace(state, news=state.news.append(_news(event, content.parts)))
    current = state.current
    if current is None or current.step != event.step or not event.step:
        return state
    if any(isinstance(part, BoundPart) for part in content.parts) and (
        not state.bounds or state.bounds[-1].step != event.step
    ):
        return replace(state, bounds=state.bounds.append(replace(current, seq=event.seq)))
    return state


def _packet(state: State, event: Event, content: PacketBuilt) -> State:
    if content.base and content.base != state.sent_at:
        return replace(
            state,
            blocked=f"packet {event.seq} builds on event {content.base}, "
            "which is not the last packet of its branch",
        )
    base = state.base if content.base else Vec[Ref]()
    parts = content.parts
    # The ordinary packet keeps the whole base and grows: then only the news are looked at.
    grown = bool(parts) and len(base) > 0 and parts[0] == Keep(0, len(base))
    if grown:
        parts = parts[1:]
    try:
        older = not content.base or names_older(state, parts)
        refs = expand(parts, base, known_parts(state, older=older))
    except BadManifest as error:
        return replace(state, blocked=f"the manifest of packet {event.seq} does not read: {error}")
    sent = base.extend(refs) if grown else Vec(refs)
    shown = {ref.seq for ref in refs}
    gaps = _gaps(state, (one.seq for one in state.news if one.seq not in shown))
    answered = state.answered
    bounds = state.bounds
    if not grown:
        floor = min((ref.seq for ref in refs if _is_history(ref)), default=0)
        if len(state.system) > 1:
            # What was said between two system texts is in no run of theirs, however long ago.
            floor = min(floor, state.system[0][0])
        gone = {*gaps, *(ref.seq for ref in (*state.base, *state.sent))} - shown
        gaps = compacted.thinned((seq for seq in gone if seq > floor), shown)
        answered = Index(entry for entry in answered.items() if entry[1].call >= floor)
        bounds = Vec(bound for bound in bounds if bound.seq >= floor)
    state = replace(
        state,
        began=True,
        sent=sent,
        sent_at=event.seq,
        sent_step=event.step,
        base=sent,
        links=state.links + 1 if content.base else 0,
        news=Vec(),
        answered=answered,
        orphans=() if not grown else state.orphans,
        gaps=gaps,
        cuts=(),
        bounds=bounds,
        open_step=event.step,
        attempts=0 if event.step != state.open_step else state.attempts,
        unsettled=0 if event.step != state.open_step else state.unsettled,
        as_of=content.as_of if state.as_of is None else max(state.as_of, content.as_of),
        current=Bound(0, event.step, content.prefix, content.api, content.model, ""),
    )
    return pairing.settled(around.shown(state, refs, grown=grown), ())


def _is_history(ref: Ref) -> bool:
    """True of an entry that stands where it happened, as what is told beside does not."""
    return ref.section == "history" and ref.seq > 0 and ref.form not in around.FORMS


def _rewound(state: State, event: Event, to: int) -> State:
    if to < state.settled_at:
        if isinstance(event.resumes, State) and event.resumes.seq == max(to, 0):
            return resumed(state, event.resumes)
        # What that packet cut off would have to come back; the state alone does not keep it.
        return replace(
            state,
            blocked=f"event {event.seq} rewinds to before the packet of event {state.sent_at}, "
            "which this fold does not read",
        )
    gone = [one.seq for one in state.news if one.seq > to]
    gaps = _gaps(state, gone)
    state = offers.rewound(pairing.rewound(state, to), to)
    state = freshness.rebuilt(state, state.sent, frozenset(state.trims))
    return replace(state, gaps=gaps, cuts=(*state.cuts, "rewound"))


def _gaps(state: State, gone: Iterable[int]) -> tuple[int, ...]:
    # What left is no entry any more, and no run of a manifest may span it.
    return tuple(sorted({*state.gaps, *gone}))


def _trimmed(state: State, content: HistoryTrimmed) -> State:
    trims = set(state.trims)
    for call_id in content.calls:
        answer = state.answered.get(call_id)
        if answer is not None:
            trims.add(answer.result)
    state = freshness.rebuilt(state, state.sent, frozenset(trims))
    return replace(state, trims=tuple(sorted(trims)), cuts=(*state.cuts, "trimmed"))


_OFTEN: dict[type, Callable[[State, Event, Any], State]] = {
    MessageAssistant: _assistant,
    ToolRequested: _requested,
    ToolStarted: lambda state, event, content: pairing.noted(state, event),
    ToolFinished: _finished,
    PacketBuilt: _packet,
    AttemptSent: _sent,
    AttemptAnswered: _answered,
    StepCompleted: _ended,
    ForeignRecord: lambda state, event, content: state,
}
