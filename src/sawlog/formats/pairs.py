"""Which call a foreign result answers: by id, the nearest one before it that waits.

Ids repeat in real files, so a dictionary of ids would give a result to the wrong call.
"""

from __future__ import annotations

import msgspec

from sawlog.store.events.conversation import ToolFinished


class _Call(msgspec.Struct, frozen=True):
    event: str
    step: int


class Pairs:
    """The calls of one session as read so far."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Call]] = {}
        self._answered: dict[str, _Call] = {}

    def asked(self, call_id: str, event: bytes, step: int) -> None:
        """Take in a call: the id of its event and its step."""
        self._waiting.setdefault(call_id, []).append(_Call(event.hex(), step))

    def answered(self, result: ToolFinished) -> tuple[ToolFinished, int, str]:
        """The result with its call named, the call's step, and what is odd about it.

        A second result names the call that has one already. One without a call names none and
        has step 0.
        """
        call_id = str(result.call_id)
        waiting = self._waiting.get(call_id)
        odd = ""
        if waiting:
            call = self._answered[call_id] = waiting.pop()
        elif call_id in self._answered:
            call = self._answered[call_id]
            odd = f"a second result for call {call_id}"
        else:
            return result, 0, f"a result for call {call_id!r}, which was not made before it"
        return msgspec.structs.replace(result, call=call.event), call.step, odd
