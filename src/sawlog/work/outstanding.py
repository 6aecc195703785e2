"""What of a session's calls and effects is outstanding, and what is safe to do about each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sawlog.builder.contents import text_of
from sawlog.builder.effects import FAILED, IDEMPOTENT, SIDE_EFFECT, UNKNOWN, Effect
from sawlog.builder.state import State, Waiting
from sawlog.store.directory import SessionRow
from sawlog.store.event import Event, decoded
from sawlog.store.events.conversation import ToolRequested
from sawlog.store.log import Log
from sawlog.store.text import BlobMissing, Text
from sawlog.work.call import Call, Declares
from sawlog.work.driven import Driven
from sawlog.work.effecting import may_repeat
from sawlog.work.gathering import Gathered
from sawlog.work.plan import Action, AwaitedApproval, UnknownEffect
from sawlog.work.window import Window

_ID = re.compile("[0-9a-f]{32}")

_ASK = "it may have been done: find out, or ask a person"


class Calls:
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
            self._made[one.id] = self._call(self.request(one))
        return self._made[one.id]

    def request(self, one: Waiting) -> Event:
        """The event that asked for it."""
        return self._window.event(one.seq)

    def called(self, event_id: str) -> tuple[Call | None, str]:
        """The open call of that id (None: packets ask for it no more), and its tool's name."""
        waiting = self.waiting.get(event_id)
        if waiting is not None and not waiting.denied:
            call = self.of(waiting)
            return call, call.name if call is not None else ""
        # An import may name as a call whatever its file did: what is no id has no event.
        id = bytes.fromhex(event_id) if _ID.fullmatch(event_id) else b""
        stored = self._log.by_event_id(self._row, id) if id else None
        if stored is None:
            return None, ""
        call = self._call(decoded(stored, self._log.registry))
        return None, call.name if call is not None else ""

    def text(self, text: Text) -> str:
        """A text of an event, whole; without its blob what stands for it."""
        try:
            return text_of(text, self._window)
        except BlobMissing as missing:
            return f"[a long text: sha256:{missing.digest}]"

    def _call(self, event: Event) -> Call | None:
        content = event.content
        if not isinstance(content, ToolRequested):
            return None
        return Call.of(self._declares, event.id, event.step, content, self._window)


def unknown(read: Gathered, calls: Calls, who: Driven) -> Iterator[UnknownEffect]:
    """The effects whose outcome nobody recorded, whole calls and parts of them, by their start."""
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
            key=calls.text(one.key),
            effect=one.effect,
            since=one.since,
            step=one.step,
            name=name,
            event_id=one.call,
            call=call,
            what=_what(one, calls) if inside else "",
            told=waiting is not None and waiting.gone,
            finished=inside and start is not None and start.state != UNKNOWN,
            under_way=who.runs(one.call, read.fences[one.since]),
        )


def _what(one: Effect, calls: Calls) -> str:
    """An effect inside a run, in the words that it was given, else by its name."""
    key = calls.text(one.key)
    return calls.text(one.what) or key.partition(":")[2] or key


def approvals(state: State, read: Gathered, calls: Calls) -> Iterator[AwaitedApproval]:
    """The calls that wait for a decision, in the order in which they were asked for."""
    for one in state.waiting:
        call = calls.of(one) if one.approval and not one.denied else None
        if call is not None and one.id in read.asked:
            since, asked = read.asked[one.id]
            approval, question = calls.text(one.approval), calls.text(asked.question)
            yield AwaitedApproval(call, approval, question, since)


def actions(
    state: State,
    read: Gathered,
    calls: Calls,
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
        action = _action(one, call, calls, read, mine, who)
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


def is_foreign(request: Event) -> bool:
    """True of a call that an import brought: no start of it can stand in the log."""
    return request.source.startswith("import:")


def _action(
    one: Waiting,
    call: Call,
    calls: Calls,
    read: Gathered,
    inner: list[UnknownEffect],
    who: Driven,
) -> Action | None:
    """What is safe to do about an open call; None when the model was told and asks again itself."""
    approved = read.approved.get(one.id, 0)
    if one.approval:
        return Action("wait", one.id, f"it waits for the approval {one.approval}", call)
    start = read.effects.starts.get(one.id)
    if not one.started:
        if one.gone and not approved:
            return None
        if is_foreign(calls.request(one)) and not approved:
            return Action("ask", one.id, "its file does not say whether it was begun", call)
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
    if start is not None and start.effect == IDEMPOTENT:
        return "its key makes it once, however often it runs"
    return "it only reads"
