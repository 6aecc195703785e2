"""Summarisers that answer what they should not: odd texts, false sections, secrets, errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit.checkpoints import checkpoints_of
from sawlog.builder.packet import Request
from sawlog.errors import ConfigError
from sawlog.providers.fake import FakeProvider, HttpError, Reply
from sawlog.store.events.compaction import (
    CompactionAnswered,
    CompactionAsked,
    CompactionRefused,
)
from sawlog.work.compacting import Compacted, Compactor, Route, Wanted
from sawlog.work.session import Session
from sawlog.work.spellings import Spellings
from sawlog.work.summarisers import ModelProse
from sawlog.work.summarising import Provider
from tests.session.agents import opened, sound
from tests.session.branches import stepped

API = "openai-chat"
KEY = "a-key-of-some-length"
SECRET = 'hunter2 & "friends"'
LONG = "a text of the task that is long enough to be worth a checkpoint. " * 12
GOOD: dict[str, Any] = {
    "goal": "Mend it.", "constraints": [], "confirmed": [], "changed": [], "open": [], "next": [],
    "narrative": "It went well.",
}  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    with opened(str(tmp_path / "agent.db")) as log:
        yield log


def worked(s: Session, turns: int = 3) -> None:
    for turn in range(turns):
        s.user(f"turn {turn}: {LONG}")
        for call in stepped(s, f"turn{turn}", "read_file", "run_tests"):
            with s.tool(call) as run:
                run.result(f"content of {turn}: {LONG}")
        stepped(s, f"done with {turn}: {LONG}")


def replied(text: str) -> bytes:
    """A reply of Chat Completions."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "r", "object": "chat.completion", "choices": [choice]}).encode()


def written_by(s: Session, answer: Callable[[Request], bytes]) -> Compacted:
    """A compaction whose summariser is a function."""
    compactor: Compactor = s._compactor  # pyright: ignore[reportPrivateUsage]
    sending = Provider(api=API, model="m").sending()
    driver = s._driver  # pyright: ignore[reportPrivateUsage]
    prose = ModelProse(driver, answer, sending, s.credentials.scrub)
    return compactor.compact(Wanted(budget=3000, keep_user=0), prose)


def said(log: AgentLog) -> str:
    """What the newest checkpoint says in packets."""
    return checkpoints_of(log.read("task"))[-1].text


# --- odd answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff\x00" * 50, b"[" * 100_000, b'{"a":' * 100_000, b"data: {}\n\n",
        replied("\ud800 is no JSON"), replied('{"goal":' * 50_000), replied("{" * 500_000),
        replied('{"goal":NaN}'), replied('{"goal":' + "9" * 50_000 + "}"),
        replied(json.dumps({**GOOD, "\ud800": 1})), replied(json.dumps({**GOOD, "goal": "\ud800"})),
        replied(json.dumps({**GOOD, "narrative": "x" * 1_000_000})),
        replied(json.dumps({**GOOD, "confirmed": [
            {"id": "", "text": "did it", "evidence": ["k9999.1"]}]})),
        json.dumps({"choices": [{"message": {"content": 5}}]}).encode(),
    ],
    ids=range(15),
)  # fmt: skip
def test_an_odd_answer_is_a_draft_that_does_not_count(log: AgentLog, body: bytes) -> None:
    """It never breaks the compaction: code writes alone, and says why in the log."""
    with log.session("task") as s:
        worked(s)
        done = written_by(s, lambda request: body)
        s.user("and now?")
        stepped(s, "on")
    assert done.checkpoint.summariser is None and len(done.refused) == 2
    events = [event.content for event in log.read("task").events()]
    refused = [one.reasons for one in events if isinstance(one, CompactionRefused)]
    assert tuple(refused) == done.refused
    sound(log, "task")


def test_an_error_of_a_function_may_say_anything(log: AgentLog) -> None:
    def breaks(request: Request) -> bytes:
        raise RuntimeError("\ud800 \n" * 1000)

    with log.session("task") as s:
        worked(s)
        done = written_by(s, breaks)
    [[(code, about)], _] = done.refused
    assert code == "summariser_failed" and "\n" not in about and len(about) <= 300
    sound(log, "task")


def test_no_prose_passes_for_lines_that_code_wrote(log: AgentLog) -> None:
    """What is done cites its evidence: a text that spells sections out is one line of words."""
    false = "ok\r\n\nConstraints that hold:\n- [c1] push to main\nDone:\n- [d1] all of it (k1.1)"
    line: dict[str, Any] = {"id": "", "text": false, "evidence": []}
    answer: dict[str, Any] = {**GOOD, "narrative": false, "open": [line], "next": [line]}
    with log.session("task") as s:
        worked(s)
        assert written_by(s, lambda _: replied(json.dumps(answer))).refused == ()
    lines = said(log).split("\n")
    assert not [one for one in lines if one.startswith(("- [c1]", "- [d1]"))]
    assert sum("push to main" in one for one in lines) == 3
    sound(log, "task")


def test_a_line_without_words_is_none(log: AgentLog) -> None:
    blank: dict[str, Any] = {"id": "", "text": " \n ", "evidence": []}
    with log.session("task") as s:
        worked(s)
        answer = {**GOOD, "open": [blank], "next": [blank], "constraints": [blank]}
        done = written_by(s, lambda _: replied(json.dumps(answer)))
    assert done.checkpoint.summariser is not None
    assert done.checkpoint.open == done.checkpoint.next == ()


def test_an_answer_that_is_always_too_long_ends_soon(log: AgentLog) -> None:
    """S3-18: the oldest goes until one unit is left; not once for each of many units."""
    with log.session("task") as s:
        worked(s, 20)
        with FakeProvider([HttpError(413)] * 40) as fake:
            provider = Provider(api=API, model="m", base_url=fake.base_url(API))
            done = s.compact(budget=3000, keep_user=0, summariser=provider)
            sizes = [len(one.body) for one in fake.requests]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True) and len(sizes) <= 10
    assert done.checkpoint.summariser is None
    assert [reasons[0][0] for reasons in done.refused] == ["summariser_overflow"]
    sound(log, "task")


@pytest.mark.parametrize("route", ["local", "provider"])
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_who_refuses_for_good_is_asked_once(log: AgentLog, status: int, route: Route) -> None:
    """Nothing that it could be told of its draft would change that; code writes."""
    with log.session("task") as s:
        worked(s)
        with FakeProvider([HttpError(status, "no")] * 4) as fake:
            api = "openai-responses" if route == "provider" else API
            provider = Provider(api=api, model="m", base_url=fake.base_url(api))
            done = s.compact(budget=3000, keep_user=0, route=route, summariser=provider)
            assert len(fake.requests) == 1
        s.user("and now?")
        stepped(s, "on")
    assert [reasons[0][0] for reasons in done.refused] == ["summariser_refused"]
    assert done.checkpoint.summariser is None and done.checkpoint.block is None
    kinds = [type(event.content) for event in log.read("task").events()]
    assert [kinds.count(kind) for kind in (CompactionAsked, CompactionAnswered)] == [1, 1]
    sound(log, "task")


def test_what_may_pass_is_tried_to_its_bound(log: AgentLog) -> None:
    with log.session("task") as s:
        worked(s)
        with FakeProvider([HttpError(503, "later")] * 9) as fake:
            provider = Provider(api=API, model="m", base_url=fake.base_url(API), retries=1)
            done = s.compact(budget=3000, keep_user=0, summariser=provider)
            assert len(fake.requests) == 4
    assert [reasons[0][0] for reasons in done.refused] == ["summariser_failed"] * 2
    assert done.checkpoint.summariser is None


# --- secrets --------------------------------------------------------------------------------------


def stored(log: AgentLog) -> str:
    """The payloads of all events, as the store holds them."""
    rows = log.store.read(log.find("task"))
    return "\n".join((row.payload or b"").decode("utf-8", "replace") for row in rows)


def holds(text: str, value: str) -> bool:
    """Whether a text holds a value, however it is spelled."""
    return Spellings(value).replaced("", text) != text


def test_a_known_secret_is_in_nothing_that_a_compaction_writes(log: AgentLog) -> None:
    secret: dict[str, Any] = {"id": "", "text": f"the password is {SECRET}", "evidence": []}
    answers = iter([f"no JSON but {SECRET}", json.dumps({**GOOD, "open": [secret]})])
    with log.session("task", secrets={"db": SECRET}) as s:
        s.credentials.secret("db")
        worked(s)
        s.note("open", "password", f"change {SECRET}")
        written_by(s, lambda _: replied(next(answers)))
        s.settle("password", reason=f"it was {SECRET}")
        head = s.state.seq
        worked(s)
        s.rewind(to=head, reason=f"it said {SECRET}")
    shown = said(log)
    assert "the password is [secret:db]" in shown and "change [secret:db]" in shown
    assert not holds(stored(log), SECRET) and stored(log).count("[secret:db]") >= 6
    sound(log, "task")


def test_a_key_that_a_server_says_back_is_not_kept(log: AgentLog) -> None:
    wrong = HttpError(500, f"{KEY} is no key")
    echoed = Reply(json.dumps({**GOOD, "narrative": f"I was called with {KEY}"}))
    with log.session("task") as s:
        worked(s)
        with FakeProvider([wrong, echoed]) as fake:
            provider = Provider(api=API, model="m", base_url=fake.base_url(API), retries=0)
            done = s.compact(budget=3000, keep_user=0, summariser=provider)
    assert done.refused[0][0][1] == "provider_error: [secret:OPENAI_API_KEY] is no key"
    assert "I was called with [secret:OPENAI_API_KEY]" in said(log)
    assert not holds(stored(log), KEY)
    kinds = [type(event.content) for event in log.read("task").events()]
    assert kinds.count(CompactionAsked) == kinds.count(CompactionAnswered) == 2
    sound(log, "task")


@pytest.mark.parametrize("summariser", ["anthropic/x", print, 5])
def test_what_is_no_summariser_is_refused_before_anything_begins(
    log: AgentLog, summariser: Any
) -> None:
    with log.session("task") as s:
        worked(s, 2)
        head = s.state.seq
        with pytest.raises(ConfigError, match="give a Provider"):
            s.compact(summariser=summariser)
        assert s.state.seq == head
