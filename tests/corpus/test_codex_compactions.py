"""After a Codex compaction the history is the file's `replacement_history`.

What the file says the model was shown is read here from its raw JSON: response items in order, and
at each compaction the list that takes their place.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.audit.reconstructing import reconstruct, sending_for
from sawlog.audit.recorded import Recorded
from sawlog.builder.build import Built, Cache
from sawlog.builder.packet import Entry
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.importing import import_path
from sawlog.providers.strict import APIS
from sawlog.store.events.compaction import (
    CompactionCompleted,
)
from tests.corpus.files import WHY_NOT, files, objects, short

COMPACTED = {"02": 3, "03": 2, "05": 2, "07": 1, "09": 1, "15": 1, "16": 1}
"""The files with compactions by the beginning of their names, and how many each has."""

OPAQUE = ("05", "15", "16")
"""Those whose lists hold an item with the summary, which nobody can read; the others lack it."""

FILES = [file for file in files("codex") if file.name[:2] in COMPACTED]
each_file = pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=short(file)) for file in FILES]
    or [pytest.param(Path("none"), marks=pytest.mark.skip(reason=WHY_NOT), id="none")],
)

OUTPUTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")
CALLS = {"function_call": "arguments", "custom_tool_call": "input", "tool_search_call": "arguments"}


class Seen(NamedTuple):
    """What the model was shown for one step; `compactions` counts those before it."""

    items: list[dict[str, Any]]
    compactions: int
    first: bool
    """It is the first step behind a compaction."""


def seen(file: Path) -> Iterator[Seen]:
    """What the file says of each of its steps."""
    items: list[dict[str, Any]] = []
    compactions = 0
    running = fresh = False
    for value in objects(file):
        item: dict[str, Any] = value.get("payload") or {}
        if value["type"] == "compacted":
            items = list(item["replacement_history"])
            compactions += 1
            running, fresh = False, True
        elif item.get("type") == "task_complete":
            running = False
        elif value["type"] == "response_item":
            if item["type"] in OUTPUTS or item.get("role") in ("user", "developer"):
                running = False
            elif not running:
                yield Seen(list(items), compactions, fresh)
                running, fresh = True, False
            items.append(item)


class Step(NamedTuple):
    """A step of the imported session: the state that its packets are built over."""

    state: State
    compaction: CompactionCompleted | None


def steps(recorded: Recorded) -> Iterator[Step]:
    """The steps of a session in order."""
    state = State()
    compaction: CompactionCompleted | None = None
    for event in recorded.events():
        recorded.window.hold((event,))
        if event.step > state.step:
            yield Step(state, compaction)
        if isinstance(event.content, CompactionCompleted):
            compaction = event.content
        state = fold(state, event)


def packet(recorded: Recorded, state: State, api: str, cache: Cache) -> Built:
    """The packet of a state for a model of that API."""
    built = reconstruct(state, None, sending_for(api, "unknown"), 0, recorded.window, cache)
    assert isinstance(built, Built), built
    return built


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    """An empty log."""
    with open_log(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        yield opened


@each_file
def test_the_history_is_the_list_that_the_file_gives(file: Path, log: AgentLog) -> None:
    recorded = log.read(import_path(log, file)[0].session)
    cache = Cache()
    compared = 0
    for said, step in zip(seen(file), steps(recorded), strict=True):
        compared += said.first
        groups = by_event(packet(recorded, step.state, "openai-responses", cache))
        items = [item for item in said.items if item["type"] not in OUTPUTS]
        shown = [group for group in groups if group[0].role != "result"]
        # Pairing adds results, and moves those that are there behind their calls; no more.
        for item, group in zip(items, shown, strict=True):
            assert_shows(group, item)
        outputs = {item["call_id"]: item for item in said.items if item["type"] in OUTPUTS}
        results = [group for group in groups if group[0].role == "result"]
        calls = [item["call_id"] for item in items if item["type"] in CALLS]
        assert [group[0].call_id for group in results] == calls
        for group in results:
            output = outputs.pop(group[0].call_id, None)
            if output is None:
                assert group[0].status == "not_started"
            else:
                assert group[0].status == "ok"
                assert_texts(group, output, "tools" if "tools" in output else "output")
        assert outputs == {}
    assert compared == COMPACTED[file.name[:2]]


def by_event(built: Built) -> list[list[Entry]]:
    """The entries of the history, those of one event (or one synthetic result) together."""
    groups: dict[tuple[int, str], list[Entry]] = {}
    for ref, entry in zip(built.refs, built.entries, strict=True):
        if ref.section == "history":
            groups.setdefault((ref.seq, ref.form), []).append(entry)
    return list(groups.values())


def assert_shows(group: list[Entry], item: dict[str, Any]) -> None:
    """The entries are those of the item, and nothing else."""
    kind = item["type"]
    if kind == "message":
        assert {entry.role for entry in group} == {item["role"]}
        assert_texts(group, item, "content")
        return
    (entry,) = group
    if kind in CALLS:
        arguments = item[CALLS[kind]]
        assert (entry.role, entry.call_id) == ("call", item["call_id"])
        assert entry.name == item.get("name", "tool_search")
        assert entry.text == arguments or json.loads(entry.text) == arguments
    else:
        assert entry.part in ("bound", "raw")
        assert json.loads(entry.text) == item


def assert_texts(group: list[Entry], item: dict[str, Any], field: str) -> None:
    """The entries are the parts of a message or of a result."""
    content = item[field]
    if field == "tools":
        assert [json.loads(entry.text) for entry in group] == [content]
        return
    parts = [{"text": content}] if isinstance(content, str) else content
    for entry, part in zip(group, parts, strict=True):
        if "text" in part:
            assert (entry.part, entry.text) == ("", part["text"])
        else:
            assert part["type"] == "input_image" and entry.part == "media"


@each_file
def test_what_a_provider_cannot_take_is_named(file: Path, log: AgentLog) -> None:
    recorded = log.read(import_path(log, file)[0].session)
    compared = 0
    for said, step in zip(seen(file), steps(recorded), strict=True):
        if not said.first:
            continue
        compared += 1
        opaque = file.name[:2] in OPAQUE
        for api in APIS:
            built = packet(recorded, step.state, api, Cache())
            assert_named(built)
            assert ("compaction_summary" in built.missing) is not opaque
        assert step.compaction is not None
        assert step.compaction.unknown is not opaque
        assert any(item["type"] == "compaction" for item in said.items) is opaque
    assert compared == COMPACTED[file.name[:2]]


def assert_named(built: Built) -> None:
    """Every entry of the history is in the body, or the trace says what became of it."""
    sent = "\0".join(strings(json.loads(built.request.body)))
    named = {(one.seq, one.part) for one in built.trace.verdicts if one.stage == "render"}
    for ref, entry in zip(built.refs, built.entries, strict=True):
        if entry.section == "history" and (ref.seq, ref.part) not in named:
            assert entry.part != "bound"
            data = entry.data
            assert (entry.text if data is None else base64.b64encode(data).decode()) in sent
    assert {one.cause for one in built.trace.breaks} == {"compacted"}


def strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
        return
    inside: list[Any] = list(value.values()) if hasattr(value, "values") else []
    inside += value if isinstance(value, list) else []
    for one in inside:
        yield from strings(one)
