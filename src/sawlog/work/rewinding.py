"""The part of a session that takes its history back: to a step, or to any event of its branch.

Nothing is taken out of the log. What was abandoned stays readable and replayable; what it did to
the world stays done, and the rewind says what that is.
"""

from __future__ import annotations

import msgspec

from sawlog.builder.state import State
from sawlog.builder.undoing import not_undone
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict, InvalidEvent, quoted
from sawlog.store.events.lifecycle import HistoryRewound, Ran
from sawlog.store.events.steps import AttemptLost, StepAbandoned
from sawlog.store.text import Text
from sawlog.work.credentials import Credentials
from sawlog.work.isolating import Isolating

_CONFLICTS = 8
"""Notes of others in a row that a rewind is made again for."""


class Rewound(msgspec.Struct, frozen=True):
    """A rewind: its own seq, where it goes back to, and what it could not undo.

    `calls` ran meanwhile and were not declared to read only; `files` are paths that changed.
    """

    seq: int
    to: int
    calls: tuple[Ran, ...] = ()
    files: tuple[Text, ...] = ()


class Rewinding(Isolating):
    """The part of a session that takes its history back. See `Session`."""

    credentials: Credentials
    _abandoned: frozenset[str] = frozenset()
    """Event ids of calls that ran when the history was taken back to before them."""

    def rewind(
        self, *, step: int | None = None, to: int | None = None, reason: str = ""
    ) -> Rewound:
        """Go back: the next step follows on event `to`, or on the packet of `step`, as it was sent.

        What came after is shown no more and is decided anew under new step numbers; the packet of
        `step` is the last thing that stands, its reply is not. The world stays as it is: files,
        sections, task, tools and waiting messages. A call before that whose result is taken back is
        open again, its outcome unknown; a call that was taken back and still runs leaves its result
        in the log alone. Gives what could not be undone.

        Raises InvalidEvent for an event that the session does not have, that nothing came after, or
        that an earlier rewind left (`log.fork` goes on from there); NoStep for a step that there is
        not, NotEntered without the lease, Conflict when others append all the time.
        """
        driver = self._driver
        driver.drives("a rewind")
        with driver.lock:
            for attempt in range(1, _CONFLICTS + 1):
                state = driver.catch_up()
                back = self._place(state, step, to)
                then = driver.state_at(back)
                events = driver.events(back, state.seq)
                calls, files = not_undone(then, state, events, driver.window)
                rewind = HistoryRewound(back, self._scrubbed(reason), calls, files)
                new = [*self._endings(state), driver.new(rewind, "harness")]
                try:
                    seqs = driver.append(new, expected_seq=state.seq)
                except Conflict:
                    if attempt == _CONFLICTS:
                        raise
                    continue
                running = {one.id for one in state.waiting if one.started and one.seq > back}
                self._abandoned |= running
                return Rewound(seqs[-1], back, calls, files)
            raise AssertionError("the last attempt returns or raises")

    def _scrubbed(self, text: str) -> str:
        # What is no text is named where the event is made.
        return self.credentials.scrub(text) if isinstance(text, str) else text  # pyright: ignore[reportUnnecessaryIsInstance]

    def _place(self, state: State, step: int | None, to: int | None) -> int:
        """The seq that is gone back to."""
        if (step is None) == (to is None):
            raise InvalidEvent("name either a step or an event", path="to")
        given = to if to is not None else step
        if type(given) is not int:
            path = "to" if to is not None else "step"
            raise InvalidEvent(f"{quoted(given)} is none: give a whole number", path=path)
        back = to if to is not None else self._driver.place(step or 0)
        if not 0 <= back <= state.seq:
            raise InvalidEvent(
                f"{back} is no event of the session, which ends at {state.seq}", path="to"
            )
        if back == state.seq:
            raise InvalidEvent(
                f"event {back} is the newest one: there is nothing to go back behind", path="to"
            )
        for event in self._driver.events(back):
            content = event.content
            if isinstance(content, HistoryRewound) and content.to < back:
                raise InvalidEvent(
                    f"event {back} is on a branch that the rewind of event {event.seq} left: fork "
                    f"the session at it to go on from there (`sawlog fork`, log.fork)",
                    path="to",
                )
        return back

    def _endings(self, state: State) -> list[NewEvent]:
        """The end of a step that is under way: it is given up with the history that it is in."""
        if not state.open_step:
            return []
        new = self._driver.new
        events: list[NewEvent] = []
        if state.unsettled:
            lost = AttemptLost(number=state.unsettled, reason="no outcome was recorded")
            events.append(new(lost, "harness", step=state.open_step))
        gone = StepAbandoned(reason="the history was rewound before it had a reply")
        events.append(new(gone, "harness", step=state.open_step))
        return events
