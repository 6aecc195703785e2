"""The default policy: where a block cut falls, what its notice counts, and that nothing flaps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.build import Built
from sawlog.builder.draft import Refusal
from sawlog.builder.measure import MEASURES, measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.policy import (
    AS_RECORDED,
    CannotFit,
    Cut,
    Rules,
    block_cut,
    header_refs,
    opens_unit,
)
from sawlog.builder.state import Ref, State
from sawlog.store.errors import UnknownNumber
from sawlog.store.events.base import Named
from sawlog.store.events.conversation import MessageSystem, MessageUser
from sawlog.store.events.world import Tool, ToolsChanged
from tests.builder.entries import entry
from tests.builder.memory import MemoryLog, Story, text

UNITS: dict[str, Entry] = {
    "U": entry("user", "u"),
    "A": entry("assistant", "a"),
    "a": entry("assistant", "a", first=False),
    "c": entry("call", "{}", first=False),
    "C": entry("call", "{}"),
    "r": entry("result", "r"),
    "m": entry("result/media", "m", first=False),
    "L": entry("late", "l"),
    "O": entry("observation", "o"),
    "N": entry("notice", "n"),
}


def cut(history: str, window: int, *, reserve: int = 0, fixed: int = 0, notice: int = 0,
        sizes: list[int] | None = None) -> Cut | CannotFit | None:  # fmt: skip
    """The cut of a history of these entries, each of ten units unless said otherwise."""
    entries = [UNITS[letter] for letter in history]
    units = sizes or [10] * len(entries)
    return block_cut(entries, units, fixed, notice, Rules(window=window, reserve=reserve))


def test_what_fits_is_not_cut() -> None:
    assert cut("UAUAU", 50) is None
    assert cut("UAUAU", 49) is not None
    assert cut("UAUAU", 70, reserve=10, fixed=10) is None
    assert cut("UAUAU", 69, reserve=10, fixed=10) is not None


@pytest.mark.parametrize(
    ("window", "at"),
    [(99, 5), (84, 5), (83, 6), (67, 6), (66, 7), (50, 7), (49, 8), (34, 8), (33, 9), (17, 9)],
)
def test_it_falls_at_the_first_border_that_leaves_at_most_60_percent(window: int, at: int) -> None:
    """Ten messages of ten units each: at border n there are 100 - 10 n left."""
    assert cut("UAUAUAUAUA", window) == Cut(at, at)
    assert (100 - 10 * at) * 5 <= window * 3 < (100 - 10 * (at - 1)) * 5


def test_reserve_header_and_notice_count() -> None:
    assert cut("UAUAUAUAUA", 99) == Cut(5, 5)
    assert cut("UAUAUAUAUA", 119, reserve=20) == Cut(5, 5)
    assert cut("UAUAUAUAUA", 119, fixed=20) == Cut(5, 5)
    assert cut("UAUAUAUAUA", 99, notice=10) == Cut(6, 6)


def test_it_never_falls_inside_a_unit() -> None:
    """A reply stays with its calls and their results; a late result is a message of its own."""
    assert cut("UAccrrUAcrUU", 70) == Cut(10, 7)
    assert cut("UCcrrUU", 60) == Cut(5, 4)
    assert cut("UAcrmmU", 60) == Cut(6, 3)
    assert cut("ULOUU", 40) == Cut(3, 3)
    assert [letter for letter, each in UNITS.items() if opens_unit(each)] == list("UACLON")


def test_where_no_border_leaves_so_little_the_last_one_is_taken() -> None:
    sizes = [10, 10, 80]
    assert cut("UAU", 90, sizes=sizes) == Cut(2, 2)  # 80 of 90, and it fits


def test_a_last_unit_that_does_not_fit_is_named_with_all_figures() -> None:
    sizes = [10, 10, 80]
    assert cut("UAU", 79, sizes=sizes) == CannotFit(0, 0, 79, 80)
    assert cut("UAU", 80, sizes=sizes) == Cut(2, 2)
    assert cut("UAU", 80, sizes=sizes, notice=1) == CannotFit(0, 0, 80, 80)
    assert cut("UAU", 120, sizes=sizes, reserve=30, fixed=20) == CannotFit(20, 30, 120, 80)


def test_one_unit_that_does_not_fit_cannot_be_cut() -> None:
    assert cut("Accrr", 40) == CannotFit(0, 0, 40, 50)
    assert cut("NAccrr", 50, notice=10) == CannotFit(0, 0, 50, 50)


def test_an_earlier_notice_is_no_place_to_cut() -> None:
    assert cut("NUAUAUAUAUA", 99) == Cut(6, 6)


# --- on real packets ------------------------------------------------------------------------------


def grown(rules: Rules, sizes: list[int]) -> list[Built | Refusal]:
    """The packets of a session to which messages of these lengths are added one by one."""
    log = MemoryLog()
    log.append(MessageSystem(text("be kind " * 5)), source="system")
    log.append(ToolsChanged((Tool("t", '{"name":"t","parameters":{"type":"object"}}'),)))
    out: list[Built | Refusal] = []
    for number, size in enumerate(sizes):
        log.append(MessageUser(text(f"{number} " + "x" * size)))
        built = log.build(rules)
        out.append(built)
        if isinstance(built, Built):
            event = log.append(built.event(), step=log.state.step + 1, source="harness")
            log.cache.settle(event.seq)
    return out


@pytest.mark.parametrize("measure", MEASURES)
@given(
    sizes=st.lists(st.integers(0, 400), min_size=3, max_size=40),
    window=st.integers(150, 1200),
    reserve=st.integers(0, 100),
)
def test_packets_fit_grow_between_cuts_and_say_what_was_left_behind(
    measure: Named, sizes: list[int], window: int, reserve: int
) -> None:
    rules = Rules(measure=measure, window=window * (4 if measure.name == "utf8-bytes" else 1),
                  reserve=reserve)  # fmt: skip
    count = measure_of(measure)
    last: Built | None = None
    for number, built in enumerate(grown(rules, sizes)):
        if isinstance(built, Refusal):
            assert built.reason == "cannot_fit"
            continue
        zones = dict(built.counts)
        header = [each for each in built.entries if each.section != "history"]
        history = [each for each in built.entries if each.section == "history"]
        assert zones["fixed"] == sum(map(count, header))
        assert zones["history"] == sum(map(count, history))
        assert zones["fixed"] + zones["history"] <= rules.window - reserve
        if last is None or not built.trace.breaks:
            if last is not None:  # law 13: it grows only at its end
                assert built.entries[: len(last.entries)] == last.entries[:]
        else:
            assert [each.cause for each in built.trace.breaks] == ["block_cut"]
            zone = rules.window - reserve - zones["fixed"]
            messages = len(history) - 1
            assert zones["history"] * 5 <= zone * 3 or messages == 1
        notices = [each.text for each in history if each.kind == "notice"]
        behind = number + 1 - sum(each.kind == "user" for each in history)
        wanted = f"Earlier history of this session ({behind} messages and results) is no longer"
        assert [notice.startswith(wanted) for notice in notices] == [True] * bool(behind)
        last = built


def test_between_cuts_the_same_overflow_does_not_come_back() -> None:
    """After a cut there is room for two fifths of the zone: cuts are few and far between."""
    packets = grown(Rules(window=600), [160] * 60)
    cuts = [at for at, built in enumerate(packets) if isinstance(built, Built) and
            built.trace.breaks]  # fmt: skip
    assert 4 <= len(cuts) <= 20
    assert min(b - a for a, b in itertools.pairwise(cuts)) >= 3


def test_a_cut_says_what_it_costs() -> None:
    packets = grown(Rules(window=300), [200] * 6)
    built = next(each for each in packets if isinstance(each, Built) and each.trace.breaks)
    [broke] = built.trace.breaks
    dropped = [v for v in built.trace.verdicts if v.reason == "block_cut"]
    assert broke.lost == len(dropped) and broke.units == sum(v.units for v in dropped)
    assert all((v.stage, v.outcome) == ("budget", "dropped") for v in dropped)
    assert broke.kept == built.trace.kept == 2


def test_no_window_is_no_bound_and_an_import_cuts_nothing() -> None:
    assert Rules().budgeted is False
    assert Rules(window=10).budgeted is True
    assert Rules(AS_RECORDED, window=10).budgeted is False
    for rules in (Rules(), Rules(AS_RECORDED, window=50)):
        last = grown(rules, [500] * 5)[-1]
        assert isinstance(last, Built) and len(last.entries) == 7


def test_a_policy_or_a_measure_that_is_not_installed_is_named() -> None:
    story = Story().run("U")
    with pytest.raises(UnknownNumber, match="the selection policy other@2 is not installed"):
        story.log.build(Rules(Named("other", 2)))
    with pytest.raises(UnknownNumber, match="the measure tokens@1 is not installed"):
        story.log.build(Rules(measure=Named("tokens")))


def test_the_header_is_the_system_texts_and_then_the_tools() -> None:
    state = State(system=((2, 1), (5, 2)), tools=(3, 2))
    assert header_refs(state) == [
        Ref("system", 2, 1), Ref("system", 5, 1), Ref("system", 5, 2),
        Ref("tools", 3, 1), Ref("tools", 3, 2),
    ]  # fmt: skip
    assert header_refs(State()) == []


# --- measures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "quarter", "size", "lab"),
    [
        (entry("user", ""), 4, 0, 1),
        (entry("user", "abcd"), 5, 4, 1),
        (entry("user", "abcde"), 6, 5, 1),
        (entry("user", "é\U0001f600\ud83d"), 7, 9, 3),
        (entry("call", "{}", name="read", call_id="c1"), 6, 8, 4),
        (entry("user/media", "sha256:00", data=b"x" * 9000), 1604, 9, 1600),
    ],
)
def test_measures_are_frozen(made: Entry, quarter: int, size: int, lab: int) -> None:
    found: dict[str, Any] = {str(name): measure(made) for name, measure in MEASURES.items()}
    assert found == {"utf8-quarter@1": quarter, "utf8-bytes@1": size, "lab-estimator@1": lab}
    assert measure_of(Named("utf8-bytes"))(replace(made, text=made.text + "z")) == size + 1
