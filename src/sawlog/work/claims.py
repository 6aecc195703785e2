"""What a step takes out of the inbox: claim and entry are one append, in front of its packet.

A hook may look at the messages first: it gives what is entered, in its words, or nothing at all,
which rejects them for good. What is rejected or cancelled no packet ever shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.facts import Pending
from sawlog.builder.inbox import claimable
from sawlog.builder.state import State
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import ConfigError
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.inbox import InboxClaimed, InboxInjected
from sawlog.work.driver import Driver


class Waiting(msgspec.Struct, frozen=True):
    """A message that a step is about to claim: the id of its event, who it is from, its parts."""

    id: str
    source: str
    parts: tuple[Part, ...]


PreStep = Callable[[Sequence[Waiting]], Sequence[Waiting] | None]
"""Gets the messages that a step claims; gives those that are entered, or None to reject them."""


class Claims:
    """The claims of one driver's steps, each batch shown to the hook once."""

    def __init__(self, driver: Driver, pre_step: PreStep | None) -> None:
        self._driver = driver
        self._hook = pre_step
        self._asked: tuple[str, ...] = ()
        self._accepted: Sequence[Waiting] | None = ()

    def entries(self, state: State) -> list[NewEvent]:
        """The claim and the messages that it enters, for the batch of the step's packet."""
        batch = claimable(state)
        if not batch:
            return []
        accepted = self._decide(batch)
        if accepted is None:
            return []  # rejected by `reject`, which is asked first
        new = self._driver.new
        entered = frozenset(one.id for one in accepted)
        claimed = tuple(one.id for one in batch if one.id in entered)
        dropped = tuple(one.id for one in batch if one.id not in entered)
        events = [new(InboxClaimed(claimed), "harness")]
        if dropped:
            events.append(new(InboxClaimed(dropped, rejected=True), "hook:pre-step"))
        for one in accepted:
            entry = MessageUser(one.parts, origin="inbox")
            events.append(new(entry, one.source, key=f"inbox.entered {one.id}"))
        return events

    def reject(self, state: State) -> bool:
        """Log that the hook rejected what the next step would claim; False when it did not."""
        batch = claimable(state)
        if not batch or self._decide(batch) is not None:
            return False
        gone = InboxClaimed(tuple(one.id for one in batch), rejected=True)
        self._driver.append([self._driver.new(gone, "hook:pre-step")])
        return True

    def _decide(self, batch: Sequence[Pending]) -> Sequence[Waiting] | None:
        asked = tuple(one.id for one in batch)
        if asked != self._asked:
            window = self._driver.window
            messages = [_waiting(window.event(one.seq), window) for one in batch]
            accepted = messages if self._hook is None else self._hook(messages)
            self._accepted = _checked(accepted, messages)
            self._asked = asked
        return self._accepted


def _checked(
    accepted: Sequence[Waiting] | None, messages: Sequence[Waiting]
) -> Sequence[Waiting] | None:
    """What a hook gave. Raises ConfigError unless it is of the messages that it got."""
    if not accepted:
        return None
    left = {one.id: one.source for one in messages}
    for one in accepted:
        source = left.pop(one.id, None)
        if source is None:
            raise ConfigError(
                f"the pre-step hook gave the message {one.id} twice or did not get it: it gives "
                "messages of those that it gets, each once"
            )
        if source != one.source:
            raise ConfigError(
                f"the pre-step hook says that the message {one.id} is from {one.source!r}: it is "
                f"from {source!r}, whatever its words"
            )
    return accepted


def _waiting(event: Event, contents: Contents) -> Waiting:
    """A message as it was injected: its texts are texts, however long they are."""
    content = event.content
    assert isinstance(content, InboxInjected)
    return Waiting(event.id, event.source, tuple(_whole(part, contents) for part in content.parts))


def _whole(part: Part, contents: Contents) -> Part:
    if not isinstance(part, TextPart) or isinstance(part.text, str) or part.text.is_preview:
        return part
    return TextPart(text_of(part.text, contents))
