"""Each guard trips when what it guards against is done on purpose, and says what of."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from sawlog.agentlog import AgentLog
from sawlog.audit import verifying
from sawlog.audit.recorded import Recorded
from sawlog.store import append, blobs
from sawlog.store.content import TextPart
from sawlog.store.events.world import ObservationRecorded
from sawlog.store.log import Log
from sawlog.store.postgresql import PostgresDatabase
from sawlog.store.sqlitewriter import Writer
from sawlog.work import driver
from sawlog.work.driver import Driver
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.guard import test_appends, test_postgresql, test_reading, test_steps
from tests.guard.conftest import Runs
from tests.guard.holding import TIMES, Run, nothing_written, recorded
from tests.guard.test_reading import replay, resume, spent_on, verify

Patch = pytest.MonkeyPatch

STEPS = 80
"""Enough for a bound on the average: twenty steps of each size behind the first cuts."""


def around(patch: Patch, owner: Any, name: str, also: Callable[[Any], object]) -> None:
    """Do this, too, to the object of a method or with the first argument, before each call."""
    whole = getattr(owner, name)

    def both(first: Any, *args: Any, **options: Any) -> Any:
        also(first)
        return whole(first, *args, **options)

    patch.setattr(owner, name, both)


def twice(patch: Patch, owner: Any, name: str) -> None:
    """Do it twice each time."""
    whole = getattr(owner, name)

    def both(*args: Any, **options: Any) -> Any:
        whole(*args, **options)
        return whole(*args, **options)

    patch.setattr(owner, name, both)


def instead(patch: Patch, owner: Any, name: str, value: object) -> None:
    """Give this, whatever it is called with."""

    def given(*args: Any, **options: Any) -> object:
        return value

    patch.setattr(owner, name, given)


# --- what makes a step dearer ---------------------------------------------------------------------


def a_needless_query(patch: Patch) -> None:
    """Each append looks whether the writing connection still answers."""
    around(patch, Writer, "append", lambda writer: writer._raw.execute("SELECT 1").fetchall())


def a_needless_append(patch: Patch) -> None:
    """Each message is said to the log twice: a note that it comes, and it."""
    note = ObservationRecorded((TextPart("a message comes"),))
    around(patch, Session, "user", lambda session: session.append(note))


def a_needless_reading(patch: Patch) -> None:
    """Each step reads the last events back."""

    def read(session: Any) -> None:
        assert list(session._driver.events(max(0, session.state.seq - 100)))

    around(patch, Session, "step", read)


def a_needless_scan(patch: Patch) -> None:
    """Each step looks through the session's rows for what it could have asked an index."""

    def scan(session: Any) -> None:
        with session._log.database.read() as tx:
            assert tx.one("SELECT count(*) FROM sawlog.events WHERE length(payload) = 0") == (0,)

    around(patch, Session, "step", scan)


def nothing_is_packed(patch: Patch) -> None:
    """Rows hold their bytes as they are."""

    def pack(data: bytes) -> blobs.Packed:
        return blobs.PLAIN, data

    patch.setattr(blobs, "pack", pack)


def packed_twice(patch: Patch) -> None:
    """Contents are packed once to see whether it is worth it, and once more to store them."""
    twice(patch, blobs, "pack")


def a_snapshot_at_each_step(patch: Patch) -> None:
    """The whole state is written at each step."""
    patch.setattr(driver, "_SNAPSHOT_EVERY", 1)


def prepared_twice(patch: Patch) -> None:
    """Each event is encoded once to be looked at, and once more to be stored."""
    twice(patch, append, "prepare")


def the_body_is_hashed_again(patch: Patch) -> None:
    """A step hashes its whole request, which its renderer has hashed as it grew."""
    around(patch, Step, "answer", lambda step: hashlib.sha256(step.body))


def the_links_are_made_again(patch: Patch) -> None:
    """Each event checks the chain of the last ten."""
    around(patch, append, "link", lambda digest: [hashlib.sha256(digest) for _ in range(10)])


def the_body_is_stored_again(patch: Patch) -> None:
    """A step writes its whole request down as a JSON text, and packs it."""
    around(patch, Step, "answer", lambda step: blobs.pack(msgspec.json.encode(step.body.decode())))


class Wrong(NamedTuple):
    """What is done wrong, and the kinds of counts that it shows in."""

    do: Callable[[Patch], None]
    kinds: tuple[str, ...]


WRONG = (
    Wrong(a_needless_query, ("statements",)),
    Wrong(a_needless_append, ("commits", "put")),
    Wrong(a_needless_reading, ("rows", "read", "unpacks")),
    Wrong(a_needless_scan, ("effort",)),
    Wrong(nothing_is_packed, ("written",)),
    Wrong(packed_twice, ("packs",)),
    Wrong(a_snapshot_at_each_step, ("commits", "statements")),
    Wrong(prepared_twice, ("encodes",)),
    Wrong(the_body_is_hashed_again, ("hashed",)),
    Wrong(the_links_are_made_again, ("hashes",)),
    Wrong(the_body_is_stored_again, ("encoded", "packed")),
)


def test_a_short_session_keeps_to_the_bounds(runs: Runs) -> None:
    """What the tests below break holds of a session of their length."""
    run = runs.short.first(STEPS)
    test_steps.check_bounds(run)
    test_steps.check_ordinary_steps(run)


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.do.__name__ for wrong in WRONG])
def test_a_step_that_does_too_much_breaks_its_bounds(
    wrong: Wrong, fresh: str, monkeypatch: Patch
) -> None:
    wrong.do(monkeypatch)
    run = recorded(fresh, STEPS)
    with pytest.raises(AssertionError) as failed:
        test_steps.check_bounds(run)
    assert set(wrong.kinds) <= broken(failed)


@pytest.mark.parametrize("do", [a_needless_query, a_needless_append])
def test_a_step_that_is_not_only_appends_is_told(
    do: Callable[[Patch], None], fresh: str, monkeypatch: Patch
) -> None:
    do(monkeypatch)
    with pytest.raises(AssertionError):
        test_steps.check_ordinary_steps(recorded(fresh, STEPS))


def broken(failed: pytest.ExceptionInfo[AssertionError]) -> set[str]:
    """The kinds that a check names."""
    return kinds_of(failed.value)


def kinds_of(failed: AssertionError) -> set[str]:
    """The kinds that a check named, a line each."""
    return {line.partition(":")[0] for line in str(failed).splitlines()}


# --- what makes it dearer the longer a session is -------------------------------------------------


def grown_in(run: Run, steps: int) -> set[str]:
    """The kinds that grow, going by the first steps of a session and all of it."""
    try:
        test_steps.check_growth(run.first(steps), run)
    except AssertionError as failed:
        return kinds_of(failed)
    return set()


def test_a_step_that_goes_over_the_whole_session_grows(
    runs: Runs, fresh: str, monkeypatch: Patch
) -> None:
    """Each step lists the events so far. So few steps hold too few cuts and packs to tell of the
    rest, but no two of them encode more than others."""
    steps = len(runs.short.steps) // 2
    assert "encodes" not in grown_in(runs.short, steps)

    def read(session: Any) -> None:
        for stored in session._log.read(session._driver.row):
            msgspec.json.encode(stored.type)

    around(monkeypatch, Session, "step", read)
    assert "encodes" in grown_in(recorded(fresh, len(runs.short.steps)), steps)


def test_resuming_without_a_snapshot_is_told(
    runs: Runs, tmp_path: Path, monkeypatch: Patch
) -> None:
    instead(monkeypatch, Driver, "_from_snapshot", None)
    short, long = (spent_on(run, tmp_path, resume) for run in runs)
    with pytest.raises(AssertionError) as failed:
        test_reading.check_resume(short, long)
    assert {"hashed", "unpacked"} <= broken(failed)


def test_a_replay_that_reads_the_history_is_told(
    runs: Runs, tmp_path: Path, monkeypatch: Patch
) -> None:
    around(monkeypatch, Recorded, "packet_event", lambda read: list(read.as_stored()))
    short, long = (spent_on(run, tmp_path, replay) for run in runs)
    with pytest.raises(AssertionError) as failed:
        test_reading.check_replay(short, long)
    assert "hashed" in broken(failed)


def test_a_verification_that_is_not_linear_is_told(
    runs: Runs, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Every hundredth event is checked against all that came before."""

    def again(run: Any) -> None:
        if run.state.seq % 100 == 0:
            for stored in run.session.log.read(run.session.row, upto=run.state.seq):
                hashlib.sha256(stored.digest)

    checking = verifying._Verification  # pyright: ignore[reportPrivateUsage]
    around(monkeypatch, checking, "event", again)
    short, long = (spent_on(run, tmp_path, verify) for run in runs)
    with pytest.raises(AssertionError) as failed:
        test_reading.check_verify(short, long, TIMES)
    assert "hashes" in broken(failed)


# --- the rest -------------------------------------------------------------------------------------


def test_a_reader_that_writes_is_told(runs: Runs, tmp_path: Path, monkeypatch: Patch) -> None:
    """It takes note of who looked, on a connection of its own."""

    def note(log: AgentLog) -> None:
        path = log.store.database.url.removeprefix("sqlite:///")
        raw = sqlite3.connect(path)
        raw.execute("UPDATE sessions SET touched_at = touched_at + ?", (1,))
        raw.commit()
        raw.close()

    around(monkeypatch, AgentLog, "read", note)
    spent = spent_on(runs.short, tmp_path, replay)
    with pytest.raises(AssertionError) as failed:
        nothing_written(spent)
    assert broken(failed) == {"put", "written", "commits"}


def test_a_batch_that_is_appended_one_by_one_is_told(fresh: str, monkeypatch: Patch) -> None:
    whole = Log.append

    def one_by_one(log: Log, session: Any, events: Any = (), **options: Any) -> Any:
        return [whole(log, session, [event], **options) for event in events][-1]

    monkeypatch.setattr(Log, "append", one_by_one)
    found = test_appends.appended(fresh, test_appends.BEFORE)
    with pytest.raises(AssertionError) as failed:
        test_appends.check_appends(found)
    assert {"commits", "statements", "put"} <= broken(failed)


def test_an_append_that_looks_first_is_told(fresh: str, monkeypatch: Patch) -> None:
    a_needless_query(monkeypatch)
    found = test_appends.appended(fresh, test_appends.BEFORE)
    with pytest.raises(AssertionError) as failed:
        test_appends.check_appends(found)
    assert {"statements", "rows"} <= broken(failed)


def test_an_append_in_several_round_trips_is_told(url: str, monkeypatch: Patch) -> None:
    """The long way: to begin, to take the turn, to look, to write, to move, to commit."""
    instead(monkeypatch, PostgresDatabase, "append_at_once", False)
    with pytest.raises(AssertionError, match="exchanges"):
        test_postgresql.check_appends(url)


def test_steps_in_several_round_trips_are_told(url: str, monkeypatch: Patch) -> None:
    instead(monkeypatch, PostgresDatabase, "append_at_once", False)
    run = recorded(url, 30, test_postgresql.WINDOW)
    with pytest.raises(AssertionError, match="exchanges"):
        test_postgresql.check_steps(run.steps[20:])
