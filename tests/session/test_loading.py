"""Loading: by channel, what stands in packets whole, what by its locator, what never (S0-78)."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import Any

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.channels import CHANNELS, Channel
from sawlog.builder.item import Authority, Kind, Retention, Sensitivity, Trust
from sawlog.providers.strict import check
from sawlog.store.errors import ConfigError, InvalidItem, Refused
from sawlog.store.events.items import ItemOffered
from sawlog.work.loading import LIMIT, LOADING, just_in_time
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import APIS, next_step, opened, sound, talker
from tests.session.test_items import Clock

BIG = "".join(f"row {n}\n" for n in range(3_000))
LOG = "fine\n" * 9_000 + "ERROR: disk full\n" + "fine\n" * 9_000


def sha(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def stepped(s: Session, api: str = "openai-chat", **options: Any) -> Step:
    s.user("go on")
    step = next_step(s, api, **options)
    check(api, step.body, step.headers)
    if api == "openai-chat":
        step.send(talker())
    return step


def texts(step: Step) -> list[str]:
    return [one.text for one in step.packet.entries if one.kind == "observation"]


def offered(log: AgentLog, name: str = "task") -> list[ItemOffered]:
    return [e.content for e in log.read(name).events() if isinstance(e.content, ItemOffered)]


def own(kind: str = "artifact", authority: str = "none", sensitivity: str = "internal") -> Channel:
    return Channel(
        Kind(kind),
        Authority(authority),
        Trust.VERIFIED,
        Retention.NORMAL,
        Sensitivity(sensitivity),
    )


# --- the default ----------------------------------------------------------------------------------


def test_the_default_says_of_each_channel_when_its_items_come_in() -> None:
    """Task, rules, tools and facts in front; files and logs when asked for; a handle never."""
    assert sorted(LOADING) == sorted(CHANNELS)
    found = {when: {name for name, row in LOADING.items() if row.when == when}
             for when in ("preload", "just_in_time", "never")}  # fmt: skip
    assert found["just_in_time"] == {"repository_file", "tool_observation"}
    assert found["never"] == {"secret_fixture"}
    assert found["preload"] >= {"system", "user_request", "repository_rule", "tool_schema"}


@pytest.mark.parametrize("api", APIS)
def test_a_large_file_is_shown_by_its_ends_and_read_by_its_locator(
    any_log: AgentLog, api: str
) -> None:
    with any_log.session("task") as s:
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        s.offer("pay/: refunds", channel="repository_file", source_id="map")
        step = stepped(s, api)
        [text] = [one for one in texts(step) if "row" in one]
        assert len(text.encode()) <= LIMIT and "pay/: refunds" in texts(step)
        assert text.startswith("row 0\n") and text.endswith("row 2999\n")
        assert "row 1500\n" not in text and sha(BIG) in text
        assert {r.number for r in step.packet.refs if r.form == "item"} == {1, 2}
        read = s.read_output.function
        assert read is not None and "row 1500" in read(sha(BIG), pattern="row 1500")
        whole = read(sha(BIG), start=0, end=100)
        assert BIG[:100] in whole
        cost = {v.seq: v.units for v in step.packet.trace.verdicts if v.stage != "history"}
        assert max(cost.values()) <= LIMIT // 4 + 50, "it takes what is shown of it"
    with any_log.session("task") as s:  # a cold builder
        s.user("on")
        assert texts(next_step(s, api, allow_missing=False))[0] == texts(step)[0]
    sound(any_log, "task")


def test_a_log_is_shown_by_the_lines_around_its_first_error(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(LOG, channel="tool_observation", source_id="deploy.log")
        shown = "\n".join(texts(stepped(s)))
        assert "ERROR: disk full" in shown and len(shown) <= LIMIT + 10 and sha(LOG) in shown
        read = s.read_output.function
        assert read is not None and "ERROR" in read(sha(LOG), pattern="ERROR")
    sound(log, "task")


def test_what_is_required_is_whole_whatever_its_channel(log: AgentLog) -> None:
    """A part of it satisfies no requirement, so a step needs it as it is."""
    with log.session("task") as s:
        s.task("mend", requirements=["rows"])
        s.offer(BIG, channel="repository_file", source_id="rows.txt", required_for=["rows"])
        assert texts(stepped(s)) == [BIG]
    with log.session("small", window=2_000) as s:
        s.task("mend", requirements=["rows"])
        s.offer(BIG, channel="repository_file", source_id="rows.txt", required_for=["rows"])
        s.user("go on")
        with pytest.raises(Refused) as refused:
            next_step(s, "openai-chat")
        assert refused.value.reason == "cannot_fit"


def test_a_preview_and_its_whole_stand_for_each_other_in_no_packet(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        assert BIG not in texts(stepped(s))
        s.offer(BIG, channel="repository_file", source_id="rows.txt", required_for=["rows"])
        step = stepped(s)
        assert BIG in texts(step)
    sound(log, "task")


def test_why_tells_what_a_preview_leaves_out(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        stepped(s)
    step = log.read("task").steps[1]
    [gone] = step.why("row 1500\n")
    [there] = step.why("row 2999\n")
    assert (gone.candidate, gone.present, gone.reason) == (True, False, "other_form")
    assert (there.candidate, there.present) == (True, True)


def test_a_case_holds_what_was_weighed(log: AgentLog) -> None:
    with log.session("task") as s:
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        [text] = texts(stepped(s))
    case = log.read("task").steps[1].case()
    [candidate] = case["input"]["candidates_in_order"]
    assert text in candidate.values() and BIG not in candidate.values()


def test_a_preview_above_the_policys_cap_is_cut_and_names_the_whole(log: AgentLog) -> None:
    document = {
        "name": "tight",
        "number": 1,
        "stages": [
            {"stage": "sensitivity"}, {"stage": "scope"}, {"stage": "cap", "units": 300},
            {"stage": "required"}, {"stage": "rank"}, {"stage": "budget"},
            {"stage": "completeness"},
        ],
    }  # fmt: skip
    with log.session("task", policy=sawlog.policy_from(document)) as s:
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        [text] = texts(stepped(s))
    assert text.startswith("row 0\n")
    assert text.endswith(
        f"[the rest is left out here; the whole text is {sha(BIG)}, {len(BIG)} bytes]"
    )
    sound(log, "task")


# --- a caller's own -------------------------------------------------------------------------------


def test_a_caller_says_how_a_channel_is_loaded(log: AgentLog) -> None:
    rows: dict[str, Any] = {"memory": just_in_time(600), "repository_file": "preload"}
    with log.session("task", loading=rows) as s:
        s.offer("m" * 5_000, channel="memory", source_id="long")
        s.offer("short", channel="memory", source_id="short")
        s.offer(BIG, channel="repository_file", source_id="rows.txt")
        memory, short, rows_text = texts(stepped(s))
        assert len(memory) <= 600 and sha("m" * 5_000) in memory
        assert (short, rows_text) == ("short", BIG)
        with s.child("part", "Look.") as child:
            child.offer("m" * 5_000, channel="memory", source_id="long")
            assert len(texts(stepped(child))[0]) <= 600, "a child loads as its parent does"
    with log.session("plain") as s:
        s.offer("m" * 5_000, channel="memory", source_id="long")
        assert texts(stepped(s)) == ["m" * 5_000]


def test_how_it_is_shown_was_decided_when_it_was_offered(log: AgentLog) -> None:
    """Another table later changes nothing of what is there, and a replay needs none."""
    with log.session("task", loading={"memory": just_in_time(600)}) as s:
        s.offer("m" * 5_000, channel="memory", source_id="long")
        before = texts(stepped(s))
    with log.session("task", loading={"memory": "preload"}) as s:
        assert texts(stepped(s)) == before
    sound(log, "task")


def test_live_state_holds_for_as_long_as_its_row_says(store_url: str) -> None:
    clock = Clock()
    channels = CHANNELS.extended({"queue": own("observation")})
    rows: Any = {"queue": just_in_time(ttl=timedelta(minutes=1))}
    with (
        opened(store_url, clock=clock) as log,
        log.session("task", channels=channels, loading=rows) as s,
    ):
        s.offer("9 jobs wait", channel="queue", source_id="depth")
        s.offer("closed", channel="queue", source_id="gate", ttl=timedelta(hours=1))
        assert sorted(texts(stepped(s))) == ["9 jobs wait", "closed"]
        clock.now += 61_000_000
        step = stepped(s)
        notices = [one.text for one in step.packet.entries if one.kind == "notice"]
        assert notices == ['What "depth" said above holds no longer: its time is over.']


def test_what_is_never_loaded_has_a_handle_alone(any_log: AgentLog) -> None:
    with any_log.session("task", loading={"memory": "never"}) as s:
        head = s.state.seq
        with pytest.raises(InvalidItem, match="give a handle and no text") as error:
            s.offer("Prefers tabs.", channel="memory", source_id="style")
        assert error.value.code == "never_loaded" and s.state.seq == head
        s.offer(channel="memory", source_id="style", handle="vault:style")
        s.offer(channel="secret_fixture", source_id="key", handle="vault:key")
        step = stepped(s)
        verdicts = [v for v in step.packet.trace.verdicts if v.outcome == "dropped"]
        assert [(v.stage, v.reason, v.units) for v in verdicts] == [
            ("sensitivity", "sensitive", 0)
        ] * 2
        assert b"vault" not in step.body and b"style" not in step.body
    assert [one.label.sensitivity for one in offered(any_log)] == ["secret", "secret"]
    sound(any_log, "task")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"nowhere": "never"}, "'nowhere', which is no channel"),
        ({"memory": "sometimes"}, "not as 'sometimes'"),
        ({"memory": 7}, "not as 7"),
        ({"secret_fixture": "preload"}, "is secret: it is never loaded"),
        ({"own_secret": "just_in_time"}, "is secret: it is never loaded"),
        ({"system": "just_in_time"}, "'system' brings what holds as a whole"),
        ({"tool_schema": just_in_time(1_000)}, "'tool_schema' brings what holds as a whole"),
        (["memory"], "a list does not"),
    ],
)
def test_a_table_that_means_nothing_is_refused_before_anything_is_written(
    log: AgentLog, rows: Any, said: str
) -> None:
    channels = CHANNELS.extended({"own_secret": own(sensitivity="secret")})
    with pytest.raises(ConfigError, match=said):
        log.session("task", channels=channels, loading=rows)
    assert log.sessions() == []


def test_a_row_without_room_is_refused() -> None:
    for limit, options in ((511, {}), (1_025, {"as_": "error"}), (True, {}), ("1", {})):
        with pytest.raises(ConfigError, match="has no room"):
            just_in_time(limit, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ends or error"):
        just_in_time(as_="diff")  # type: ignore[arg-type]
    with pytest.raises(InvalidItem, match="not_a_time"):
        just_in_time(ttl=-1)


def test_a_secret_channel_of_a_callers_own_is_never_loaded(log: AgentLog) -> None:
    channels = CHANNELS.extended({"vault": own(sensitivity="secret")})
    with log.session("task", channels=channels) as s:
        assert s.loading["vault"].when == "never"
        with pytest.raises(InvalidItem) as error:
            s.offer("the key itself", channel="vault", source_id="key")
        assert error.value.code == "secret_value"


def test_an_async_session_loads_alike(log: AgentLog) -> None:
    async def work() -> str:
        async with log.asession("task", loading={"memory": just_in_time(600)}) as s:
            await s.offer("m" * 5_000, channel="memory", source_id="long")
            await s.user("go on")
            step = await s.step("openai-chat", model="test-model")
            return str(step.body.decode())

    assert sha("m" * 5_000) in asyncio.run(work())
    sound(log, "task")
