"""The golden vectors of stored format 1 come out again, byte for byte, and read without sawlog."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sawlog.store.database import Database
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageUser, ToolFinished, ToolRequested
from sawlog.store.exchange import export, load
from sawlog.store.exported import event_of
from sawlog.store.log import Log
from sawlog.store.text import plain
from tests.store import independent_payloads, independent_reader
from tests.store.make_golden import HEADS, ODD_JSON, ODD_TEXTS, REGISTRY, Reading, make
from tests.store.stores import ROOT

GOLDEN = ROOT / "fixtures" / "golden"
FILES = sorted(GOLDEN.glob("*.jsonl"))
REFUSED = (AssertionError, KeyError, ValueError, struct.error)
ALL = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def heads() -> dict[str, dict[str, object]]:
    """What the vectors must give."""
    found: dict[str, dict[str, object]] = json.loads((GOLDEN / HEADS).read_text(encoding="utf-8"))
    return found


def events(file: Path) -> Iterator[bytes]:
    """The lines of events of a file."""
    for line in file.read_bytes().splitlines(keepends=True):
        if line.startswith(b'{"seq":'):
            yield line


@pytest.fixture
def log(database: Database) -> Log:
    """A log that knows the third party's type in the vectors."""
    return Log(database, registry=REGISTRY)


def test_the_vectors_are_there() -> None:
    assert {file.name for file in FILES} == set(heads())
    assert len(FILES) >= 5


def test_writing_them_again_gives_the_same_bytes(tmp_path: Path) -> None:
    make(tmp_path)
    for path in sorted(GOLDEN.iterdir()):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Chatham"},
    ],
    ids=["C in UTC", "UTF-8 far east"],
)
def test_hash_seed_locale_and_time_zone_change_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.make_golden", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / HEADS).read_bytes() == (GOLDEN / HEADS).read_bytes()


def test_every_core_type_is_among_them() -> None:
    seen = {
        (event.type, event.version)
        for file in FILES
        for event in map(event_of, events(file))
        if event.payload is not None
    }
    assert {(kind.name, kind.version) for kind in CORE} <= seen


@ALL
def test_the_independent_reader_finds_the_heads(file: Path) -> None:
    wanted = heads()[file.name]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == wanted["sha256"]
    found = independent_reader.read(str(file))
    assert found == (wanted["session"], wanted["head"], wanted["digest"])
    assert independent_payloads.check(str(file)) == wanted["head"]


def python_of(version: str) -> str:
    """An interpreter of that release, where the machine has one."""
    managed = (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")
    for python in (shutil.which(f"python{version}"), *map(str, managed)):
        if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
            return python
    pytest.skip(f"there is no Python {version} on this machine")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_independent_reader_reads_in_every_python(version: str) -> None:
    reader = [python_of(version), "-P", str(Path(independent_reader.__file__)), *map(str, FILES)]
    done = subprocess.run(reader, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    wanted = [heads()[file.name] for file in FILES]
    lines = [f"{one['session']} {one['head']} {one['digest']}" for one in wanted]
    assert done.stdout.splitlines() == lines


def test_the_independent_reader_knows_nothing_of_sawlog() -> None:
    source = Path(independent_reader.__file__).read_text(encoding="utf-8")
    imported = re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE)
    assert set(imported) <= set(sys.stdlib_module_names)


def test_the_independent_reader_refuses_what_was_altered(tmp_path: Path) -> None:
    """Every field of every kind of event matters, every blob, every line."""
    lines = (GOLDEN / "odd-contents.jsonl").read_bytes().splitlines(keepends=True)
    altered = tmp_path / "altered.jsonl"
    tried = 0
    for at, line in enumerate(lines[1:-1], start=1):
        places = [found.end() for found in re.finditer(rb'":"?', line)][:14]
        places.append(len(line) - len(line) // 3)
        for place in places:
            if line[place : place + 4] == b"null":
                continue
            tried += 1
            digit = b"1" if line[place : place + 1] != b"1" else b"2"
            changed = line[:place] + digit + line[place + 1 :]
            altered.write_bytes(b"".join((*lines[:at], changed, *lines[at + 1 :])))
            with pytest.raises(REFUSED):
                independent_reader.read(str(altered))
        altered.write_bytes(b"".join((*lines[:at], *lines[at + 1 :])))
        with pytest.raises(REFUSED):
            independent_reader.read(str(altered))
    assert tried > 400


@ALL
def test_each_vector_comes_in_and_goes_out_the_same(file: Path, log: Log) -> None:
    with file.open("rb") as lines:
        row = load(log, lines)
    wanted = heads()[file.name]
    assert (row.id.hex(), row.head, row.digest.hex()) == (
        wanted["session"],
        wanted["head"],
        wanted["digest"],
    )
    assert b"".join(export(log, row)) == file.read_bytes()


@ALL
def test_decoded_payloads_encode_to_the_same_bytes(file: Path) -> None:
    """The structs of today still read the stored bytes whole: no field is lost or moved."""
    for line in events(file):
        event = event_of(line)
        content = REGISTRY.decode(event)
        if event.payload is not None:
            assert isinstance(content, Payload)
            assert msgspec.json.encode(content) == event.payload


def test_odd_texts_and_arguments_read_as_they_were_said(log: Log) -> None:
    with (GOLDEN / "odd-contents.jsonl").open("rb") as lines:
        row = load(log, lines)
    texts: list[str] = []
    arguments: list[str] = []
    for event in log.read(row):
        content = REGISTRY.decode(event)
        blobs = {
            digest.hex(): data
            for digest, data in log.blobs(row, sorted(log_names(event.payload))).items()
        }
        if isinstance(content, MessageUser) and content.parts and len(texts) < len(ODD_TEXTS):
            part = content.parts[0]
            assert isinstance(part, msgspec.Struct)
            texts.append(plain(part.text, blobs))  # type: ignore[union-attr]
        elif isinstance(content, ToolRequested):
            arguments.append(plain(content.arguments, blobs))
        elif isinstance(content, ToolFinished):
            value = content.parts[0].text  # type: ignore[union-attr]
            assert value.is_preview and plain(value, blobs).strip("pqr\udcff") == ""  # type: ignore[union-attr]
        elif isinstance(content, Reading):
            assert plain(content.text, blobs) == "t" * 5000
    assert texts == list(ODD_TEXTS.values())
    assert arguments == list(ODD_JSON.values())


def log_names(payload: bytes | None) -> set[bytes]:
    """The blobs that a payload names, by a rule of its own: 64 hex digits under `blob`."""
    found = re.findall(rb'"blob":"([0-9a-f]{64})"', payload or b"")
    return {bytes.fromhex(digest.decode()) for digest in found}
