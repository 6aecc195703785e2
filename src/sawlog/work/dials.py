"""How `attempt.sent` says where the bytes go: whole the first time, then what is another."""

from __future__ import annotations

import threading

import msgspec

from sawlog.store.events.base import EventId
from sawlog.store.events.steps import AttemptSent


class Dialled(msgspec.Struct, frozen=True):
    """Where bytes go: the client's library, the URL and the headers, without what is secret."""

    client: str
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Dials:
    """The attempts of one session, as far as this handle made them. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: tuple[int, Dialled] | None = None

    def event(self, packet: EventId, number: int, to: Dialled) -> AttemptSent:
        """The event of an attempt that is about to be made."""
        with self._lock:
            first = self._first
        if first is None or not to.headers:
            return AttemptSent(packet, number, to.url, to.headers, to.client)
        seq, like = first
        before, now = dict(like.headers), dict(to.headers)
        changed = tuple(one for one in to.headers if before.get(one[0]) != one[1])
        gone = tuple(name for name in before if name not in now)
        url = to.url if to.url != like.url else ""
        return AttemptSent(packet, number, url, changed, to.client, like=seq, without=gone)

    def logged(self, seq: int, sent: AttemptSent) -> None:
        """Take note of where an attempt stands: later ones may be like it."""
        if sent.like or not sent.headers:
            return
        url = sent.url if isinstance(sent.url, str) else ""
        with self._lock:
            self._first = seq, Dialled(sent.client, url, sent.headers)


def whole(sent: AttemptSent, like: AttemptSent | None) -> AttemptSent:
    """The attempt with all that was dialled; `like` is the one that it names."""
    if like is None:
        return sent
    headers = {name: value for name, value in like.headers if name not in sent.without}
    headers.update(sent.headers)
    return msgspec.structs.replace(
        sent,
        url=sent.url or like.url,
        headers=tuple(sorted(headers.items())),
        like=0,
        without=(),
    )
