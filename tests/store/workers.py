"""What the processes of the concurrency tests do; each test starts them with `python(code)`."""

from __future__ import annotations

import random
import sys
import time

from sawlog import migrations
from sawlog.store.append import Tail
from sawlog.store.database import open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed


def contend(url: str, number: int, count: int) -> None:
    """Make the store and the session where they are missing, and append one event at a time.

    Every other event names the head that it believes in and is tried again on a conflict; each is
    appended twice. Prints the seqs.
    """
    sys.stdin.readline()  # all start at once
    if url.startswith("postgresql"):
        migrations.upgrade(url)
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("shared", create=True)
        seqs: list[int] = []
        for each in range(count):
            event = deed(f"{number}.{each}", key=f"{number}.{each}")
            while True:
                expected = log.get(session).head if each % 2 else None
                try:
                    [seq] = log.append(session, [event], expected_seq=expected).seqs
                    break
                except Conflict:
                    continue
            assert log.append(session, [event]).seqs == (seq,)
            seqs.append(seq)
    print(*seqs)


def write(url: str, number: int, count: int, linger: float) -> None:
    """Append batches to a session of one's own and to a shared one, some of them slowly.

    A slow append holds its transaction open for up to `linger` seconds, so that on PostgreSQL
    transactions end in another order than they began.
    """
    chance = random.Random(number)
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        own = log.session(f"own {number}", create=True)
        shared = log.session("shared", create=True)

        def slowly(tail: Tail) -> list[NewEvent]:
            time.sleep(chance.uniform(0, linger))
            return [deed(f"slow {number}")]

        for each in range(count):
            session = shared if chance.random() < 0.3 else own
            batch = [deed(f"{number}.{each}.{part}") for part in range(chance.randint(1, 3))]
            slow = linger > 0 and chance.random() < 0.3
            log.append(session, batch, build=slowly if slow else None)
    print("done")
