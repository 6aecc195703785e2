"""The policy's block cut carried out: what stays is put together anew, behind a notice.

Where the cut falls is the policy's word (`block_cut`). Its notice stands in front of what stays and
counts what all cuts have left behind, so the notice of an earlier cut goes with what it stood for.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sawlog.builder.assembly import Assembly
from sawlog.builder.contents import Contents
from sawlog.builder.forms import show
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import CannotFit, Rules, block_cut
from sawlog.builder.state import Ref
from sawlog.builder.trace import Break, Verdict


class Shortened(msgspec.Struct, frozen=True):
    """A packet after a block cut: its assembly, a verdict for each entry that went, the break."""

    assembly: Assembly
    verdicts: tuple[Verdict, ...]
    broken: Break


def cut_to_fit(
    assembly: Assembly,
    at: int,
    rules: Rules,
    contents: Contents,
    otherwise: Callable[[Ref], tuple[Ref | None, str]] | None = None,
    *,
    deepest: bool = False,
) -> Shortened | CannotFit | None:
    """The packet without the history that has to go; None when all of it fits.

    `at` is the place of the first history entry. `otherwise` gives what stands in the place of an
    entry that stays: itself, another form of it, or nothing, and why. `deepest` leaves the last
    unit alone, whether that fits or not. Raises BlobMissing.
    """
    measure = measure_of(rules.measure)
    fixed = sum(assembly.units.between(0, at))
    history = assembly.entries.between(at, len(assembly.entries))
    sizes = assembly.units.between(at, len(assembly.units))
    earlier = _left_behind(assembly, at)
    notice = measure(show(_notice(len(history) + earlier), contents, None))
    refs = assembly.refs.between(at, len(assembly.refs))
    items = frozenset(place for place, ref in enumerate(refs) if ref.form == "item")
    cut = block_cut(history, sizes, fixed, notice, rules, items, deepest=deepest)
    if cut is None or isinstance(cut, CannotFit):
        return cut
    start = at + cut.at
    dropped = cut.dropped
    if earlier:
        dropped += earlier - 1  # the notice that goes counted these, and is no message itself
    gone = assembly.refs.between(at, start)
    units = sizes[: cut.at]
    bound = sum(entry.part == "bound" for entry in history[: cut.at])
    verdicts = [
        Verdict(ref.seq, part_of(ref), "budget", "dropped", "block_cut", size)
        for ref, size in zip(gone, units, strict=True)
    ]
    stay: list[Ref] = []
    for ref, size in zip(
        assembly.refs.between(start, len(assembly.refs)), sizes[cut.at :], strict=True
    ):
        other, why = (ref, "") if otherwise is None else otherwise(ref)
        if other is not None:
            stay.append(other)
        if other != ref:
            outcome = "dropped" if other is None else "selected"
            verdicts.append(Verdict(ref.seq, part_of(ref), "freshness", outcome, why, size))
    short = Assembly(measure)
    short.extend([*assembly.refs.between(0, at), _notice(dropped), *stay], contents)
    broken = Break("block_cut", at, len(gone), sum(units), bound)
    return Shortened(short, tuple(verdicts), broken)


def part_of(ref: Ref) -> int:
    """The part that a verdict on an entry names; 0 for a notice.

    A notice is told of its cause, which may be an item with a verdict of its own.
    """
    return 0 if ref.form == "stale" else ref.part


def _left_behind(assembly: Assembly, at: int) -> int:
    """Messages and results that an earlier cut left behind, by the notice that says so."""
    if len(assembly.refs) <= at or assembly.refs[at].form != "notice":
        return 0
    return int(dict(assembly.refs[at].args)["messages"])


def _notice(messages: int) -> Ref:
    """The entry that says that so many messages and results are no longer shown."""
    return Ref("history", 0, 1, "notice", 1, (("kind", "cut"), ("messages", str(messages))))
