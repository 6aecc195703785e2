"""What code alone knows of a region that gives way: a checkpoint without a summariser's prose.

Nothing is guessed: a line is what an event says, in its words, with the event cited. Whatever a
summariser adds, these stay (`checking`), and without one they are the checkpoint.
"""

from __future__ import annotations

from sawlog.builder.arrange import synthetic_kind
from sawlog.builder.effects import READ_ONLY, SIDE_EFFECT
from sawlog.builder.item import content_digest
from sawlog.builder.plainwords import word
from sawlog.compaction.bounds import CONFIRMED, INSTRUCTIONS, MEASURE, NEXT, WITHDRAWN, bounded
from sawlog.compaction.calls import Call
from sawlog.compaction.carried import Items, Lines, Needs, Notes, boxes, lines_by_field, withdrawals
from sawlog.compaction.files import REFS, changed_files, read_files
from sawlog.compaction.gone import REAL, Reading, shown_text
from sawlog.compaction.past import Past
from sawlog.compaction.wording import constraints_in, cut, line_id, one_line, whole
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import EventId, Named
from sawlog.store.events.compaction import (
    Checkpoint,
    Closed,
    Dropped,
    InstructionStatus,
    Line,
    OpenCall,
    Withdrawn,
)
from sawlog.store.events.conversation import MessageSystem, ToolRequested
from sawlog.store.events.items import TaskSet
from sawlog.store.events.world import ToolsChanged
from sawlog.store.text import Text

GOAL = 1000
"""Characters of goal and completion condition."""

CALLS = 50
"""Calls without a result that are listed: the newest."""

_SETTLED = ("denied", "ignored", "unknown_tool", "forked")
_TOLD_AGAIN = ("world", "stale", "missing")
"""Forms of what a later packet tells again where it holds: their going loses nothing."""


def known(past: Past, most: int = 0, measure: Named = MEASURE) -> Checkpoint:
    """The checkpoint that code alone can write.

    `most` is a bound in units (0: none): finished work, files that were read, plans and withdrawn
    items leave it oldest first, never a constraint, an open item, a changed file, a call without a
    result or what was closed. `units` says what is left takes; it may be above the bound. Raises
    BlobMissing, and UnknownNumber for a measure that is not installed.
    """
    reading = Reading(past)
    lines = Lines()
    done = _finished(reading)
    _carry(reading, lines)
    _find(reading, lines, done)
    goal, done_when = _goal(reading)
    checkpoint = Checkpoint(
        started=past.started,
        number=past.number,
        previous=past.previous_id,
        goal=goal,
        done_when=done_when,
        constraints=lines.get("constraints"),
        confirmed=lines.get("confirmed")[-CONFIRMED:],
        changed=changed_files(reading, done),
        open=lines.get("open"),
        next=lines.get("next")[:NEXT],
        files=read_files(reading),
        calls=_open_calls(reading),
        instructions=_instructions(reading),
        withdrawn=_withdrawn(reading),
        closed=tuple(lines.closed.values()),
        dropped=_dropped(reading),
    )
    return bounded(checkpoint, past.contents, most, measure)


# --- lines ----------------------------------------------------------------------------------------


def _carry(reading: Reading, lines: Lines) -> None:
    """Take over the lines of the checkpoint before, but those that something settles."""
    previous = reading.past.previous
    if previous is None:
        return
    notes, needs, items = Notes(reading), Needs(reading), Items(reading)
    ticked = boxes(reading)
    for field, before in lines_by_field(previous).items():
        for line in before:
            closed = notes.closing(line.id, field)
            if closed is None and field == "constraints":
                closed = items.closing(line.id)
            if closed is None and field == "open":
                box = ticked.get(line.id)
                if box is not None and box.done:
                    closed = Closed(line.id, (box.event.id,), "its box is ticked")
                closed = (
                    closed
                    or needs.closing(line, reading.text(line.text))
                    or _finished_since(reading, line)
                )
            if closed is not None:
                lines.closed[line.id] = closed
            else:
                lines.add(field, line)


def _finished_since(reading: Reading, line: Line) -> Closed | None:
    """What settles a line about calls that the checkpoint before told of as without a result:
    that all of them finished well."""
    awaited = [ref for ref in line.refs if ref in reading.open_before]
    results = [reading.calls.result_of(ref) for ref in awaited]
    if not awaited or any(reading.calls.outcome(ref) != "ok" for ref in awaited):
        return None
    return Closed(line.id, tuple(r.id for r in results if r is not None), "the call finished")


def _find(reading: Reading, lines: Lines, done: list[Call]) -> None:
    """Add what is new: notes, rules, what the user asked to keep, open items, finished work."""
    notes = Notes(reading)
    for line in Items(reading).lines():
        lines.put("constraints", line)
    for field, line in notes.lines():
        lines.put(field, line)
    for said in reading.said():
        if not (said.by_user and said.covered):
            continue
        for text in constraints_in(said.text):
            id = line_id("c", text)
            if not notes.hides(id, said.event.seq):
                lines.add("constraints", Line(id, cut(text), (said.event.id,), "user"))
    for line in Needs(reading).lines():
        lines.add("open", line)
    for box in boxes(reading).values():
        if box.covered and not box.done and not notes.hides(box.line.id, box.event.seq):
            lines.add("open", box.line)
    for call in done:
        text = _told(reading, call)
        id = line_id("d", text)
        if not notes.hides(id, call.result.seq):
            lines.add("confirmed", Line(id, cut(text), (call.result.id,)))


def _told(reading: Reading, call: Call) -> str:
    """A finished call, told in the past."""
    asked = call.request
    arguments = one_line(reading.text(asked.arguments))
    name = one_line(word(reading.text(asked.name)))
    return f"ran {name} with {arguments}" if arguments not in ("", "{}") else f"ran {name}"


def _finished(reading: Reading) -> list[Call]:
    """The calls whose result gives way, that finished well and were not declared to read only."""
    declared = _declared(reading)
    found: dict[EventId, Call] = {}
    for one in reading.gone:
        if one.ref.form not in REAL:
            continue
        call = reading.calls.answered_by(one.event.id)
        if call is None or reading.calls.outcome(one.event.id) != "ok":
            continue
        effect = call.effect or declared.get(reading.text(call.request.name), SIDE_EFFECT)
        if effect != READ_ONLY:
            found.setdefault(call.result.id, call)
    return list(found.values())


def _declared(reading: Reading) -> dict[str, str]:
    """The effect of each tool on offer: it speaks for a call whose start nobody recorded."""
    seq, _ = reading.past.state.tools
    event = reading.event(seq) if seq else None
    if event is None or not isinstance(event.content, ToolsChanged):
        return {}
    return {reading.text(tool.name): tool.effect for tool in event.content.tools}


# --- the rest -------------------------------------------------------------------------------------


def _goal(reading: Reading) -> tuple[str, str]:
    """Goal and completion condition: the task's, else as before, else what the user said first."""
    state, previous = reading.past.state, reading.past.previous
    event = reading.event(state.task) if state.task else None
    task = event.content if event is not None and isinstance(event.content, TaskSet) else TaskSet()
    goal, done_when = reading.text(task.goal), reading.text(task.done_when)
    if not goal and previous is not None:
        goal = reading.text(previous.goal)
        done_when = done_when or reading.text(previous.done_when)
    if not goal:
        first = (said.text for said in reading.said() if said.by_user and one_line(said.text))
        goal = next(first, "")
    return cut(one_line(goal), GOAL), cut(one_line(done_when), GOAL)


def _open_calls(reading: Reading) -> tuple[OpenCall, ...]:
    """Calls without a result, wherever they stand; denied ones only as they give way."""
    found: list[OpenCall] = []
    for call in reading.past.state.waiting:
        kind = synthetic_kind(call)
        gives_way = call.seq in reading.seqs
        if kind in _SETTLED and not gives_way:
            continue
        if kind == "not_started" and call.gone and not gives_way:
            continue
        event = reading.event(call.seq)
        if event is None or not isinstance(event.content, ToolRequested):
            continue
        name = cut(whole(reading.text(event.content.name)))
        approval = call.approval if kind == "awaiting_approval" else ""
        found.append(OpenCall(event.id, name, one_line(word(kind)), approval))
    return tuple(found[-CALLS:])


def _instructions(reading: Reading) -> tuple[InstructionStatus, ...]:
    """The operator's messages, in order: one that a later one says again word for word is replaced.

    Which other one a later one was meant to replace nobody can know. One for a single step is none.
    """
    previous = reading.past.previous
    before = () if previous is None else previous.instructions
    found = {one.event: one for one in before}
    texts: dict[str, EventId] = {}
    events: dict[int, Event] = {}
    for seq in (*(seq for seq, _ in reading.past.state.system), *_instruction_seqs(reading)):
        event = reading.event(seq)
        if event is not None:
            events[seq] = event
    for seq in sorted(events):
        event = events[seq]
        if not isinstance(event.content, MessageSystem) or event.content.once:
            continue
        parts = event.content.parts
        said = "\n".join(
            shown_text(part.text, reading.past.contents) if isinstance(part, TextPart) else str(at)
            for at, part in enumerate(parts)
        )
        digest = content_digest(f"{event.content.role}\n{said}")
        old = texts.get(digest)
        if old is not None:
            found[old] = InstructionStatus(old, "replaced")
        texts[digest] = event.id
        found.setdefault(event.id, InstructionStatus(event.id))
    return tuple(found.values())[-INSTRUCTIONS:]


def _instruction_seqs(reading: Reading) -> list[int]:
    """Instructions that stand in the history, and new ones."""
    sent = [ref.seq for ref in reading.past.state.sent if ref.section == "history" and ref.seq]
    new = [event.seq for event in reading.past.events if isinstance(event.content, MessageSystem)]
    return [*dict.fromkeys((*sent, *new))]


def _withdrawn(reading: Reading) -> tuple[Withdrawn, ...]:
    """What sources took back, as long as they do not offer it again."""

    def spelled(channel: str, source_id: Text) -> Withdrawn:
        return Withdrawn(one_line(word(channel)), cut(whole(reading.text(source_id))))

    previous = reading.past.previous
    found = dict.fromkeys(() if previous is None else previous.withdrawn)
    for offer in reading.past.state.offers:
        if not offer.withdrawn:
            found.pop(spelled(offer.channel, offer.source_id), None)
    found.update((spelled(*key), None) for key in withdrawals(reading))
    return tuple(found)[-WITHDRAWN:]


def _dropped(reading: Reading) -> tuple[Dropped, ...]:
    """How many entries of each kind are no longer shown, all checkpoints together, and the newest.

    What an earlier block cut left behind is counted as `cut earlier`.
    """
    previous = reading.past.previous
    counts = {} if previous is None else {one.kind: one.count for one in previous.dropped}
    refs: dict[str, dict[EventId, None]] = {}
    if previous is not None:
        refs = {one.kind: dict.fromkeys(one.refs) for one in previous.dropped}
    for ref in reading.past.region.refs:
        if ref.form == "notice":
            messages = dict(ref.args).get("messages", "0")
            counts["cut earlier"] = counts.get("cut earlier", 0) + int(messages)
            refs.setdefault("cut earlier", {})
    seen: set[tuple[int, str]] = set()
    for one in reading.gone:
        kind = one.entry.role
        if one.ref.form in _TOLD_AGAIN or (one.ref.seq, kind) in seen:
            continue
        seen.add((one.ref.seq, kind))
        mine = refs.setdefault(kind, {})
        # An item may come in again behind a cut, and go again at the next: it is one.
        again = one.ref.form == "item" and one.event.id in mine
        counts[kind] = counts.get(kind, 0) + (not again)
        mine.pop(one.event.id, None)
        mine[one.event.id] = None
    return tuple(Dropped(kind, counts[kind], tuple(refs.get(kind, {}))[-REFS:]) for kind in counts)
