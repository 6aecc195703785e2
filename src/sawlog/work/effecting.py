"""Effects inside a tool run: each is in the log before it acts, and what became of it after.

A call has one start and one result. A run that does several things says each of them, so that the
next run of the same call does again only what is known not to have been done.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from msgspec.structs import replace

from sawlog.builder import effects
from sawlog.builder.contents import text_of
from sawlog.builder.effects import (
    CLASSES,
    DONE,
    FAILED,
    NOT_DONE,
    SIDE_EFFECT,
    UNKNOWN,
    Effect,
    Effects,
)
from sawlog.builder.state import Waiting
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict, EffectUnknown, ToolError, quoted
from sawlog.store.events.base import Payload
from sawlog.store.events.effects import EffectIntended, EffectSettled
from sawlog.work.call import Call
from sawlog.work.driver import Driver

_LONGEST = 200
"""Characters of an effect's name."""


class EffectLog:
    """The effects of one driver's session: read from its log, and written to it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._first = 0
        self._known: Effects | None = None

    def known(self, since: int) -> Effects:
        """What the log says of the effects that were tried at or after that seq."""
        driver = self._driver
        with driver.lock:
            if self._known is None or since < self._first:
                self._first, self._known = since, Effects(seq=since - 1)
            self._known = effects.read(driver.events(self._known.seq), self._known)
            return self._known

    def start_of(self, waiting: Waiting) -> Effect | None:
        """The effect that an open call's own start is; None when the log holds no start of it."""
        return self.known(waiting.seq).starts.get(waiting.id)

    def intend(self, call: Call, waiting: Waiting, name: str, effect: str, what: str) -> Effect:
        """Say that a run of this call is about to do an effect; durable when this returns.

        Gives it as it is then known: one that is done already is not said again. Raises
        EffectUnknown when it was tried before, may have acted, and is none that may be repeated.
        """
        _check(name, effect)
        key = key_of(call, name)
        driver = self._driver
        with driver.lock:
            while True:
                driver.drives("an effect")
                if not waiting.started:
                    raise ToolError(
                        f"the call {call.event_id} was not started, so that it has no effects yet: "
                        "enter its run first, as in with s.tool(call) as run"
                    )
                state = driver.load()
                old = self.known(waiting.seq).inside.get(key)
                if old is not None and old.state == DONE:
                    return replace(old, receipt=text_of(old.receipt, driver.window))
                if old is not None and old.state == UNKNOWN and SIDE_EFFECT in (old.effect, effect):
                    raise EffectUnknown(
                        f"the effect {quoted(name)} of the call {call.event_id} was tried before, "
                        "and nobody knows whether it was done: find out, and say it with "
                        f"s.reconcile({key!r}, 'done') or 'not_done'",
                        key=key,
                    )
                said = EffectIntended(key, call.event_id, effect, what)
                try:
                    seqs = driver.append([self._new(call, said)], expected_seq=state.seq)
                except Conflict:
                    driver.catch_up()  # what came may be a word on this very effect
                    continue
                return Effect(key, call.event_id, effect, seqs[-1], seqs[-1], call.step, what=what)

    def settle(self, call: Call, key: str, outcome: str, receipt: str) -> None:
        """Say what became of an effect."""
        self._driver.append([self._new(call, EffectSettled(key, outcome, receipt))])

    def _new(self, call: Call, payload: Payload) -> NewEvent:
        return self._driver.new(payload, "harness", step=call.step)


def may_repeat(start: Effect | None, effect: str) -> bool:
    """True when a call that was started so may be run once more, as of this class, by anybody.

    `start` is None where the log holds no start of it: the result of an import that left.
    """
    if start is None:
        return effect != SIDE_EFFECT
    return start.state == NOT_DONE or SIDE_EFFECT not in (start.effect, effect)


def key_of(call: Call, name: str) -> str:
    """The key of an effect: the same each time this call is run."""
    return f"{call.event_id}:{name}"


def _check(name: object, effect: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        raise ToolError(
            f"{quoted(name)} is no name of an effect: give a text of 1 to {_LONGEST} characters "
            "that is the same each time, such as 'charge'"
        )
    if effect not in CLASSES[1:]:
        raise ToolError(
            f"{quoted(effect)} is no class of an effect: it is one of {', '.join(CLASSES[1:])}"
        )


class KeepsEffects(Protocol):
    """What a run's effect needs of its session."""

    def intended(self, call: Call, name: str, effect: str, what: str) -> Effect:
        """Say that it is about to be done."""
        ...

    def settled(self, call: Call, key: str, outcome: str, receipt: str) -> None:
        """Say what became of it."""
        ...


class RunEffect:
    """One effect of a tool run; a context manager. Made by `ToolRun.effect`.

    Entering it says in the log that it is about to be done. Leaving it says that it was, with the
    receipt given to `settle`; with an exception nothing is said, for nobody knows: then it is
    unknown until a run that may repeat it, or `s.reconcile`, says more.
    """

    def __init__(
        self, session: KeepsEffects, call: Call, name: str, effect: str, what: str
    ) -> None:
        self._session = session
        self._call = call
        self._name = name
        self._effect = effect
        self._what = what
        self._found: Effect | None = None
        self._outcome = ""
        self._receipt = ""

    @property
    def key(self) -> str:
        """A key for the other side to do it once: the same each time this call is run."""
        return key_of(self._call, self._name)

    @property
    def needed(self) -> bool:
        """True when it has to be done; False when an earlier run did it, or somebody said so."""
        return self._found is None or self._found.state != DONE

    @property
    def receipt(self) -> str:
        """What the other side gave for it, in this run or in an earlier one."""
        if self._found is not None and not self.needed and isinstance(self._found.receipt, str):
            return self._found.receipt
        return self._receipt

    def settle(self, receipt: str = "") -> None:
        """Say that it was done, and what the other side gave for it."""
        self._outcome, self._receipt = DONE, _text(receipt)

    def failed(self, why: str = "") -> None:
        """Say that it was tried and changed nothing, as the other side said: it may be tried again.

        For what is known. Where nobody knows, let the exception pass.
        """
        self._outcome, self._receipt = FAILED, _text(why)

    def start(self) -> None:
        """Say that it is about to be done: durable when this returns. What `with` does on entry."""
        self._found = self._session.intended(self._call, self._name, self._effect, self._what)

    def finish(self) -> None:
        """Say what became of it. What `with` does on exit."""
        if self._found is not None and self.needed:
            self._session.settled(self._call, self.key, self._outcome or DONE, self._receipt)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or self._outcome:
            self.finish()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ToolError(
            f"{quoted(value)} is no receipt: give a text, such as the id of what was made"
        )
    return value
