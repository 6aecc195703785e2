"""What does not fit an event is refused with its place, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import sawlog
from sawlog.store import errors
from sawlog.work.seeing import saw

BAD: list[Callable[[Any], object]] = [
    lambda s: s.user([{"type": "text", "text": "x"}]),
    lambda s: s.user(["abc"]),
    lambda s: s.user(b"abc"),
    lambda s: s.user(3),
    lambda s: s.user(None),
    lambda s: s.user("x", key=5),
    lambda s: s.system(None),
    lambda s: s.step("openai-chat", model=None),
    lambda s: s.step("openai-chat", model=""),
    lambda s: s.step("openai-chat", model="m").abandon(None),
]


@pytest.mark.parametrize("at", range(len(BAD)))
def test_a_value_of_another_type_is_refused_and_the_session_goes_on(tmp_path: Any, at: int) -> None:
    url = str(tmp_path / "store.db")
    with sawlog.open(url) as log:
        with log.session("task") as s:
            s.user("hello")
            with pytest.raises((errors.InvalidEvent, errors.ConfigError)):
                BAD[at](s)
        with log.session("task") as s:
            s.user("and on")
            s.step("openai-chat", model="m")
        assert log.read("task").verify().sound


def test_a_request_that_its_api_would_refuse_is_refused_before_it_is_logged(tmp_path: Any) -> None:
    with sawlog.open(str(tmp_path / "store.db")) as log, log.session("task") as s:
        s.user("hello")
        with pytest.raises(errors.ConfigError, match="max_tokens=8000"):
            s.step("anthropic", model="m")
        assert s.state.step == 0


NO_NAMES = ["a\0b", "\ud800", "x" * 5000]
UNNAMABLE: list[Callable[[Any, str, str], object]] = [
    lambda s, root, name: s.instructions(root, name),
    lambda s, root, name: s.instructions(name),
    lambda s, root, name: s.environment(git=name),
    lambda s, root, name: s.workspace(name),
    lambda s, root, name: saw(name, root=root),
    lambda s, root, name: saw("a", root=name),
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_no_file_can_have_is_a_named_error(tmp_path: Any, name: str) -> None:
    root = str(tmp_path)
    with sawlog.open(str(tmp_path / "store.db")) as log, log.session("task") as s:
        for used in UNNAMABLE:
            with pytest.raises((errors.ConfigError, errors.InvalidArguments)):
                used(s, root, name)
        if len(name) < 10:
            with pytest.raises(errors.ConfigError, match="can be no folder's name"):
                s.instructions(root, user=name)
            with pytest.raises(errors.ConfigError, match="can be no folder's name"):
                s.instructions(root, above={"team": name})
        assert s.instructions(root, touched=[name]).problems == ()
        s.user("and on")
    with sawlog.open(str(tmp_path / "store.db")) as log:
        assert log.read("task").verify().sound


LONG = "A" * 10**6
LENGTHY: list[Callable[[Any, Any], object]] = [
    lambda log, s: s.inject("x", source=LONG),
    lambda log, s: s.inject("x", source=LONG.lower() + "A"),
    lambda log, s: s.inject("x", target=LONG),
    lambda log, s: s.offer("x", channel=LONG, source_id="a"),
    lambda log, s: s.offer("", channel="memory", source_id=LONG),
    lambda log, s: s.offer("x", channel="memory", source_id="a", valid_until=LONG),
    lambda log, s: s.offer("x", channel="memory", source_id="a", saw=LONG),
    lambda log, s: s.task("x", requirements=LONG),
    lambda log, s: s.task("x", requirements=[LONG, [LONG]]),
    lambda log, s: s.task("x", phase=LONG),
    lambda log, s: s.environment(tools=LONG),
    lambda log, s: s.workspace(LONG),
    lambda log, s: s.instructions(LONG),
    lambda log, s: s.step(LONG, model="m"),
    lambda log, s: log.read(LONG),
    lambda log, s: log.session("other", policy=LONG).__enter__(),
    lambda log, s: log.session("other", policy=LONG + ".toml").__enter__(),
    lambda log, s: sawlog.policy_from({"name": "p", "number": 1, "stages": [{"stage": LONG}]}),
]


@pytest.mark.parametrize("at", range(len(LENGTHY)))
def test_an_error_repeats_the_beginning_of_a_long_value(tmp_path: Any, at: int) -> None:
    with sawlog.open(str(tmp_path / "store.db")) as log, log.session("task") as s:
        with pytest.raises(errors.SawlogError) as caught:
            LENGTHY[at](log, s)
        assert len(str(caught.value)) < 1000


def test_what_is_short_is_repeated_as_it_is() -> None:
    assert errors.quoted("it's") == repr("it's")
    assert errors.quoted("x" * 100) == repr("x" * 100)
    assert errors.quoted("x" * 101) == repr("x" * 100) + "… (101 characters)"
    assert errors.quoted(b"x" * 101) == repr(b"x" * 100) + "… (101 bytes)"
    assert errors.quoted(["x" * 500]) == repr(["x" * 500])[:200] + "…"


def test_a_policy_that_is_no_file_is_refused_and_never_waited_for(tmp_path: Any) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with sawlog.open(str(tmp_path / "store.db")) as log:
        for place in (tmp_path / "pipe.toml", tmp_path):
            with pytest.raises(errors.ConfigError, match="it is no regular file"):
                log.session("task", policy=place)
