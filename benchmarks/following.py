"""A follower beside eight writers: does it keep up, and how far behind is it at the end?"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import sawlog
from benchmarks.measuring import Run, say
from benchmarks.places import Place
from benchmarks.results import Line, ratio
from benchmarks.writing import WRITERS, together, with_sawlog

_PATIENCE = 60.0


def follow(url: str, name: str, ready: Any, all: Any, out: Any) -> None:
    """The follower's process: counts the run's events until it has as many as there are.

    Puts the count at the moment in which the number of all became known, the whole count, and the
    clock when the last one came.
    """
    with sawlog.open(url, read_only=True) as log:
        position = None
        for one in log.follow():
            position = one.position  # what was there before is not of this run
        ready.set()
        count, known = 0, None
        last = began = time.time()
        while time.time() - began < _PATIENCE:
            for one in log.follow(position):
                position = one.position
                count += 1
                last = time.time()
                if known is None and all.value >= 0:
                    known = count
            if all.value >= 0:
                known = count if known is None else known
                if count >= all.value:
                    break
            time.sleep(0.002)
        out.put((known or 0, count, last))


def measure(run: Run, place: Place) -> list[Line]:
    """Each round: a follower from the newest event on, then the writers."""
    writers, seconds = (2, 0.2) if run.quick else (WRITERS, 2.5)
    sawlog.open(place.url("writers")).close()
    context = multiprocessing.get_context("spawn")
    written: list[float] = []
    followed: list[float] = []
    lag: list[float] = []
    missed = 0.0
    for turn in range(run.rounds):
        say(f"{place.kind}: {writers} writers and a follower, round {turn + 1} of {run.rounds}")
        name = place.name(f"follow{turn}")
        ready, all, out = context.Event(), context.Value("q", -1), context.Queue()
        where = place.url("writers")
        reading = context.Process(target=follow, args=(where, name, ready, all, out))
        reading.start()
        if not ready.wait(_PATIENCE):
            raise RuntimeError("the follower did not start")
        found = together(with_sawlog, where, "", name, writers, seconds)
        with sawlog.open(where, read_only=True) as log:
            total = sum(log.find(f"{name}-{number}").head for number in range(writers))
        all.value = total
        known, count, last = out.get(timeout=2 * _PATIENCE)
        reading.join()
        written.append(found.rate)
        # Its rate over the same seconds: what it had by then, of what there was.
        followed.append(found.rate * known / total)
        lag.append(1e3 * max(0.0, last - found.ended))
        missed += abs(total - count)
    return [
        ratio(
            "follow",
            f"followed to written, {writers} writers",
            followed,
            written,
            "events/s",
            target=0.95,
            at_least=True,
            store=place.kind,
        ),
        Line(
            row="follow",
            what="the last event after the writers' end",
            store=place.kind,
            values=lag,
            unit="ms",
        ),
        Line(
            row="follow",
            what="events missed or given twice",
            store=place.kind,
            values=[missed],
            unit="events",
            target=0.0,
        ),
    ]
