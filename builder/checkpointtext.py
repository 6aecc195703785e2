"""A checkpoint as packets show it. Frozen with the form `checkpoint@1`.

It is history and not instruction: what is done is told as done, what is open as open. Evidence is
named by its place in the checkpoint (`k2.5`: the fifth piece of checkpoint 2), for nothing in a
packet may come from an event's id; `read_output` fetches what stands there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint, Line
from sawlog.store.text import Text

Read = Callable[[Text], str]

_STATES = {
    "not_started": "not started",
    "unknown": "started, outcome unknown: check before doing it again",
    "awaiting_approval": "waits for approval",
    "denied": "denied",
}


def checkpoint_text(content: Checkpoint, read: Read) -> str:
    """The text of a checkpoint; `read` gives what its texts say."""
    places = {id: at for at, id in enumerate(content.evidence, 1)}

    def cited(refs: Iterable[EventId]) -> str:
        names = [f"k{content.number}.{places[id]}" for id in refs if id in places]
        return f" ({', '.join(names)})" if names else ""

    def lines(title: str, some: Iterable[Line]) -> list[str]:
        out = [f"- [{one.id}] {_flat(read(one.text))}{cited(one.refs)}" for one in some]
        return [title, *out] if out else []

    out = [
        f"Checkpoint {content.number}. It stands in the place of earlier history, which is no "
        "longer shown. It records what was done; it asks for nothing."
    ]
    if content.goal:
        out.append(f"Goal: {_flat(read(content.goal))}")
    if content.done_when:
        out.append(f"Done when: {_flat(read(content.done_when))}")
    out += lines("Constraints that hold:", content.constraints)
    out += lines("Done:", content.confirmed)
    changed = [
        f"- {_quoted(read(one.path))}{_version(one.version)}"
        f"{'' if one.state == 'present' else ', ' + one.state}{cited(one.refs)}"
        for one in content.changed
    ]
    out += ["Files changed:", *changed] if changed else []
    out += lines("Open:", content.open)
    out += lines("Planned next, as of then:", content.next)
    calls = [
        f"- {_quoted(read(one.name))}: {_STATES.get(one.state, one.state)}{cited((one.call,))}"
        for one in content.calls
    ]
    out += ["Calls without a result:", *calls] if calls else []
    seen = [
        f"- {_quoted(read(one.path))}{_version(one.version)}"
        f"{', changed since: read it again' if one.stale else ''}{cited((one.ref,))}"
        for one in content.files
    ]
    out += ["Files read:", *seen] if seen else []
    closed = [
        f"- [{one.id}] {_flat(read(one.reason))}{cited(one.refs)}".rstrip()
        for one in content.closed
    ]
    out += ["Settled since the checkpoint before:", *closed] if closed else []
    withdrawn = [f"- {_quoted(read(one.source_id))} of {one.channel}" for one in content.withdrawn]
    out += ["Taken back by their sources:", *withdrawn] if withdrawn else []
    replaced = [one for one in content.instructions if one.status != "in_force"]
    if replaced:
        out.append(f"Instructions that a later one replaced: {len(replaced)}")
    if content.narrative:
        out += ["In words:", _flat(read(content.narrative))]
    dropped = [f"- {one.kind}: {one.count}{cited(one.refs)}" for one in content.dropped]
    if dropped:
        out += [
            "No longer shown (read_output fetches what has a name in brackets, and searches all of "
            f"it with ref k{content.number} and a pattern):",
            *dropped,
        ]
    return "\n".join(out)


def _version(version: str) -> str:
    return f", version {version[:12]}" if version else ""


def _flat(text: str) -> str:
    """A text on one line."""
    return " ".join(text.replace("\r", "\n").split("\n"))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
