"""The paths of verify are found apart from each other, however much of the work they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit import importedsteps, verifying
from sawlog.audit.findings import Report
from sawlog.audit.manifests import Manifests
from sawlog.builder.arrange import Arrangement
from sawlog.builder.draft import Refusal
from sawlog.builder.projector import FOLD, fold_all
from sawlog.builder.render.base import Rendering
from sawlog.builder.snapshot import CODEC, decode, encode
from sawlog.builder.state import Ref, State
from sawlog.builder.vec import Vec
from sawlog.importing import import_path
from tests.session.agents import opened, talker
from tests.session.foreign_files import TURNS

STEPS = 4
GOOD = {"stored": "ok", "cold": "ok", "snapshot": "ok"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AgentLog]:
    """A store with one session of some steps."""
    with opened(str(tmp_path / "store.db")) as log:
        with log.session("task", window=10_000) as s:
            for n in range(STEPS):
                s.user(f"message {n}")
                s.step("openai-chat", model="m").send(talker(f"answer {n}"))
        yield log


def verified(log: AgentLog) -> Report:
    """What verify says of the one session."""
    return log.read("task").verify()


def test_all_paths_agree(log: AgentLog) -> None:
    found = verified(log)
    assert found.sound and found.paths == GOOD and found.steps == STEPS


def test_each_entry_is_rendered_once_for_both_paths(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: by the warm builder, and of the first step by the one without a cache."""
    added: list[int] = []
    real = Rendering.add

    def counted(self: Rendering, entries: Any) -> None:
        added.append(len(entries))
        real(self, entries)

    monkeypatch.setattr(Rendering, "add", counted)
    last = len(log.read("task").steps[STEPS].packet.entries)
    first = len(log.read("task").steps[1].packet.entries)
    added.clear()
    assert verified(log).sound
    assert sum(added) == last + first


def test_a_manifest_that_lists_less_differs_by_its_own_path(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the policy chose is the recorded packet, and does not speak for the manifest."""
    real = Manifests.read

    def shortened(self: Manifests, packet: Any) -> Vec[Ref]:
        return Vec(real(self, packet)[:-1])

    monkeypatch.setattr(Manifests, "read", shortened)
    found = verified(log)
    assert found.paths["stored"] == "differs" and found.paths["snapshot"] == "ok"
    assert {each.step for each in found.differences} == set(range(1, STEPS + 1))


def test_a_policy_that_gives_nothing_leaves_the_manifest_its_own_word(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: Any, **options: Any) -> Refusal:
        return Refusal("cannot_fit", "nothing fits")

    monkeypatch.setattr(verifying, "build", refused)
    found = verified(log)
    assert found.paths == {**GOOD, "cold": "differs"}
    # The first step is built without a cache, too.
    assert [each.step for each in found.differences] == [1, 1, 2, 3, 4]


def test_a_builder_that_breaks_does_not_hide_what_the_manifest_says(
    log: AgentLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state that no builder takes is told by the manifest where that finds a content gone."""

    def broken(*given: Any, **options: Any) -> Refusal:
        raise KeyError(11)

    monkeypatch.setattr(verifying, "build", broken)
    with pytest.raises(KeyError):
        verified(log)


@pytest.mark.parametrize("at", range(3))
def test_a_snapshot_that_is_no_state_of_its_place_differs(log: AgentLog, at: int) -> None:
    """Each that the store holds is looked at, wherever it stands."""
    read = log.read("task")
    events = list(read.events())
    seq = (len(events) // 5, len(events) // 2, len(events) - 1)[at]
    state = fold_all(State(), events[:seq])
    chain = next(iter(log.store.read(read.row, after=seq - 1, upto=seq))).digest

    def put(state: State) -> None:
        log.store.snapshot_put(read.row, seq, chain, fold=FOLD, layout=CODEC, data=encode(state))

    put(state)
    assert verified(log).sound
    wrong = decode(encode(fold_all(State(), events[: seq - 1])))
    put(wrong)
    found = verified(log)
    assert found.paths == {**GOOD, "snapshot": "differs"}
    assert [each.what for each in found.differences] == [f"the snapshot at {seq}"]


@pytest.mark.parametrize("what", ["cold", "snapshot"])
def test_an_import_is_arranged_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A wrong order of the warm builder is found, and so is a state that is read back wrongly."""
    with opened(str(tmp_path / "import.db")) as log:
        [done] = import_path(log, TURNS)
        read = log.read(done.session)
        assert read.verify().sound
        if what == "cold":
            real = Arrangement.entries

            def turned(self: Arrangement, state: State) -> Any:
                units = real(self, state)
                return units[::-1] if warm(self) else units

            warm = _belongs_to_a_builder(monkeypatch)
            monkeypatch.setattr(Arrangement, "entries", turned)
        else:
            monkeypatch.setattr(importedsteps.ImportedSteps, "_same_state", _never)
            monkeypatch.setattr(importedsteps, "_arranged", _without_the_last)
        found = read.verify()
    assert what in {each.path for each in found.differences} and not found.sound


def _belongs_to_a_builder(monkeypatch: pytest.MonkeyPatch) -> Callable[[Arrangement], bool]:
    """Tells the arrangement of a builder's cache from one that is made afresh."""
    afresh: list[Arrangement] = []

    def made() -> Arrangement:
        afresh.append(Arrangement())
        return afresh[-1]

    monkeypatch.setattr(importedsteps, "Arrangement", made)
    return lambda one: all(each is not one for each in afresh)


def _without_the_last(state: State) -> list[Ref]:
    units = Arrangement().entries(state)
    return [ref for unit in units[:-1] for ref in unit]


def _never(*given: object) -> bool:
    return False
