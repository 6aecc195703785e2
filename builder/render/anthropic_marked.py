"""The Messages API of Anthropic, with cache marks: what `anthropic@1` renders, and the marks.

Which blocks have a mark says `sawlog.builder.render.marks`; the profile names the rule. A mark
stands on blocks of sawlog's own making alone: thinking, calls that the provider ran and parts of
the caller's go out as they came. Marks of the caller's beside them would be one too many.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.packet import Entry
from sawlog.builder.render.anthropic import Anthropic
from sawlog.builder.render.beside import Placed
from sawlog.builder.render.body import Body
from sawlog.builder.render.marks import BLOCK, PLACE, MarkedBody
from sawlog.builder.render.source import members
from sawlog.store.errors import ConfigError

_MEMBER = "cache_control"


class AnthropicMarked(Anthropic):
    """Renderer `anthropic@2`."""

    marks = True
    body: ClassVar[type[Body]] = MarkedBody

    def _head(self) -> bytes:
        head = super()._head()
        if self.profile.cache != "anthropic-rolling":
            raise ConfigError(
                f"the profile {self.profile.named} names no rule for cache marks, and the renderer "
                f"{self.header.renderer} sets them: use {self.api}@1"
            )
        self._own_marks(members(self.header.params), "the parameters")
        return head

    def _add(self, group: list[Placed]) -> None:
        super()._add(group)
        if group[0][1].section == "checkpoint" and isinstance(self._body, MarkedBody):
            self._body.fix()

    def _placed(self, block: bytes, *, markable: bool = True) -> bytes:
        return block[:-1] + PLACE + b"}" if markable else BLOCK + block

    def _offer(self, at: int, entry: Entry) -> None:
        self._own_marks(members(entry.text), f"the tool {entry.name!r}")
        super()._offer(at, entry)

    def _ours(self, entry: Entry) -> dict[str, str] | str:
        found = super()._ours(entry)
        if isinstance(found, dict):
            self._own_marks(found, "a part of the history")
        return found

    def _own_marks(self, found: dict[str, str] | None, what: str) -> None:
        if found is not None and _MEMBER in found:
            raise ConfigError(
                f"{what} has a {_MEMBER} of its own, and the API takes no more marks than sawlog "
                "sets: leave it out, or drop cache_marks"
            )
