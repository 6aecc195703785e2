"""What does not fit an event is refused with its place, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sawlog
from sawlog.store import errors

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
