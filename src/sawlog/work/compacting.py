"""How a session compacts its history: a bracket in the log, and a checkpoint that is checked first.

started → a checkpoint is written, by code or with a summariser's prose → checked → checkpoint and
completed in one append. Whatever goes wrong before that leaves packets as they were. Events that
are appended meanwhile stay behind the region; when they change what is in it, it does not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import msgspec

from sawlog.builder.contents import Contents
from sawlog.builder.forms import checkpoint_entries
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.builder.state import Ref, State
from sawlog.compaction.checking import check
from sawlog.compaction.extractive import extract
from sawlog.compaction.facts import known
from sawlog.compaction.history import History, history_of
from sawlog.compaction.past import Past, surviving
from sawlog.compaction.region import CannotCompact, Region, choose
from sawlog.compaction.wording import cut, one_line
from sawlog.store.errors import ConfigError, Conflict, NotCompacted, StoreError, quoted
from sawlog.store.event import Event
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionFailed,
    CompactionRefused,
    CompactionStarted,
)
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.work.driver import Driver, check_readable

Reasons = tuple[tuple[str, str], ...]
"""Why a draft does not count: codes, and what each is about."""

Prose = Callable[[Past, Checkpoint, Reasons], Checkpoint | Reasons]
"""Adds a summariser's prose to what code knows, or says why it has none.

It is told why its draft before did not count. What it asks and is answered it appends itself,
outside of the session's lock.
"""


Route = Literal["rules", "local", "provider"]
"""Who writes: code alone, a summariser, the provider itself."""

FOR_GOOD = frozenset({"summariser_overflow", "summariser_refused"})
"""Codes of a summariser that would say the same again, whatever it were told of its draft."""

_TRIGGER = re.compile("[A-Za-z0-9._:-]{1,100}")


_FITTING = ("ratio", "steps")
"""Triggers whose budget is all that the window leaves for the history."""


def check_route(route: str) -> None:
    """Raise ConfigError for a route that there is not."""
    known = get_args(Route)
    if route not in known:
        raise ConfigError(f"there is no route {quoted(route)}: use {', '.join(known)}")


class Wanted(msgspec.Struct, frozen=True):
    """What a caller asks of a compaction. `budget` and `keep_user` are in units; see `choose`."""

    trigger: str = "manual"
    route: str = "local"
    budget: int = 0
    at: int | None = None
    keep_user: int | None = None
    attempts: int = 2

    def check(self) -> None:
        """Raise ConfigError, naming the field, for what means nothing."""
        for name in ("budget", "at", "keep_user"):
            value = getattr(self, name)
            if value is None and name != "budget":
                continue
            if type(value) is not int or value < 0:
                raise ConfigError(f"{name}={quoted(value)}: give a whole number, 0 or more")
        check_route(self.route)
        if not isinstance(self.trigger, str) or _TRIGGER.fullmatch(self.trigger) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"{quoted(self.trigger)} is no trigger: give a word such as 'manual', of 1 to 100 "
                "ASCII letters, digits and .:_-"
            )


class Compacted(msgspec.Struct, frozen=True):
    """A completed compaction: the checkpoint, its seq, what gave way and what it takes, in units.

    `refused` are the reasons for which earlier drafts did not count, per attempt.
    """

    seq: int
    checkpoint: Checkpoint
    trigger: str
    route: str
    through: int
    kept: tuple[int, ...]
    before: int
    after: int
    region: int
    fixed: int
    refused: tuple[Reasons, ...] = ()


class Compactor:
    """Compacts one driver's session."""

    def __init__(self, driver: Driver, rules: Rules) -> None:
        self._driver = driver
        self._rules = rules
        self._under_way = False

    def compact(self, wanted: Wanted, prose: Prose | None = None) -> Compacted:
        """Compact; durable when this returns. Without `prose` the extractive summariser writes.

        Raises NotCompacted with the reason when nothing gave way: packets are as before. Refused
        (`blocked`) where the log holds what is not understood.
        """
        wanted.check()
        self._driver.drives("a compaction")
        with self._driver.lock:
            self._refuse_second()
            self._close_orphan()
            history, region = self._region(wanted)
            started = self._start(wanted, region)
            self._under_way = True
        try:
            return self._written(wanted, history, region, started, prose)
        except NotCompacted:
            raise
        except BaseException as error:
            self._interrupted(started, error)
            raise
        finally:
            self._under_way = False

    def _written(
        self, wanted: Wanted, history: History, region: Region, started: Event, prose: Prose | None
    ) -> Compacted:
        refused: list[Reasons] = []
        room = self._room(wanted, history)
        if wanted.route != "rules":
            for attempt in range(1, wanted.attempts + 1):
                past = self._past(started, region)
                faults = refused[-1] if refused else ()
                draft = self._draft(past, prose, faults, wanted.budget)
                reasons = draft if isinstance(draft, tuple) else self._judged(past, draft, room)
                if not isinstance(draft, tuple) and not reasons:
                    return self._commit(wanted, history, region, started, draft, refused)
                reasons = tuple((code, cut(one_line(about))) for code, about in reasons)
                refused.append(reasons)
                refusal = CompactionRefused(attempt, reasons)
                self._driver.append([self._driver.new(refusal, "harness")])
                if prose is None or any(code in FOR_GOOD for code, _ in reasons):
                    break  # it would write, or refuse, the same again
        past = self._past(started, region)
        draft = known(past, _most(region, wanted.budget), self._rules.measure)
        reasons = self._judged(past, draft, room)
        if reasons:
            code = reasons[0][0]
            self._fail("no_progress" if code == "larger" else code)
            why = f"the checkpoint that code wrote does not count: {code}"
            if code == "larger":
                why = f"the checkpoint alone takes {draft.units} units, and " + (
                    f"what it would replace {region.units}"
                    if draft.units >= region.units
                    else f"beside the last unit there is room for {room}"
                )
            fixed, total = history.head_units, history.total
            raise self._not_compacted(CannotCompact("no_progress", why, fixed, total, region.stays))
        return self._commit(wanted, history, region, started, draft, refused)

    def border_before(self, seq: int) -> int:
        """The place of the border in front of the unit that holds event `seq`."""
        with self._driver.lock:
            state = self._driver.catch_up()
            history = history_of(state, self._rules.measure, self._driver.window)
        here = next(at for at, ref in enumerate(history.refs) if ref.seq == seq)
        return max(at for at in history.borders if at <= here)

    # --- the region -------------------------------------------------------------------------------

    def _refuse_second(self) -> None:
        """Raise NotCompacted while another task of this handle, or a hook, compacts: a region is
        one checkpoint's."""
        if self._under_way:
            why = "another compaction of this session is under way: wait for its end"
            raise self._not_compacted(CannotCompact("under_way", why, 0, 0, 0))

    def _close_orphan(self) -> None:
        """End a bracket that an earlier process left open, so that there is one at a time."""
        # An append whose outcome nobody knew may have begun one, too.
        state = self._driver.catch_up()
        check_readable(state)
        if state.compacting:
            self._fail("abandoned: the process that began it is gone")

    def _region(self, wanted: Wanted) -> tuple[History, Region]:
        state = self._driver.catch_up()
        news = (Ref("history", one.seq, 1) for one in state.news)  # of an import, all there is
        self._driver.window.prefetch([*state.sent, *news])
        history = history_of(state, self._rules.measure, self._driver.window)
        region = choose(
            history,
            self._driver.window,
            wanted.budget,
            at=wanted.at,
            keep_user=wanted.keep_user,
        )
        if isinstance(region, CannotCompact):
            raise self._not_compacted(region)
        return history, region

    def _start(self, wanted: Wanted, region: Region) -> Event:
        state = self._driver.load()
        begun = CompactionStarted(
            trigger=wanted.trigger,
            route=wanted.route,
            through=region.through,
            kept=region.kept,
            units=region.units,
            region=region.digest,
            packet=state.sent_at,
        )
        [seq] = self._driver.append([self._driver.new(begun, "harness")])
        return self._driver.window.event(seq)

    def _past(self, started: Event, region: Region) -> Past:
        """What a checkpoint is written from, as the log stands now."""
        with self._driver.lock:
            state = self._driver.catch_up()
            previous, previous_id, after = self._previous(state)
            events = tuple(surviving(self._driver.events(after)))
            window = self._driver.window
            return Past(state, region, events, window, started.id, previous, previous_id)

    def _previous(self, state: State) -> tuple[Checkpoint | None, str, int]:
        if not state.checkpoint:
            return None, "", 0
        event = self._driver.window.event(state.checkpoint)
        ended = self._driver.window.event(state.checkpoint + 1).content
        after = ended.through if isinstance(ended, CompactionCompleted) else 0
        if not isinstance(event.content, Checkpoint):  # erased: nothing of it can be carried
            return None, "", after
        return event.content, event.id, after

    # --- the checkpoint ---------------------------------------------------------------------------

    def _draft(
        self, past: Past, prose: Prose | None, faults: Reasons, budget: int
    ) -> Checkpoint | Reasons:
        """A checkpoint with a summariser's prose, or why it had none."""
        measure, most = self._rules.measure, _most(past.region, budget)
        base = known(past, most, measure)
        draft = extract(past, base, most, measure) if prose is None else prose(past, base, faults)
        return draft if isinstance(draft, tuple) else self._measured(draft, past.contents)

    def _measured(self, draft: Checkpoint, contents: Contents) -> Checkpoint:
        measure = measure_of(self._rules.measure)
        units = sum(map(measure, checkpoint_entries(draft, contents)))
        return msgspec.structs.replace(draft, units=units)

    def _judged(self, past: Past, draft: Checkpoint, room: int | None) -> Reasons:
        reasons = tuple(check(past, draft, draft.units))
        if room is not None and draft.units > room:
            reasons += (("larger", f"{draft.units} of {room} units beside the last unit"),)
        return reasons

    def _room(self, wanted: Wanted, history: History) -> int | None:
        """Units that the next packet has for a checkpoint beside its last unit (None: no bound).

        A compaction that comes by itself must not leave a session whose next packet fits nowhere.
        """
        if wanted.trigger not in _FITTING or not wanted.budget or not history.borders:
            return None
        # The checkpoint before is counted as fixed, and gives its place to this one.
        before, _, _ = self._previous(self._driver.load())
        last = sum(history.units[history.borders[-1] :])
        return wanted.budget - last + (before.units if before is not None else 0)

    # --- its end ----------------------------------------------------------------------------------

    def _commit(
        self,
        wanted: Wanted,
        history: History,
        region: Region,
        started: Event,
        draft: Checkpoint,
        refused: Sequence[Reasons],
    ) -> Compacted:
        driver = self._driver
        with driver.lock:
            while True:
                state = driver.catch_up()
                if self._turned(started) or not self._still(state, wanted, region, draft):
                    self._fail("the region changed while its checkpoint was written")
                    raise self._not_compacted(
                        CannotCompact(
                            "region_changed",
                            "a late result or a rewind changed what was to give way",
                            history.head_units,
                            history.total,
                            region.stays,
                        )
                    )
                at = state.seq + 1
                ended = CompactionCompleted(checkpoint=at, through=region.through, kept=region.kept)
                events = [driver.new(draft, "harness"), driver.new(ended, "harness")]
                try:
                    driver.append(events, expected_seq=state.seq)
                except Conflict:
                    continue
                driver.snapshot()
                return Compacted(
                    at,
                    draft,
                    wanted.trigger,
                    wanted.route,
                    region.through,
                    region.kept,
                    history.total,
                    region.stays + draft.units,
                    region.units,
                    history.head_units,
                    tuple(refused),
                )

    def _turned(self, started: Event) -> bool:
        """True when the history was rewound since: what the checkpoint tells of may be gone."""
        return any(isinstance(e.content, HistoryRewound) for e in self._driver.events(started.seq))

    def _still(self, state: State, wanted: Wanted, region: Region, draft: Checkpoint) -> bool:
        """True when what is to give way is what it was as the compaction began, and so is what the
        checkpoint says of calls without a result."""
        waiting = {call.id for call in state.waiting}
        if any(one.call not in waiting for one in draft.calls):
            return False
        history = history_of(state, self._rules.measure, self._driver.window)
        again = choose(
            history, self._driver.window, wanted.budget, at=region.at, keep_user=wanted.keep_user
        )
        return (
            isinstance(again, Region)
            and (again.digest, again.through) == (region.digest, region.through)
            and again.kept == region.kept
        )

    def _interrupted(self, started: Event, error: BaseException) -> None:
        """End the bracket, as far as that can be done: what went wrong matters more."""
        try:
            if self._driver.catch_up().compacting == started.seq:
                self._fail(f"interrupted: {type(error).__name__}")
        except StoreError as trouble:
            error.add_note(f"and the end of the compaction could not be written: {trouble}")

    def _fail(self, reason: str) -> None:
        self._driver.append([self._driver.new(CompactionFailed(reason), "harness")])

    def _not_compacted(self, why: CannotCompact) -> NotCompacted:
        return NotCompacted(
            why.code, why.message, fixed=why.fixed, history=why.history, last=why.last
        )


def _most(region: Region, budget: int) -> int:
    """Units that a checkpoint may take: half of what it replaces, and of a budget two fifths."""
    half = region.units // 2
    return max(1, min(half, budget * 2 // 5) if budget else half)
