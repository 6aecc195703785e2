"""PostgreSQL: tables are hash-partitioned by sid, and what is asked often touches one partition.

The plans are those of the statements that the store really sends, timed and counted by PostgreSQL
itself (auto_explain, which is EXPLAIN ANALYZE for every statement), sent many times, so that the
plans kept for prepared statements are among them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from sawlog.store.follow import follow
from sawlog.store.log import Log
from sawlog.store.postgresql import PostgresDatabase
from sawlog.store.schema import PARTITIONED, PARTITIONS
from tests.store.stores import REGISTRY, deed, made, note

TIMES = 12  # more than it takes PostgreSQL to settle on a plan for a prepared statement


class Plans:
    """The plans of all statements of a store's connections."""

    def __init__(self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        connect = database.connect

        def watched() -> psycopg.Connection[Any]:
            raw = connect()
            self._watch(raw)
            return raw

        monkeypatch.setattr(database, "connect", watched)

    def _watch(self, raw: psycopg.Connection[Any]) -> None:
        raw.add_notice_handler(self._note)
        raw.execute(b"LOAD 'auto_explain'")
        for setting in (
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_analyze = on",
            "auto_explain.log_timing = off",
            "auto_explain.log_level = notice",
        ):
            raw.execute(f"SET {setting}".encode())

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        text = diagnostic.message_primary or ""
        if "plan:" in text:
            self.texts.append(text)

    def touched(self, action: Callable[[], object]) -> list[set[str]]:
        """The partitions that each statement of an action scanned."""
        self.texts.clear()
        action()
        assert self.texts, "the action sent nothing"
        return [scanned(text) for text in self.texts]


def scanned(plan: str) -> set[str]:
    """The partitions that a plan really read or changed."""
    lines = [line for line in plan.splitlines() if "never executed" not in line]
    names = {
        name
        for line in lines
        for name in re.findall(r"\bon (?:sawlog\.)?((?:events|blobs|snapshots)_\d\d)\b", line)
    }
    assert names <= {f"{table}_{n:02d}" for table in PARTITIONED for n in range(PARTITIONS)}
    return names


@pytest.fixture
def log(postgres_url: str) -> Iterator[Log]:
    """A log with sessions in many partitions."""
    with made(postgres_url) as database:
        log = Log(database, registry=REGISTRY)
        for number in range(40):
            session = log.session(f"s{number}", create=True)
            log.append(session, [deed("x" * 5000), deed(str(number), key=str(number))])
        yield log


@pytest.fixture
def plans(log: Log, monkeypatch: pytest.MonkeyPatch) -> Plans:
    """The plans of what the log does from here on."""
    assert isinstance(log.database, PostgresDatabase)
    log.database.rest()
    with log.database.write() as tx:
        tx.run("ANALYZE")
    log.database.rest()
    return Plans(log.database, monkeypatch)


def rows_by_partition(log: Log, table: str) -> dict[str, int]:
    """How many rows each partition of a table holds."""
    with log.database.read() as tx:
        return dict(
            tx.all(f"SELECT tableoid::regclass::text, count(*) FROM sawlog.{table} GROUP BY 1")
        )


def test_tables_are_partitioned_by_the_hash_of_sid(log: Log) -> None:
    with log.database.read() as tx:
        kinds = tx.all(
            "SELECT c.relname, pg_get_partkeydef(c.oid) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'sawlog' AND c.relkind = 'p' ORDER BY 1"
        )
        count = tx.all(
            "SELECT p.relname, count(*) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent "
            "WHERE p.relkind = 'p' GROUP BY 1 ORDER BY 1"
        )
    assert kinds == [(table, "HASH (sid)") for table in sorted(PARTITIONED)]
    assert count == [(table, PARTITIONS) for table in sorted(PARTITIONED)]
    spread = rows_by_partition(log, "events")
    assert len(spread) > PARTITIONS / 2 and sum(spread.values()) == 80


def test_nothing_but_the_directory_is_unique_across_sessions(log: Log) -> None:
    with log.database.read() as tx:
        unique = tx.all(
            "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indrelid WHERE i.indisunique AND c.relkind = 'p'"
        )
    assert {table for table, _ in unique} == set(PARTITIONED)
    assert all("(sid, " in definition for _, definition in unique)


def test_an_append_touches_one_partition(log: Log, plans: Plans) -> None:
    session = log.session("s7")
    big = "y" * 5000
    for action in (
        lambda: log.append(session, [deed("a"), deed("b")]),
        lambda: log.append(session, [deed("a")], expected_seq=log.get(session).head),
        lambda: log.append(session, [deed(big)]),
        lambda: log.append(session, [deed("7", key="7")]),
        lambda: log.append(session, build=lambda tail: [deed(big)]),
    ):
        before = {table: rows_by_partition(log, table) for table in PARTITIONED}
        touched = [names for _ in range(TIMES) for names in plans.touched(action)]
        for table in PARTITIONED:
            seen = {name for names in touched for name in names if name.startswith(table)}
            assert len(seen) <= 1
            after = rows_by_partition(log, table)
            grown = {name for name in after if after[name] != before[table].get(name)}
            assert len(grown) <= 1


def test_a_reading_touches_one_partition(log: Log, plans: Plans) -> None:
    session = log.session("s7")
    digest = hashlib.sha256(b"x" * 5000).digest()
    for action, tables in (
        (lambda: list(log.read(session)), {"events"}),
        (lambda: list(log.stored(session)), {"events"}),
        (lambda: log.events(session, [2, 1]), {"events"}),
        (lambda: log.by_event_id(session, b"?" * 16), {"events"}),
        (lambda: log.blob(session, digest), {"blobs"}),
        (lambda: log.snapshot_get(session, fold=1, layout=1), {"snapshots"}),
    ):
        for _ in range(TIMES):
            names = set[str]().union(*plans.touched(action))
            assert len(names) == 1 and {name[:-3] for name in names} == tables


def test_leases_touch_no_partition_at_all(log: Log, plans: Plans) -> None:
    session = log.session("s7")

    def drive() -> None:
        lease = log.leases.renew(log.leases.acquire(session.id, "one", 60), 60)
        assert log.leases.release(lease)

    for _ in range(TIMES):
        assert plans.touched(drive) and not any(plans.touched(drive))


def test_a_fork_touches_one_partition_for_each_ancestor(log: Log, plans: Plans) -> None:
    parent = log.session("s7")
    child = log.fork(parent, 2, name="child")
    log.append(child, [deed("own")])
    grandchild = log.fork(child, 3, name="grandchild")
    log.append(grandchild, [deed("own")])
    digest = hashlib.sha256(b"x" * 5000).digest()
    for action in (
        lambda: list(log.read(grandchild)),
        lambda: log.blob(grandchild, digest),
        lambda: log.append(grandchild, [note("n", key="n")]),
        lambda: log.by_event_id(grandchild, b"?" * 16),
    ):
        for _ in range(TIMES):
            touched = plans.touched(action)
            assert all(len(names) <= 1 for names in touched)
            assert len(set[str]().union(*touched)) <= 3


def test_only_the_follower_reads_them_all_by_its_index(log: Log, plans: Plans) -> None:
    everything = list(follow(log.database))
    for _ in range(TIMES):
        touched = set[str]().union(*plans.touched(lambda: list(follow(log.database))))
        assert len(touched) == PARTITIONS
    with log.database.write() as tx:
        tx.run("SET LOCAL enable_seqscan = off")
        # What a large store's planner chooses anyway.
        plan = "\n".join(
            row[0]
            for row in tx.all(
                "EXPLAIN SELECT * FROM sawlog.events e WHERE (e.xid, e.sid, e.seq) > "
                "('5'::xid8, 1, 1) AND e.xid < pg_snapshot_xmin(pg_current_snapshot()) "
                "ORDER BY e.xid, e.sid, e.seq LIMIT 10"
            )
        )
    assert "Merge Append" in plan and plan.count("events_") >= 2 * PARTITIONS
    assert "Sort" not in plan.replace("Sort Key", "")
    assert len(everything) == 80
