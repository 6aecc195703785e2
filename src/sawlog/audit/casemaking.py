"""A case for the labs out of a recorded step: what its policy weighed, and what should come of it.

The line has the form that `sawlog eval chapter5 --cases` reads: each candidate with its text and
its recorded signals, the room that was there for all of them, the requirements, what is expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sawlog.audit.recorded import Recorded
from sawlog.audit.steppacket import StepPacket
from sawlog.audit.weighing import Weighed, weighed
from sawlog.builder.candidates import task_of
from sawlog.builder.channels import CHANNELS
from sawlog.builder.contents import text_of
from sawlog.builder.forms import show
from sawlog.builder.forms_around import item_form
from sawlog.builder.item import Sensitivity
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.projector import fold_all
from sawlog.builder.selection.candidate import Candidate
from sawlog.builder.selection.task import Task
from sawlog.builder.state import Ref, State
from sawlog.store.errors import ConfigError
from sawlog.store.event import Event
from sawlog.store.events.items import ItemOffered, Label


def case(session: Recorded, step: int, expect: Iterable[str] = ()) -> dict[str, Any]:
    """The case of a recorded step, as JSON has it.

    `expect` names items that must be selected, by the id of their source or of their event; without
    any, those that the recorded packet shows. Raises ConfigError for a step that weighed no items,
    for a name that no candidate has, and for an item whose channel the labs do not know; NoStep,
    BlobMissing.
    """
    packet = session.packet(step)
    if packet.origin == "recorded":
        raise ConfigError(
            f"another program built the request of step {step}, so no policy weighed its items: "
            "name a step that sawlog built"
        )
    found = weighed(session, packet, fold_all(State(), session.events(0, packet.sees)))
    if not found.items:
        raise ConfigError(
            f"step {step} weighed no items, so there is nothing to choose from: `s.offer(…)` "
            "makes a text an item, and steps behind it weigh it"
        )
    return _Making(session, step, packet, found).line(list(expect))


class _Making:
    """One case being written."""

    def __init__(self, session: Recorded, step: int, packet: StepPacket, found: Weighed) -> None:
        self._session = session
        self._step = step
        self._packet = packet
        self._found = found
        self._window = session.window
        self._measure = measure_of(found.rules.measure)
        self._events = {seq: session.window.event(seq) for seq in sorted(found.items)}
        self._keys = _keys({seq: self._offered(seq) for seq in self._events}, self._window)
        self._entries = {seq: self._shown(seq) for seq in self._events}

    def line(self, expect: list[str]) -> dict[str, Any]:
        """The whole line."""
        task = task_of(self._found.state, 0, self._packet.as_of, self._window)
        shown = {ref.seq for ref in self._packet.refs if ref.form == "item"}
        wanted = [self._named(one) for one in expect] if expect else sorted(shown & set(self._keys))
        lacks = () if expect else self._packet.missing
        given: dict[str, Any] = {
            "candidates_in_order": [self._candidate(seq, task) for seq in self._events],
            "budget_units": self._budget(),
            "expected_kind": "needs_context" if lacks else "answer",
            "expected_requirements": list(task.requirements),
            "conflict_contract": {"must_select": [self._keys[seq] for seq in wanted]},
            "repository": task.repository or self._session.name or self._session.id,
            "task_id": task.task_id,
            "target_path": task.target_path,
            "allowed_sensitivities": list(task.allowed_sensitivities),
            "topics": list(task.topics),
            "phase": task.phase,
            "clearance": task.clearance,
            "as_of": task.as_of,
            "tenant": task.tenant,
            "gateway": "strict",
        }
        # The lab's rule-based probe knows nothing of this task: what it decides is not graded.
        record: dict[str, Any] = {"decision_grade": {}}
        expected: dict[str, Any] = {"report_record": record}
        if lacks:
            record["build_grade"] = {"conflict_resolution_correct": True}
            expected["packet"] = {"missing_requirements": sorted(lacks)}
        return {
            "experiment": self._session.name or self._session.id,
            "variant": f"step-{self._step}",
            "input": {name: value for name, value in given.items() if value not in ("", [], 0)}
            | {"budget_units": given["budget_units"], "target_path": task.target_path}
            | {"task_id": task.task_id},
            "expected": expected,
        }

    # --- candidates -----------------------------------------------------------------------------

    def _offered(self, seq: int) -> ItemOffered:
        content = self._events[seq].content
        assert isinstance(content, ItemOffered)
        return content

    def _shown(self, seq: int) -> list[Entry]:
        return [
            show(Ref("history", seq, at, "item", item_form(part)), self._window, None)
            for at, part in enumerate(self._offered(seq).parts, 1)
        ]

    def _units(self, seq: int) -> int:
        # A secret has no text here, and its handle stands for it.
        return sum(self._measure(entry) for entry in self._entries[seq]) or 1

    def _budget(self) -> int:
        """The room for all of them: what was left, and what those in the packet already take."""
        there = sum(self._units(seq) for seq in self._found.state.items if seq in self._events)
        if self._found.room < 0:
            return sum(self._units(seq) for seq in self._events)
        return max(0, self._found.room) + there

    def _candidate(self, seq: int, task: Task) -> dict[str, Any]:
        event, content = self._events[seq], self._offered(seq)
        one = self._found.items[seq]
        secret = content.label.sensitivity == Sensitivity.SECRET
        text = "".join(entry.text for entry in self._entries[seq])
        told: dict[str, Any] = {
            "key": self._keys[seq],
            "source_id": text_of(content.source_id, self._window),
            "channel": _channel(event, content.label),
            "content": text_of(content.handle, self._window) if secret else text,
            "path": one.path or None,
            "version": one.version or None,
            "observed_at": text_of(content.observed_at, self._window) or None,
            "required_for": list(content.required_for),
            "repository": one.repository if one.repository not in ("", task.repository) else None,
            "task_id": one.task_id if one.task_id not in ("", task.task_id) else None,
            "tenant": one.tenant if one.tenant not in ("", task.tenant) else None,
            "signals": self._signals(seq, one, task),
        }
        return {name: value for name, value in told.items() if value not in (None, [])}

    def _signals(self, seq: int, one: Candidate, task: Task) -> Mapping[str, Any]:
        told: dict[str, Any] = {
            "title": one.title,
            "locator": one.locator,
            "canonical": one.canonical,
            # Without topics of the task those of an item were judged by nobody.
            "topics": list(one.topics) if task.topics else [],
            "updated_at": one.updated_at,
            "valid_until": one.valid_until,
            "relevance": one.relevance,
            "role": one.role,
            "stale": one.stale,
        }
        return {name: value for name, value in told.items() if value not in ("", None, [])} | {
            "units": self._units(seq)
        }

    def _named(self, what: str) -> int:
        """The newest candidate of that source, or of that event."""
        for seq, event in reversed(self._events.items()):
            if what in (event.id, text_of(self._offered(seq).source_id, self._window)):
                return seq
            if what == self._keys[seq]:
                return seq
        known = ", ".join(sorted(set(self._keys.values()))[:10])
        raise ConfigError(f"no candidate of step {self._step} is {what!r}: there is {known}")


def _keys(items: Mapping[int, ItemOffered], window: Any) -> dict[int, str]:
    """A key for each candidate: its source's id, with its seq behind it where there are more."""
    names = {seq: text_of(one.source_id, window) for seq, one in items.items()}
    counts = list(names.values())
    return {
        seq: name if counts.count(name) == 1 else f"{name}#{seq}" for seq, name in names.items()
    }


def _channel(event: Event, label: Label) -> str:
    """The channel that an item came through, or one that grants the same. Raises ConfigError."""
    wanted = (label.kind, label.authority, label.trust, label.retention, label.sensitivity)
    names = sorted(CHANNELS, key=lambda name: (name != event.source, name))
    for name in names:
        one = CHANNELS[name]
        labels = (one.kind, one.authority, one.trust, one.retention, one.sensitivity)
        if tuple(map(str, labels)) == wanted:
            return name
    raise ConfigError(
        f"the item of event {event.seq} came through {event.source!r}, and no channel of the labs "
        f"grants {', '.join(wanted)}: such an item stands in no case"
    )
