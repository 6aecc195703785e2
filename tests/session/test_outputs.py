"""Long results: written once, shown shortened, read in any part (CONTRACTS S1-28 to S1-30)."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, Reply
from sawlog.store.content import TextPart
from sawlog.store.errors import InvalidArguments, InvalidEvent, ToolError
from sawlog.store.text import TextObject
from sawlog.work.outputs import BOUND, Outputs, slice_of
from tests.session.agents import (
    APIS,
    TOOLS,
    fix,
    loop,
    next_step,
    one,
    provided,
    results,
    sound,
    told,
)
from tests.session.tasks import calls_of, run
from tests.timing import growth

LINES = [f"line {n} {'x' * 60}" for n in range(2_000)]
LOG = "\n".join(LINES) + "\n"
FAILING = "\n".join([*LINES[:700], "E   AssertionError: 3 == 4", *LINES[700:]]) + "\n"


def locator(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def shown(log: AgentLog) -> list[str]:
    """The results of the newest packet."""
    recorded = log.read("task")
    packet = recorded.steps[recorded.last_step()].packet
    return [entry.text for entry in packet.entries if entry.role == "result"]


def run_with(log: AgentLog, text: str, **how: object) -> list[str]:
    """A call whose result is this text, shown so; gives what the next packet shows of it."""
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result(text, **how)  # type: ignore[arg-type]
        s.step("openai-chat", model="m")
    sound(log, "task")
    return shown(log)


# --- write ---------------------------------------------------------------------------------------


def test_twenty_equal_results_store_one_blob_and_show_twenty_previews(
    log: AgentLog, tmp_path: Path
) -> None:
    with log.session("task") as s:
        for _ in range(20):
            with s.tool(one(s)) as run:
                run.result(LOG, limit=2048)
        s.step("openai-chat", model="m")
    previews = shown(log)
    assert len(previews) == 20 and len(set(previews)) == 1
    assert len(previews[0].encode()) <= 2048 and locator(LOG) in previews[0]
    digest = hashlib.sha256(LOG.encode()).digest()
    with sqlite3.connect(f"file:{tmp_path / 'agent.db'}?mode=ro", uri=True) as database:
        [table] = database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%blobs'"
        ).fetchone()
        [count] = database.execute(
            f"SELECT count(*) FROM {table} WHERE digest = ?", (digest,)
        ).fetchone()
    database.close()
    assert count == 1


# --- compress ------------------------------------------------------------------------------------


def test_a_text_within_the_limit_is_shown_whole_however_it_is_asked(log: AgentLog) -> None:
    assert run_with(log, "short Error", limit=2048, as_="error") == ["short Error"]


def test_the_first_error_is_shown_with_its_lines_and_the_whole_stays(log: AgentLog) -> None:
    window, whole = run_with(log, FAILING, limit=4096, as_="error")
    assert "E   AssertionError: 3 == 4" in window and LINES[699] in window and LINES[701] in window
    assert locator(FAILING) in window and locator(FAILING) in whole
    assert len(f"{window}\n\n{whole}".encode()) <= 4096
    [result] = results(log)
    stored = result.parts[1]
    assert isinstance(stored, TextPart) and isinstance(stored.text, TextObject)
    assert (stored.text.blob, stored.text.is_preview) == (locator(FAILING)[7:], True)
    with log.session("task") as s:
        assert s.stored(locator(FAILING)) == FAILING


def test_a_difference_to_an_earlier_version_is_shown_and_the_whole_stays(log: AgentLog) -> None:
    now = LOG.replace("line 900 ", "another 900 ")
    diff, whole = run_with(log, now, limit=4096, as_="diff", against=LOG)
    assert diff.split("\n")[:2] == [f"--- {locator(LOG)}", f"+++ {locator(now)}"]
    assert f"-{LINES[900]}" in diff and "+another 900" in diff and "line 1 " not in diff
    assert locator(now) in whole
    with log.session("task") as s:
        assert s.stored(locator(now)) == now


def test_the_same_text_again_is_no_text(log: AgentLog) -> None:
    diff, _ = run_with(log, LOG, limit=2048, as_="diff", against=LOG)
    assert diff.startswith(f"[Nothing changed since {locator(LOG)};")


@pytest.mark.parametrize("how", [{"as_": "error"}, {"as_": "diff", "against": "x\n" * 9000}])
def test_what_makes_nothing_shorter_shows_head_and_tail(log: AgentLog, how: dict[str, str]) -> None:
    [text] = run_with(log, LOG, limit=2048, **how)
    assert text.startswith(LINES[0]) and text.rstrip().endswith(LINES[-1])
    assert locator(LOG) in text and len(text.encode()) <= 2048


def test_head_and_tail_are_the_default(log: AgentLog) -> None:
    assert run_with(log, LOG, limit=2048) == run_with(log, LOG, limit=2048, as_="ends")[-1:]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"as_": "error"}, "is for texts above a limit"),
        ({"as_": "diff", "limit": 4096}, "go together"),
        ({"as_": "diff", "limit": 4096, "against": 3}, "go together"),
        ({"against": "x", "limit": 4096}, "go together"),
        ({"as_": "best", "limit": 4096}, "not as 'best'"),
        ({"limit": -1}, "512 or more, not -1"),
        ({"limit": "800"}, "512 or more, not '800'"),
    ],
)
@pytest.mark.parametrize("caught", [True, False])
def test_a_result_that_is_asked_wrongly_is_the_agents_mistake_and_is_kept(
    log: AgentLog, how: dict[str, object], said: str, caught: bool
) -> None:
    """The tool ran: what it gave is known, whoever catches the error, and wherever."""
    with log.session("task") as s:
        call = one(s)
        if caught:
            with s.tool(call) as run, pytest.raises(ToolError, match=said):
                run.result(LOG, **how)  # type: ignore[arg-type]
        else:
            with pytest.raises(ToolError, match=said), s.tool(call) as run:
                run.result(LOG, **how)  # type: ignore[arg-type]
        next_step(s, "openai-chat")
    [text] = shown(log)
    assert text.startswith(LINES[0]) and locator(LOG) in text and len(text.encode()) <= 4096
    assert results(log)[0].status == "ok"
    sound(log, "task")


@pytest.mark.parametrize(
    "how", [{"as_": "error"}, {"as_": "diff", "against": "another\n"}, {"as_": "ends"}]
)
@pytest.mark.parametrize("limit", [1, 511, 512, 800, 1025, 1026])
def test_a_limit_without_room_shows_the_ends(
    log: AgentLog, how: dict[str, str], limit: int
) -> None:
    parts = run_with(log, FAILING, limit=limit, **how)
    assert len("\n\n".join(parts).encode()) <= max(limit, 512)
    assert all(locator(FAILING) in part for part in parts[-1:])


def test_a_mistake_beside_the_result_leaves_no_unknown_outcome(
    log: AgentLog, tmp_path: Path
) -> None:
    """What a run is used wrongly for is an error result, unless its result is set."""
    with log.session("task") as s:
        with pytest.raises(ToolError, match="not both"), s.tool(one(s)) as run:
            run.saw("a", version="1", content="x")
        with pytest.raises(ToolError, match="read 1 or more"), s.tool(one(s)) as run:
            run.result("found")
            run.read("a", root=tmp_path, most=0)
        with s.tool(one(s)) as run:
            with pytest.raises(InvalidEvent):
                run.result({1, 2})
    found = [(status, text[:30]) for status, text in told(log)]
    assert found == [
        ("error", "the tool's own code is mistake"),
        ("ok", "found"),
        ("error", "InvalidEvent: result: set has "),
    ]


def test_a_result_that_was_not_awaited_says_so(log: AgentLog, tmp_path: Path) -> None:
    async def work() -> None:
        async with log.asession("task") as s:
            [call] = await calls_of(s, 1)
            with pytest.raises(ToolError, match=r"await it, as in run.result\(await run.read"):
                async with s.tool(call) as tool:
                    tool.result(tool.read("a", root=tmp_path))

    run(work())
    [(status, text)] = told(log)
    assert status == "error" and "await it" in text


def test_what_was_decided_stays_for_later_packets_and_other_processes(log: AgentLog) -> None:
    first = run_with(log, FAILING, limit=4096, as_="error")
    with log.session("task") as s:
        s.user("go on")
        s.step("openai-chat", model="m")
    assert shown(log) == first


# --- select --------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_a_model_reads_any_part_of_what_it_was_shown_shortened(log: AgentLog, api: str) -> None:
    """In the loop of the README, with the official clients: preview, pattern, slice."""
    needle = "line 1234 "
    script = [
        Reply(calls=[Call("long_log")]),
        Reply(calls=[Call("read_output", {"ref": locator(LOG), "pattern": needle})]),
        Reply(calls=[Call("read_output", {"ref": locator(LOG), "start": 8000, "end": 8100})]),
        Reply(calls=[Call("read_output", {"ref": "sha256:" + "0" * 64})]),
        *fix(api)[-1:],
    ]

    def long_log() -> str:
        """Give a long log."""
        return LOG

    with provided(api, script) as (fake, client), log.session("task") as s:
        s.tools([*TOOLS, long_log, s.read_output])
        s.user("go")
        reply = next_step(s, api).send(client)
        for call in reply.tool_calls:
            with s.tool(call) as run:
                run.result(call.run(), limit=2048)
        loop(s, api, client)
        bodies = fake.bodies(api)
    assert locator(LOG) in bodies[1].decode() and needle not in bodies[1].decode()
    status = [one[0] for one in told(log)]
    found, part, missing = [str(text) for _, text in told(log)][1:]
    assert status == ["ok", "ok", "ok", "error"]
    at = LOG.index(needle)
    assert found.split("\n")[1] == f"byte {at}: {LINES[1234]}"
    assert part == f"[bytes 8000 to 8100 of {len(LOG)} of {locator(LOG)}]\n{LOG[8000:8100]}"
    assert missing == f"InvalidArguments: no output here is sha256:{'0' * 64}"
    assert json.dumps(LOG[8000:8050])[1:-1] in bodies[3].decode()
    sound(log, "task")


def test_it_is_declared_read_only_and_equal_tools_append_nothing(log: AgentLog) -> None:
    with log.session("task") as s:
        s.tools([s.read_output])
        head = log.find("task").head
        s.tools([s.read_output])
        assert log.find("task").head == head
        declared = s.declared("read_output")
        assert declared is not None and declared.tool.effect == "read_only"


def test_texts_of_other_sessions_are_not_found(log: AgentLog) -> None:
    with log.session("other") as s:
        s.user(LOG)
        assert s.stored(locator(LOG)) == LOG
    with log.session("task") as s, pytest.raises(InvalidArguments, match="no output here"):
        s.stored(locator(LOG))


TEXTS = st.text(st.sampled_from("ab\n é€\U0001f600"), max_size=60).map(lambda t: t * 400)


@given(TEXTS, st.integers(0, 5000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_slices_go_on_from_each_other_and_lose_nothing(text: str, start: int) -> None:
    data = text.encode()
    out: list[str] = []
    at = min(start, len(data))
    first = None
    while True:
        answer = slice_of(data, locator(text), at)
        head, body = answer.split("\n", 1)
        places = re.match(r"\[bytes (\d+) to (\d+) of (\d+) of sha256:", head)
        assert places and int(places[3]) == len(data)
        first = int(places[1]) if first is None else first
        on = re.search(r"\n\[go on with start=(\d+)\]$", body)
        body = body[: on.start()] if on else body
        assert len(body.encode()) <= BOUND + 3
        out.append(body)
        if not on:
            break
        assert int(on[1]) > at
        at = int(on[1])
    assert "".join(out).encode() == data[first:]


@given(TEXTS, st.text(st.sampled_from("ab é€"), min_size=1, max_size=5))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_line_with_the_pattern_is_found_by_going_on(text: str, pattern: str) -> None:
    data = text.encode()
    places: list[int] = []
    at = 0
    while True:
        answer = slice_of(data, locator(text), at, pattern=pattern)
        assert len(answer.encode()) < BOUND + 4096
        places += [int(place) for place in re.findall(r"(?m)^byte (\d+): ", answer)]
        on = re.search(r"go on with start=(\d+)\]", answer.split("\n", 1)[0])
        if not on:
            break
        at = int(on[1])
    assert all(data[place:].startswith(pattern.encode()) for place in places)
    assert places == sorted(set(places))
    end = 0
    for line in data.split(b"\n"):
        start, end = end, end + len(line) + 1
        if pattern.encode() in line:
            assert any(start <= place < end for place in places)


def test_a_pattern_is_plain_text_and_costs_the_texts_length() -> None:
    def look(size: int) -> None:
        data = b"a" * size
        assert "0 places" in slice_of(data, "x", pattern="(a+)+$")
        assert "0 places" in slice_of(data, "x", pattern="a" * 1000 + "b")

    assert growth(look, 500_000) < 9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nonsense",), "is no locator"),
        (("sha256:" + "0" * 64,), "no output here"),
        ((locator("a") + "x",), "is no locator"),
        ((locator("text"), 5), "there is no byte 5"),
        ((locator("text"), -1), "there is no byte -1"),
        ((locator("text"), 3, 2), "end 2 comes before start 3"),
        ((locator("text"), 0, 0, "x" * 2000), "a pattern has at most"),
        (("k2", 0, 9, "x"), "k2 takes a pattern"),
        (("[k2]", -1, 0, "x"), "k2 takes a pattern"),
        (("sha256:" + hashlib.sha256(b"\xff").hexdigest(),), "is no text"),
    ],
)
def test_what_cannot_be_read_is_said_in_words_for_the_model(
    arguments: tuple[str, int, int, str], said: str
) -> None:
    blobs = {hashlib.sha256(data).hexdigest(): data for data in (b"text", b"\xff")}

    def nothing(name: str, pattern: str, start: int) -> str:
        raise AssertionError(name)

    with pytest.raises(InvalidArguments, match=said):
        Outputs(blobs.__getitem__, str, nothing).read_output(*arguments)
