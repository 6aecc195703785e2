"""The life of a session: its start, cuts of its history, foreign records."""

from __future__ import annotations

from sawlog.store.events.base import Payload
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


@event("history.rewound", 1)
class HistoryRewound(Payload, frozen=True):
    """All history after seq `to` and before this event is no longer shown."""

    to: int
    reason: Text = ""


@event("history.trimmed", 1)
class HistoryTrimmed(Payload, frozen=True):
    """From here on the results of these calls are shown in another form, by a caller's choice."""

    calls: tuple[Text, ...] = ()
    form: str = "stub"
    reason: Text = ""


@event("foreign.record", 1)
class ForeignRecord(Payload, frozen=True):
    """A record of a foreign file that the model did not see; always ignorable."""

    kind: Text = ""
