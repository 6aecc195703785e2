"""What a summariser answered: taken out of its reply, checked in form, joined with what code knows.

Nothing of it is believed here: whether the checkpoint may count is asked of `checking`. A name of
evidence that was not offered is kept as it stands, and is refused there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from sawlog.builder.contents import Contents, text_of
from sawlog.compaction.asking import MODEL
from sawlog.compaction.evidence import Evidence
from sawlog.compaction.extractive import SUMMARISER
from sawlog.compaction.past import Past
from sawlog.compaction.wording import cut, line_id, one_line
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import Checkpoint, Line

SECTIONS = ("goal", "constraints", "confirmed", "changed", "open", "next")
"""The fields that every answer has (CONTRACTS S3-13)."""

LARGEST = 1_000_000
"""Characters of a reply that are looked at."""


class Said(msgspec.Struct, frozen=True):
    """A line as a summariser wrote it: an id, a text, names of evidence."""

    id: str
    text: str
    evidence: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """What a summariser wrote, in its form. Of `changed` the id is the path."""

    goal: str
    constraints: tuple[Said, ...]
    confirmed: tuple[Said, ...]
    changed: tuple[Said, ...]
    open: tuple[Said, ...]
    next: tuple[Said, ...]
    narrative: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """Why an answer has not the form: codes, and the path or the words that each is about.

    `no_text` (nothing was written), `not_json` (no JSON object in it), `missing_section` (one of
    the six fields), `wrong_form` (a path: what is wrong there), `too_long` (a path).
    """

    codes: tuple[tuple[str, str], ...]


def read_answer(text: str) -> Answer | Refusal:
    """The answer in a reply's text: a JSON object, alone, in a code fence, or among other words."""
    if not text.strip(" \t\r\n"):
        return Refusal((("no_text", ""),))
    if len(text) > LARGEST:
        return Refusal((("too_long", f"the reply has {len(text)} characters"),))
    found = _object_in(text)
    if found is None:
        return Refusal((("not_json", cut(text, _SHOWN)),))
    missing = tuple(("missing_section", name) for name in SECTIONS if name not in found)
    faults = missing + _faults(found)
    return Refusal(faults) if faults else _answer(found)


# --- taking it out and checking its form --------------------------------------------------------

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_TRIES = 20
"""Places of a `{` at which a JSON object is looked for."""

_SHOWN = 200
"""Characters of what a refusal is about."""


def _object_in(text: str) -> dict[str, Any] | None:
    """The first JSON object that has one of the sections, else the first one, else None."""
    first: dict[str, Any] | None = None
    for candidate in _candidates(text):
        if any(name in candidate for name in SECTIONS):
            return candidate
        first = candidate if first is None else first
    return first


def _candidates(text: str) -> Iterator[dict[str, Any]]:
    for source in (text, *(match[1] for match in _FENCE.finditer(text))):
        found = _decoded(source.strip(" \t\r\n"), whole=True)
        if found is not None:
            yield found
    at = -1
    for _ in range(_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            return
        found = _decoded(text[at:], whole=False)
        if found is not None:
            yield found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_int=float)


def _decoded(source: str, *, whole: bool) -> dict[str, Any] | None:
    try:
        value, end = _DECODER.raw_decode(source)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (whole and end != len(source)):
        return None
    return cast("dict[str, Any]", value)


def _faults(found: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    from pydantic import ValidationError

    from sawlog.compaction.answermodel import ADAPTER

    try:
        ADAPTER.validate_python(found)
    except ValidationError as error:
        return tuple(
            fault
            for one in error.errors(include_url=False, include_context=False, include_input=False)
            if (fault := _fault(one["type"], one["loc"], one["msg"])) is not None
        )
    return ()


def _fault(kind: str, place: Sequence[int | str], message: str) -> tuple[str, str] | None:
    path = ".".join(str(step) for step in place)
    if kind == "missing" and len(place) == 1:
        return None  # a section, which is named already
    if kind in ("string_too_long", "too_long"):
        return "too_long", path
    return "wrong_form", cut(f"{path}: {message}", _SHOWN)


def _answer(found: dict[str, Any]) -> Answer:
    def lines(name: str, id: str = "id") -> tuple[Said, ...]:
        return tuple(
            Said(one.get(id, ""), one.get("text", ""), tuple(one.get("evidence", ())))
            for one in found[name]
        )

    return Answer(
        found["goal"],
        lines("constraints"),
        lines("confirmed"),
        lines("changed", "path"),
        lines("open"),
        lines("next"),
        found.get("narrative", ""),
    )


# --- joining it with what code knows --------------------------------------------------------------


def merged(past: Past, known: Checkpoint, answer: Answer, evidence: Evidence) -> Checkpoint:
    """The checkpoint of code's facts and a summariser's prose.

    Every line that code knows stays. One that a summariser wrote before may be worded anew under
    its id; words of the user, of the operator and of code are never changed, they only gain
    citations. A file that code does not know to be changed becomes a confirmed line, which has to
    show its evidence like any other. `evidence` is what the summariser could cite.
    """
    changed = {text_of(one.path, past.contents) for one in known.changed}
    told = tuple(
        Said("", f"changed {one.id}: {one.text}".rstrip(" :"), one.evidence)
        for one in answer.changed
        if one.id not in changed
    )
    taken = {one.id for one in (*known.constraints, *known.confirmed, *known.open, *known.next)} | {
        one.id for one in known.closed
    }
    drawn = _Drawn(past.contents, evidence, taken)
    joined = replace(
        known,
        goal=known.goal or one_line(answer.goal),
        constraints=drawn.joined("c", known.constraints, answer.constraints),
        confirmed=drawn.joined("d", known.confirmed, (*answer.confirmed, *told)),
        open=drawn.joined("o", known.open, answer.open),
        next=drawn.joined("n", known.next, answer.next),
        # On one line: none of it may pass for a line of the checkpoint, which cites its evidence.
        narrative=one_line(answer.narrative) or known.narrative,
        summariser=MODEL,
    )
    return replace(joined, evidence=_used(known.evidence, evidence, drawn.cited))


class _Drawn:
    """Joins sections; `taken` are the ids of all lines so far, `cited` what was cited."""

    def __init__(self, contents: Contents, evidence: Evidence, taken: set[str]) -> None:
        self._contents = contents
        self._evidence = evidence
        self._taken = taken
        self.cited: set[EventId] = set()

    def joined(self, kind: str, known: Sequence[Line], said: Iterable[Said]) -> tuple[Line, ...]:
        """A section: all lines that are known, in their order, then the new ones."""
        lines = {one.id: one for one in known}
        same = {text_of(one.text, self._contents): one.id for one in known}
        for one in said:
            refs = self._refs(one.evidence)
            text = one_line(one.text)
            if not text:
                continue
            id = one.id if one.id in lines else same.get(text, "")
            carried = lines.get(id)
            if carried is not None:
                refs = tuple(dict.fromkeys((*carried.refs, *refs)))
                lines[id] = replace(carried, refs=refs)
                if carried.by == SUMMARISER:
                    lines[id] = replace(lines[id], text=text)
                continue
            id = line_id(kind, text)
            if id in lines:
                refs = tuple(dict.fromkeys((*lines[id].refs, *refs)))
                lines[id] = replace(lines[id], refs=refs)
            elif id not in self._taken:
                lines[id] = Line(id, text, refs, SUMMARISER)
                self._taken.add(id)
        return tuple(lines.values())

    def _refs(self, names: Iterable[str]) -> tuple[EventId, ...]:
        refs = tuple(dict.fromkeys(self._evidence.id_of(name) for name in names))
        self.cited.update(refs)
        return refs


def _used(
    known: tuple[EventId, ...], evidence: Evidence, cited: set[EventId]
) -> tuple[EventId, ...]:
    """The evidence of the checkpoint: the names that were offered, up to the last that is used.

    So what the summariser calls `k2.5` in its prose is `k2.5` in the packet, too.
    """
    ids = evidence.ids
    last = max((at for at, id in enumerate(ids, 1) if id in cited), default=0)
    return ids[: max(last, len(known))]
