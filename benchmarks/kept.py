"""One recorded session beside its floor, and what is measured on it in each round.

Both hold the same steps at any time: what a round adds, it adds to both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import msgspec

import sawlog
from benchmarks.driving import Clocked, Took, after, record, whole_step
from benchmarks.measuring import by_turns, median, now, say, seconds
from benchmarks.places import Place, opened
from benchmarks.workload import Steps
from sawlog.store.content import TextPart
from sawlog.store.events.world import ObservationRecorded


class Reading(msgspec.Struct, frozen=True):
    """What one round found, in seconds.

    `append` is a floor's single append, `rebuild` its messages from an open connection, `opening`
    the same with the opening, `middle` its messages of step N/2. Of sawlog: `resume` until the
    state was ready, `first` the first packet after it, `ready` and `logged` as in `driving.Took`,
    `whole` a step with its `commits` in the mean, `typical` in the median, `single` an event
    appended in the session, `replay` the packet of step N/2 checked from a fresh handle, `again`
    the same from one that is in use.
    """

    append: float
    rebuild: float
    opening: float
    middle: float
    resume: float
    first: float
    ready: float
    logged: float
    whole: float
    typical: float
    commits: float
    single: float
    replay: float
    again: float

    @property
    def step(self) -> float:
        """What the floor takes for as many commits as a step has."""
        return self.commits * self.append


class Kept:
    """A session of `size` steps, recorded at once; `window` in units, 0 for none."""

    def __init__(
        self, place: Place, tag: str, steps: Steps, window: int, *, quick: bool = False
    ) -> None:
        self.place = place
        self.size = len(steps)
        self.window = window
        self._times, self._further, self._warm = (1, 4, 1) if quick else (3, 20, 3)
        self._tag = tag
        self._name = place.name(tag)
        self._steps = steps
        self._done = len(steps)
        floor = place.floor(tag)
        floor.batch(part for step in steps for part in step)
        floor.close()
        began = now()

        def progress(done: int) -> None:
            if done % 2000 == 0:
                say(f"  {done:,} of {len(steps):,} steps, {now() - began:.0f} s")

        said = f", window {window:,}" if window else ", no window"
        say(f"{place.kind}: recording {len(steps):,} steps{said}")
        with opened(place, tag) as log:
            record(log, steps, name=self._name, window=window, progress=progress)

    def read(self) -> sawlog.AgentLog:
        """The store, opened to be read."""
        return sawlog.open(self.place.url(self._tag), read_only=True)

    def events(self) -> int:
        """Events in the session."""
        with self.read() as log:
            return log.find(self._name).head

    def still(self) -> dict[str, float]:
        """What is measured while nobody writes, each some times in turn with its floor."""
        times, middle = self._times, self.size // 2
        rebuild = by_turns(times, self._rebuild)[0]
        opening, resume = by_turns(times, self._open_floor(None), self._resume)
        floor_middle, replay = by_turns(times, self._open_floor(middle), self._replay)
        with self.read() as log:
            self._check(log)
            again = by_turns(times, lambda: seconds(lambda: self._check(log)))[0]
        return {
            "rebuild": rebuild,
            "opening": opening,
            "middle": floor_middle,
            "resume": resume,
            "replay": replay,
            "again": again,
        }

    def verify(self) -> float:
        """Seconds to verify the whole session. Raises RuntimeError when that finds a fault."""
        with self.read() as log:

            def work() -> None:
                if not log.read(self._name).verify().sound:
                    raise RuntimeError(f"the session of {self.size} steps does not verify")

            return seconds(work)

    def floor_opening(self) -> float:
        """Seconds in which the floor is opened and has its messages."""
        return self._open_floor(None)()

    # --- each with what it closes behind the clock ------------------------------------------------

    def _rebuild(self) -> float:
        floor = self.place.floor(self._tag)
        took = seconds(floor.messages)
        floor.close()
        return took

    def _open_floor(self, upto: int | None) -> Callable[[], float]:
        def work() -> float:
            began = now()
            floor = self.place.floor(self._tag)
            found = floor.messages() if upto is None else floor.messages(upto)
            took = now() - began
            floor.close()
            del found
            return took

        return work

    def _resume(self) -> float:
        began = now()
        log = opened(self.place, self._tag)
        session = log.session(self._name, window=self.window)
        session.acquire()
        ready = session.state.seq
        took = now() - began
        session.release()
        log.close()
        if not ready:
            raise RuntimeError("the session that was resumed is empty")
        return took

    def _replay(self) -> float:
        began = now()
        log = self.read()
        self._check(log)
        took = now() - began
        log.close()
        return took

    def _check(self, log: sawlog.AgentLog) -> None:
        # Steps count from 1, parts from 0: both sides give what step N/2 of the parts saw.
        if not log.read(self._name).steps[self.size // 2 + 1].verify():
            raise RuntimeError(f"step {self.size // 2 + 1} came out otherwise")

    def working(self) -> Generator[None, None, dict[str, float]]:
        """Some steps, behind a few warm ones, and the floor's appends of the same parts.

        Pauses behind each step, so that sessions of other sizes can have theirs.
        """
        news = after(self._steps, self._warm + self._further, self._done)
        self._done += len(news)
        floor = self.place.floor(self._tag)
        floor_took: list[float] = []
        with opened(self.place, self._tag) as log:
            clock = Clocked(log)
            with log.session(self._name, window=self.window) as session:
                took: list[Took] = []
                for parts in news:
                    for part in parts:
                        began = now()
                        floor.append(part)
                        floor_took.append(now() - began)
                    took.append(whole_step(session, parts, clock))
                    yield
                seen = ObservationRecorded((TextPart("a single event"),))
                single = [seconds(lambda: session.append(seen)) for _ in range(7)]
        floor.close()
        counted = took[self._warm :]
        return {
            # The floor's whole time, not its median: a step pays for its slow commits, too.
            "append": sum(floor_took) / len(floor_took),
            "first": took[0].ready,
            "ready": median([one.ready for one in counted]),
            "logged": median([one.logged for one in counted]),
            "whole": sum(one.whole for one in counted) / len(counted),
            # A cut of the window falls into some rounds and not into others.
            "typical": median([one.whole for one in counted]),
            "commits": sum(one.commits for one in counted) / len(counted),
            "single": median(single),
        }


def a_round(sessions: Sequence[Kept]) -> list[Reading]:
    """Measure all of them once; their steps take turns, for growth is told from one to another."""
    still = [kept.still() for kept in sessions]
    stepped: list[dict[str, float]] = [{} for _ in sessions]
    left = {number: kept.working() for number, kept in enumerate(sessions)}
    while left:
        for number, working in list(left.items()):
            try:
                next(working)
            except StopIteration as end:
                stepped[number] = end.value
                del left[number]
    return [Reading(**one, **other) for one, other in zip(still, stepped, strict=True)]
