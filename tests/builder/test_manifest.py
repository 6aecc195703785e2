"""Manifests: what is written is read back, as a difference to what was there before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.manifest import (
    MAX_LINKS,
    BadManifest,
    encode,
    expand,
    known_parts,
    names_older,
    write,
)
from sawlog.builder.state import Ref, State
from sawlog.builder.vec import Vec
from sawlog.store.events.steps import Keep, Run
from tests.builder.memory import Story

FORMS = ("preview", "stub", "synthetic", "late", "erased")


def whole(seq: int, parts: int, section: str = "history") -> list[Ref]:
    """All of an event in its plain form."""
    return [Ref(section, seq, part) for part in range(1, parts + 1)]


@st.composite
def entries(draw: Any, known: dict[int, int], seqs: list[int]) -> list[Ref]:
    """Some entries: whole events, single parts, other forms, notices, in any order."""
    out: list[Ref] = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["whole", "whole", "whole", "run", "part", "form", "notice"]))
        seq = draw(st.sampled_from(seqs))
        if kind == "whole":
            section = draw(st.sampled_from(["history", "history", "tools", "system"]))
            out.extend(whole(seq, known[seq], section))
        elif kind == "run":
            for one in sorted(seqs)[sorted(seqs).index(seq) :][: draw(st.integers(1, 5))]:
                out.extend(whole(one, known[one]))
        elif kind == "part":
            out.append(Ref("history", seq, draw(st.integers(1, known[seq]))))
        elif kind == "form":
            form = draw(st.sampled_from(FORMS))
            args = draw(st.sampled_from([(), (("kind", "unknown"),), (("call", 3),)]))
            out.append(Ref("history", seq, 1, form, draw(st.integers(1, 2)), args))
        else:
            out.append(Ref("history", 0, 1, "notice", 1, (("messages", "7"),)))
    return out


@st.composite
def cases(draw: Any) -> tuple[list[Ref], list[Ref], dict[int, int], dict[int, int], int]:
    """Entries, a base, the events known (shown or not), those beyond, and the base's place."""
    shown = draw(st.lists(st.integers(1, 60), min_size=2, max_size=16, unique=True))
    parts = {seq: draw(st.integers(1, 3)) for seq in shown}
    seqs = list(draw(st.permutations(shown)))
    border = len(seqs) // 2
    known = {seq: parts[seq] for seq in seqs[: border + 1]}
    gaps = {seq: parts[seq] for seq in seqs[border + 1 :]}
    base_at = draw(st.integers(0, 61))
    base = [ref for ref in draw(entries(known, list(known))) if ref.seq <= base_at]
    cut = draw(st.integers(0, len(base)))
    kept = draw(st.sampled_from([base, base[cut:], base[:cut], []]))
    refs = [*kept, *draw(entries(known, list(known)))]
    return refs, base, known, gaps, base_at


@given(case=cases())
def test_what_is_written_is_read_back(
    case: tuple[list[Ref], list[Ref], dict[int, int], dict[int, int], int],
) -> None:
    """By the fold, which knows what packets show, and by a reader that sees every shown event."""
    refs, base, known, gaps, base_at = case
    parts = encode(refs, base, known, gaps, base_at)
    assert expand(parts, base, known) == refs
    assert expand(parts, base, {**known, **gaps}) == refs
    full = encode(refs, (), known, gaps)
    assert not any(isinstance(part, Keep) for part in full)
    assert expand(full, (), known) == refs


def test_a_packet_without_a_break_keeps_all_and_adds_runs() -> None:
    base = [*whole(1, 1), *whole(2, 2), *whole(4, 1)]
    refs = [*base, *whole(6, 1), *whole(7, 3)]
    known = {1: 1, 2: 2, 4: 1, 6: 1, 7: 3}
    assert encode(refs, base, known, (), 5) == (Keep(0, 4), Run("history", 6, 7))


def test_a_run_spans_no_event_that_is_not_shown() -> None:
    refs = [*whole(1, 1), *whole(2, 1), *whole(5, 1)]
    known = {1: 1, 2: 1, 5: 1}
    assert encode(refs, (), known, ()) == (Run("history", 1, 5),)
    assert encode(refs, (), known, (3,)) == (Run("history", 1, 2), Run("history", 5, 5))
    assert encode(refs, (), {**known, 4: 2}, ()) == (Run("history", 1, 2), Run("history", 5, 5))


def test_what_is_out_of_order_partial_or_in_another_form_is_a_run_of_its_own() -> None:
    stub = Ref("history", 2, 1, "stub")
    refs = [*whole(3, 1), *whole(1, 1), stub, Ref("history", 4, 2), *whole(5, 1, "tools")]
    known = {1: 1, 2: 1, 3: 1, 4: 2, 5: 1}
    assert encode(refs, (), known, ()) == (
        Run("history", 3, 3),
        Run("history", 1, 1),
        Run("history", 2, 2, 1, "stub"),
        Run("history", 4, 4, 2),
        Run("tools", 5, 5),
    )


def test_a_cut_keeps_two_ranges_of_the_base() -> None:
    base = [Ref("system", 1, 1), *whole(2, 1), *whole(3, 1), *whole(4, 1)]
    notice = Ref("history", 0, 1, "notice", 1, (("messages", "2"),))
    refs = [base[0], notice, base[3]]
    parts = encode(refs, base, {}, (), 9)
    assert parts == (Keep(0, 1), Run("history", 0, 0, 1, "notice", 1, notice.args), Keep(3, 4))
    assert expand(parts, base, {}) == refs


BAD: list[tuple[tuple[Keep | Run, ...], str]] = [
    ((Keep(0, 3),), "keep 0 to 3 of a base with 2 entries"),
    ((Keep(2, 1),), "keep 2 to 1"),
    ((Keep(-1, 1),), "keep -1 to 1"),
    ((Run("history", 1, 4),), "a run from event 1 to 4, not all shown"),
    ((Run("history", 2, 2),), "a run from event 2 to 2"),
    ((Run("history", 3, 1),), "a run from event 3 to 1"),
]


@pytest.mark.parametrize(("parts", "says"), BAD)
def test_a_manifest_that_names_what_is_not_there_is_refused(
    parts: tuple[Keep | Run, ...], says: str
) -> None:
    with pytest.raises(BadManifest, match=says):
        expand(parts, whole(1, 2), {1: 2, 3: 1})


def test_the_manifest_names_the_last_packet_until_it_has_too_many_links() -> None:
    refs = whole(1, 1)
    state = State(sent=Vec(refs), base=Vec(refs), sent_at=2, links=MAX_LINKS - 1)
    assert write(state, refs) == (2, (Keep(0, 1),))
    for full in (
        State(sent=Vec(refs), base=Vec(refs), sent_at=2, links=MAX_LINKS),
        State(sent=Vec(refs), sent_at=0),
        State(sent=Vec(refs), sent_at=2),
    ):
        base, parts = write(full, refs)
        assert base == 0 and expand(parts, (), known_parts(full, older=True)) == refs


def test_what_reaches_back_behind_the_last_packet_is_known_again() -> None:
    """A header that returns: its entries are not in the base, and the run still spans no gap."""
    story = Story().run("U P A[c1] R1 P")
    state = story.log.state
    assert names_older(state, (Run("history", 1, 1),))
    assert not names_older(state, (Run("history", state.sent_at + 1, state.sent_at + 2),))
    assert not names_older(state, (Keep(0, 1), Run("history", 0, 0, 1, "notice")))
    assert known_parts(state, older=False) == {}
    assert set(known_parts(state, older=True)) == {ref.seq for ref in state.sent}
