"""What resuming, replaying, verifying and looking cost, in a session and in one of four times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sawlog.store.packing import FULL_BYTES
from sawlog.store.sqlitefile import wal_size
from tests.cli.command import sawlog
from tests.guard.coding_agent import API, NAME, WINDOW, entered, opened
from tests.guard.conftest import Runs
from tests.guard.counting import Counts, counting
from tests.guard.holding import (
    BYTES,
    SHORT,
    TIMES,
    Bound,
    Run,
    at_most,
    at_most_times,
    nothing_written,
)

SHOWN = WINDOW * BYTES
"""Bytes of the texts that a packet of the agent's shows, at most."""

LINKS, REPLAYED = 32, 8
"""Manifests from one to the next full one, at most, and how many steps of as many are replayed."""

PACK, PACKED = FULL_BYTES, FULL_BYTES // 4
"""Bytes of a full pack of old events, and of its row. Whoever wants one event of it reads it."""

ONE_PACK = {"read": PACKED, "unpacked": PACK}
"""Whether what is wanted lies in one more pack hangs on where in a session it is."""

LOOKS = {
    "rows": REPLAYED * 2 * 64,
    "effort": REPLAYED * 2 * 64 / 4,
    "unpacks": REPLAYED * 2 * 64,
    "read": REPLAYED * PACKED,
    "unpacked": REPLAYED * PACK,
}
"""A step is looked for by halves, 64 events a look, and a session four times as long has two more
halves; and a pack more."""

READING = ("rows", "read", "effort", "unpacks", "unpacked")

RESUME = (
    Bound("rows", 500, "a snapshot, the events behind it (400 at most), texts of one packet"),
    Bound("read", SHOWN + 2 * PACKED, "one packet's texts, which may lie in two packs"),
    Bound("unpacked", 2 * SHOWN + 2 * PACK, "the snapshot, the tail, and the texts' packs"),
    Bound("statements", 110, "what makes connections ready, takes the lease, and reads in batches"),
    Bound("commits", 4, "the lease, what was said, the packet, the lease again"),
    Bound("hashed", 6 * SHOWN, "each text that is read, and the packet in two digests"),
)

REPLAY = (
    Bound("rows", 400, "looks for the step, manifests up to a full one, the packet's texts"),
    Bound("read", SHOWN + 3 * PACKED, "one packet's texts and manifests, which lie in packs"),
    Bound("unpacked", 2 * SHOWN + 3 * PACK, "the same as they are"),
    Bound("hashed", 6 * SHOWN, "each text that is read, and the packet in two digests"),
)


def spent_on(run: Run, folder: Path, work: Callable[[str, Run], None]) -> Counts:
    """What some work on a copy of a recorded session costs."""
    copy = str(folder / "copy.db")
    shutil.copy(run.url, copy)
    with counting() as meter:
        work(copy, run)
    return meter.spent()


def resume(url: str, run: Run) -> None:
    """Open, go on, and come to a packet."""
    with opened(url, life=1) as log, entered(log) as session:
        session.user("Go on.")
        assert session.step(API, model="m").number == len(run.steps) + 1


def replay(url: str, run: Run) -> None:
    """The packets of some steps from the middle on, byte for byte, each with a handle of its own.

    A manifest stands at any distance from a full one, and a step anywhere between two cuts.
    """
    middle = len(run.steps) // 2
    for step in range(middle, middle + LINKS, LINKS // REPLAYED):
        with opened(url, read_only=True) as log:
            assert log.read(NAME).steps[step].packet.body


def verify(url: str, run: Run) -> None:
    """Every step by every path."""
    with opened(url, read_only=True) as log:
        assert log.read(NAME).verify().sound


def look(*words: str) -> Callable[[str, Run], None]:
    """A command that looks; `@` is the step in the middle."""

    def looking(url: str, run: Run) -> None:
        given = [word.replace("@", f"@{len(run.steps) // 2}") for word in words]
        done = sawlog("--store", url, *given)
        assert done.code == 0 and done.out

    return looking


def check_resume(short: Counts, long: Counts) -> None:
    """Resuming reads a tail and one packet, whatever came before."""
    for spent in (short, long):
        at_most(spent, RESUME)
    at_most_times(short, long, READING, 1.3, ONE_PACK)


def check_replay(short: Counts, long: Counts) -> None:
    """Replaying a step reads what its packet shows."""
    for spent in (short, long):
        at_most(spent, REPLAY, per=REPLAYED)
        nothing_written(spent)
    at_most_times(short, long, READING, 1.3, LOOKS)


def check_verify(short: Counts, long: Counts, times: int) -> None:
    """Verifying costs as much for each step, however many there are."""
    for spent in (short, long):
        nothing_written(spent)
    kinds = (*READING, "hashes", "hashed", "encodes", "encoded")
    at_most_times(short, long, kinds, 1.1 * times, {"unpacked": 4 * PACK})


def test_resuming_reads_a_tail_and_one_packet_whatever_came_before(
    runs: Runs, tmp_path: Path
) -> None:
    check_resume(*(spent_on(run, tmp_path, resume) for run in runs))


def test_the_packet_of_a_step_reads_what_it_shows_and_not_the_history(
    runs: Runs, tmp_path: Path
) -> None:
    check_replay(*(spent_on(run, tmp_path, replay) for run in runs))


def test_verifying_is_linear(runs: Runs, tmp_path: Path) -> None:
    short, long = (spent_on(run, tmp_path, verify) for run in runs)
    check_verify(short, long, TIMES)


@pytest.mark.parametrize("words", [("show", NAME), ("show", f"{NAME}@"), ("packet", f"{NAME}@")])
def test_looking_changes_no_byte_of_the_store(
    runs: Runs, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for run in runs:
        nothing_written(spent_on(run, tmp_path, look(*words)))
        assert (tmp_path / "copy.db").read_bytes() == Path(run.url).read_bytes()
        assert wal_size(str(tmp_path / "copy.db")) == 0


def test_showing_the_newest_steps_costs_the_same_in_a_long_session(
    runs: Runs, tmp_path: Path
) -> None:
    short, long = (spent_on(run, tmp_path, look("show", NAME)) for run in runs)
    at_most_times(short, long, READING, 1.3, ONE_PACK)


def test_both_sessions_are_as_long_as_they_should_be(runs: Runs) -> None:
    for run, steps in zip(runs, (SHORT, SHORT * TIMES), strict=True):
        with opened(run.url, read_only=True) as log:
            assert log.read(NAME).last_step() == steps
