"""Times of foreign records: microseconds UTC, or unknown. Nothing is guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sawlog.store.envelope import UNKNOWN_TIME

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(value: object) -> int:
    """The microseconds UTC of an RFC 3339 text; UNKNOWN_TIME for anything else.

    A time without a zone is unknown, too: it names no instant.
    """
    if not isinstance(value, str):
        return UNKNOWN_TIME
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return UNKNOWN_TIME
    if read.tzinfo is None:
        return UNKNOWN_TIME
    try:
        return (read - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        return UNKNOWN_TIME
