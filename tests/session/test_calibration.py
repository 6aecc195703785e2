"""What a step cost stands behind its reply, and later budgets count with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.builder.calibration import LEAST, MOST, Usage, recalibrated, usage_of
from sawlog.builder.measure import MEASURES, measure_of
from sawlog.builder.policy import AS_RECORDED, HISTORY_ALONE, Rules
from sawlog.providers.fake import Call, Reply
from sawlog.store.content import TextPart
from sawlog.store.errors import AttemptFailed
from sawlog.store.events.base import Named
from sawlog.store.events.steps import MeasureRecorded
from sawlog.work.dials import Dialled
from tests.session.agents import APIS, TOOLS, next_step, opened, provided, script, sound, types

apis = pytest.mark.parametrize("api", APIS)

# --- usage in the words of each API ---------------------------------------------------------------

USAGES: list[tuple[str, dict[str, Any], Usage]] = [
    (
        "openai-chat",
        {
            "prompt_tokens": 900,
            "completion_tokens": 40,
            "total_tokens": 940,
            "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
        },
        Usage(900, 40, 512),
    ),
    ("openai-chat", {"prompt_tokens": 7, "completion_tokens": 0}, Usage(7, 0, -1)),
    ("openai-chat", {"prompt_tokens": 7, "prompt_tokens_details": None}, Usage(7, -1, -1)),
    (
        "openai-responses",
        {
            "input_tokens": 900,
            "input_tokens_details": {"cached_tokens": 512, "cache_write_tokens": 100},
            "output_tokens": 40,
        },
        Usage(900, 40, 512),
    ),
    (
        "anthropic",
        {
            "input_tokens": 20,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 4000,
            "output_tokens": 9,
        },
        Usage(4320, 9, 4000),
    ),
    (
        "anthropic",
        {"input_tokens": 20, "cache_creation_input_tokens": None, "output_tokens": 9},
        Usage(20, 9, -1),
    ),
    (
        "deepseek-chat",
        {
            "prompt_tokens": 900,
            "completion_tokens": 40,
            "prompt_cache_hit_tokens": 640,
            "prompt_cache_miss_tokens": 260,
        },
        Usage(900, 40, 640),
    ),
    (
        "deepseek-chat",
        {"prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 260},
        Usage(900, -1, 640),
    ),
    ("anthropic", {"cache_read_input_tokens": 10}, Usage(-1, -1, 10)),
]


@pytest.mark.parametrize(("api", "usage", "meant"), USAGES)
def test_input_is_all_that_the_model_read(api: str, usage: dict[str, Any], meant: Usage) -> None:
    assert usage_of(api, json.dumps(usage)) == meant


@apis
@pytest.mark.parametrize(
    "source",
    ["", "null", "[]", "7", "{", '{"prompt_tokens":"7","input_tokens":"7"}']
    + [
        f'{{"prompt_tokens":{n},"input_tokens":{n}}}'
        for n in ("-1", "1.5", "1e3", "true", "9" * 16)
    ],
)
def test_what_is_no_count_is_not_reported(api: str, source: str) -> None:
    assert usage_of(api, source) == Usage()


# --- the arithmetic -------------------------------------------------------------------------------


def test_a_quarter_of_the_way_and_nothing_for_a_trifle() -> None:
    assert recalibrated(1000, 100, 200) == 1250
    assert recalibrated(1250, 100, 200) == 1438  # 1437.5
    assert recalibrated(1000, 1000, 1020) == 1000
    assert recalibrated(1000, 1000, 1021) == 1005
    assert recalibrated(1000, 1000, 980) == 1000
    assert recalibrated(1000, 1000, 979) == 995
    assert recalibrated(1000, 0, 50) == 1000
    assert recalibrated(1000, 50, -1) == 1000
    assert recalibrated(1000, 1, 10**15) == 1750  # as if it were 4000
    assert recalibrated(1000, 10**9, 1) == 813  # as if it were 250
    assert recalibrated(1000, 10**9, 0) == 1000  # who counts none


rates = st.integers(LEAST, MOST)


@given(rates, st.integers(0, 10**7), st.integers(0, 10**9))
def test_it_stays_within_its_bounds_and_goes_towards_what_was_seen(
    now: int, units: int, tokens: int
) -> None:
    new = recalibrated(now, units, tokens)
    assert LEAST <= new <= MOST
    if units:
        seen = min(MOST, max(LEAST, tokens * 1000 // units))
        assert min(now, seen) <= new <= max(now, seen) + 1


@given(rates, rates)
def test_it_arrives_and_then_rests(now: int, true: int) -> None:
    for _ in range(40):
        now = recalibrated(now, 100_000, 100 * true)
    assert abs(now - true) * 50 <= now
    assert recalibrated(now, 100_000, 100 * true) == now


# --- in the log -----------------------------------------------------------------------------------


def measures(recorded: Recorded) -> list[MeasureRecorded]:
    return [e.content for e in recorded.events() if isinstance(e.content, MeasureRecorded)]


def chat(usage: dict[str, Any] | None, text: str = "ok", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, **message}
    body = {"id": "r", "model": "m", "choices": [{"message": said, "finish_reason": "stop"}]}
    return body if usage is None else {**body, "usage": usage}


@apis
def test_each_reply_says_what_its_step_cost(log: AgentLog, api: str) -> None:
    replies = [Reply("I look.", calls=[Call("read_file", {"path": "a"})]), Reply("Done.")]
    with provided(api, replies) as (_, client), log.session("task") as s:
        script(s, api, client)
    recorded = sound(log, "task")
    found = measures(recorded)
    assert len(found) == 2
    rate = 1000
    for step, measure in zip(recorded.steps, found, strict=True):
        [event] = [
            e for e in recorded.events() if e.type == "packet.built" and e.step == step.number
        ]
        assert measure.units == sum(units for _, units in event.content.counts)  # type: ignore[union-attr]
        assert measure.measure == Named("utf8-quarter") and measure.retries == 0
        assert (
            measure.input > 0
            and measure.output > 0
            and measure.cached == 0
            or api == "deepseek-chat"
        )
        assert measure.per_mille == recalibrated(rate, measure.units, measure.input)
        assert measure.assembly >= 0 and measure.retrieval == -1
        rate = measure.per_mille
    order = types(recorded)
    assert all(
        order[at - 1] == "step.completed"
        for at, kind in enumerate(order)
        if kind == "measure.recorded"
    )


def test_a_reply_without_usage_says_nothing(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        next_step(s, "openai-chat").answer(chat(None))
        s.user("on")
        next_step(s, "openai-chat").answer(chat({"completion_tokens": 5}))
    assert measures(sound(log, "task")) == []


@pytest.mark.parametrize("policy", [HISTORY_ALONE, AS_RECORDED], ids=str)
def test_a_policy_without_selection_leaves_logs_as_they_were(log: AgentLog, policy: Named) -> None:
    with log.session("task", rules=Rules(policy)) as s:
        s.user("go")
        next_step(s, "openai-chat").answer(chat({"prompt_tokens": 100}))
    assert measures(sound(log, "task")) == []


def test_retries_and_fetching_are_counted(log: AgentLog) -> None:
    with log.session("task") as s:
        s.task(repository="shop")
        s.user("go")
        for n, took in enumerate((1500, 700, -1)):
            s.offer(f"rule {n}", channel="retrieval", source_id=f"r{n}", took=took,
                    repository="shop", locator=f"docs/{n}")  # fmt: skip
        step = next_step(s, "openai-chat")
        for _ in range(2):
            step.opened(Dialled("test"))
            step.lost(ConnectionError("dropped"))
        step.answer(chat({"prompt_tokens": 100}))
        s.user("on")
        next_step(s, "openai-chat").answer(chat({"prompt_tokens": 100}))
    assert [(one.retries, one.retrieval) for one in measures(sound(log, "task"))] == [
        (2, 2200),
        (0, -1),
    ]


def test_building_is_timed_by_the_sessions_clock(tmp_path: Path) -> None:
    now = [1_764_000_000_000_000]

    def clock() -> int:
        now[0] += 250
        return now[0]

    with opened(str(tmp_path / "a.db"), clock=clock) as log:
        with log.session("task") as s:
            s.user("go")
            next_step(s, "openai-chat").answer(chat({"prompt_tokens": 100}))
        [measure] = measures(sound(log, "task"))
        assert measure.assembly > 0 and measure.assembly % 250 == 0


def test_a_refusal_costs_nothing_that_is_known(log: AgentLog) -> None:
    with log.session("task") as s:
        s.user("go")
        with pytest.raises(AttemptFailed):
            next_step(s, "openai-chat").answer({"error": {"message": "no"}}, status=400)
    assert measures(log.read("task")) == []


def test_what_the_provider_searched_by_itself_teaches_nothing(log: AgentLog) -> None:
    """It read its input once more for each search: that says nothing about units."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    texts: list[Any] = [{"type": "output_text", "text": "Found.", "annotations": []}]
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": 90_000, "output_tokens": 9}
    body = {"id": "r", "object": "response", "status": "completed", "model": "m",
            "output": [search, {**said, "content": texts}], "usage": usage}  # fmt: skip
    with log.session("task") as s:
        s.user("go")
        next_step(s, "openai-responses").answer(body)
    [measure] = measures(sound(log, "task"))
    assert (measure.input, measure.per_mille) == (90_000, 1000)


def test_the_rate_decides_what_fits(log: AgentLog) -> None:
    """A provider that counts twice the tokens cuts twice as early; every step replays."""

    def kept(name: str, tokens: Callable[[int], int]) -> int:
        with log.session(name, window=1500) as s:
            for n in range(30):
                s.user(f"{n}: " + "word " * 40)
                step = next_step(s, "openai-chat")
                units = sum(units for _, units in step.packet.counts)
                step.answer(chat({"prompt_tokens": tokens(units)}))
            shown = len(next_step_entries(s))
        sound(log, name)
        return shown

    def next_step_entries(s: Any) -> list[Any]:
        s.user("last")
        return [e for e in next_step(s, "openai-chat").packet.entries if e.kind == "user"]

    assert kept("double", lambda units: 2 * units) < kept("same", lambda units: units)


def test_an_unbounded_window_stays_unbounded(log: AgentLog) -> None:
    with log.session("task", window=0) as s:
        for n in range(5):
            s.user(f"{n}: " + "word " * 4000)
            next_step(s, "openai-chat").answer(chat({"prompt_tokens": 90_000}))
    assert measures(sound(log, "task"))[-1].per_mille != 1000
    assert Rules(window=0, reserve=100).calibrated(2000).window == 0
    assert Rules(window=1000, reserve=100).calibrated(2000) == Rules(window=500, reserve=50)


# --- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MEASURES, key=str), ids=str)
def test_everything_on_the_wire_counts(log: AgentLog, name: Named) -> None:
    """System text, tools, arguments, results, bound items, images and notices: each more of one is
    more units, and the counts are the sum of them all."""
    measure = measure_of(name)
    dot = b"\x89PNG\r\n\x1a\n" + b"0" * 200
    thought = {"type": "thinking", "thinking": "deep " * 50, "signature": "c2ln" * 40}
    said = {"type": "text", "text": "I look. " * 20}
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "read_file",
        "input": {"path": "a b " * 90},
    }
    reply = {
        "id": "msg", "type": "message", "role": "assistant", "model": "m",
        "stop_reason": "tool_use", "content": [thought, said, call],
        "usage": {"input_tokens": 5, "output_tokens": 5},
    }  # fmt: skip
    with log.session("task", rules=Rules(measure=name)) as s:
        s.system("Be brief. " * 30)
        s.tools(TOOLS)
        s.user([TextPart("What is this? " * 20), s.media(dot, "image/png")])
        s.world(cwd="/somewhere/" + "deep/" * 50)
        [asked] = next_step(s, "anthropic").answer(reply).tool_calls
        with s.tool(asked) as run:
            run.result([TextPart("text of it " * 30), s.media(dot + b"1", "image/png")])
        built = next_step(s, "anthropic").packet
    kinds: dict[str, int] = {}
    for entry in built.entries:
        kinds[entry.kind] = kinds.get(entry.kind, 0) + measure(entry)
    assert sum(units for _, units in built.counts) == sum(kinds.values())
    fixed = kinds["system"] + kinds["tool"]
    assert dict(built.counts) == {"fixed": fixed, "history": sum(kinds.values()) - fixed}
    wanted = {"system", "tool", "user", "user/media", "assistant", "assistant/bound", "call",
              "result", "result/media"}  # fmt: skip
    assert wanted <= kinds.keys()
    for entry in built.entries:
        # A medium counts whatever its bytes are; all else counts by what it says.
        nothing = replace(entry, kind="user", text="", name="", call_id="")
        assert measure(entry) > measure(nothing), entry.kind
    sound(log, "task")
