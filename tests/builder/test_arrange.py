"""The arrangement: what is kept between steps is what a fresh one gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.builder.arrange import Arrangement
from sawlog.builder.pairing import PAIRINGS
from sawlog.builder.projector import fold
from sawlog.builder.state import Ref, State
from sawlog.store.events.base import Named
from sawlog.store.events.lifecycle import HistoryTrimmed
from sawlog.store.events.steps import PolicySet
from tests.builder.memory import Story

each_pairing = pytest.mark.parametrize("pairing", PAIRINGS, ids=lambda pairing: pairing.name)
CALLS = ("1", "2", "3", "4")
WORDS = st.sampled_from(
    ["U", "A[]", "A[c1]", "A[c2,c3]", "A[c4]"]
    + [kind + call for call in CALLS for kind in ("S", "R", "D", "Q", "Y", "N", "T")]
)


def play(story: Story, word: str) -> None:
    """Append what a word of the notation says (T1: trimmed), where its call was asked for."""
    call = "c" + word[1:]
    if word[0] == "T" and call in story.calls:
        story.log.append(HistoryTrimmed((call,)), source="harness")
    elif word[0] in "UA" or call in story.calls:
        story.one(word)


def same_as_fresh(words: list[str], pairing: Named) -> int:
    """Play the words and compare after each event; gives how many entries there are at the end."""
    story = Story()
    story.log.append(PolicySet(Named("default"), pairing=pairing), source="harness")
    for word in words:
        play(story, word)
    warm, state = Arrangement(), State()
    found: list[list[Ref]] = []
    for event in story.log.events:
        state = fold(state, event)
        found = [list(unit) for unit in warm.entries(state)]
        assert found == [list(unit) for unit in Arrangement().entries(state)]
    return sum(map(len, found))


@each_pairing
@given(words=st.lists(WORDS, max_size=20))
@settings(max_examples=300)
def test_a_warm_arrangement_lists_what_a_fresh_one_lists(pairing: Named, words: list[str]) -> None:
    same_as_fresh(words, pairing)


@each_pairing
@pytest.mark.parametrize(
    ("words", "entries"),
    [
        ("A[c1] S1 R1 T1", 3),  # not started, unknown, answered, trimmed
        ("A[c1,c2] R1 U R2", 6),  # calls join a reply that is listed
        ("A[c1] R1 A[c2] D2 R2", 6),  # denied, and answered all the same
        ("A[c1] Q1 Y1 S1 R1", 3),  # waiting, decided, started, answered
    ],
)
def test_what_changes_a_listed_unit(pairing: Named, words: str, entries: int) -> None:
    assert same_as_fresh(words.split(), pairing) == entries
