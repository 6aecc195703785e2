"""The half of a child session that hands over to its parent.

What the child reads, tries and says stays in its log. Its parent gets one hand-over, checked and
bounded, and nothing else (CONTRACTS S1-29).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sawlog.builder.item import is_blank
from sawlog.store.errors import ConfigError, Conflict, InvalidItem, quoted
from sawlog.store.events.world import Saw
from sawlog.work.isolating import Isolating
from sawlog.work.tools import own_tool

CHANNEL = "handover"

_LOCATOR = re.compile("sha256:([0-9a-f]{64})")
_EVENT = re.compile("[0-9a-f]{32}")
_LINES = re.compile("(.+?):[0-9]{1,9}(?:-[0-9]{1,9})?")


class Handing(Isolating):
    """What a child session has beside all that a session has. See `Session.child`."""

    _parent: Isolating
    _label: str
    _required_for: tuple[str, ...]

    @property
    def handed_over(self) -> bool:
        """True when the parent has this child's hand-over: there is nothing left to do."""
        return self._parent._knows(self._key)

    @property
    def _key(self) -> str:
        return f"handover {self._driver.row.id.hex()}"

    @own_tool
    def hand_over(
        self,
        result: str,
        evidence: list[str] | None = None,
        open_questions: list[str] | None = None,
    ) -> str:
        """Hand over what you found, once, at the end: the result, the evidence for it (a sha256:…
        that you were shown, or a file that you read, with its lines, as in a.py:3-9), and the
        questions that you leave open.

        For the caller's own code, or a tool for the child's model, which may be called again and
        needs no approval: `c.tools([..., c.hand_over])`.
        Raises InvalidItem: `invalid_handover`, naming each fault and the evidence that this
        session's log does not hold; `handed_over_already` for a second, other hand-over.
        """
        self._hand_over(result, evidence or (), open_questions or ())
        return "handed over"

    def _hand_over(
        self, result: str, evidence: Iterable[str], open_questions: Iterable[str]
    ) -> None:
        from sawlog.work.handover import checked  # pydantic is loaded when the first one is checked

        handed = checked(result, evidence, open_questions)
        saw = [one for ref in handed.evidence for one in self._evidence(ref)]
        try:
            self._parent.offer(
                handed.text,
                channel=CHANNEL,
                source_id=self._label,
                title=f"hand-over of {self._label}",
                locator=f"session:{self._driver.row.id.hex()}",
                required_for=self._required_for,
                saw=tuple(dict.fromkeys(saw)),
                key=self._key,
                **self._parent._scope(),
            )
        except Conflict:
            if not self.handed_over:
                raise
            # A model that hands over again is to read why not: this is no fault of its agent.
            raise InvalidItem(
                "handed_over_already", "the result was handed over already, and that one counts"
            ) from None

    def _evidence(self, ref: str) -> list[Saw]:
        """The file that a piece of evidence is of; the child's log holds it, or InvalidItem."""
        if found := _LOCATOR.fullmatch(ref):
            if self._log.blob(self._driver.row, bytes.fromhex(found[1])) is not None:
                return []
        elif _EVENT.fullmatch(ref):
            if self._event(bytes.fromhex(ref)) is not None:
                return []
        else:
            lines = _LINES.fullmatch(ref)
            files = self._driver.catch_up().files
            for path in dict.fromkeys((ref, lines[1] if lines else ref)):
                file = files.get(path)
                if file is not None:
                    return [] if file.absent else [Saw(path, version=file.version)]
        raise InvalidItem(
            "invalid_handover",
            f"{quoted(ref)} is no evidence: name a sha256:… of this session, one of its events, or "
            "a file that it saw",
        )


def checked_label(name: str) -> str:
    """The name of a child. Raises ConfigError for one that is blank or leads elsewhere."""
    if is_blank(name) or "/" in name:
        raise ConfigError(
            f"{quoted(name)} is no name of a child: give a plain one, without a slash"
        )
    return name
