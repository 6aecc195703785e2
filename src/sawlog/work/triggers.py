"""When a session compacts by itself: what a caller says of it, and whether it is due.

That is asked in front of each step, and answered from what is at hand. What is counted is the
packet that would go out. A compaction that brought little, or none, is not tried again at each
step, but once the packet has grown.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sawlog.builder.arrange import Arrangement
from sawlog.builder.forms import show
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Header
from sawlog.builder.policy import Rules
from sawlog.builder.state import Ref
from sawlog.compaction.blocks import block_of
from sawlog.store.errors import ConfigError, quoted
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageAssistant
from sawlog.store.events.steps import AttemptRefused, PacketBuilt
from sawlog.work.compacting import Compacted, Route, check_route
from sawlog.work.driver import Driver
from sawlog.work.summarising import Provider

Hook = Callable[[Compacted], "str | None"]
"""Is asked after a compaction; what it returns is told to the model."""

HOOK = 4_000
"""Characters of what a hook returns that are kept."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """When a session compacts by itself, and how.

    `at` is the share of the window, per mille, from which on the next step compacts first (0:
    never); `steps` the number of steps after which it does (0: never); `overflow`: when the
    provider refused a request for its length. `route` is `rules` (code alone), `local` (a
    summariser writes prose) or `provider`; `summariser` is a model, None takes the prose from the
    history itself. `hooks` are asked after each compaction; what they return is told to the model,
    at most 4,000 characters each.
    """

    at: int = 0
    steps: int = 0
    overflow: bool = True
    route: Route = "local"
    hooks: tuple[Hook, ...] = ()
    summariser: Provider | None = None

    def check(self) -> None:
        """Raise ConfigError, naming the field, for what means nothing."""
        for name, value, most in (("at", self.at, 1000), ("steps", self.steps, 2**31)):
            if type(value) is not int or not 0 <= value <= most:
                raise ConfigError(
                    f"compaction {name}={quoted(value)}: give a whole number from 0 to {most}"
                )
        if type(self.overflow) is not bool:
            raise ConfigError(f"compaction overflow={quoted(self.overflow)}: give True or False")
        if not isinstance(self.hooks, tuple) or not all(map(callable, self.hooks)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError("compaction hooks: give a tuple of functions")
        if not isinstance(self.summariser, Provider | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{quoted(self.summariser)} is no summariser: give a Provider")
        check_route(self.route)
        if self.route == "provider" and self.summariser is None:
            raise ConfigError(
                "the route provider needs to know whom to ask: give summariser=Provider(…)"
            )


class _Since(msgspec.Struct, frozen=True):
    """What is counted from: the steps until the checkpoint of that seq, or until a compaction that
    failed, and the units of the first packet behind it; -1: there is none yet."""

    checkpoint: int
    step: int = 0
    units: int = -1


class Triggers:
    """Says of one driver's session whether a compaction is due, and by which trigger."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._since = _Since(0)
        self._looked = (0, 0)
        """The newest packet, and up to which event behind it no refusal was found."""

    def due(self, compaction: Compaction, rules: Rules) -> tuple[str, int]:
        """The trigger that asks for a compaction now, and the units that the history may take
        after it; an empty trigger: none does."""
        state = self._driver.load()
        if state.checkpoint > state.sent_at or not state.sent_at:
            return "", 0
        packet = self._driver.window.event(state.sent_at)
        if not isinstance(packet.content, PacketBuilt):
            return "", 0
        counts = dict(packet.content.counts)
        taken, fixed = sum(counts.values()), counts.get("fixed", 0)
        if compaction.overflow and self._overflowed(state.sent_at, state.seq):
            return "overflow", max(1, (taken - fixed) // 2)
        since = self._counted_from(packet, taken)
        calibrated = rules.calibrated(state.per_mille)
        room = calibrated.window - calibrated.reserve
        if compaction.at and calibrated.window:
            taken += self._news_units(rules)
            share = room * compaction.at // 1000
            if taken >= max(share, _again(since.units, share, room)):
                return "ratio", max(1, room - fixed)
        if compaction.steps and state.step - since.step >= compaction.steps:
            return "steps", max(1, room - fixed) if calibrated.window else 0
        return "", 0

    def unasked(self) -> int:
        """The seq of a reply since the newest packet in which the provider compacted by itself (0:
        none): what stands before it, the provider does not read any more."""
        for one in self._driver.load().news:
            if one.kind != "message.assistant":
                continue
            content = self._driver.window.event(one.seq).content
            if isinstance(content, MessageAssistant) and block_of(content.parts) is not None:
                return one.seq
        return 0

    def went_to(self, header: Header) -> bool:
        """True when the newest packet was built for the same model behind the same API."""
        packet = self._driver.window.event(self._driver.load().sent_at).content
        if not isinstance(packet, PacketBuilt):
            return False
        return (packet.api, packet.model) == (header.api, header.model)

    def gave_up(self, rules: Rules) -> None:
        """Count anew: a compaction that was due left packets as they were.

        The policy's own cut still bounds the packet.
        """
        state = self._driver.load()
        packet = self._driver.window.event(state.sent_at).content
        taken = sum(dict(packet.counts).values()) if isinstance(packet, PacketBuilt) else 0
        taken += self._news_units(rules)
        self._since = _Since(state.checkpoint, state.step, taken)

    def _counted_from(self, packet: Event, taken: int) -> _Since:
        checkpoint = self._driver.load().checkpoint
        if self._since.checkpoint != checkpoint:
            # The first packet behind the checkpoint: this one, unless others made some since.
            for event in self._driver.events(checkpoint + 1, packet.seq):
                if isinstance(event.content, PacketBuilt):
                    taken = sum(dict(event.content.counts).values())
                    self._since = _Since(checkpoint, event.step - 1, taken)
                    break
        return self._since

    def _overflowed(self, sent_at: int, head: int) -> bool:
        """True when the newest packet was refused for its length."""
        at, upto = self._looked
        for seq in range(upto + 1 if at == sent_at else sent_at + 1, head + 1):
            content = self._driver.window.event(seq).content
            if isinstance(content, AttemptRefused) and content.kind == "context_overflow":
                return True
            self._looked = sent_at, seq
        return False

    def _news_units(self, rules: Rules) -> int:
        """What the next packet would show behind the newest one."""
        measure = measure_of(rules.measure)
        refs: list[Ref] = []
        for unit in Arrangement().entries(self._driver.load()):
            refs.extend(unit)
        total = 0
        before = None
        for ref in refs:
            before = show(ref, self._driver.window, before)
            total += measure(before)
        return total


def _again(units: int, share: int, room: int) -> int:
    """Units from which on it is tried again after a compaction that left so many (-1: none was).

    Where it did not come below the share, when half of the room that is left is taken.
    """
    if units < 0:
        return 0
    left = max(0, room - units) // 2
    return units + (left if units >= share else min(left, room // 8))
