"""The life of a session: its start, cuts of its history, foreign records."""

from __future__ import annotations

import msgspec
from msgspec import structs

from sawlog.store.events.base import EventId, Payload
from sawlog.store.events.registry import event
from sawlog.store.text import Text


@event("session.created", 1)
class SessionCreated(Payload, frozen=True):
    """The first event. An import says the format and the foreign session's own id.

    `parent` is the source id of the session that started this one. `differs_from` (session id,
    hex) and `differs_at` (record position) name the session whose file this one's contradicts.
    """

    name: Text = ""
    format: str = ""
    source_id: Text = ""
    parent: Text = ""
    differs_from: str = ""
    differs_at: int = -1


@event("session.forked", 1)
class SessionForked(Payload, frozen=True):
    """The first own event of a fork: parent (hex), the seq it leaves at, the digest there."""

    parent: str
    at: int
    digest: str


@event("history.rewound", 1, upcast=lambda old: HistoryRewound(**structs.asdict(old)))
class HistoryRewound1(Payload, frozen=True):
    """As it was, and as imports write it: where to, without what could not be undone."""

    to: int
    reason: Text = ""


class Ran(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call whose run may have changed the world.

    `status` is that of its result (`ok`, `error`, `interrupted`), `unknown` when it has none.
    """

    call: EventId
    name: Text = ""
    status: str = "unknown"


@event("history.rewound", 2)
class HistoryRewound(Payload, frozen=True):
    """All history after seq `to` and before this event is no longer shown.

    `calls` and `files` are what that does not undo: the calls that ran meanwhile and were not
    declared to read only, and the paths of the files that changed.
    """

    to: int
    reason: Text = ""
    calls: tuple[Ran, ...] = ()
    files: tuple[Text, ...] = ()


@event("history.trimmed", 1)
class HistoryTrimmed(Payload, frozen=True):
    """From here on the results of these calls are shown in another form, by a caller's choice."""

    calls: tuple[Text, ...] = ()
    form: str = "stub"
    reason: Text = ""


@event("history.edited", 1)
class HistoryEdited(Payload, frozen=True):
    """The program that builds this session's requests repeats these events no longer.

    It left them out, or tells them otherwise; what it tells instead are events of their own behind
    this one. Later packets do not show what is `gone`.
    """

    gone: tuple[EventId, ...]
    reason: Text = ""


@event("foreign.record", 1)
class ForeignRecord(Payload, frozen=True):
    """A record of a foreign file that the model did not see; always ignorable."""

    kind: Text = ""
