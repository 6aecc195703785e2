"""What the processes of the concurrency tests do; each test starts them with `python(code)`."""

from __future__ import annotations

import random
import select
import sys
import time
from multiprocessing.connection import Connection

from sawlog.store.append import Tail
from sawlog.store.database import open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict
from sawlog.store.follow import Position, batch
from sawlog.store.log import Log
from tests.store.stores import REGISTRY, deed, made


def contend(url: str, number: int, count: int, link: Connection) -> None:
    """Make the store and the session where they are missing, and append one event at a time.

    Every other event names the head that it believes in and is tried again on a conflict; each is
    appended twice. Begins when something is sent to it; sends the seqs.
    """
    link.recv()  # all start at once
    with made(url) as database:
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
    link.send(seqs)


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


def append(url: str, number: int, count: int) -> None:
    """Append one event at a time to a session of one's own, as fast as the others let it."""
    with open_database(url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session(f"own {number}", create=True)
        sys.stdin.readline()  # all start at once
        for each in range(count):
            log.append(session, [deed(f"{number}.{each} " + "x" * 600)])
    print("done")


def follow_along(url: str, limit: int) -> None:
    """Follow a store, looking every 2 ms, until a line tells how many events there are.

    Prints how many it had then, and session and seq of every event in the order in which it came.
    """
    seen: list[str] = []
    position: Position | None = None
    total, then = -1, -1
    with open_database(url, read_only=True) as database:
        print("ready", flush=True)
        while total < 0 or len(seen) < total:
            some = batch(database, position, limit=limit)
            seen += [f"{each.session.hex()}.{each.event.seq}" for each in some.events]
            position = some.position
            if total < 0 and select.select([sys.stdin], [], [], 0)[0]:
                total, then = int(sys.stdin.readline()), len(seen)
            elif len(some.events) < limit:
                time.sleep(0.002)
    print(then, *seen)
