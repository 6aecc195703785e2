"""Bounds of zones in a session: over all its packets, by every path, never on what is needed."""

from __future__ import annotations

import itertools

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.builder.selection.policy import Policy
from sawlog.builder.trace import Verdict
from sawlog.store.events.world import Saw
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.builder.surroundings import Told
from tests.session.agents import next_step, sound, talker
from tests.session.test_items import fate, step, verdict

DOCUMENT = """
name = "bounded"
number = {number}
stages = [
    {{ stage = "sensitivity" }}, {{ stage = "clearance" }}, {{ stage = "scope" }},
    {{ stage = "validity" }}, {{ stage = "freshness" }}, {{ stage = "dedupe" }},
    {{ stage = "supersession" }}, {{ stage = "conflict" }}, {{ stage = "cap", units = 400 }},
    {{ stage = "required" }}, {{ stage = "rank", signals = ["relevance"] }},
    {{ stage = "budget"{bounds} }},
    {{ stage = "ordering" }}, {{ stage = "labels" }}, {{ stage = "completeness" }},
]
"""
PATHS = {"stored": "ok", "cold": "ok", "snapshot": "ok"}


def bounded(units: int | None, number: int = 1) -> Policy:
    """A policy of a document with a bound on what is retrieved; None: without one."""
    bounds = "" if units is None else f', bounds = [{{ zone = "retrieved", units = {units} }}]'
    return sawlog.policy_from_toml(DOCUMENT.format(number=number, bounds=bounds))


def hit(s: Session, number: int, size: int = 160, **more: object) -> None:
    """A piece of about `size` / 4 units is retrieved."""
    said = f"hit {number:04} " + "x" * (size - 9)
    given: dict[str, object] = {"source_id": f"hit-{number}", "locator": f"{number}.md", **more}
    s.offer(said, channel="retrieval", **given)  # type: ignore[arg-type]


def retrieved(made: Step) -> int:
    """Units of what was retrieved and stands in a packet, by the packet alone."""
    measure = measure_of(Rules().measure)
    return sum(
        measure(entry)
        for entry, ref in zip(made.packet.entries, made.packet.refs, strict=True)
        if ref.form == "item" and "hit" in entry.text
    )


def items(made: Step) -> list[Verdict]:
    return [one for one in made.packet.trace.verdicts if one.zone]


def test_a_zone_keeps_its_bound_over_all_packets_of_a_session(any_log: AgentLog) -> None:
    """What stands in the packet counts: a bound is no allowance for each step."""
    with any_log.session("task", policy=bounded(120), window=2000) as s:
        s.task("Find the port")
        used = 0
        for at in range(6):
            hit(s, at)
            used = retrieved(step(s))
            assert used <= 120
        assert used > 80, "the room of the zone is used"
        s.offer("the port is 5", channel="verified_fact", source_id="port")
        s.offer("exit 0", channel="tool_observation", source_id="run")
        made = step(s)
        assert fate(made, any_log, "run")[1] == "selected", "other zones have room"
        found = verdict(made, any_log, "port")
        assert (found.outcome, found.zone) == ("selected", "retrieved")
    assert sound(any_log, "task").verify().paths == PATHS


def test_what_the_bound_keeps_out_says_which_zone_it_was(log: AgentLog) -> None:
    with log.session("task", policy=bounded(120), window=2000) as s:
        for at in range(4):
            hit(s, at, relevance=900 - at)
        made = step(s)
        found = [verdict(made, log, f"hit-{at}") for at in range(4)]
        assert [one.outcome for one in found] == ["selected_as_data"] * 2 + ["dropped"] * 2
        for one in found[2:]:
            assert (one.stage, one.reason) == ("budget", "zone_exceeded")
            assert one.note == "zone retrieved is bounded to 120 units"
        assert {(one.zone, one.units) for one in found} == {("retrieved", found[0].units)}
        assert sum(one.units for one in found[:2]) == retrieved(made)
        made = step(s)
        assert fate(made, log, "hit-2") == ("budget", "dropped", "waits_for_cut")
        assert verdict(made, log, "hit-2").zone == "retrieved"
        hit(s, 4, 40)
        assert fate(step(s), log, "hit-4")[1] == "selected_as_data", "a small one still fits"


def test_the_same_session_without_a_bound_shows_them_all(log: AgentLog) -> None:
    """So the bound is what keeps them out above."""
    for name, policy in (("none", bounded(None)), ("default", None)):
        with log.session(name, policy=policy, window=2000) as s:
            used: list[int] = []
            for at in range(6):
                hit(s, at)
                used.append(retrieved(step(s)))
            assert used[-1] > 200


def test_what_is_needed_comes_in_beyond_the_bound(log: AgentLog) -> None:
    with log.session("task", policy=bounded(60), window=2000) as s:
        s.task("Find the port", requirements=["page"], topics=["port"])
        hit(s, 0)
        hit(s, 1, 400, required_for=["page"])
        s.offer("5" * 160, channel="verified_fact", source_id="port", topics=["port"])
        made = step(s)
        assert made.packet.missing == ()
        assert fate(made, log, "hit-1")[1] == "selected_as_data"
        assert fate(made, log, "port")[1] == "selected"
        for name in ("hit-1", "port"):
            assert verdict(made, log, name).note == (
                "zone retrieved is bounded to 60 units; it is needed"
            )
        assert fate(made, log, "hit-0")[2] == "zone_exceeded"
        hit(s, 2, 400, required_for=["page"], version="2")
        assert step(s).packet.missing == ()
    assert sound(log, "task").verify().paths == PATHS


def test_a_newer_version_takes_the_place_of_the_older_one_in_its_zone(log: AgentLog) -> None:
    with log.session("task", policy=bounded(70), window=2000) as s:
        hit(s, 1, 200, source_id="page", version="1")
        assert fate(step(s), log, "page")[1] == "selected_as_data"
        for version in range(2, 5):
            hit(s, version, 200, source_id="page", version=str(version), locator="1.md")
            assert fate(step(s), log, "page")[1] == "selected_as_data"
    sound(log, "task")


def test_a_text_whose_file_changed_leaves_its_zone_to_the_new_one(log: AgentLog) -> None:
    with log.session("task", policy=bounded(70), window=2000) as s:
        for version in ("v1", "v2", "v3"):
            s.file_changed("page.md", version)
            said = f"hit in {version} " + "x" * 190
            s.offer(
                said, channel="retrieval", source_id="page", locator="1.md", version=version,
                saw=[Saw("page.md", "", version)],
            )  # fmt: skip
            assert fate(step(s), log, "page")[1] == "selected_as_data"
    sound(log, "task")


def test_a_cut_item_counts_as_it_is_shown(log: AgentLog) -> None:
    """Not as long as it is, nor as long as it may be: the cap is 400 units, the bound 500."""
    with log.session("task", policy=bounded(500), window=4000) as s:
        hit(s, 1, 8000)
        made = step(s)
        shown = retrieved(made)
        assert 380 < shown <= 400
        hit(s, 2, 4 * (500 - shown) - 60)
        assert fate(step(s), log, "hit-2")[1] == "selected_as_data"
        hit(s, 3, 160)
        assert fate(step(s), log, "hit-3")[2] == "zone_exceeded"
    assert sound(log, "task").verify().paths == PATHS


def test_a_cut_of_the_history_gives_a_zone_its_room_again(log: AgentLog) -> None:
    with log.session("task", policy=bounded(120), window=700) as s:
        broken = False
        seen: set[str] = set()
        for at in range(14):
            hit(s, at, relevance=100 + at)
            made = step(s, "m" * 200)
            broken = broken or bool(made.packet.trace.breaks)
            assert retrieved(made) <= 120
            seen |= {each.text[:8] for each in made.packet.entries if each.text[:3] == "hit"}
        assert broken and len(seen) > 3
    assert sound(log, "task").verify().paths == PATHS


def test_a_new_number_with_another_bound_weighs_afresh(log: AgentLog) -> None:
    with log.session("task", policy=bounded(60), window=2000) as s:
        hit(s, 0)
        hit(s, 1)
        assert fate(step(s), log, "hit-1")[2] == "zone_exceeded"
    with log.session("task", policy=bounded(200, number=2), window=2000) as s:
        assert fate(step(s), log, "hit-1")[1] == "selected_as_data"
    with (
        pytest.raises(sawlog.errors.ConfigError),
        log.session("task", policy=bounded(300, number=2), window=2000) as s,
    ):
        step(s)
    sound(log, "task")


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
def test_the_order_in_which_items_came_never_matters(order: tuple[int, ...]) -> None:
    told = Told(Rules(policy=bounded(100).named, stages=bounded(100), window=2000))
    told.user("go")
    sizes = (160, 120, 200, 80)
    for at in order:
        told.offer("y" * sizes[at], source_id=f"s{at}", locator=f"{at}", relevance=100 * at)
    built = told.packet()
    said = [one.text for one in built.entries if "y" in one.text]
    assert sorted(map(len, said)) == [80, 200]


def test_a_larger_bound_shows_what_a_smaller_one_showed_of_equal_pieces(log: AgentLog) -> None:
    before: set[str] = set()
    for units in range(0, 300, 20):
        with log.session(f"{units}", policy=bounded(units), window=4000) as s:
            now: set[str] = set()
            for at in range(3):
                hit(s, at, relevance=500 + at)
                hit(s, 10 + at, relevance=400 + at)
                now |= {each.text for each in step(s).packet.entries if "hit" in each.text}
        assert before <= now
        before = now
    assert len(before) > 4


def test_a_cold_builder_chooses_as_the_warm_one(log: AgentLog) -> None:
    """The bound is computed from the log: a process that begins anew finds the same."""
    for name, anew in (("warm", False), ("cold", True)):
        s = log.session(name, policy=bounded(150), window=900)
        s.acquire()
        for at in range(8):
            if anew and at:
                s.release()
                s = log.session(name, policy=bounded(150), window=900)
                s.acquire()
            hit(s, at, 80 + 40 * (at % 3))
            s.user("m" * 150)
            next_step(s, "openai-chat").send(talker())
        s.release()
    warm, cold = (log.read(name) for name in ("warm", "cold"))
    assert [one.packet.semantic for one in warm.steps] == [
        one.packet.semantic for one in cold.steps
    ]
    for name in ("warm", "cold"):
        assert sound(log, name).verify().paths == PATHS


# --- read again -----------------------------------------------------------------------------------


def uses(log: AgentLog, at: int) -> dict[str, tuple[int, int | None]]:
    """Units and bound of each zone of a recorded packet."""
    return {one.zone: (one.units, one.bound) for one in log.read("task").steps[at].zones()}


def test_a_recorded_packet_says_what_each_zone_takes(any_log: AgentLog) -> None:
    """All of it together is what packet.built counted, and items are as their verdicts say."""
    with any_log.session("task", policy=bounded(120), window=900) as s:
        s.system("Be short.")
        s.task("Find the port")
        told: dict[str, int] = {}
        for at in range(9):
            hit(s, at, relevance=100 + at)
            s.offer(f"exit {at}", channel="tool_observation", source_id=f"run-{at}")
            made = step(s, "m" * 200)
            found = uses(any_log, made.number)
            counts = dict(made.packet.counts)
            assert found["fixed"] == (counts["fixed"], None)
            others = [units for zone, (units, _) in found.items() if zone != "fixed"]
            assert sum(others) == counts["history"]
            assert found["retrieved"] == (retrieved(made), 120)
            if not at:
                told = {one.zone: one.units for one in items(made)}
                assert told == {zone: found[zone][0] for zone in ("retrieved", "recent")}
    trace = any_log.read("task").steps[1].trace()
    assert trace is not None and {one.zone for one in trace.verdicts} == {"", *told}


def test_a_packet_of_the_default_policy_has_zones_and_no_bounds(log: AgentLog) -> None:
    with log.session("task", window=900) as s:
        hit(s, 0)
        made = step(s)
    assert uses(log, 1) == {
        "retrieved": (retrieved(made), None),
        "history": (dict(made.packet.counts)["history"] - retrieved(made), None),
    }
    assert [zone for zone, _ in made.packet.counts] == ["fixed", "history"]


def test_why_names_the_zone_what_it_holds_and_who_is_in_it(log: AgentLog) -> None:
    with log.session("task", policy=bounded(120), window=2000) as s:
        s.offer("exit 0", channel="tool_observation", source_id="run", relevance=999)
        for at in range(4):
            hit(s, at, relevance=900 - at)
        made = step(s)
        step(s)
    for number in (1, 2):
        [out] = log.read("task").steps[number].why("hit-3")
        assert (out.present, out.stage, out.reason) == (False, "budget", "zone_exceeded")
        assert (out.cause, out.zone) == ("ranked_low", "retrieved"), "it fits, and was not first"
        assert (out.zone_units, out.zone_bound) == (retrieved(made), 120)
        assert out.note == "zone retrieved is bounded to 120 units"
        assert [one.source_id for one in out.preferred] == ["hit-0", "hit-1"]
    message, _ = log.read("task").steps[1].why("go on")
    assert (message.zone, message.zone_units, message.zone_bound) == ("history", None, None)


def test_what_fits_in_no_bound_is_out_of_budget(log: AgentLog) -> None:
    with log.session("task", policy=bounded(120), window=2000) as s:
        hit(s, 0, 900, relevance=900)
        hit(s, 1, relevance=100)
        step(s)
    [out] = log.read("task").steps[1].why("hit-0")
    assert (out.reason, out.cause) == ("zone_exceeded", "out_of_budget")
    assert [(one.source_id, one.because) for one in out.preferred] == [("hit-1", "fits")]


def test_what_if_shows_what_another_bound_would_have_shown(log: AgentLog) -> None:
    with log.session("task", policy=bounded(120), window=2000) as s:
        for at in range(4):
            hit(s, at, relevance=900 - at)
        step(s)
    recorded = log.read("task")
    assert recorded.what_if(policy=bounded(120)).differing == ()
    [wider] = recorded.what_if(policy=bounded(170, number=2)).differing
    assert [one.excerpt[:8] for one in wider.came_in] == ["hit 0002"]
    [narrow] = recorded.what_if(policy=bounded(60, number=2)).differing
    assert [(one.excerpt[:8], one.reason) for one in narrow.fell_out] == [
        ("hit 0001", "zone_exceeded")
    ]
