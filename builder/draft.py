"""A packet being filled: what is told around its history, what is cut, which items come in.

History first, then what is new of the world, then the cut that the window asks for, then items in
the room that is left. A cut may take a text that has to be told again, and an item that is needed
may ask for a deeper cut.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from sawlog.builder import around
from sawlog.builder.assembly import Assembly
from sawlog.builder.behind import Behind
from sawlog.builder.candidates import Known
from sawlog.builder.chosen import UNBOUNDED, Chosen, choose
from sawlog.builder.contents import Contents
from sawlog.builder.cutting import cut_to_fit, part_of
from sawlog.builder.forms import show
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import CannotFit, Rules
from sawlog.builder.selection.policy import Policy
from sawlog.builder.state import Ref, State
from sawlog.builder.trace import Break, Verdict
from sawlog.builder.vec import Vec
from sawlog.store.errors import InvalidItem

WAYS_ON = (
    "a larger window",
    "a smaller reserve",
    "smaller steps",
    "a summary with a locator",
    "shorter tool results",
    "a hand-over to a session of its own",
    "a question to the user",
)
"""What can be done about a window that is too small."""


FILL_TO = (4, 5)
"""After a cut, items that may come in fill at most this share of the history zone: 80 %."""


SPARING = 64
"""Choices that are tried in ever less room before a step is refused for what it lacks."""


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no packet, and what is needed.

    `reason` is `blocked`, `awaiting_approval`, `needs_context`, `cannot_fit`, `missing_blob` or
    `nothing_to_send`.
    """

    reason: str
    message: str
    needs: tuple[str, ...] = ()


class Draft:
    """One packet while it is filled; `fill` leaves assembly, verdicts, breaks and missing."""

    def __init__(
        self,
        state: State,
        rules: Rules,
        as_of: int,
        contents: Contents,
        at: int,
        assembly: Assembly,
        verdicts: list[Verdict],
        breaks: list[Break],
        shown: State | None = None,
    ) -> None:
        """`at` is the place of the first history entry of an assembly that holds all history.

        `shown` is the state in which that assembly stands in the packet, where a cut of the log
        changed what it shows.
        """
        self.assembly = assembly
        self.missing: tuple[str, ...] = ()
        self._out: tuple[str, ...] = ()
        self._start = state
        self._state = shown or state
        self._rules = rules.calibrated(state.per_mille)
        self._as_of = as_of
        self._contents = contents
        self._at = at
        self._verdicts = verdicts
        self._breaks = breaks
        self._broken = len(breaks)
        self._measure = measure_of(rules.measure)

    def fill(self, known: Known, *, allow_missing: bool) -> Refusal | None:
        """Tell, cut and choose; gives the refusal when that makes no packet. Raises BlobMissing."""
        self._tell()
        self._whole = self.assembly
        self._said = tuple(self._verdicts)
        spare = 0
        deepest = False
        lacks: Refusal | None = None
        over: Refusal | None = None
        while True:
            refused = self._fitted(spare, deepest=deepest)
            if refused is None:
                chosen = self._choose(known)
                if isinstance(chosen, Refusal):
                    return chosen
                wanted = self._wanted(chosen)
                if not wanted:
                    if deepest and not allow_missing:
                        chosen = self._sparing(known, chosen)
                    if allow_missing or not chosen.missing:
                        self._take(chosen)
                        return None
                    lacks = refused = _needs_context(chosen)
                else:
                    over = refused = self._items_do_not_fit(wanted)
                    if not deepest and wanted > spare:
                        # What is needed goes before what is old.
                        spare = wanted
                        continue
            if deepest or not self._rules.budgeted or self._rules.selection is None:
                return lacks or over or refused
            # What is asked for behind a shallow cut may be more than is needed behind the deepest:
            # no larger window is refused what a smaller one gets.
            deepest = True

    @property
    def _room(self) -> int:
        return self._rules.window - self._rules.reserve

    @property
    def _left(self) -> int:
        """Units that are left behind what is there."""
        return self._room - self.assembly.total if self._rules.budgeted else UNBOUNDED

    # --- what is told ----------------------------------------------------------------------------

    def _tell(self) -> int:
        """Append what is new of the world, and notices; gives what that takes."""
        if self._rules.selection is None:
            return 0
        told = [one for one in around.news(self._state) if self._says_something(one[0])]
        before = self.assembly.total
        self._extend([ref for ref, _, _ in told], [(stage, why) for _, stage, why in told])
        return self.assembly.total - before

    def _says_something(self, ref: Ref) -> bool:
        # Two sources of one value differ, and nothing is to be told of that.
        return ref.form != "world" or bool(show(ref, self._contents, None).text)

    def _extend(self, refs: list[Ref], reasons: list[tuple[str, str]]) -> None:
        start = len(self.assembly.refs)
        self.assembly.extend(refs, self._contents)
        units = self.assembly.units.between(start, start + len(refs))
        self._judge(
            Verdict(ref.seq, part_of(ref), stage, "selected", why, size)
            for ref, (stage, why), size in zip(refs, reasons, units, strict=True)
        )

    def _judge(self, verdicts: Iterable[Verdict], *, items: bool = False) -> None:
        """Add verdicts, in the place of those of a cut on the same parts, or on whole items."""
        new = list(verdicts)
        parts = {(one.seq, one.part) for one in new}
        whole = {one.seq for one in new} if items else set[int]()
        self._verdicts[:] = [
            one
            for one in self._verdicts
            if one.outcome != "dropped"
            or ((one.seq, one.part) not in parts and not (one.part and one.seq in whole))
        ]
        self._verdicts.extend(new)

    # --- what is cut -----------------------------------------------------------------------------

    def _fitted(self, spare: int, *, deepest: bool) -> Refusal | None:
        """Cut where the window leaves less than `spare` units behind the history.

        What a cut takes of the world is told again, which may ask for a deeper cut. The deepest
        leaves the last unit alone.
        """
        if deepest:
            cut = self._cut(0, deepest=True)
            return cut if isinstance(cut, Refusal) else self._too_much()
        if not self._rules.budgeted or self._whole.total + spare <= self._room:
            return None
        again = 0
        while True:
            cut = self._cut(spare + again)
            if isinstance(cut, Refusal):
                return cut
            if self.assembly.total + spare <= self._room:
                return None
            if cut <= again:
                return self._too_much(spare)
            again = cut

    def _too_much(self, spare: int = 0) -> Refusal | None:
        if self.assembly.total + spare <= self._room:
            return None
        fixed = sum(self.assembly.units.between(0, self._at))
        return self._does_not_fit(CannotFit(fixed, 0, 0, self.assembly.total - fixed))

    def _cut(self, spare: int, *, deepest: bool = False) -> Refusal | int:
        """Cut all that there was so that `spare` units are left; gives what is told again."""
        rules = replace(self._rules, window=self._rules.window - spare)
        selects = rules.selection is not None
        otherwise = Behind.of(self._start, self._contents) if selects else None
        cut = cut_to_fit(self._whole, self._at, rules, self._contents, otherwise, deepest=deepest)
        if isinstance(cut, CannotFit):
            return self._does_not_fit(cut)
        assert cut is not None, "a cut is asked for where all of it does not fit"
        judged = {(one.seq, one.part) for one in cut.verdicts}
        self._verdicts[:] = [
            one
            for one in self._said
            if one.outcome == "dropped" and (one.seq, one.part) not in judged
        ]
        self._verdicts.extend(cut.verdicts)
        self._breaks[self._broken :] = [cut.broken]
        self.assembly = cut.assembly
        end = len(self.assembly.refs)
        self._verdicts.extend(
            Verdict(ref.seq, part_of(ref), "history", "selected", "stays", size)
            for ref, size in zip(
                self.assembly.refs.between(self._at, end),
                self.assembly.units.between(self._at, end),
                strict=True,
            )
            if (ref.seq, part_of(ref)) not in judged
        )
        if not selects:
            return 0
        # The news are among these refs, or were cut with the rest.
        settled = replace(self._start, news=Vec())
        self._state = around.shown(settled, self.assembly.refs[:], grown=False)
        return self._tell()

    # --- which items come in ---------------------------------------------------------------------

    def _choose(self, known: Known) -> Chosen | Refusal:
        policy = self._rules.selection
        if policy is None:
            return Chosen()
        cut = len(self._breaks) > self._broken

        def weigh(room: int) -> Chosen:
            return self._weigh(policy, known, room)

        try:
            chosen = weigh(self._left)
            self._out = chosen.missing
            behind = self._behind(chosen)
            # Notices and what is missing are said first: less is left for what may come in. After
            # a cut that leaves room to grow, or the next step would have to cut again.
            room = min(self._left, self._room_after_a_cut if cut else UNBOUNDED) - behind
            if chosen.short or chosen.units > max(room, chosen.needed):
                chosen = weigh(max(room, chosen.needed))
            if chosen.units > chosen.needed and chosen.units + self._behind(chosen) > self._left:
                chosen = weigh(chosen.needed)
        except InvalidItem as error:
            return Refusal("blocked", str(error), (f"a task without {error.code}",))
        return chosen

    def _weigh(self, policy: Policy, known: Known, room: int) -> Chosen:
        return choose(
            self._state, policy, room, self._as_of, self._contents, self._measure, known,
            afresh=bool(self._breaks),
        )  # fmt: skip

    def _sparing(self, known: Known, chosen: Chosen) -> Chosen:
        """A choice in less room that lacks nothing, if there is one near; else the same choice.

        In more room a text comes in that takes the place of what a topic is told by.
        """
        policy = self._rules.selection
        assert policy is not None, "a policy without stages lacks nothing"
        if not chosen.missing:
            return chosen
        less = self._weigh(policy, known, self._left)
        for _ in range(SPARING):
            if not less.missing or less.units <= less.needed:
                break
            less = self._weigh(policy, known, max(less.units - 1, less.needed))
        return chosen if less.missing or self._wanted(less) else less

    @property
    def _room_after_a_cut(self) -> int:
        part, whole = FILL_TO
        fixed = sum(self.assembly.units.between(0, self._at))
        return fixed + (self._room - fixed) * part // whole - self.assembly.total

    def _wanted(self, chosen: Chosen) -> int:
        """Units that are to be left behind the history for what was chosen; 0 when they are."""
        units = chosen.units + chosen.short + self._behind(chosen)
        return units if chosen.short or units > self._left else 0

    def _behind(self, chosen: Chosen) -> int:
        """Units of what is said beside the items: notices, and what is missing."""
        refs = [*(ref for ref, _ in chosen.notices), *self._wanting(chosen.missing)]
        return sum(self._measure(show(ref, self._contents, None)) for ref in refs)

    def _wanting(self, missing: tuple[str, ...]) -> list[Ref]:
        """The entry that says what is missing, unless the newest one of its kind says just that."""
        if not missing:
            return []
        names = tuple(("name", name) for name in missing)
        ref = Ref("history", 0, 1, "missing", 1, names)
        refs = self.assembly.refs
        said = next((one for one in reversed(refs) if one.form == "missing"), None)
        return [] if said == ref else [ref]

    def _take(self, chosen: Chosen) -> None:
        notices = list(chosen.notices)
        wanting = self._wanting(chosen.missing)
        self._extend([ref for ref, _ in notices], [("freshness", why) for _, why in notices])
        self.assembly.extend(chosen.refs, self._contents)
        self._judge(chosen.verdicts, items=True)
        self._extend(wanting, [("completeness", "missing")] * len(wanting))
        self.missing = chosen.missing

    # --- refusals ---------------------------------------------------------------------------------

    def _does_not_fit(self, cut: CannotFit) -> Refusal:
        return Refusal(
            "cannot_fit",
            f"the last unit takes {cut.last} units and the header {cut.fixed}; the window has "
            f"{self._rules.window}, of which {self._rules.reserve} are kept for the reply",
            WAYS_ON,
        )

    def _items_do_not_fit(self, wanted: int) -> Refusal:
        fixed = sum(self.assembly.units.between(0, self._at))
        more = wanted - self._left
        return Refusal(
            "cannot_fit",
            f"what this step needs takes {more} units more than fit; the header takes "
            f"{fixed}, the window has {self._rules.window}, of which {self._rules.reserve} are "
            "kept for the reply",
            (*self._out, *WAYS_ON),
        )


def _needs_context(chosen: Chosen) -> Refusal:
    return Refusal(
        "needs_context",
        f"this step needs what no item gives: {', '.join(chosen.missing)}",
        chosen.missing,
    )
