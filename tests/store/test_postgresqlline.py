"""The append that goes to PostgreSQL in one message: what its connection may meet on the way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from sawlog.store.database import Database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import Busy
from sawlog.store.log import Log
from sawlog.store.postgresqlline import AT_ONCE, SPACE, turn
from tests.store.stores import REGISTRY, Deed, deed, made


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    """An empty store in PostgreSQL, whose writers wait half a second for others."""
    with made(postgres_url, wait=0.5) as database:
        yield database


@pytest.fixture
def log(database: Database) -> Log:
    """A log over it."""
    return Log(database, registry=REGISTRY)


def text_of(log: Log, session: SessionRow, event: StoredEvent) -> str:
    """The text of a deed, wherever it is stored."""
    assert event.payload is not None
    text = msgspec.json.decode(event.payload, type=Deed).text
    if isinstance(text, str):
        return text
    content = log.blob(session, bytes.fromhex(text.blob))
    assert content is not None
    return content.decode()


@contextmanager
def taken(url: str, session: bytes) -> Generator[psycopg.Connection[Any]]:
    """A stranger who has a session's turn, and lets go of it at the end."""
    with psycopg.connect(url.replace("+psycopg", "", 1)) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s, %s)", (SPACE, turn(session)))
        yield other


@pytest.mark.parametrize("events", [1, 3, 9, AT_ONCE, AT_ONCE + 1])
@pytest.mark.parametrize("contents", [0, 1, 9])
def test_a_batch_of_any_size_comes_back_as_it_was_given(
    log: Log, events: int, contents: int
) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("first")])
    texts = [f"{n} ü\0" + "x" * 5000 * (n < contents) for n in range(events)]
    for head in (1, 1 + events):
        done = log.append(session, [deed(text) for text in texts], expected_seq=head)
        assert done.head == head + events
    for event, text in zip(list(log.read(session))[1:], 2 * texts, strict=True):
        assert text_of(log, session, event) == text


def test_a_large_append_is_sent_in_pieces(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("first")])
    text = "".join(chr(0x4E00 + n * n % 20_000) for n in range(4_000_000))
    log.append(session, [deed(text)])
    [event] = log.read(session, after=1)
    assert text_of(log, session, event) == text


def test_plans_that_were_let_go_are_made_again(log: Log, database: Database) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("first")])
    for number in range(3):
        log.append(session, [deed("a")])
        with database.read() as tx:
            assert tx.one("SELECT count(*) FROM pg_prepared_statements") != (0,)
            tx.run("DEALLOCATE ALL")
        assert log.append(session, [deed("b")]).head == 2 * number + 3


def test_whoever_waits_too_long_is_told_and_may_come_again(log: Log, postgres_url: str) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    with taken(postgres_url, session.id), pytest.raises(Busy, match="stayed locked"):
        log.append(session, [deed("b", key="b")])
    assert log.append(session, [deed("b", key="b")]).seqs == (2,)


def test_an_interrupted_append_goes_from_the_server_too(log: Log, postgres_url: str) -> None:
    with made(postgres_url, wait=60.0) as patient:
        log = Log(patient, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [deed("a")])
        with taken(postgres_url, session.id) as other:
            main = threading.main_thread().ident
            assert main is not None
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

            def until(count: int) -> None:
                deadline = time.monotonic() + 30
                while other.execute(waiting).fetchone() != (count,):
                    assert time.monotonic() < deadline, f"{count} statements should wait"
                    time.sleep(0.01)

            def interrupt() -> None:
                until(1)
                signal.pthread_kill(main, signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            # Whoever started the tests in the background may have had the signal ignored.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                log.append(session, [deed("b")])
            thread.join()
            signal.signal(signal.SIGINT, before)
            until(0)
        assert log.append(session, [deed("c")]).seqs == (2,)
