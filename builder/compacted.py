"""What a completed compaction leaves of a state: a foreign one by its list, our own by a range.

Nothing of it copies history: what continues is named, and stays in the form it was sent in.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder import freshness, pairing
from sawlog.builder.state import Ref, State
from sawlog.builder.vec import Index, Vec
from sawlog.store.events.compaction import CompactionCompleted

SECTION = "checkpoint"
"""The section of a packet that the newest checkpoint stands in, between tools and history."""

_TOLD = ("world", "stale", "missing", "notice")
"""Forms that a cut takes away, for what they say is told again where it still holds."""


def compacted(state: State, content: CompactionCompleted) -> State:
    """The state after a compaction was completed."""
    return _natively(state, content) if content.checkpoint else _elsewhere(state, content)


def _natively(state: State, content: CompactionCompleted) -> State:
    kept = frozenset(content.kept)

    def stays(seq: int) -> bool:
        return seq > content.through or seq in kept

    head = [ref for ref in state.sent if ref.section not in ("history", SECTION)]
    history = [
        ref
        for ref in state.sent
        if ref.section == "history" and ref.form not in _TOLD and stays(ref.seq)
    ]
    news = [one for one in state.news if stays(one.seq)]
    shown = {ref.seq for ref in history}
    gone = {ref.seq for ref in state.sent if ref.section == "history" and ref.seq} - shown
    gone |= {*state.gaps, *(one.seq for one in state.news if not stays(one.seq))}
    state = replace(
        state,
        sent=Vec((*head, *checkpoint_refs(content.checkpoint, state.blocks), *history)),
        checkpoint=content.checkpoint,
        compacting=0,
        blocks=tuple(seq for seq in state.blocks if seq == content.checkpoint),
        news=Vec(news),
        gaps=thinned(gone, shown | {one.seq for one in news}),
        answered=Index(entry for entry in state.answered.items() if stays(entry[1].call)),
        orphans=tuple(orphan for orphan in state.orphans if stays(orphan[1])),
        cuts=(*state.cuts, "compacted"),
        bounds=Vec(bound for bound in state.bounds if stays(bound.seq)),
        summary_lost=False,
        told=(),
        items=tuple(seq for seq in state.items if stays(seq)),
    )
    state = freshness.rebuilt(state, state.sent, frozenset(state.trims))
    return pairing.settled(state, (call.seq for call in state.waiting if stays(call.seq)))


def checkpoint_refs(seq: int, blocks: tuple[int, ...]) -> tuple[Ref, ...]:
    """The entries that show a checkpoint in a packet: its block, if `blocks` has it, its text."""
    text = Ref(SECTION, seq, 1, "checkpoint")
    return (Ref(SECTION, seq, 1, "block"), text) if seq in blocks else (text,)


def thinned(gone: Iterable[int], shown: Iterable[int]) -> tuple[int, ...]:
    """Of the seqs that are not shown, one between any two that are.

    That is all that keeps a run of a manifest from spanning what it does not show.
    """
    places = frozenset(shown)
    out: list[int] = []
    free = True
    for seq in sorted({*gone, *places}):
        if seq in places:
            free = True
        elif free:
            out.append(seq)
            free = False
    return tuple(out)


def _elsewhere(state: State, content: CompactionCompleted) -> State:
    by_id = {one.id: one for one in state.news}
    stay = [by_id[id] for id in dict.fromkeys(content.history) if id in by_id]
    news = [replace(one, flag="") if one.flag == "copy" else one for one in stay]
    seqs = {one.seq for one in news}
    calls = {one.seq for one in news if one.kind == "tool.requested"}
    answered = [
        entry
        for entry in state.answered.items()
        if entry[1].call in calls and entry[1].result in seqs
    ]
    state = replace(
        state,
        news=Vec(news),
        gaps=tuple(sorted({*state.gaps, *(one.seq for one in state.news if one.seq not in seqs)})),
        sent=Vec(ref for ref in state.sent if ref.section != "history"),
        answered=Index(answered),
        waiting=pairing.still_waiting(news, state.waiting),
        orphans=(),
        cuts=(*state.cuts, "compacted"),
        bounds=Vec(),
        summary_lost=content.unknown,
        told=(),
        items=(),
    )
    return pairing.settled(freshness.rebuilt(state, ()), calls)
