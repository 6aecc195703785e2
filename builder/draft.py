"""A packet being filled: what is told around its history, what is cut, which items come in.

History first, then what is new of the world, then the cut that the window asks for, then items in
the room that is left. A cut may take a text that has to be told again, and an item that is needed
may ask for a deeper cut.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from sawlog.builder import around, freshness
from sawlog.builder.assembly import Assembly
from sawlog.builder.candidates import UNBOUNDED, Chosen, Known, choose
from sawlog.builder.contents import Contents
from sawlog.builder.cutting import cut_to_fit
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import CannotFit, Rules
from sawlog.builder.state import Ref, State
from sawlog.builder.trace import Break, Verdict
from sawlog.store.events.conversation import MessageSystem, MessageUser, ToolFinished
from sawlog.store.events.world import ObservationRecorded

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
    ) -> None:
        """`at` is the place of the first history entry of an assembly that holds all history."""
        self.assembly = assembly
        self.missing: tuple[str, ...] = ()
        self._state = state
        self._rules = rules.calibrated(state.per_mille)
        self._as_of = as_of
        self._contents = contents
        self._at = at
        self._verdicts = verdicts
        self._breaks = breaks

    def fill(self, known: Known, *, allow_missing: bool) -> Refusal | None:
        """Tell, cut and choose; gives the refusal when that makes no packet. Raises BlobMissing."""
        self._tell()
        if self._rules.budgeted and self.assembly.total > self._room:
            refused = self._cut(self._rules)
            if refused is not None:
                return refused
        chosen = self._choose(known)
        if chosen.short and self._rules.budgeted:
            # What is needed goes before what is old.
            refused = self._cut(replace(self._rules, window=self._rules.window - chosen.short))
            if refused is not None:
                return self._items_do_not_fit(chosen)
            chosen = self._choose(known)
            if chosen.short:
                return self._items_do_not_fit(chosen)
        if chosen.missing and not allow_missing:
            return Refusal(
                "needs_context",
                f"this step needs what no item gives: {', '.join(chosen.missing)}",
                chosen.missing,
            )
        self._take(chosen)
        return None

    @property
    def _room(self) -> int:
        return self._rules.window - self._rules.reserve

    def _tell(self) -> None:
        """Append what is new of the world, and notices."""
        if self._rules.selection is None:
            return
        told = around.news(self._state)
        self._extend([ref for ref, _, _ in told], [(stage, why) for _, stage, why in told])

    def _extend(self, refs: list[Ref], reasons: list[tuple[str, str]]) -> None:
        start = len(self.assembly.refs)
        self.assembly.extend(refs, self._contents)
        units = self.assembly.units.between(start, start + len(refs))
        self._verdicts.extend(
            # A notice is told of its cause, which may be an item with a verdict of its own.
            Verdict(ref.seq, ref.part * (ref.form != "stale"), stage, "selected", why, size)
            for ref, (stage, why), size in zip(refs, reasons, units, strict=True)
        )

    def _cut(self, rules: Rules) -> Refusal | None:
        """Cut so that the packet fits these rules; what that takes of the world is told again."""
        selects = rules.selection is not None
        otherwise = self._otherwise() if selects else None
        cut = cut_to_fit(self.assembly, self._at, rules, self._contents, otherwise)
        if isinstance(cut, CannotFit):
            return self._does_not_fit(cut)
        if cut is None:
            return None
        judged = {(one.seq, one.part) for one in cut.verdicts}
        self._verdicts[:] = [
            one
            for one in self._verdicts
            if one.outcome == "dropped" and (one.seq, one.part) not in judged
        ]
        self._verdicts.extend(cut.verdicts)
        self._breaks.append(cut.broken)
        self.assembly = cut.assembly
        end = len(self.assembly.refs)
        self._verdicts.extend(
            Verdict(ref.seq, ref.part, "history", "selected", "stays", size)
            for ref, size in zip(
                self.assembly.refs.between(self._at, end),
                self.assembly.units.between(self._at, end),
                strict=True,
            )
            if (ref.seq, ref.part) not in judged
        )
        if selects:
            self._state = around.shown(self._state, self.assembly.refs[:], grown=False)
            self._tell()
            if self.assembly.total > self._room:
                fixed = sum(self.assembly.units.between(0, self._at))
                last = self.assembly.total - fixed
                return self._does_not_fit(CannotFit(fixed, rules.reserve, rules.window, last))
        return None

    def _choose(self, known: Known) -> Chosen:
        policy = self._rules.selection
        if policy is None:
            return Chosen()
        room = self._room - self.assembly.total if self._rules.budgeted else UNBOUNDED
        measure = measure_of(self._rules.measure)
        return choose(self._state, policy, room, self._as_of, self._contents, measure, known)

    def _take(self, chosen: Chosen) -> None:
        notices = list(chosen.notices)
        self._extend([ref for ref, _ in notices], [("freshness", why) for _, why in notices])
        self.assembly.extend(chosen.refs, self._contents)
        self._verdicts.extend(chosen.verdicts)
        self.missing = chosen.missing
        if chosen.missing:
            names = tuple(("name", name) for name in chosen.missing)
            ref = Ref("history", 0, 1, "missing", 1, names)
            said = [one for one in self.assembly.refs if one.form == "missing"]
            if not said or said[-1] != ref:
                self._extend([ref], [("completeness", "missing")])

    # --- what stands in the place of what is out of date ------------------------------------------

    def _otherwise(self) -> _Otherwise:
        return _Otherwise(freshness.stale_paths(self._state), self._state, self._contents)

    # --- refusals ---------------------------------------------------------------------------------

    def _does_not_fit(self, cut: CannotFit) -> Refusal:
        return Refusal(
            "cannot_fit",
            f"the last unit takes {cut.last} units and the header {cut.fixed}; the window has "
            f"{self._rules.window}, of which {self._rules.reserve} are kept for the reply",
            WAYS_ON,
        )

    def _items_do_not_fit(self, chosen: Chosen) -> Refusal:
        fixed = sum(self.assembly.units.between(0, self._at))
        return Refusal(
            "cannot_fit",
            f"what this step needs takes {chosen.short} units more than fit; the header takes "
            f"{fixed}, the window has {self._rules.window}, of which {self._rules.reserve} are "
            "kept for the reply",
            (*chosen.missing, *WAYS_ON),
        )


class _Otherwise(msgspec.Struct, frozen=True):
    """What stands in the place of an entry that stays behind a cut.

    Text of a file that is out of date gives way to a stub, an item to nothing, and what was meant
    for one step only to nothing.
    """

    paths: dict[int, str]
    state: State
    contents: Contents

    def __call__(self, ref: Ref) -> Ref | None:
        if ref.section != "history" or not ref.seq:
            return ref
        path = self.paths.get(ref.seq)
        if path is not None and ref.form == "item":
            return None
        if path is not None and ref.form in ("full", "preview"):
            content = self.contents.event(ref.seq).content
            if isinstance(content, ToolFinished | ObservationRecorded):
                if ref.part > 1:
                    return None
                return Ref("history", ref.seq, 1, "outdated", 1, (("path", path),))
        if ref.form in ("full", "preview") and ref.seq <= self.state.sent_at:
            content = self.contents.event(ref.seq).content
            if isinstance(content, MessageUser | MessageSystem | ObservationRecorded):
                return None if content.once else ref
        return ref
