"""The trace of a recorded step, computed again: how its items were weighed, and against what.

Nothing of it is stored. The same log and the same rules give it again (law 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from sawlog.audit.findings import Ended, Preferred, Scores
from sawlog.audit.inforce import rules_of
from sawlog.audit.reconstructing import as_recorded, foreign_sending, reconstruct
from sawlog.audit.recorded import Recorded
from sawlog.audit.steppacket import StepPacket
from sawlog.builder.build import Built, Sending, build
from sawlog.builder.candidates import candidates, task_of
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.draft import Refusal
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.replay import sent_under
from sawlog.builder.selection.candidate import Candidate, zone_of
from sawlog.builder.state import State
from sawlog.builder.trace import Trace, Verdict
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import InvalidPolicy, UnknownNumber
from sawlog.store.events.items import ItemOffered
from sawlog.store.events.steps import PacketBuilt

_OTHER = re.compile("(?:kept as|by|to) ([0-9]{16})$")
"""How a verdict's note names the one that came in instead."""

_ID = re.compile(r"\b[0-9]{16}\b", re.ASCII)
"""How candidates are named in notes: by their event."""

_SHORT = frozenset(("budget", "coverage"))
"""Stages that give out room."""

_UNRANKED = frozenset(("block_cut", "waits_for_cut"))
"""What stands under `budget` and was not weighed against anything."""


class Weighed(msgspec.Struct, frozen=True):
    """A step's trace, its items as candidates by seq, and the room that was there for them.

    `trace` is None where the policy is not installed. `selects`: the policy weighs items.
    """

    state: State
    rules: Rules
    trace: Trace | None
    items: Mapping[int, Candidate]
    room: int
    topics: frozenset[str]
    selects: bool

    def verdict(self, seq: int, part: int) -> Verdict | None:
        """The last word on a part; None where it has none: it stays as it was sent."""
        found = None
        for one in self.trace.verdicts if self.trace is not None else ():
            if one.seq == seq and (one.part == part or (seq in self.items and one.part == 1)):
                found = one
        return found


def weighed(session: Recorded, packet: StepPacket, before: State) -> Weighed:
    """The trace of a recorded packet; `before` is the state that it was built from.

    There is none of a request that another program built. Raises BlobMissing.
    """
    rules = Rules()
    built: Built | Refusal | None = None
    try:
        rules = rules_under(session, packet, before)
        _ = rules.selection
        built = _built(session, packet, before, rules)
    except (UnknownNumber, InvalidPolicy):
        pass
    measure = measure_of(rules.measure)
    trace = built.trace if isinstance(built, Built) else None
    taken = sum(units for _, units in built.counts) if isinstance(built, Built) else 0
    items = candidates(before, session.window, measure)
    given = sum(
        one.units
        for one in (trace.verdicts if trace is not None else ())
        if one.seq in items and one.outcome != "dropped"
    )
    own = rules.calibrated(before.per_mille) if trace is not None else rules
    return Weighed(
        before,
        rules,
        trace,
        items,
        own.window - own.reserve - taken + given if own.budgeted else -1,
        frozenset(task_of(before, 0, packet.as_of, session.window).topics),
        trace is not None and rules.selection is not None,
    )


def trace(session: Recorded, packet: StepPacket) -> Trace | None:
    """The trace of a recorded packet; None where its policy is not installed."""
    before = fold_all(State(), session.events(0, packet.sees))
    return weighed(session, packet, before).trace


def rules_under(session: Recorded, packet: StepPacket, before: State) -> Rules:
    """The rules that a recorded packet was built under; `before` is the state it was built from.

    Raises InvalidPolicy for a recorded policy that says none, BlobMissing.
    """
    content = session.window.event(packet.built_at).content if packet.built_at else None
    policy = session.policy_of(before)
    if isinstance(content, PacketBuilt):
        return rules_of(content, policy, session.window)
    return as_recorded(policy)


def _built(
    session: Recorded, packet: StepPacket, before: State, rules: Rules
) -> Built | Refusal | None:
    if packet.origin == "recorded":
        return None
    content = session.window.event(packet.built_at).content if packet.built_at else None
    session.window.prefetch(packet.refs)
    if isinstance(content, PacketBuilt):
        header = sent_under(content, session.window)
        return build(
            before,
            rules,
            Sending(header, session.profile_of(content), content.headers),
            packet.as_of,
            session.window,
            allow_waiting=True,
            # What lacks nothing may have been cut deeper for that.
            allow_missing=bool(content.missing),
        )
    policy = session.policy_of(before)
    sending = foreign_sending(policy, packet.header.model)
    return reconstruct(before, policy, sending, packet.as_of, session.window)


# --- in words that say something outside of a trace -----------------------------------------------

_UNRECORDED = {"relevance": -1, "freshness": UNKNOWN_TIME}
"""The least value of a signal, which stands for none."""


def value_of(signal: str, value: int) -> int | None:
    """A signal's value as its source recorded it; None where it did not."""
    return None if _UNRECORDED.get(signal) == value else value


def scores_of(verdict: Verdict) -> Scores:
    """What a verdict was ranked by."""
    return tuple((name, value_of(name, value)) for name, value in verdict.scores)


def note_of(verdict: Verdict, contents: Contents) -> str:
    """What else was done to a candidate, others named by event and source."""

    def named(found: re.Match[str]) -> str:
        event = contents.event(int(found[0]))
        if not isinstance(event.content, ItemOffered):
            return f"event {event.seq}"
        return f"event {event.seq} ({event.source} {text_of(event.content.source_id, contents)})"

    return _ID.sub(named, verdict.note)


# --- why another was preferred --------------------------------------------------------------------


def preferred(found: Weighed, verdict: Verdict, contents: Contents) -> tuple[Preferred, ...]:
    """What came in where an item fell out, the nearest reason first; empty when nothing did."""
    named = _OTHER.search(verdict.note)
    if named is not None:
        return _told(found, [(int(named[1]), verdict.stage, 0, 0)], contents)
    if verdict.stage in _SHORT:
        return _told(found, _ahead(found, verdict), contents)
    if verdict.stage in ("dedup", "supersession", "conflict"):
        # A published policy's notes name nobody.
        mine = found.items.get(verdict.seq)
        same = [
            (one.seq, verdict.stage, 0, 0)
            for one in _selected(found)
            if mine is not None and _alike(mine, found.items[one.seq])
        ]
        return _told(found, same, contents)
    return ()


def follower(found: Weighed, ended: Ended, stage: str, contents: Contents) -> tuple[Preferred, ...]:
    """The item that took the place of one that holds no longer; empty when none did."""
    return _told(found, [(ended.seq, stage, 0, 0)], contents) if ended.seq else ()


def _alike(one: Candidate, other: Candidate) -> bool:
    return (
        one.digest == other.digest
        or one.source_id == other.source_id
        or (one.canonical or one.id) == (other.canonical or other.id)
    )


def _selected(found: Weighed) -> list[Verdict]:
    verdicts = found.trace.verdicts if found.trace is not None else ()
    return [one for one in verdicts if one.seq in found.items and one.outcome != "dropped"]


def _ahead(found: Weighed, lost: Verdict) -> list[tuple[int, str, int, int]]:
    """Who got room, and what decided it: ranked ahead first, then what only was smaller."""
    given: list[tuple[int, tuple[int, str, int, int]]] = []
    mine_of = found.items.get(lost.seq)
    if mine_of is None or lost.reason in _UNRANKED:
        # What holds no longer is no candidate, and what a cut leaves behind nothing outranked.
        return []
    for one in _selected(found):
        if lost.reason == "zone_exceeded" and zone_of(found.items[one.seq]) != zone_of(mine_of):
            # What stands in another zone took none of its room.
            continue
        if lost.reason == "not_required":
            # Only what covers the same topic can have taken its place.
            if found.topics & set(mine_of.topics) & set(found.items[one.seq].topics):
                given.append((1, (one.seq, "coverage", 0, 0)))
            continue
        if found.items[one.seq].is_required:
            given.append((0, (one.seq, "required", 0, 0)))
            continue
        because, mine, theirs, ahead = _first_difference(lost, one)
        if not ahead:
            because = "fits"
        given.append((1 if ahead else 2, (one.seq, because, mine, theirs)))
    return [one for _, one in sorted(given)]


def _first_difference(lost: Verdict, won: Verdict) -> tuple[str, int, int, bool]:
    """The first signal in which two differ, its values, and whether it speaks for the winner."""
    for (name, mine), (_, theirs) in zip(lost.scores, won.scores, strict=False):
        if mine != theirs:
            dear = name == "cost"
            return name, mine, theirs, (theirs < mine) if dear else (theirs > mine)
    return "order", 0, 0, True


def _told(
    found: Weighed, winners: Iterable[tuple[int, str, int, int]], contents: Contents
) -> tuple[Preferred, ...]:
    verdicts = {one.seq: one for one in _selected(found)}
    out: list[Preferred] = []
    for seq, because, mine, theirs in winners:
        event = contents.event(seq)
        content = event.content
        if not isinstance(content, ItemOffered):
            continue
        won = verdicts.get(seq)
        out.append(
            Preferred(
                seq,
                event.id,
                event.source,
                text_of(content.source_id, contents),
                text_of(content.version, contents),
                won.units if won is not None else 0,
                because,
                value_of(because, mine),
                value_of(because, theirs),
                scores_of(won) if won is not None else (),
            )
        )
    return tuple(out)


# --- the five causes ------------------------------------------------------------------------------

_RECALL = frozenset(("not_yet", "forgotten", "waiting", "not_shown", "not_recalled"))
_LOST = frozenset("block_cut compacted edited trimmed outdated other_form once told_anew".split())
_ROOM = frozenset(
    "budget_exceeded zone_exceeded budget_prefix_cut after_prefix_cut budget waits_for_cut".split()
)


def cause_of(reason: str, units: int, room: int, others: Iterable[Preferred]) -> str:
    """Which of the five causes a reason is (CONTRACTS S2-03).

    What would have fitted had it been first was ranked low; what would not was out of budget.
    `room` is that of its zone where the zone's bound kept it out; below 0: there is no bound.
    """
    if reason in _RECALL:
        return "not_recalled"
    if reason in _LOST:
        return "lost_in_compression"
    ahead = [one for one in others if one.because not in ("fits", "required")]
    if reason in _ROOM:
        needed = sum(one.units for one in others if one.because == "required")
        fits = room < 0 or units <= room - needed
        return "ranked_low" if ahead and fits else "out_of_budget"
    if reason == "waits_for_required":
        return "out_of_budget"
    if reason == "not_required" and ahead:
        return "ranked_low"
    return "filtered"
