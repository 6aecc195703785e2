"""Manifests: the entries of a packet as references, written as a difference to the last packet.

`encode` writes what `packet.built` holds, `expand` reads it back. A run with part 0 stands for
every part of every shown event of its range, so it is only written where nothing shown is left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from sawlog.builder.state import Ref, State
from sawlog.store.events.steps import Keep, Run

MAX_LINKS = 32
"""Manifests in a row that may name a base; the next one is full."""


class BadManifest(ValueError):
    """Raised when a manifest refers to what the branch does not have."""


def known_parts(state: State, *, older: bool) -> dict[int, int]:
    """Seq to number of parts of the shown events that a manifest may name, as far as known.

    With `older` also those before the last packet, which costs one pass over the window.
    """
    known: dict[int, int] = {}
    if older:
        # After an ordinary packet both lists are one and the same.
        both = (state.base,) if state.base is state.sent else (state.base, state.sent)
        for refs in both:
            for ref in refs:
                if ref.seq and ref.form != "synthetic":
                    known[ref.seq] = max(ref.part, known.get(ref.seq, 0))
        for ref in state.sent:
            if ref.form == "synthetic":
                known.setdefault(ref.seq, 1)
    for news in state.news:
        known[news.seq] = news.parts
    for seq, parts in (*state.system, state.tools):
        if seq:
            known[seq] = parts
    return known


def names_older(state: State, parts: Sequence[Keep | Run]) -> bool:
    """True when a run reaches back to before the last packet."""
    return any(isinstance(part, Run) and 0 < part.first <= state.sent_at for part in parts)


def write(
    state: State, refs: Sequence[Ref], *, grown: bool = False
) -> tuple[int, tuple[Keep | Run, ...]]:
    """The base (0: none) and the manifest for the next packet, whose entries are `refs`.

    `grown`: they are known to begin with all that the base has, so only what is new is looked at.
    """
    if not state.sent_at or state.links >= MAX_LINKS or not state.base:
        return 0, encode(refs, (), known_parts(state, older=True), state.gaps)
    left = state.gaps[bisect_right(state.gaps, state.sent_at) :]
    same = len(state.base) if grown else 0
    parts = encode(refs, state.base, known_parts(state, older=False), left, state.sent_at, same)
    if names_older(state, parts):
        known = known_parts(state, older=True)
        parts = encode(refs, state.base, known, state.gaps, state.sent_at)
    return state.sent_at, parts


def encode(
    refs: Sequence[Ref],
    base: Sequence[Ref],
    known: Mapping[int, int],
    gaps: Iterable[int],
    base_at: int = 0,
    same: int = 0,
) -> tuple[Keep | Run, ...]:
    """The manifest of `refs` as a difference to `base` (empty: a full one).

    `known` gives the parts of each shown event that new runs may cover; `gaps` are further seqs of
    shown events that no run may span. Events after `base_at` are in no base. `same`: that many of
    the first refs are known to be the whole base.
    """
    out: list[Keep | Run] = [Keep(0, same)] if same else []
    fresh: list[Ref] = []
    order = {seq: at for at, seq in enumerate(sorted({*known, *gaps}))}
    places: dict[Ref, int] | None = None
    at = there = same
    while at < len(refs):
        if there < len(base) and refs[at] == base[there]:
            start = there
        elif base and refs[at].seq <= base_at:
            if places is None:
                places = {ref: place for place, ref in reversed(list(enumerate(base)))}
            start = places.get(refs[at], -1)
        else:
            start = -1
        if start < 0:
            fresh.append(refs[at])
            at += 1
            continue
        there = start
        whole = len(base) - start
        if refs[at : at + whole] == base[start:]:
            at += whole
            there += whole
        while at < len(refs) and there < len(base) and refs[at] == base[there]:
            at += 1
            there += 1
        out.extend(_runs(fresh, known, order))
        fresh = []
        out.append(Keep(start, there))
    out.extend(_runs(fresh, known, order))
    return tuple(out)


def _runs(refs: Sequence[Ref], known: Mapping[int, int], order: Mapping[int, int]) -> Iterable[Run]:
    at = 0
    open_run: Run | None = None
    while at < len(refs):
        ref = refs[at]
        whole = _whole_event(refs, at, known)
        if not whole:
            if open_run is not None:
                yield open_run
                open_run = None
            yield Run(ref.section, ref.seq, ref.seq, ref.part, ref.form, ref.number, ref.args)
            at += 1
            continue
        if (
            open_run is not None
            and open_run.section == ref.section
            and order[ref.seq] == order[open_run.last] + 1
        ):
            open_run = Run(ref.section, open_run.first, ref.seq)
        else:
            if open_run is not None:
                yield open_run
            open_run = Run(ref.section, ref.seq, ref.seq)
        at += whole
    if open_run is not None:
        yield open_run


def _whole_event(refs: Sequence[Ref], at: int, known: Mapping[int, int]) -> int:
    """How many refs from here are one whole event in its plain form; 0 when they are not."""
    first = refs[at]
    parts = known.get(first.seq, 0)
    if not parts or at + parts > len(refs):
        return 0
    for part in range(parts):
        ref = refs[at + part]
        if (
            ref.seq != first.seq
            or ref.section != first.section
            or ref.part != part + 1
            or ref.form != "full"
            or ref.number != 1
            or ref.args
        ):
            return 0
    return parts


def expand(parts: Sequence[Keep | Run], base: Sequence[Ref], known: Mapping[int, int]) -> list[Ref]:
    """The entries that a manifest says. Raises BadManifest when it names what is not there."""
    out: list[Ref] = []
    shown: list[int] | None = None
    for part in parts:
        if isinstance(part, Keep):
            if not 0 <= part.i <= part.j <= len(base):
                raise BadManifest(f"keep {part.i} to {part.j} of a base with {len(base)} entries")
            out.extend(base[part.i : part.j])
            continue
        if part.part:
            for seq in range(part.first, part.last + 1):
                out.append(Ref(part.section, seq, part.part, part.form, part.number, part.args))
            continue
        if shown is None:
            shown = sorted(known)
        covered = shown[bisect_left(shown, part.first) : bisect_right(shown, part.last)]
        if not covered or covered[0] != part.first or covered[-1] != part.last:
            raise BadManifest(f"a run from event {part.first} to {part.last}, not all shown")
        for seq in covered:
            for k in range(1, known[seq] + 1):
                out.append(Ref(part.section, seq, k, part.form, part.number, part.args))
    return out
