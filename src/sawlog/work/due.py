"""When a session compacts by itself, and how: what a caller says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from sawlog.store.errors import ConfigError, quoted
from sawlog.work.compacting import Compacted
from sawlog.work.summarising import Provider

Route = Literal["rules", "local", "provider"]
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
    history itself. `hooks` are asked after each compaction; what they
    return is told to the model, at most 4,000 characters each.
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
        if self.route not in get_args(Route):
            raise ConfigError(f"there is no route {quoted(self.route)}: use rules, local, provider")
        if self.route == "provider" and self.summariser is None:
            raise ConfigError(
                "the route provider needs to know whom to ask: give summariser=Provider(…)"
            )
