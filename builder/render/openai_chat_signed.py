"""Chat Completions of servers that sign calls, such as Gemini's: `extra_content` beside a call.

What `openai-chat@1` renders, and the signature that stands behind a call in a reply goes back with
that call while its binding holds. The first call of a reply has one always: where it has none that
may be sent, the profile's placeholder stands for it.
"""

from __future__ import annotations

from sawlog.builder.packet import Entry
from sawlog.builder.render.beside import Placed
from sawlog.builder.render.openai_chat import OpenAIChat

_KIND = "call.extra_content"


class OpenAIChatSigned(OpenAIChat):
    """Renderer `openai-chat@2`."""

    signs = True

    _extras: dict[int, str]
    """The signatures of the reply at hand, by the place of their call."""
    _first = False
    """Whether the reply at hand has no call yet."""

    def _reply(self, group: list[Placed]) -> None:
        verdicts = self._verdicts(group)
        self._extras = {}
        self._first = True
        rest: list[Placed] = []
        call: int | None = None
        for at, entry in group:
            if entry.role == "call":
                call = at
            elif entry.part == "bound" and entry.bound == _KIND and not verdicts[at]:
                if call is not None and isinstance(self._ours(entry), dict):
                    self._extras[call] = entry.text
                    call = None
                    continue
            rest.append((at, entry))
        super()._reply(rest)

    def _call(self, at: int, entry: Entry) -> bytes:
        source = self._extras.get(at, "")
        if not source and self._first:
            self.write.note(at, "placeholder", "signature")
            source = self.profile.placeholder
        self._first = False
        data = super()._call(at, entry)
        return data[:-1] + b',"extra_content":' + source.encode() + b"}" if source else data
