"""What is no whole export, byte for byte, is refused by name and leaves nothing in the store."""

from __future__ import annotations

import io
import json
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sawlog.store import exported
from sawlog.store.database import Database, open_database
from sawlog.store.errors import (
    Conflict,
    Damaged,
    FormatError,
    StoreError,
    TooLarge,
    UnknownFormat,
)
from sawlog.store.exchange import export, is_export, lines_of, load
from sawlog.store.log import Log
from tests.store.files import (
    citing,
    content,
    event,
    file_of,
    forged,
    grown,
    is_empty,
    lines_in,
    sound,
)
from tests.store.stores import REGISTRY, deed, note

S = b"s" * 16


def _compact(value: object, **options: bool) -> bytes:
    return json.dumps(value, separators=(",", ":"), **options).encode() + b"\n"  # type: ignore[arg-type]


REFORMATTED: dict[str, Callable[[bytes], bytes]] = {
    "spaces": lambda line: json.dumps(json.loads(line)).encode() + b"\n",
    "line ends": lambda line: line[:-1] + b"\r\n",
    "sorted keys": lambda line: _compact(json.loads(line), sort_keys=True),
    "ASCII": lambda line: _compact(json.loads(line)) if b"text" in line else line,
    "capitals": lambda line: line.replace(b"a", b"A", 1),
    "a byte order mark": lambda line: b"\xef\xbb\xbf" + line,
    "an indent": lambda line: b" " + line,
}


class TestAlteredFiles:
    """Whatever was done to a file, one clear error, and nothing of it in the store."""

    @pytest.fixture
    def file(self, source: Log) -> bytes:
        """An export with a blob, an erased event, a fork."""
        log = source
        root = log.session("root", create=True)
        log.append(root, [deed("1"), deed("erased"), deed("x" * 5000), note("\ud800\0")])
        [gone] = log.events(root, [2])
        with log.database.write() as tx:
            tx.run(
                "UPDATE sawlog.events SET salt = NULL, payload = NULL, commitment = ? "
                "WHERE seq = 2",
                (gone.commitment,),
            )
        child = log.fork(root, 3, name="child")
        log.append(child, [deed("y" * 4500), deed("x" * 5000), note("\u00e9")])
        return file_of(log, log.get(child))

    def refused(self, other: Log, lines: list[bytes]) -> str:
        """The error's words."""
        with pytest.raises((Damaged, FormatError)) as caught:
            load(other, lines)
        assert is_empty(other)
        return str(caught.value)

    def test_any_byte(self, file: bytes, other: Log) -> None:
        places = random.Random(1).sample(range(len(file)), 700)
        # The name is the one thing that no digest covers.
        name = range(file.index(b'"child"') + 1, file.index(b'"child"') + 6)
        for at in [*places, *range(0, 40), *range(len(file) - 100, len(file) - 1)]:
            if at in name:
                continue
            altered = bytearray(file)
            altered[at] ^= 1 << random.Random(at).randrange(8)
            words = self.refused(other, lines_in(bytes(altered)))
            assert "line" in words or "export" in words

    def test_lines_missing_doubled_or_exchanged(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        for at in range(len(lines)):
            self.refused(other, [*lines[:at], *lines[at + 1 :]])
            self.refused(other, [*lines[:at], lines[at], *lines[at:]])
            if at + 1 < len(lines):
                self.refused(other, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
            self.refused(other, [*lines[:at], b"\n", *lines[at:]])
        self.refused(other, [*lines, *lines])

    def test_cut_anywhere(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        for at in range(len(lines)):
            words = self.refused(other, lines[:at])
            assert "cut" in words if at else "empty" in words
        for at in random.Random(2).sample(range(1, len(file) - 1), 200):
            self.refused(other, lines_in(file[:at]))
        # The newline behind the last line is no loss.
        assert load(other, file.splitlines()).name == "child"

    @pytest.mark.parametrize("what", REFORMATTED)
    def test_reformatted(self, file: bytes, other: Log, what: str) -> None:
        lines = lines_in(file)
        changed = 0
        for at, line in enumerate(lines):
            altered = REFORMATTED[what](line)
            if altered != line:
                changed += 1
                self.refused(other, [*lines[:at], altered, *lines[at + 1 :]])
        assert changed == len(lines) or what in ("ASCII", "sorted keys")
        assert changed

    def test_the_first_digest_that_fails_is_named(self, file: bytes, other: Log) -> None:
        lines = lines_in(file)
        at = next(at for at, line in enumerate(lines) if line.startswith(b'{"seq":4,'))
        lines[at] = lines[at].replace(b'"size":4500', b'"size":4501')
        with pytest.raises(Damaged, match=f"line {at + 1} .*commitment") as caught:
            load(other, lines)
        assert caught.value.seq == 4 and len(caught.value.session) == 32


class TestForgedFiles:
    """A chain that holds proves nothing about whoever made it."""

    PNG = content(b"\x89PNG")
    MESSAGE = "message.user"

    def test_what_is_right_comes_in(self, log: Log) -> None:
        lines = forged([event(1), self.PNG, event(2, self.MESSAGE, citing(self.PNG)), event(3)])
        row = load(log, lines)
        assert list(export(log, row)) == lines and sound(log, row)
        assert log.blob(row, self.PNG.digest) == b"\x89PNG"

    @pytest.mark.parametrize(
        "entries",
        [
            pytest.param([event(1), event(2, id=event(1).id)], id="an id twice"),
            pytest.param([event(1), event(3)], id="a gap"),
            pytest.param([event(2)], id="no start"),
            pytest.param([event(1, payload=b'{"text":7}')], id="a payload of another type"),
            pytest.param([event(1, payload=b'{"text":"\xff"}')], id="no UTF-8"),
            pytest.param([event(1, "x.y", payload=b'{"text":"\xff"}')], id="no UTF-8, unknown"),
            pytest.param([event(1, payload=b'{"text":"x"')], id="no JSON"),
            pytest.param([event(1, "x.y", payload=b"nul")], id="no JSON, unknown"),
            pytest.param([event(1, payload=b"null")], id="no payload and a salt"),
            pytest.param([event(1, salt=None)], id="a payload without a salt"),
            pytest.param([event(1, salt=b"short")], id="a short salt"),
            pytest.param([event(1, salt=b"")], id="an empty salt"),
            pytest.param([event(1, id=b"short")], id="a short id"),
            pytest.param([event(1, type="")], id="no type"),
            pytest.param([event(1, type="a\0b")], id="NUL in a type"),
            pytest.param([event(1, source="a\0b")], id="NUL in a source"),
            pytest.param([event(1, step=2**63)], id="a large step"),
            pytest.param([event(1, fence=2**64 - 1)], id="a large fence"),
            pytest.param([event(1, MESSAGE, citing(PNG))], id="a blob that is not there"),
            pytest.param([PNG, event(1)], id="a blob that nothing cites"),
            pytest.param([event(1), PNG], id="a blob at the end"),
            pytest.param([PNG, PNG, event(1, MESSAGE, citing(PNG))], id="a blob twice"),
            pytest.param([PNG, event(1, MESSAGE, citing(PNG)), PNG, event(2)], id="a blob again"),
            pytest.param(
                [exported.Content(PNG.digest, b"x"), event(1, MESSAGE, citing(PNG))],
                id="other bytes",
            ),
            pytest.param([event(1, MESSAGE, b"[" * 100_000)], id="deep nesting"),
        ],
    )
    def test_what_is_wrong_does_not(self, other: Log, entries: list[object]) -> None:
        with pytest.raises(Damaged):
            load(other, forged(entries))  # type: ignore[arg-type]
        assert is_empty(other)

    @pytest.mark.parametrize("field", ["version", "flags", "occurred_at", "recorded_at", "step"])
    def test_numbers_out_of_range_do_not_come_in(self, other: Log, field: str) -> None:
        line = forged([event(1)])
        for number in (b"-1", b"18446744073709551616", b"1.0", b'"1"', b"null", b"9" * 400):
            lines = list(line)
            name = f'"{field}":'.encode()
            before, _, after = lines[1].partition(name)
            lines[1] = before + name + number + after[after.index(b",") :]
            with pytest.raises(Damaged):
                load(other, lines)
        assert is_empty(other)

    def test_an_id_of_the_ancestors_is_used(self, other: Log) -> None:
        ancestors = [(b"a" * 16, 1)]
        with pytest.raises(Damaged, match="twice"):
            load(other, forged([event(1), event(2, id=event(1).id)], ancestors=ancestors))
        assert is_empty(other)

    @pytest.mark.parametrize(
        "ancestors",
        [
            [(b"a" * 16, 2), (b"b" * 16, 1)],
            [(b"a" * 16, 1), (b"a" * 16, 2)],
            [(S, 1)],
            [(b"short", 1)],
            [(b"a" * 16, -1)],
            [(b"a" * 16, 3)],
            [(b"a" * 16, 2**63)],
        ],
    )
    def test_ancestors_that_cannot_be(self, other: Log, ancestors: list[tuple[bytes, int]]) -> None:
        with pytest.raises(Damaged):
            load(other, forged([event(1), event(2)], ancestors=ancestors))
        assert is_empty(other)

    @pytest.mark.parametrize("name", ["", "a\0b", "x" * 1001])
    def test_names_that_cannot_be(self, other: Log, name: str) -> None:
        with pytest.raises(Damaged):
            load(other, forged([event(1)], name=name))
        assert is_empty(other)

    def test_a_blob_that_was_erased_here_is_not_counted_on(self, log: Log, other: Log) -> None:
        root = log.session("root", create=True)
        log.append(root, [deed("x" * 5000)])
        load(other, export(log, root))
        child = log.fork(root, 1, name="child")
        log.append(child, [deed("x" * 5000)])
        with other.database.write() as tx:
            tx.run("DELETE FROM sawlog.blobs")
        with pytest.raises(Conflict, match="blob"):
            load(other, export(log, child))
        assert len(other.sessions()) == 1


class TestBadInput:
    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"\n", id="a blank line"),
            pytest.param(os.urandom(5000), id="random"),
            pytest.param(b"\0" * 5000, id="zeros"),
            pytest.param(b"PK\x03\x04" + bytes(range(256)) * 9, id="a zip"),
            pytest.param(b'{"type":"user"}\n' * 50, id="other JSON lines"),
            pytest.param(b'{"sawlog":2,"session":"x"}\n', id="another version"),
            pytest.param(b'{"sawlog":true}\n', id="no version"),
            pytest.param(b'{"sawlog":1', id="cut in its first record"),
            pytest.param(b'{"sawlog":' + b"[" * 100_000 + b"\n", id="100,000 brackets"),
            pytest.param(b"x" * (2 << 20), id="a long line"),
        ],
    )
    def test_what_is_no_export_is_told_so(self, other: Log, data: bytes) -> None:
        for lines in (lines_of(io.BytesIO(data)), lines_in(data)):
            with pytest.raises(UnknownFormat) as caught:
                load(other, lines)
            assert "\n" not in str(caught.value)
        assert is_empty(other)

    def test_a_first_line_that_says_too_little_is_damaged(self, other: Log) -> None:
        for line in (b'{"sawlog":1}\n', b'{"sawlog":1,"session":"","name":null,"ancestors":[]}\n'):
            with pytest.raises(Damaged):
                load(other, [line])

    def test_a_database_is_no_export(self, other: Log, tmp_path: Path) -> None:
        path = tmp_path / "some.db"
        open_database(path).close()
        with path.open("rb") as file, pytest.raises(UnknownFormat):
            load(other, lines_of(file))
        assert not is_export(path.read_bytes()) and is_export(forged([])[0])

    def test_a_million_lines_are_not_read_beyond_the_first(self, other: Log) -> None:
        numbers = iter(range(1_000_000))
        with pytest.raises(UnknownFormat):
            load(other, (b"{}\n" for _ in numbers))
        assert next(numbers) == 1

    @pytest.mark.parametrize("start", [b"", forged([])[0]], ids=["first", "second"])
    def test_a_line_of_a_gigabyte_is_not_read(self, other: Log, start: bytes) -> None:
        class Endless(io.RawIOBase):
            """A gigabyte of one letter behind a start."""

            def __init__(self) -> None:
                self.left = start + b'{"blob":"'
                self.given = 0

            def readable(self) -> bool:
                return True

            def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
                some = (self.left or b"a" * len(buffer))[: len(buffer)]
                self.left = self.left[len(some) :]
                buffer[: len(some)] = some
                self.given += len(some)
                return len(some) if self.given < 1 << 30 else 0

        raw = Endless()
        tracemalloc.start()
        try:
            with pytest.raises((TooLarge, UnknownFormat)):
                load(other, lines_of(io.BufferedReader(raw, 1 << 20), 32 << 20), longest=32 << 20)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()
        assert raw.given < 40 << 20 and is_empty(other)

    def test_bounds_can_be_raised(self, log: Log, other: Log) -> None:
        session = log.session("s", create=True)
        log.append(session, [deed("x" * 50_000)])
        lines = list(export(log, session))
        with pytest.raises(TooLarge, match="raise the bound"):
            load(other, lines, longest=60_000)
        assert load(other, lines, longest=80_000).head == 1

    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        """Ten thousand events and thirty megabytes of blobs, in a fraction of their size."""
        with (
            open_database(tmp_path / "one.db") as one,
            open_database(tmp_path / "two.db") as two,
        ):
            logs = [Log(each, registry=REGISTRY) for each in (one, two)]
            session = logs[0].session("s", create=True)
            noise = random.Random(3)
            for _ in range(40):
                batch = [deed(str(noise.random()) * 20) for _ in range(250)]
                batch.append(deed(noise.randbytes(400_000).hex()))
                logs[0].append(session, batch)
            path = tmp_path / "s.jsonl"
            tracemalloc.start()
            try:
                with path.open("wb") as file:
                    file.writelines(export(logs[0], session))
                written = tracemalloc.get_traced_memory()[1]
                tracemalloc.reset_peak()
                with path.open("rb") as file:
                    row = load(logs[1], lines_of(file))
                read = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert row.head == 10_040 and path.stat().st_size > 40 << 20
            assert written < 20 << 20 and read < 20 << 20, (written, read)


class TestHalfWay:
    """An import that does not end leaves nothing behind."""

    def test_lines_that_break_off(self, source: Log, other: Log) -> None:
        def broken() -> Iterator[bytes]:
            yield from lines_in(file_of(source, grown(source, "s", 50)))[:40]
            raise OSError("the pipe broke")

        with pytest.raises(OSError, match="pipe"):
            load(other, broken())
        assert is_empty(other)

    def test_a_store_without_room(self, tmp_path: Path, source: Log) -> None:
        lines = lines_in(file_of(source, grown(source, "s", 1000)))
        with open_database(tmp_path / "small.db") as database:
            small = Log(database, registry=REGISTRY)
            with database.write() as tx:
                [(pages,)] = tx.all("PRAGMA page_count")
                tx.all(f"PRAGMA max_page_count = {pages + 20}")
            with pytest.raises(StoreError, match="no room"):
                load(small, lines)
            assert is_empty(small)
            with database.write() as tx:
                tx.all("PRAGMA max_page_count = 1000000")
            assert load(small, lines).head == 1000

    def test_a_store_that_was_closed(self, database: Database, other: Log) -> None:
        lines = lines_in(file_of(other, grown(other, "s", 5)))
        log = Log(database, registry=REGISTRY)
        database.close()
        with pytest.raises(StoreError, match="closed"):
            load(log, lines)
