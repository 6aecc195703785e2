"""What if: the steps of a recorded session that would differ under other rules, and in what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from sawlog.audit.findings import Differs, Moved, WhatIf
from sawlog.audit.otherwise import Other, Otherwise, Pair
from sawlog.audit.recorded import Recorded
from sawlog.builder.assembly import Assembly
from sawlog.builder.build import Built
from sawlog.builder.draft import Refusal
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Binding, Entry
from sawlog.builder.state import Ref
from sawlog.builder.trace import Verdict
from sawlog.store.events.base import Named

Progress = Callable[[int, int], None]
"""Called with (events done, events in all)."""


_STAND_FOR = frozenset(("full", "preview", "late", "stub", "outdated", "item", "erased"))
"""Forms in which a part itself is shown, or something in its place."""


class Compared(msgspec.Struct, frozen=True):
    """A step and what differs in it; None where nothing does."""

    pair: Pair
    differs: Differs | None
    same_bytes: bool
    was: int


def what_if(session: Recorded, other: Other, progress: Progress = lambda done, all: None) -> WhatIf:
    """Build a session's steps under other rules and say which differ; no model is called.

    For the rules of this run see `sawlog.audit.otherwise`. Raises UnknownNumber for a policy that
    is not installed, ConfigError for a negative budget, BlobMissing and NoStep for what is not in
    the log.
    """
    differing: list[Differs] = []
    steps = refused = same = largest = elsewhere = 0
    last: Pair | None = None
    policies: dict[str, None] = {}
    budgets: dict[int, None] = {}
    for one in compared(session, other):
        steps += 1
        same += one.same_bytes
        largest = max(largest, one.was)
        last = one.pair
        refused += isinstance(one.pair.other, Refusal)
        elsewhere += other.sending(one.pair.recorded) != one.pair.recorded
        policies[str(one.pair.rules.policy)] = None
        budgets[_bound(one.pair)] = None
        if one.differs is not None:
            differing.append(one.differs)
        progress(one.pair.built_at or one.pair.before.seq, session.row.head)
    sending = other.sending(last.recorded) if last is not None else None
    return WhatIf(
        session=session.id,
        name=session.name,
        policy=str(last.rules.policy) if last is not None else "",
        budget=_bound(last) if last is not None else 0,
        api=sending.header.api if sending is not None else "",
        model=sending.header.model if sending is not None else "",
        steps=steps,
        refused=refused,
        same_bytes=same,
        largest=largest,
        differing=tuple(differing),
        reserve=last.rules.reserve if last is not None else 0,
        policies=tuple(policies),
        budgets=tuple(budgets),
        elsewhere=elsewhere,
    )


def _bound(pair: Pair) -> int:
    return pair.rules.window if pair.rules.budgeted else 0


def compared(session: Recorded, other: Other) -> Iterator[Compared]:
    """The steps one by one, each with the packet that it would have had."""
    comparison = _Comparison(session, other)
    for pair in Otherwise(session, other).steps():
        yield comparison.of(pair)


class _Comparison:
    """The packets of two runs side by side; what only grew is looked at once."""

    def __init__(self, session: Recorded, other: Other) -> None:
        self._session = session
        self._other = other
        self._was: Assembly | None = None
        self._measured: Named | None = None
        self._old: list[Ref] = []
        self._new: list[Ref] = []
        self._only_old: dict[Ref, int] = {}
        self._only_new: dict[Ref, int] = {}
        self._left_out: dict[Ref, str] = {}
        self._gone: dict[tuple[int, int], str] = {}
        """Why a part fell out, for when the recorded run shows it in another form later."""

    def of(self, pair: Pair) -> Compared:
        """What differs in a step, against the recorded one and against the step before."""
        was = self._recorded(pair)
        if isinstance(pair.other, Refusal):
            told = pair.other
            differs = self._differs(pair, was.total, 0, (), ())
            differs = msgspec.structs.replace(
                differs, refusal=told.reason, message=told.message, needs=told.needs
            )
            return Compared(pair, differs, False, was.total)
        built = pair.other
        units = sum(units for _, units in built.counts)
        fell_out, came_in = self._moves(pair, was, built)
        left_out = self._not_sent(pair, was, built)
        same = not self._only_old and not self._only_new
        plain = self._other.sending(pair.recorded) == pair.recorded
        if pair.packet is not None:
            same_bytes = built.request.digest == pair.packet.request
        else:
            same_bytes = same and plain
        if same and not self._left_out:
            return Compared(pair, None, same_bytes, was.total)
        differs = self._differs(pair, was.total, units, (*fell_out, *left_out), came_in)
        return Compared(pair, differs, same_bytes, was.total)

    def _differs(
        self,
        pair: Pair,
        was: int,
        units: int,
        fell_out: tuple[Moved, ...],
        came_in: tuple[Moved, ...],
    ) -> Differs:
        breaks = pair.other.trace.breaks if isinstance(pair.other, Built) else ()
        return Differs(
            step=pair.step,
            built_at=pair.built_at,
            refusal="",
            message="",
            needs=(),
            fell_out=fell_out,
            came_in=came_in,
            out=len(self._only_old),
            out_units=sum(self._only_old.values()),
            more=len(self._only_new),
            more_units=sum(self._only_new.values()),
            was=was,
            units=units,
            breaks=tuple(one.cause for one in breaks),
        )

    def _recorded(self, pair: Pair) -> Assembly:
        """The recorded packet put together, as far as it does not stand from the step before."""
        measured = pair.rules.measure
        used = self._was
        if (
            used is None
            or self._measured != measured
            or used.refs[:] != pair.refs[: len(used.refs)]
        ):
            self._session.window.prefetch(pair.refs)
            used = Assembly(measure_of(measured))
            self._measured = measured
        used.extend(pair.refs[len(used.refs) :], self._session.window)
        self._was = used
        return used

    # --- entries --------------------------------------------------------------------------------

    def _moves(
        self, pair: Pair, was: Assembly, built: Built
    ) -> tuple[tuple[Moved, ...], tuple[Moved, ...]]:
        old, new = pair.refs, built.refs[:]
        measure = measure_of(pair.rules.measure)
        grew = (
            old[: len(self._old)] == self._old
            and new[: len(self._new)] == self._new
            and bool(self._old)
        )
        known_old, known_new = dict(self._only_old), dict(self._only_new)
        if not grew:
            self._only_old, self._only_new = {}, {}
        first_old, first_new = (len(self._old), len(self._new)) if grew else (0, 0)
        places_old = {ref: at for at, ref in enumerate(old[first_old:], first_old)}
        places_new = {ref: at for at, ref in enumerate(new[first_new:], first_new)}
        for ref, at in places_old.items():
            if self._only_new.pop(ref, None) is None and ref not in places_new:
                self._only_old[ref] = was.units[at]
        for ref, at in places_new.items():
            if self._only_old.pop(ref, None) is None and ref not in places_old:
                self._only_new[ref] = measure(built.entries[at])
        self._old, self._new = old, new
        why = {(one.seq, one.part): one for one in built.trace.verdicts}
        forms = {(ref.seq, ref.part): ref.form for ref in self._only_new if ref.form in _STAND_FOR}
        fell_out = [
            _moved(ref, was.entries[places_old[ref]], units, self._reason(ref, why, forms))
            for ref, units in self._only_old.items()
            if ref not in known_old and ref in places_old
        ]
        came_in = [
            _moved(ref, built.entries[places_new[ref]], units, _came(ref, why))
            for ref, units in self._only_new.items()
            if ref not in known_new and ref in places_new
        ]
        return tuple(fell_out), tuple(came_in)

    def _reason(
        self,
        ref: Ref,
        why: Mapping[tuple[int, int], Verdict],
        forms: Mapping[tuple[int, int], str],
    ) -> str:
        part = (ref.seq, ref.part)
        if ref.seq and part in forms:
            return f"as {forms[part]}"
        verdict = why.get(part) or why.get((ref.seq, 1))
        if verdict is not None and verdict.outcome == "dropped":
            self._gone[part] = verdict.reason
        return self._gone.get(part, "not_shown")

    # --- what the renderer leaves out -------------------------------------------------------------

    def _not_sent(self, pair: Pair, was: Assembly, built: Built) -> tuple[Moved, ...]:
        """What this model could not be sent, where the recorded one was."""
        if self._other.sending(pair.recorded) == pair.recorded:
            self._left_out = {}
            return ()
        header, profile = pair.recorded.header, pair.recorded.profile
        own = tuple(one for one in pair.recorded.headers if one not in profile.headers)
        binding = self._session.binding if pair.packet is not None else _unbound
        request = was.request(header, own, profile, binding)
        before = set(_left_out(was.refs[:], request.notes))
        known = self._left_out
        now = _left_out(built.refs[:], built.request.notes)
        self._left_out = {ref: why for ref, why in now.items() if ref not in before}
        places = {ref: at for at, ref in enumerate(built.refs) if ref in self._left_out}
        measure = measure_of(pair.rules.measure)
        return tuple(
            _moved(
                ref,
                built.entries[places[ref]],
                measure(built.entries[places[ref]]),
                f"left_out: {why}",
            )
            for ref, why in self._left_out.items()
            if ref not in known
        )


def _unbound(step: int) -> Binding | None:
    return None


def _left_out(refs: list[Ref], notes: Iterable[tuple[int, str, str]]) -> dict[Ref, str]:
    return {refs[at]: why for at, what, why in notes if what == "left_out" and at >= 0}


def _came(ref: Ref, why: Mapping[tuple[int, int], Verdict]) -> str:
    verdict = why.get((ref.seq, ref.part)) or why.get((ref.seq, 0))
    return verdict.reason if verdict is not None else ""


def _moved(ref: Ref, entry: Entry, units: int, reason: str) -> Moved:
    text = entry.readable if entry.part == "bound" and entry.readable else entry.text
    return Moved(ref.seq, ref.part, ref.form, entry.kind, entry.name, units, reason, text[:120])
