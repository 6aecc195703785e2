"""A list, a moment, a span: what is meant otherwise is refused with the mend, and not written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.store.errors import ConfigError, InvalidItem
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.world import Saw
from tests.session.agents import next_step, read_file, types
from tests.session.tasks import run

Does = Callable[[Any], object]
SECOND = 1_000_000


def offer(s: Any, **options: Any) -> str:
    text: str = s.offer("x", channel="memory", source_id="m", **options)
    return text


LISTS: dict[str, Does] = {
    "requirements": lambda s: s.task(requirements="failing-test"),
    "topics": lambda s: s.task(topics="price"),
    "allowed": lambda s: s.task(allowed="public"),
    "offered topics": lambda s: offer(s, topics="price"),
    "required_for": lambda s: offer(s, required_for="failing-test"),
    "saw": lambda s: offer(s, saw=Saw("a.py")),
    "names": lambda s: s.instructions(".", names="AGENTS.md"),
    "touched": lambda s: s.instructions(".", touched="a.py"),
    "a path touched": lambda s: s.instructions(".", touched=Path("a.py")),
    "child": lambda s: s.child("c", "do it", required_for="failing-test"),
    "tools of the environment": lambda s: s.environment(tools="grep"),
    "tools": lambda s: s.tools("read_file"),
    "one tool": lambda s: s.tools(read_file),
    "bytes": lambda s: s.task(requirements=b"failing-test"),
    "no list": lambda s: s.task(requirements=3),
    "no names": lambda s: s.task(requirements=[1]),
}


@pytest.mark.parametrize("one", LISTS)
def test_one_text_is_no_list_of_names(log: AgentLog, one: str) -> None:
    with log.session("task") as s:
        s.user("hello")
        with pytest.raises((ConfigError, InvalidItem), match="give a (list|text)") as refused:
            LISTS[one](s)
        assert not isinstance(refused.value, InvalidItem) or refused.value.code == "no_list"
    assert types(s, log) == ["session.created", "message.user"]
    assert [row.name for row in log.sessions()] == ["task"]


def test_the_mend_is_the_list_that_was_meant(log: AgentLog) -> None:
    with log.session("task") as s:
        with pytest.raises(ConfigError, match=r"give a list: \['failing-test'\]"):
            s.task(requirements="failing-test")
        s.task(requirements=["failing-test"], topics=("b", "a", "b"))
        assert s.state.task


def test_facts_take_lists_too(log: AgentLog) -> None:
    with log.session("task") as s, pytest.raises(InvalidItem):
        s.extract("0" * 32, {"a": 1}, channel="memory", topics="price")


def test_an_async_session_refuses_before_it_opens_a_child(log: AgentLog) -> None:
    async def work() -> None:
        async with log.asession("task") as s:
            with pytest.raises(ConfigError, match="give a list"):
                s.child("c", "do it", required_for="failing-test")
            with pytest.raises(InvalidItem, match="give a list"):
                await s.offer("x", channel="memory", source_id="m", topics="price")

    run(work())


# --- times ---------------------------------------------------------------------------------------

MOMENT = datetime(2026, 12, 31, 12, tzinfo=UTC)
MICROSECONDS = int(MOMENT.timestamp()) * SECOND


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (MOMENT, MICROSECONDS),
        (MOMENT.astimezone(timezone(timedelta(hours=5))), MICROSECONDS),
        (MICROSECONDS, MICROSECONDS),
        (0, 0),
        (datetime(1969, 1, 1, tzinfo=UTC), 1),
        (MOMENT.replace(microsecond=7), MICROSECONDS + 7),
    ],
)
def test_a_moment_is_a_datetime_or_microseconds(log: AgentLog, given: Any, stored: int) -> None:
    with log.session("task") as s:
        offer(s, valid_until=given)
    [item] = [e.content for e in log.read("task").events() if isinstance(e.content, ItemOffered)]
    assert item.valid_until == stored


def test_spans_are_timedeltas_or_microseconds(log: AgentLog) -> None:
    with log.session("task") as s:
        offer(s, ttl=timedelta(hours=1), took=timedelta(milliseconds=2))
        offer(s, ttl=1000, took=0)
        offer(s)
    items = [e.content for e in log.read("task").events() if isinstance(e.content, ItemOffered)]
    found = [(one.ttl, one.took) for one in items]
    assert found == [(3600 * SECOND, 2000), (1000, 0), (0, -1)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"valid_until": 1_999_999_999}, "in the year 1970.*Give a datetime"),
        ({"valid_until": 1_999_999_999_000}, "in the year 1970"),
        ({"valid_until": 1_999_999_999_000_000_000}, "after the year 9999"),
        ({"valid_until": -1}, "before 1970"),
        ({"valid_until": datetime(2026, 1, 1)}, "no zone.*timezone.utc"),  # noqa: DTZ001
        ({"valid_until": "2026-01-01"}, "give a datetime with its zone"),
        ({"valid_until": 1.5e15}, "give a datetime with its zone"),
        ({"valid_until": True}, "give a datetime with its zone"),
        ({"ttl": 60}, "datetime.timedelta, or 1000 or more"),
        ({"ttl": -5}, "too short"),
        ({"ttl": timedelta(0)}, "too short"),
        ({"ttl": "1h"}, "give a datetime.timedelta"),
        ({"ttl": 10**18}, "leave it out"),
        ({"took": -2}, "too short"),
        ({"took": 0.5}, "give a datetime.timedelta"),
    ],
)
def test_what_cannot_be_meant_as_a_time_is_refused(
    log: AgentLog, given: dict[str, Any], said: str
) -> None:
    with log.session("task") as s, pytest.raises(InvalidItem, match=said) as refused:
        offer(s, **given)
    assert refused.value.code == "not_a_time"
    assert s.state.seq == 0


def test_what_is_over_is_not_shown_and_what_is_not_yet_is(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(
            "old", channel="memory", source_id="o", valid_until=datetime(2020, 1, 1, tzinfo=UTC)
        )
        s.offer("new", channel="memory", source_id="n", ttl=timedelta(days=300))
        s.user("go")
        kinds = {one.reason for one in next_step(s, "openai-chat").packet.trace.verdicts}
    assert "expired" in kinds and "untrusted_data" in kinds
