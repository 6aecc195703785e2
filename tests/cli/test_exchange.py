"""import, export, salvage and migrate."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sawlog.agentlog import open as open_log
from tests.cli import written
from tests.cli.command import one_sentence, sawlog, spawned
from tests.fresh import PEAK

FIELDS = (
    "session", "added", "events", "steps", "calls", "unanswered", "orphans", "opaque", "anomalies",
    "name", "file", "differs_from",
)  # fmt: skip
QUESTION = {"role": "user", "content": "How warm is it?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "warm", "arguments": "{}"}}
    ],
}
ANSWER = {"role": "tool", "tool_call_id": "call_1", "content": "21 degrees"}


def chat(path: Path, *messages: dict[str, Any]) -> Path:
    """Write a file of Chat Completions messages."""
    path.write_text(json.dumps(messages))
    return path


# --- import ---------------------------------------------------------------------------------------


def test_an_import_tells_what_the_file_holds_and_what_was_new(
    store_url: str, tmp_path: Path
) -> None:
    file = chat(tmp_path / "chat.json", QUESTION, CALL)
    (first,) = sawlog("--store", store_url, "import", file, "--json").json
    assert tuple(first) == FIELDS
    assert (first["steps"], first["calls"], first["unanswered"]) == (1, 1, 1)
    assert first["added"] > first["events"] > 0
    (again,) = sawlog("--store", store_url, "import", file, "--json").json
    assert again == {**first, "added": 0}
    chat(file, QUESTION, CALL, ANSWER)
    (longer,) = sawlog("--store", store_url, "import", file, "--json").json
    assert longer["session"] == first["session"]
    assert (longer["unanswered"], longer["added"]) == (0, longer["events"] - first["events"])
    assert first["file"] == str(file)
    assert not longer["differs_from"]
    (listed,) = sawlog("--store", store_url, "ls", "--json").json
    assert (listed["id"], listed["name"]) == (first["session"], first["name"])
    text = sawlog("--store", store_url, "import", file).text
    assert (first["name"] or first["session"]) in text
    assert str(file) in text
    assert sawlog("--store", store_url, "verify", "--all").code == 0


def test_a_folder_is_searched_and_several_paths_are_read(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    folder = tmp_path / "logs" / "deep"
    folder.mkdir(parents=True)
    chat(folder / "a.json", QUESTION)
    chat(folder / "b.json", {"role": "user", "content": "And there?"}, CALL)
    (folder / "notes.json").write_text('{"unrelated": true}')
    other = chat(tmp_path / "other.json", {"role": "user", "content": "else"})
    found = sawlog("--store", store, "import", folder.parent, other, "--json").json
    assert [row["calls"] for row in found] == [0, 1, 0]
    assert len({row["session"] for row in found}) == 3
    assert len(sawlog("--store", store, "ls", "--json").json) == len(found)


def test_a_file_that_contradicts_the_store_is_told(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    file = chat(tmp_path / "chat.json", QUESTION, CALL, ANSWER)
    (first,) = sawlog("--store", store, "import", file, "--json").json
    chat(file, QUESTION, CALL, {**ANSWER, "content": "22 degrees"})
    told = f"{file}: other records than session {first['session']} holds: one of its own\n"
    assert told in sawlog("--store", store, "import", file).text
    (again,) = sawlog("--store", store, "import", file, "--json").json
    assert again["session"] != first["session"]
    assert (again["differs_from"], again["added"]) == (first["session"], 0)
    assert told not in sawlog("--store", store, "import", file).text


def test_a_file_that_does_not_read_keeps_no_other_back(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    good = chat(tmp_path / "good.json", QUESTION)
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"PK\x03\x04 and so on")
    done = sawlog("--store", store, "import", bad, good, "--json")
    assert done.code == 4
    assert [row["steps"] for row in done.json] == [0]
    assert "zip archive" in one_sentence(done)


def test_the_format_may_be_given(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    file = chat(tmp_path / "chat.json", QUESTION)
    assert sawlog("--store", store, "import", file, "--format", "codex").code == 4
    assert not store.exists()
    assert sawlog("--store", store, "import", file, "--format", "openai-chat").code == 0


def bad_file(kind: str, path: Path) -> Path:
    """A file that is no transcript."""
    file = path / f"{kind}.jsonl"
    match kind:
        case "empty":
            file.touch()
        case "binary":
            file.write_bytes(b"\x00\x01" + os.urandom(4000))
        case "unknown":
            file.write_text('{"foo": 1, "bar": "x"}\n' * 50)
        case "cut":
            file.write_text('{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payl')
        case "long line":
            with file.open("wb") as opened:
                opened.write(b'{"type":"session_meta","payload":{"x":"' + b"a" * 8192)
                opened.truncate(2**30)  # a hole: it is read like any other, and takes no room
        case "nested":
            file.write_text('{"type":"session_meta","x":' + "[" * 100_000 + "]" * 100_000 + "}\n")
        case "many values":
            with file.open("wb") as opened:
                opened.write(b"[" + b'{"role":"user","content":"x"},' * 1_500_000 + b"{}]")
        case "zip":
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("session.jsonl", "{}" * 1000)
        case "missing":
            pass
        case _:
            raise AssertionError(kind)
    return file


BAD = ("empty", "binary", "unknown", "cut", "long line", "nested", "many values", "zip", "missing")


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("format", ["auto", "openai-chat", "sawlog"])
def test_bad_input_is_one_sentence_and_writes_nothing(
    kind: str, format: str, tmp_path: Path
) -> None:
    """Exit code 4, no traceback, no store, memory below 500 MB."""
    file = bad_file(kind, tmp_path)
    store = tmp_path / "store.db"
    code = (
        f"{PEAK}\nimport sys\nfrom sawlog.cli import main\ncode = main(sys.argv[1:])\n"
        "print(peak())\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--store", store, "import", file, "--format", format],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 4, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("sawlog: ")
    assert str(file) in lines[0]
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 500_000_000
    assert {path.name for path in tmp_path.iterdir()} <= {file.name}


# --- export ---------------------------------------------------------------------------------------


def test_an_export_goes_into_the_other_kind_of_store_and_out_again(
    file_store: str, postgres_url: str, tmp_path: Path
) -> None:
    """Equal bytes, equal heads; a second import adds nothing."""
    file = tmp_path / "out.jsonl"
    facts = sawlog("--store", file_store, "export", "-", "-o", file, "--json").json
    assert facts["bytes"] == file.stat().st_size
    assert file.read_bytes() == sawlog("--store", file_store, "export", written.NAME).out
    (done,) = sawlog("--store", postgres_url, "import", file, "--json").json
    assert tuple(done) == FIELDS
    assert done["session"] == facts["session"]
    assert done["added"] == done["events"] == facts["head"]
    assert (done["steps"], done["calls"], done["unanswered"]) == (written.STEPS, 3, 0)
    assert sawlog("--store", postgres_url, "import", file, "--json").json[0]["added"] == 0
    assert sawlog("--store", postgres_url, "export", "-").out == file.read_bytes()
    here = sawlog("--store", file_store, "ls", "--json").json[0]
    there = sawlog("--store", postgres_url, "ls", "--json").json[0]
    assert here["digest"] == there["digest"]
    assert sawlog("--store", postgres_url, "verify", "-").code == 0
    raw = sawlog("--store", file_store, "packet", "-@3", "--raw").out
    assert sawlog("--store", postgres_url, "packet", "-@3", "--raw").out == raw


def test_an_altered_export_is_refused_and_makes_no_store(file_store: str, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    sawlog("--store", file_store, "export", "-", "-o", file)
    text = file.read_text()
    for altered in (
        text.replace("500 EUR", "900 EUR"),
        text[: len(text) // 2],
        text.replace('{"seq":', '{ "seq":'),
    ):
        file.write_text(altered)
        done = sawlog("--store", tmp_path / "new.db", "import", file)
        assert done.code == 4
        assert str(file) in one_sentence(done)
        assert not (tmp_path / "new.db").exists()


def test_an_export_that_contradicts_the_store_is_a_conflict(
    file_store: str, tmp_path: Path
) -> None:
    early = tmp_path / "early.jsonl"
    sawlog("--store", file_store, "export", "-", "-o", early)
    other = tmp_path / "other.db"
    assert sawlog("--store", other, "import", early).code == 0
    for store, said in ((file_store, "here"), (str(other), "there")):
        with open_log(store) as log, log.session(written.NAME) as s:
            s.user(said)
    late = tmp_path / "late.jsonl"
    sawlog("--store", file_store, "export", "-", "-o", late)
    done = sawlog("--store", other, "import", late)
    assert done.code == 3
    one_sentence(done)


def test_an_export_is_written_whole_or_not_at_all(file_store: str, tmp_path: Path) -> None:
    """A damaged session gives no file, and the one that was there stays."""
    file = tmp_path / "out.jsonl"
    file.write_text("the old one")
    with sqlite3.connect(file_store) as connection:
        connection.execute("UPDATE events SET salt = x'00' WHERE seq = 20")
    connection.close()
    done = sawlog("--store", file_store, "export", "-", "-o", file)
    assert done.code == 4
    assert "event 20" in one_sentence(done)
    assert file.read_text() == "the old one"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_an_export_into_a_folder_or_nowhere_is_one_sentence(
    file_store: str, tmp_path: Path
) -> None:
    for output in (tmp_path, tmp_path / "none" / "x.jsonl"):
        done = sawlog("--store", file_store, "export", "-", "-o", output)
        assert done.code == 2
        assert str(output) in one_sentence(done)
    done = sawlog("--store", file_store, "export", "-", "--json")
    assert done.code == 2


def test_an_export_s_bytes_are_the_same_through_a_pipe(file_store: str) -> None:
    assert (
        spawned("--store", file_store, "export", "-").out
        == sawlog("--store", file_store, "export", "-").out
    )


# --- salvage --------------------------------------------------------------------------------------


def test_salvage_saves_the_good_prefix_and_lists_the_rest(file_store: str, tmp_path: Path) -> None:
    head = sawlog("--store", file_store, "ls", "--json").json[0]["head"]
    with sqlite3.connect(file_store) as connection:
        connection.execute("UPDATE events SET salt = x'00' WHERE seq = 20")
    connection.close()
    before = Path(file_store).read_bytes()
    file = tmp_path / "saved.jsonl"
    done = sawlog("--store", file_store, "salvage", "-", "-o", file, "--json")
    assert done.code == 0
    assert done.json["last_good"] == 19
    assert [one["seq"] for one in done.json["rest"]] == list(range(20, head + 1))
    assert Path(file_store).read_bytes() == before
    new = tmp_path / "new.db"
    assert sawlog("--store", new, "import", file, "--json").json[0]["events"] == 19
    assert sawlog("--store", new, "verify", "-").code == 0
    text = sawlog("--store", file_store, "salvage", "-", "-o", file).text
    assert "events 1 to 19" in text
    assert "event 20" in text


def test_salvage_of_a_sound_session_is_its_export(store: str, tmp_path: Path) -> None:
    file = tmp_path / "saved.jsonl"
    done = sawlog("--store", store, "salvage", "-", "-o", file)
    assert done.code == 0
    assert "nothing is wrong" in done.text
    assert file.read_bytes() == sawlog("--store", store, "export", "-").out


# --- migrate --------------------------------------------------------------------------------------


def test_migrate_makes_the_tables_and_is_done_the_second_time(new_store_url: str) -> None:
    url = new_store_url
    first = sawlog("--store", url, "migrate", "--json")
    assert (first.code, first.json) == (0, {"before": 0, "after": 2})
    again = sawlog("--store", url, "migrate", "--json")
    assert (again.code, again.json) == (0, {"before": 2, "after": 2})
    assert "nothing to do" in sawlog("--store", url, "migrate").text
    assert sawlog("--store", url, "ls", "--json").json == []


def test_a_database_without_tables_names_the_mend(empty_postgres_url: str, tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.json", QUESTION)
    for arguments in (("ls",), ("verify", "--all"), ("import", file), ("doctor",)):
        done = sawlog("--store", empty_postgres_url, *arguments)
        assert done.code == 2
        assert "migrate" in one_sentence(done)


def test_a_store_of_a_newer_sawlog_is_refused_with_advice(file_store: str, tmp_path: Path) -> None:
    with sqlite3.connect(file_store) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    file = chat(tmp_path / "chat.json", QUESTION)
    for arguments in (("ls",), ("migrate",), ("import", file), ("demo",)):
        done = sawlog("--store", file_store, *arguments)
        assert done.code == 2
        assert "upgrade sawlog" in one_sentence(done)
