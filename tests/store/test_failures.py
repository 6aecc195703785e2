"""What goes wrong around a store has a name, and what it leaves behind is whole."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from sawlog.store.append import Tail
from sawlog.store.database import Database, open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Damaged, NoStore, OutcomeUnknown, StoreError, StoreFull
from sawlog.store.log import Log
from sawlog.store.sqlite import SqliteDatabase
from tests.store.stores import REGISTRY, deed, made


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """An SQLite store."""
    with open_database(tmp_path / "store.db") as database:
        assert isinstance(database, SqliteDatabase)
        yield database


def test_a_writing_connection_is_durable_whatever_the_defaults(sqlite: SqliteDatabase) -> None:
    with sqlite.write() as tx:
        assert tx.all("PRAGMA synchronous") == [(2,)]
        assert tx.all("PRAGMA wal_autocheckpoint") == [(0,)]
        assert tx.all("PRAGMA journal_mode") == [("wal",)]


def test_postgresql_commits_durably_where_the_database_would_not(postgres_url: str) -> None:
    with made(postgres_url) as database, database.write() as tx:
        tx.run(
            "ALTER DATABASE "
            + postgres_url.partition("?")[0].rpartition("/")[2]
            + " SET synchronous_commit = off"
        )
    with open_database(postgres_url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        flushed = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()"
        with database.read() as tx:
            assert tx.all("SHOW synchronous_commit") == [("off",)]
        with database.write() as tx:
            assert tx.all("SHOW synchronous_commit") == [("on",)]
        for long_way in (False, True):
            done = 0
            for number in range(20):
                log.append(session, [deed(str(number))], build=fresh if long_way else None)
                with database.read() as tx:
                    done += tx.all(flushed) == [(True,)]
            assert done > 15  # the server itself writes now and then


def fresh(tail: Tail) -> list[NewEvent]:
    """Makes an append take the long way."""
    return [deed("fresh")]


def test_a_full_medium_is_named_and_nothing_is_written(sqlite: SqliteDatabase) -> None:
    log = Log(sqlite, registry=REGISTRY)
    session = log.session("s", create=True)
    log.append(session, [deed("a")])
    with sqlite.write() as tx:
        [(pages,)] = tx.all("PRAGMA page_count")
        tx.all(f"PRAGMA max_page_count = {pages + 1}")
    noise = os.urandom(40_000).hex()
    with pytest.raises(StoreFull, match="make room"):
        log.append(session, [deed("b"), deed(noise)])
    assert log.get(session).head == 1
    with sqlite.write() as tx:
        tx.all("PRAGMA max_page_count = 1000000")
    assert log.append(session, [deed("b"), deed(noise)]).seqs == (2, 3)


def test_damaged_pages_are_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        for number in range(200):
            log.append(session, [deed(f"{number}" * 200)])
    with path.open("r+b") as file:
        for page in range(2, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xa5" * 64)
    with open_database(path) as database:
        log = Log(database, registry=REGISTRY)
        for call in (lambda: list(log.read(session)), lambda: log.append(session, [deed()])):
            with pytest.raises(Damaged, match="verify"):
                call()


def test_a_head_that_its_rows_do_not_reach_is_damage(log: Log) -> None:
    session = log.session("s", create=True)
    log.append(session, [deed(str(number)) for number in range(5)])
    with log.database.write() as tx:
        tx.run("DELETE FROM sawlog.events WHERE seq = 3")
    with pytest.raises(Damaged) as caught:
        list(log.read(session))
    assert (caught.value.session, caught.value.seq) == (session.id.hex(), 3)
    found = list(log.stored(session))
    assert [row.seq for row in found if row.event] == [1, 2, 4, 5]
    assert [row.seq for row in found if row.damage] == [3]
    with pytest.raises(Damaged):
        log.events(session, [3])
    with log.database.write() as tx:
        tx.run("UPDATE sawlog.sessions SET head = 2")
    with pytest.raises(Damaged):  # the fourth event stands where the next one belongs
        Log(log.database, registry=REGISTRY).append(session, [deed("x"), deed("y")])


def test_an_error_of_the_caller_leaves_the_store_usable(database: Database) -> None:
    log = Log(database, registry=REGISTRY)
    session = log.session("s", create=True)
    for action in (database.write, database.read):
        with pytest.raises(ZeroDivisionError):
            with action() as tx:
                tx.all("SELECT 1")
                raise ZeroDivisionError
    with pytest.raises(StoreError):
        with database.write() as tx:
            tx.run("UPDATE sawlog.sessions SET head = 9")
            tx.run("SELECT nonsense")
    with pytest.raises(KeyboardInterrupt):
        with database.write() as tx:
            tx.run("UPDATE sawlog.sessions SET head = 9")
            raise KeyboardInterrupt
    assert log.get(session).head == 0
    assert log.append(session, [deed()]).seqs == (1,)


def test_a_forked_process_must_open_its_own(database: Database) -> None:
    log = Log(database, registry=REGISTRY)
    log.session("s", create=True)
    child = os.fork()
    if child == 0:
        try:
            log.sessions()
        except StoreError as error:
            os._exit(7 if "open it again" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(log.sessions()) == 1


class Wire:
    """A socket between client and server that can be cut in the middle of an answer."""

    def __init__(self, folder: Path, server: str, port: str) -> None:
        self.folder = folder
        self.cut_at = b""
        self.deliver = True
        self._server = f"{server}/.s.PGSQL.{port}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / f".s.PGSQL.{port}"))
        self._listener.listen()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._serve)

    def cut(self, at: bytes, deliver: bool) -> None:
        """Break the connection at the next message that holds `at`, with or without passing it."""
        self.cut_at, self.deliver = at, deliver

    def close(self) -> None:
        """Take no more connections and break those that there are."""
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
        for each in (self._listener, *self._sockets):
            each.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._sockets += [client, server]
                self._start(self._pass, client, server, True)
                self._start(self._pass, server, client, False)

    def _pass(self, one: socket.socket, other: socket.socket, watched: bool) -> None:
        with suppress(OSError):  # one of the ends is gone
            while data := one.recv(65536):
                if watched and self.cut_at and self.cut_at in data:
                    self.cut_at = b""
                    one.shutdown(socket.SHUT_RDWR)  # the client learns nothing more
                    if self.deliver:
                        other.sendall(data)
                    break
                other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire(postgres_url: str) -> Iterator[Wire]:
    """A wire to the server of an empty store."""
    made(postgres_url).close()
    query = parse_qs(urlsplit(postgres_url).query)
    with tempfile.TemporaryDirectory() as folder:
        wire = Wire(Path(folder), query["host"][0], query["port"][0])
        yield wire
        wire.close()


def through(wire: Wire, url: str) -> str:
    """The URL of a database at the wire's near end."""
    return re.sub(r"host=[^&]*", f"host={quote(str(wire.folder), safe='')}", url)


def build(tail: Tail) -> list[NewEvent]:
    """Makes an append take the long way, which commits by a message of its own."""
    return [deed("b", key="b")]


@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("way", ["at once", "long"])
def test_a_connection_lost_at_commit_leaves_the_outcome_unknown_until_asked_again(
    wire: Wire, postgres_url: str, delivered: bool, way: str
) -> None:
    with open_database(through(wire, postgres_url)) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [deed("first")])
        batch = [deed("a", key="a"), deed("b", key="b")]
        wire.cut(b"COMMIT" if way == "long" else b"\0\0\0", delivered)
        with pytest.raises(OutcomeUnknown, match="same ids settles"):
            if way == "long":
                log.append(session, [deed("a", key="a")], build=build)
            else:
                log.append(session, batch)
        done = log.append(session, batch)
        assert done.seqs == (2, 3)
        assert [event.seq for event in log.read(session)] == [1, 2, 3]


def test_a_connection_lost_before_commit_has_written_nothing(wire: Wire, postgres_url: str) -> None:
    with open_database(through(wire, postgres_url)) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)

        def lose(tail: Tail) -> list[NewEvent]:
            wire.cut(b"INSERT INTO sawlog.events", True)
            return [deed("lost")]

        with pytest.raises(NoStore, match="nothing was written"):
            log.append(session, build=lose)
        assert log.append(session, [deed("then")]).seqs == (1,)


def test_connections_that_died_in_their_sleep_are_replaced(postgres_url: str) -> None:
    with made(postgres_url) as database:
        log = Log(database, registry=REGISTRY)
        session = log.session("s", create=True)
        log.append(session, [deed("a")])
        for number in range(3):
            with open_database(postgres_url) as other, other.write() as tx:
                tx.all(
                    "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            assert log.append(session, [deed("b")]).new == 1
            assert log.get(session).head == number + 2


def test_a_closed_store_says_so(store_url: str) -> None:
    database = made(store_url)
    log = Log(database, registry=REGISTRY)
    log.session("s", create=True)
    database.close()
    database.close()
    with pytest.raises(Exception, match="was closed"):
        log.sessions()


@pytest.mark.parametrize(
    "url",
    ["", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "mysql://x/y", "a\0b",
     "sqlite://relative.db", "sqlite:///x.db?timeout=3", "http://example.org/x.db"],
)  # fmt: skip
def test_what_can_hold_no_store_is_refused(url: str) -> None:
    with pytest.raises(NoStore):
        open_database(url)
