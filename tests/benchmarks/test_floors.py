"""The floors hold what they are given, and make of it what a model's request would show."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.floors import Floor, messages
from benchmarks.places import Place, PostgresPlace, SqlitePlace
from benchmarks.workload import Part, load


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    return PostgresPlace(request.getfixturevalue("postgres_url"))


def ids(made: list[Part]) -> tuple[set[str], set[str]]:
    """The calls of the messages, and those that have a result."""
    calls = {call["id"] for one in made for call in one.get("tool_calls", ())}
    return calls, {one["tool_call_id"] for one in made if one["role"] == "tool"}


def test_a_floor_gives_back_what_it_was_given(place: Place) -> None:
    """One by one or in a batch, from the same connection or a new one, whole or up to a step."""
    steps = load(12)
    single, batch = place.floor("single"), place.floor("batch")
    for step in steps:
        for part in step:
            single.append(part)
        batch.batch(step)
    again: Floor = place.floor("single")
    whole = messages([part for step in steps for part in step])
    assert single.messages() == batch.messages() == again.messages() == whole
    upto = messages([part for step in steps[:7] for part in step])
    assert again.messages(6) == upto
    again.append(steps[0][0])  # goes on behind what is there
    assert len(again.messages()) == len(whole) + 1
    for floor in (single, batch, again):
        floor.close()


def test_every_call_of_the_messages_has_a_result() -> None:
    parts = [part for step in load(30) for part in step]
    calls, results = ids(messages(parts))
    assert calls == results and len(calls) >= 30
    open_one = next(part for part in reversed(parts) if part["kind"] == "tool_result")
    parts.remove(open_one)
    made = messages(parts)
    assert ids(made) == (calls, results)
    assert [one["content"] for one in made if one.get("tool_call_id") == open_one["call_id"]] == [
        "[interrupted]"
    ]
