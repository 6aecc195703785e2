"""The published vectors of call and result repair, R1 to R9, and the rule set `codex` beyond them.

Where the vectors differ from the design (R1, R2, R7) they hold under `codex`, the others under
both rule sets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog import fixtures
from sawlog.builder.build import Built, Cache, Sending, bindings_of, build
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Entry, Header
from sawlog.builder.pairing import PAIRINGS
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import fold_all
from sawlog.builder.render import renderer_for
from sawlog.builder.replay import replayed
from sawlog.builder.snapshot import decode, encode
from sawlog.builder.state import State
from sawlog.providers.strict import check
from sawlog.store.content import MediaPart, TextPart
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import SessionForked
from sawlog.store.events.steps import PacketBuilt, PolicySet
from tests import test_laws
from tests.builder.memory import RENDERERS, MemoryLog, Story, sending, text, told

Item = dict[str, Any]

DEFAULT, CODEX = PAIRINGS
VECTORS: dict[str, Item] = {
    vector["id"]: vector
    for vector in json.loads(
        (Path(fixtures.__path__[0]) / "seed-cases/seed23/call-result-repair.json").read_text()
    )["vectors"]
}


def under(pairing: Named) -> MemoryLog:
    """A log in which this rule set is in force."""
    log = MemoryLog()
    log.append(PolicySet(Named("default"), pairing=pairing), source="harness")
    return log


def play(log: MemoryLog, history: list[Item], *, steps: bool) -> None:
    """Append the items of a vector; with `steps` each call is the reply of a step of its own."""
    for at, item in enumerate(history, 1):
        match item["type"]:
            case "function_call":
                log.append(
                    ToolRequested(item["call_id"], "tool", "{}"),
                    step=at if steps else 0,
                    source="provider:openai-responses",
                )
            case "message":
                log.append(MessageUser(text(item["text"])))
            case kind:
                result = ToolFinished(
                    call_id=item["call_id"] or "",
                    name=item.get("name", "tool"),
                    parts=text(item.get("output", "")),
                    external=kind == "external_tool_output",
                )
                log.append(result, source="tool:tool")


def items(entries: Any) -> list[Item]:
    """Entries of the history in the notation of the vectors."""
    out: list[Item] = []
    for entry in entries:
        if entry.kind == "call":
            out.append({"type": "function_call", "call_id": entry.call_id})
        elif entry.kind == "result" and not entry.call_id:
            external = {"type": "external_tool_output", "name": entry.name, "call_id": None}
            out.append(external | {"output": entry.text})
        elif entry.kind == "result":
            item = {"type": "function_call_output", "call_id": entry.call_id, "output": entry.text}
            out.append(item | ({"synthetic": True} if entry.trust == "trusted" else {}))
        elif entry.kind == "user":
            out.append({"type": "message", "role": "user", "text": entry.text})
        else:
            assert entry.kind == "notice", entry
    return out


def request_of(log: MemoryLog) -> list[Item]:
    """What the next packet shows, each provider's checker having accepted it."""
    shown: list[list[Item]] = []
    for api in RENDERERS:
        log.cache = Cache()
        built = log.build(api=api)
        if isinstance(built, Refusal):
            assert built.reason == "nothing_to_send"
            return []
        check(api, built.request.body, dict(built.request.headers))
        shown.append(items(built.entries))
    assert all(one == shown[0] for one in shown)
    return shown[0]


BOTH = pytest.mark.parametrize("pairing", PAIRINGS, ids=str)
STEPS = pytest.mark.parametrize("steps", [True, False], ids=["steps", "no steps"])


# --- the vectors ----------------------------------------------------------------------------------


@STEPS
@pytest.mark.parametrize("name", ["R1", "R2"])
def test_r1_r2_aborted_stands_straight_behind_its_call(name: str, steps: bool) -> None:
    log = under(CODEX)
    play(log, VECTORS[name]["history"], steps=steps)
    stored = [one.payload for one in log.stored]
    assert request_of(log) == VECTORS[name]["request"]
    assert [one.payload for one in log.stored] == stored


@BOTH
@STEPS
@pytest.mark.parametrize("name", ["R3", "R4", "R5"])
def test_r3_r4_r5_orphans_go_external_results_and_pairs_stay(
    name: str, pairing: Named, steps: bool
) -> None:
    log = under(pairing)
    play(log, VECTORS[name]["history"], steps=steps)
    expected = VECTORS[name]["request"]
    if expected == "same as history":
        expected = VECTORS[name]["history"]
    assert request_of(log) == expected


@BOTH
@pytest.mark.parametrize("api", RENDERERS)
def test_r6_an_unsupported_image_is_a_fixed_text_in_its_place(api: str, pairing: Named) -> None:
    log = under(pairing)
    log.append(MessageUser((MediaPart("image/png", url="https://a.example/x.png"), TextPart("t"))))
    base = profile_for(api, "text-model")[0]
    profile = replace(base, name="text-only", media=())
    params = '{"max_tokens":1000}' if api == "anthropic" else "{}"
    header = Header(api, "text-model", params, profile.named, renderer_for(api))
    built = build(log.state, Rules(), Sending(header, profile), 1, log)
    assert isinstance(built, Built)
    check(api, built.request.body, dict(built.request.headers))
    assert [(at, what, why) for at, what, why in built.request.notes if at == 0] == [
        (0, "placeholder", "medium")
    ]
    body = built.request.body
    placeholder, rest = body.index(b"image/png"), body.index(b'"t"') if b'"t"' in body else -1
    assert b"a.example" not in body
    assert placeholder < (rest if rest > 0 else body.rindex(b"t"))


def test_r7_repair_twice_and_after_a_restart_gives_the_same_bytes() -> None:
    log = under(CODEX)
    play(log, VECTORS["R7"]["history"], steps=True)
    first = log.build(api="openai-responses")
    assert isinstance(first, Built)
    ref = first.refs[-1]
    assert (ref.form, ref.number, ref.args) == ("synthetic", 2, (("kind", "unknown"),))
    again = log.build(api="openai-responses")
    cold = build(
        fold_all(State(), log.events), Rules(), sending("openai-responses"), 9, log, Cache()
    )
    resumed = build(decode(encode(log.state)), Rules(), sending("openai-responses"), 9, log)
    for other in (again, cold, resumed):
        assert isinstance(other, Built)
        assert (other.refs[:], other.semantic) == (first.refs[:], first.semantic)
        assert other.request.body == first.request.body
    # Once sent it stays as it was, in the next packet and in a fork, whatever comes.
    log.cache = Cache()
    built = log.packet(api="openai-responses")
    log.append(MessageUser(text("go on")))
    log.append(SessionForked("00" * 16, log.state.seq, "00" * 32), source="harness")
    play(log, [{"type": "function_call_output", "call_id": "test-4", "output": "x"}], steps=False)
    later = log.build(api="openai-responses")
    assert isinstance(later, Built)
    assert later.entries[: len(built.entries)] == built.entries[:]
    shared = len(built.request.body) - len(b"]}")
    assert later.request.body[:shared] == built.request.body[:shared]
    assert told(later.entries)[-7:] == " late:x"


@BOTH
@pytest.mark.parametrize("story", ["U A[c1] S1", "U A[c1]"])
def test_r8_an_aborted_result_never_counts_as_passed(pairing: Named, story: str) -> None:
    built = Story(under(pairing)).run(story).log.build(api="anthropic")
    assert isinstance(built, Built)
    last = built.entries[-1]
    started = story.endswith("S1")
    status = VECTORS["R8"]["status_after_repair"]
    assert last.status == (status if started or pairing == CODEX else "not_started")
    assert b'"is_error":true' in built.request.body
    # Repair adds a form and no event: what waits for its outcome still does.
    log = Story(under(pairing)).run(story).log
    assert [(one.call_id, one.started) for one in log.state.waiting] == [("c1", started)]


@BOTH
@STEPS
def test_r9_what_is_cut_is_a_whole_pair(pairing: Named, steps: bool) -> None:
    vector = VECTORS["R9"]
    history = [dict(item) for item in vector["remove_oldest"]["history"]]
    history[1]["output"] = "long " * 100
    log = under(pairing)
    play(log, history, steps=steps)
    built = log.build(Rules(window=100))
    assert isinstance(built, Built)
    assert [one.cause for one in built.trace.breaks] == ["block_cut"]
    assert items(built.entries) == vector["result"]
    dropped = [one.reason for one in built.trace.verdicts if one.outcome == "dropped"]
    assert dropped == ["block_cut", "block_cut"]


# --- beyond the vectors ---------------------------------------------------------------------------

CASES = {
    "an aborted call within a reply": (
        "U A[c1,c2] R2",
        "U A[c1,c2] c1 syn(unknown)c1 c2 R2",
    ),
    "results in the order of arrival": ("U A[c1,c2] R2 R1", "U A[c1,c2] c1 c2 R2 R1"),
    "a message that came in between stays in between": (
        "U A[c1] S1 U2 R1",
        "U A[c1] c1 U2 R1",
    ),
    "a decision is no abort": (
        "U A[c1,c2,c3] D1 Q2 N2",
        "U A[c1,c2,c3] c1 c2 c3 syn(unknown)c3 syn(denied)c1 syn(denied)c2",
    ),
    "a second one, one without a call, one before its call": (
        "U R9 R2 A[c1,c2] R1 R1'",
        "U A[c1,c2] c1 c2 syn(unknown)c2 R1",
    ),
    "a reply stands behind what it answered": ("U P U2 A[c1] U3 R1", "U A[c1] c1 U2 U3 R1"),
    "sent, then the real one late": ("U P A[c1] S1 P R1", "U A[c1] c1 syn(unknown)c1 late:R1"),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    story, expected = CASES[name]
    assert Story(under(CODEX)).run(story).shown() == expected


def test_an_id_that_is_asked_for_twice_has_its_results_with_its_calls() -> None:
    log = under(CODEX)
    log.append(MessageUser(text("U")))
    for step in (1, 2):
        asked = ToolRequested("c1", "tool", f'{{"n":{step}}}')
        log.append(asked, step=step, source="provider:openai-responses")
    first, second = (event.id for event in log.events[-2:])
    log.append(ToolFinished(first, "c1", parts=text("one")), source="tool:tool")
    log.append(ToolFinished(second, "c1", parts=text("two")), source="tool:tool")
    assert Story(log).shown() == "U c1 one c1 two"


def test_a_policy_set_later_holds_for_what_no_packet_showed() -> None:
    story = Story().run("U A[c1] U2 R1")
    assert story.shown() == "U A[c1] c1 R1 U2"
    story.run("P A2[c2] U3 R2")
    story.log.append(PolicySet(Named("default"), pairing=CODEX), source="harness")
    assert story.shown() == "U A[c1] c1 R1 U2 A2[c2] c2 U3 R2"
    story.log.append(PolicySet(Named("default")), source="harness")
    assert story.shown() == "U A[c1] c1 R1 U2 A2[c2] c2 R2 U3"


@pytest.mark.parametrize("pairing", [Named("codex", 2), Named("upstream")], ids=str)
def test_an_unknown_rule_set_blocks_by_name(pairing: Named) -> None:
    log = under(CODEX)
    log.append(MessageUser(text("U")))
    assert isinstance(log.build(), Built)
    log.append(PolicySet(Named("default"), pairing=pairing), source="harness")
    refused = log.build()
    assert isinstance(refused, Refusal) and refused.reason == "blocked"
    assert f"the pairing {pairing} of event 3 is not installed" in refused.message


def test_a_cut_parts_no_result_from_a_call_that_stands_before_other_messages() -> None:
    log = under(CODEX)
    source = "provider:openai-responses"
    log.append(MessageAssistant(text("long " * 400)), step=1, source=source)
    log.append(ToolRequested("c1", "tool", "{}"), step=1, source=source)
    story = Story(log).run("U2 U3 R1 U4 U5")
    cuts: set[str] = set()
    for window in range(20, 600, 5):
        story.log.cache = Cache()
        built = story.log.build(Rules(window=window))
        if isinstance(built, Built) and built.trace.breaks:
            cuts.add(told(built.entries))
    assert cuts == {"notice U4 U5", "notice U5"}


# --- any log --------------------------------------------------------------------------------------


def pairs(entries: Any) -> None:
    """Each requested call shows one result behind it, an abort straight behind it."""
    open_calls: list[str] = []
    before: Entry | None = None
    for entry in entries:
        if entry.kind == "call":
            open_calls.append(entry.call_id)
        elif entry.role == "result" and entry.first:
            open_calls.remove(entry.call_id)
            if entry.text == "aborted":
                assert before is not None and before.call_id == entry.call_id
        before = entry
    assert not open_calls


@pytest.mark.timeout(900)
@settings(max_examples=400, deadline=None, suppress_health_check=test_laws.HEALTH)
@given(
    acts=st.lists(test_laws.ACTS, min_size=3, max_size=22),
    window=test_laws.WINDOWS,
    switch=st.integers(0, 22),
)
def test_the_laws_hold_on_random_logs(acts: list[test_laws.Act], window: int, switch: int) -> None:
    """Laws 1, 5, 6, 7, 8 and 13, with the rule set in force from some event on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_laws, "_pairs", pairs)
        driver = test_laws.Driver(window)
        driver.play(("user", 1, 0))
        for at, act in enumerate(acts):
            if at == min(switch, len(acts) - 1):
                rules = PolicySet(Named("default"), pairing=CODEX)
                driver.log.append(rules, source="harness")
            driver.play(act)
        test_laws.check_whole(driver)


@pytest.mark.parametrize("api", RENDERERS)
def test_a_packet_rendered_in_one_go_is_the_one_that_grew(api: str) -> None:
    story = Story(under(CODEX)).run("U A[c1,c2] U2 R2 U3 R1 P A2[c3,c4] U4 R4 P R3")
    log = story.log
    built = log.build(api=api)
    assert isinstance(built, Built)
    check(api, built.request.body, dict(built.request.headers))
    log.append(built.event(), step=log.state.step + 1, source="harness")
    packet = log.events[-1].content
    assert isinstance(packet, PacketBuilt)
    profile = profile_for(api, "test-model")[0]
    again = replayed(packet, log.state.sent[:], log, profile, bindings_of(log.state))
    assert (again.semantic, again.request.digest) == (packet.semantic, packet.request)
