"""The part of a session that shortens its history, by hand or when it is due, and its notes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal, get_args

from sawlog.builder.packet import Header
from sawlog.builder.policy import Rules
from sawlog.store.content import TextPart
from sawlog.store.errors import ConfigError, InvalidEvent, NotCompacted, quoted
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import NoteClosed, NoteRecorded
from sawlog.store.events.world import ObservationRecorded
from sawlog.work.compacting import Compacted, Compactor, Prose, Route, Wanted
from sawlog.work.credentials import Credentials
from sawlog.work.given import texts
from sawlog.work.rewinding import Rewinding
from sawlog.work.summarisers import ModelProse, ProviderBlock
from sawlog.work.summarising import Provider
from sawlog.work.triggers import HOOK, Compaction, Hook, Triggers

NoteKind = Literal["constraint", "open", "next", "confirmed"]


class Shortening(Rewinding):
    """The part of a session that compacts. See `Session`."""

    _compactor: Compactor
    credentials: Credentials
    _compaction: Compaction | None
    _triggers: Triggers

    # --- notes ------------------------------------------------------------------------------------

    def note(self, kind: NoteKind, name: str, text: str, *, refs: Sequence[EventId] = ()) -> None:
        """Note what must outlive every compaction: a constraint, an open item, what comes next, or
        what is confirmed. The same name again takes the older one's place.

        `refs` are ids of events of this session that show it. Checkpoints carry it word for word
        until `settle` closes it. Raises InvalidEvent.
        """
        if kind not in get_args(NoteKind):
            known = ", ".join(get_args(NoteKind))
            raise InvalidEvent(f"there is no kind of note {quoted(kind)}: use {known}", path="kind")
        if not _is_name(name):
            raise InvalidEvent(
                f"{quoted(name)} names no note: 1 to 100 characters without spaces", path="name"
            )
        noted = NoteRecorded(kind, name, self._scrubbed(text), self._refs(refs))
        self._driver.append([self._driver.new(noted, "harness")])

    def settle(self, name: str, *, refs: Sequence[EventId] = (), reason: str = "") -> None:
        """Close a note: by which events of this session, and why. The next checkpoint says so,
        once. Raises InvalidEvent."""
        if not _is_name(name):
            raise InvalidEvent(f"{quoted(name)} names no note", path="name")
        closed = NoteClosed(name, self._refs(refs), self._scrubbed(reason))
        self._driver.append([self._driver.new(closed, "harness")])

    def _refs(self, given: Sequence[EventId]) -> tuple[EventId, ...]:
        """The ids of events of this session that a caller gives. Raises InvalidEvent."""
        refs = texts(given, "refs", _of_refs)
        for ref in refs:
            if self._read_by_id(ref) is None:
                raise _of_refs(
                    f"{quoted(ref)} is no event of this session: give the ids of events, 32 hex "
                    "digits each, as call.event_id is one"
                )
        return refs

    # --- compaction -------------------------------------------------------------------------------

    def compact(
        self,
        *,
        budget: int = 0,
        route: Route = "local",
        at: int | None = None,
        keep_user: int | None = None,
        trigger: str = "manual",
        summariser: Provider | None = None,
    ) -> Compacted:
        """Put a checkpoint in the place of the older history; durable when this returns.

        `budget` (units) is what the history may take after it, 0: as little as can be. `at` is the
        border up to which it gives way, as a place among the entries of the history. `keep_user`
        is what older messages of the user may go on taking. `summariser` is a model that writes the
        prose; without one the history's own words are taken. Raises NotCompacted with the reason
        when nothing gave way, and packets are as before; NotEntered without the lease.
        """
        compaction = self._compaction
        wanted = Wanted(trigger, route, budget, at, keep_user)
        summariser = summariser or (compaction.summariser if compaction is not None else None)
        done = self._compactor.compact(wanted, self._prose(route, summariser))
        for hook in compaction.hooks if compaction is not None else ():
            self._tell_hook(hook, done)
        return done

    def _prose(self, route: Route, summariser: Provider | None) -> Prose | None:
        """Who writes the prose. Raises ConfigError, before the log says that anything began."""
        if summariser is not None and route != "rules":
            if not isinstance(summariser, Provider):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"summariser {quoted(summariser)} is none: give a Provider")
            summariser.check()
        if route == "provider":
            if summariser is None:
                raise ConfigError(
                    "the route provider needs to know whom to ask: give summariser=Provider(…)"
                )
            return ProviderBlock(self._driver, summariser, scrub=self.credentials.scrub)
        if route == "rules" or summariser is None:
            return None
        return ModelProse(self._driver, summariser, scrub=self.credentials.scrub)

    def _tell_hook(self, hook: Hook, done: Compacted) -> None:
        said = hook(done)
        name = getattr(hook, "__name__", "hook")
        if said is not None and not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"the hook {quoted(name)} gives a text or None, not {type(said).__name__}"
            )
        if not said:
            return
        said = self.credentials.scrub(said)
        if len(said) > HOOK:
            said = f"{said[:HOOK]}\n[{len(said) - HOOK} characters more are left out]"
        source = f"hook:{name}" if _is_name(name) and name.isascii() else "hook:compaction"
        told = ObservationRecorded((TextPart(said),), name=name)
        self._driver.append([self._driver.new(told, source)])

    def _compact_when_due(self, rules: Rules, header: Header) -> None:
        """Compact in front of a step when it is due. Raises NotCompacted where no step could go
        out without: the same model refused the packet for its length."""
        compaction = self._compaction
        if compaction is None:
            return
        unasked = self._triggers.unasked()
        if unasked:
            self._compact_behind(unasked)
            return
        trigger, budget = self._triggers.due(compaction, rules)
        if not trigger:
            return
        try:
            self.compact(budget=budget, route=compaction.route, trigger=trigger)
        except NotCompacted:
            if trigger == "overflow" and self._triggers.went_to(header):
                raise
            self._triggers.gave_up(rules)

    def _compact_behind(self, seq: int) -> None:
        """Let go what a provider left behind when it compacted by itself, in the reply of event
        `seq`: its block stays in that reply, and code says what it stands for."""
        border = self._compactor.border_before(seq)
        with contextlib.suppress(NotCompacted):  # there is nothing in front of it
            self.compact(at=border, keep_user=0, route="rules", trigger="provider")


def _of_refs(message: str) -> InvalidEvent:
    """The error for what a note cites."""
    return InvalidEvent(message, path="refs")


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= 100
        and not any(c <= " " or c == "\x7f" for c in name)
    )
