"""Loading: what of a channel stands in packets whole, what only by its place, what never.

One table, `LOADING`, a row for each channel (CONTRACTS S0-78). What every step needs is preloaded;
large files and logs are shown shortened, with the locator that `read_output` takes; of a handle
nothing comes in. How an item is shown is decided when it is offered, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, cast

import msgspec

from sawlog.builder.channels import CHANNELS, Channels
from sawlog.builder.compressing import LEAST
from sawlog.builder.item import Kind, Sensitivity
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import ConfigError, quoted
from sawlog.work.given import Span, span
from sawlog.work.showing import LEAST_LIMIT, shown

LIMIT = 16_384
"""Bytes that an item just in time is shown in, unless its row says otherwise."""


class Load(msgspec.Struct, frozen=True):
    """How the items of one channel come in: `when` is `preload`, `just_in_time` or `never`.

    Just in time, a text above `limit` bytes is shown in so many, by its ends or the lines around
    its first error (`as_`), and an item that is given no end holds for `ttl` microseconds (0: it
    has none).
    """

    when: Literal["preload", "just_in_time", "never"]
    limit: int = LIMIT
    as_: Literal["ends", "error"] = "ends"
    ttl: int = 0


def just_in_time(
    limit: int = LIMIT, *, as_: Literal["ends", "error"] = "ends", ttl: Span = 0
) -> Load:
    """A row for what is read when it is needed: shown in `limit` bytes, the whole by its locator.

    `as_="error"` shows the lines around the first error, as for logs. `ttl`, a timedelta or
    microseconds, is how long live state holds. Raises ConfigError for a limit with no room,
    InvalidItem (`not_a_time`) for no span of time.
    """
    if as_ not in ("ends", "error"):
        raise ConfigError(f"a long item is shown as ends or error, not as {quoted(as_)}")
    least = LEAST if as_ == "ends" else LEAST_LIMIT
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < least:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"limit={quoted(limit)} has no room for {as_}: give {least} bytes or more"
        )
    return Load("just_in_time", limit, as_, span(ttl, "ttl"))


_PRELOAD, _NEVER = Load("preload"), Load("never")
_WORDS = {"preload": _PRELOAD, "just_in_time": just_in_time(), "never": _NEVER}
_WHOLE_KINDS = (Kind.INSTRUCTION, Kind.TASK, Kind.TOOL_SCHEMA)

LOADING: Mapping[str, Load] = MappingProxyType(
    {
        "system": _PRELOAD,
        "developer": _PRELOAD,
        "repository_rule": _PRELOAD,
        "user_instruction": _PRELOAD,
        "user_request": _PRELOAD,
        "tool_schema": _PRELOAD,
        "verified_fact": _PRELOAD,
        "memory": _PRELOAD,
        "skill": _PRELOAD,
        "web_content": _PRELOAD,
        # Pieces and snapshots, which are bounded before they are offered.
        "retrieval": _PRELOAD,
        "handover": _PRELOAD,
        "session_reference": _PRELOAD,
        "hostile_fixture": _PRELOAD,
        "repository_file": just_in_time(),
        "tool_observation": just_in_time(as_="error"),
        "secret_fixture": _NEVER,
    }
)
"""The default. A channel of a caller's own is preloaded, and never if it is secret."""

Loadings = Mapping[str, Load | Literal["preload", "just_in_time", "never"]]
"""Rows of a caller's own, by channel: they stand in the place of the default's."""


def loading_for(rows: object, channels: Channels = CHANNELS) -> Mapping[str, Load]:
    """The table of a session: a row for each of its channels, the caller's rows before the default.

    Raises ConfigError for an unknown channel, for what is no row, for a secret that is to be
    loaded, and for an instruction, a task or a tool that is to be shown in part.
    """
    if not isinstance(rows, Mapping | None):
        raise ConfigError(
            f"loading says for channels how they are loaded, and a {type(rows).__name__} does "
            "not: give a dict such as {'memory': 'never'}"
        )
    given = cast("Mapping[object, object]", rows or {})
    unknown = [name for name in given if name not in channels]
    if unknown:
        raise ConfigError(
            f"loading names {quoted(unknown[0])}, which is no channel of this session: "
            f"{', '.join(sorted(channels))}"
        )
    table: dict[str, Load] = {}
    for name in channels:
        secret = channels[name].sensitivity == Sensitivity.SECRET
        row = _row(given[name], name) if name in given else LOADING.get(name, _PRELOAD)
        if secret and name not in given:
            row = _NEVER
        if secret and row.when != "never":
            raise ConfigError(
                f"the channel {quoted(name)} is secret: it is never loaded, so leave it out of "
                "loading"
            )
        if row.when == "just_in_time" and channels[name].kind in _WHOLE_KINDS:
            raise ConfigError(
                f"the channel {quoted(name)} brings what holds as a whole "
                f"({channels[name].kind!s}): preload it, or never load it"
            )
        table[name] = row
    return MappingProxyType(table)


def _row(given: object, name: str) -> Load:
    if isinstance(given, Load):
        return given
    row = _WORDS.get(given) if isinstance(given, str) else None
    if row is None:
        raise ConfigError(
            f"the channel {quoted(name)} is loaded as {', '.join(_WORDS)} or by what "
            f"sawlog.just_in_time gives, not as {quoted(given)}"
        )
    return row


def shortened(parts: Iterable[Part], row: Load) -> tuple[tuple[Part, ...], list[Blob]]:
    """The parts of an item as a row shows them, and the blobs that hold the whole texts."""
    out: list[Part] = []
    blobs: list[Blob] = []
    for part in parts:
        if isinstance(part, TextPart) and isinstance(part.text, str):
            short, held = shown(part.text, row.limit, row.as_, None)
            out.extend(short)
            blobs.extend(held)
        else:
            out.append(part)
    return tuple(out), blobs
