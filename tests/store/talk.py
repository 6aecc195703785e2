"""Sessions of many small events that have much in common, as those of agents have."""

from __future__ import annotations

import random

from sawlog.store.directory import SessionRow
from sawlog.store.log import Log
from tests.store.stores import note

WORDS = "read write edit search module function returns error value path test line".split()


def text(number: int) -> str:
    """What event `number` says: about 200 bytes, every eighth some thousands, which are a blob."""
    chance = random.Random(number)
    said = " ".join(chance.choice(WORDS) for _ in range(900 if number % 8 == 0 else 12))
    return (
        f'{{"step": {number}, "tool": "read_file", "path": "src/module_{chance.randrange(9)}.py", '
        f'"status": "ok", "lines": {chance.randrange(400)}, "says": "{said}"}}'
    )


def talk(log: Log, session: SessionRow, upto: int, *, batch: int = 1) -> SessionRow:
    """Append events until the session has so many; gives its row."""
    head = log.get(session).head
    while head < upto:
        events = [note(text(seq)) for seq in range(head + 1, min(upto, head + batch) + 1)]
        head = log.append(session, events).head
    return log.get(session)


def payloads(upto: int, first: int = 1) -> list[bytes]:
    """The payloads of events of `talk` that hold their text, empty for those that name a blob."""
    import msgspec

    return [
        b"" if seq % 8 == 0 else msgspec.json.encode({"text": text(seq)})
        for seq in range(first, upto + 1)
    ]


def said(log: Log, session: SessionRow, upto: int) -> bool:
    """True when the session holds what `talk` says, read once through."""
    got = [event.payload or b"" for event in log.read(session, upto=upto)]
    wanted = payloads(upto)
    return len(got) == upto and all(
        mine in (b"", theirs) for mine, theirs in zip(wanted, got, strict=True)
    )
