"""ls, show and doctor."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import psycopg
import pytest

import sawlog as library
from sawlog.agentlog import open as open_log
from sawlog.cli.doctor import shown_url
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import event
from tests.cli import written
from tests.cli.command import one_sentence, sawlog

# --- ls -------------------------------------------------------------------------------------------


def test_ls_lists_sessions_with_all_that_names_them(store: str) -> None:
    (row,) = sawlog("--store", store, "ls", "--json").json
    with open_log(store, read_only=True) as log:
        (known,) = log.sessions()
    assert row["id"] == known.id.hex()
    assert row["name"] == written.NAME
    assert row["source_id"] == row["format"] == row["owner"] == ""
    assert row["head"] == known.head > 0
    assert row["digest"] == known.digest.hex()
    assert sawlog("--store", store, "ls").text.splitlines()[1].endswith(written.NAME)


def test_ls_names_who_drives_a_session_now(file_store: str) -> None:
    with open_log(file_store) as log, log.session(written.NAME, owner="host:1"):
        assert sawlog("--store", file_store, "ls", "--json").json[0]["owner"] == "host:1"
    assert sawlog("--store", file_store, "ls", "--json").json[0]["owner"] == ""


def test_ls_tells_sessions_apart_by_the_beginnings_of_their_ids(file_store: str) -> None:
    with open_log(file_store) as log:
        for number in range(5):
            with log.session(f"s{number}") as s:
                s.user("hello")
    lines = sawlog("--store", file_store, "ls").text.splitlines()[1:]
    shorts = [line.split()[0] for line in lines]
    assert len(set(shorts)) == len(shorts) == 6
    for short, line in zip(shorts, lines, strict=True):
        shown = sawlog("--store", file_store, "show", short, "--json").json
        assert line.endswith(shown["session"]["name"])


def test_ls_of_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    store = tmp_path / "empty.db"
    open_log(str(store)).close()
    assert "sawlog import" in sawlog("--store", store, "ls").text
    assert sawlog("--store", store, "ls", "--json").json == []
    assert "no session yet" in one_sentence(sawlog("--store", store, "show", "-"))


# --- show -----------------------------------------------------------------------------------------


def test_show_tells_the_conversation_without_the_bookkeeping(store: str) -> None:
    done = sawlog("--store", store, "show", written.NAME)
    assert done.code == 0
    for said in (written.RULE, written.OLD_ORDER, 'refund {"order":7}', "It is disputed."):
        assert said in done.text
    assert "packet.built" not in done.text
    assert "not shown; --all shows them" in done.text


def test_show_all_tells_every_event_from_the_first(store: str) -> None:
    events = sawlog("--store", store, "show", "-", "--all", "--json").json["events"]
    head = sawlog("--store", store, "ls", "--json").json[0]["head"]
    assert [event["seq"] for event in events] == list(range(1, head + 1))
    assert len(sawlog("--store", store, "show", "-", "--all").text.splitlines()) >= head


def test_show_is_bounded_and_its_newest_events_are_there(file_store: str) -> None:
    with open_log(file_store) as log, log.session("long") as s:
        for number in range(600):
            s.user(f"message {number}")
    shown = sawlog("--store", file_store, "show", "long", "--json").json
    assert [event["text"] for event in shown["events"]] == [f"message {n}" for n in range(560, 600)]
    assert shown["not_shown"] == 561
    lines = sawlog("--store", file_store, "show", "long").text.splitlines()
    assert len(lines) < 50


def test_show_a_step_tells_its_events(store: str) -> None:
    shown = sawlog("--store", store, "show", f"{written.NAME}@{written.WRONG}", "--json").json
    assert shown["step"] == written.WRONG
    types = [event["type"] for event in shown["events"]]
    assert types == [
        "packet.built",
        "attempt.sent",
        "attempt.answered",
        "tool.requested",
        "step.completed",
        "tool.started",
        "tool.finished",
    ]
    assert shown["packet"] == shown["events"][0]["seq"]
    name = shown["events"][3]["text"].partition(" ")[0]
    assert shown["events"][5]["text"] == f"{name} (side_effect)"
    text = sawlog("--store", store, "show", f"-@{written.WRONG}").text
    assert "refunded 900 EUR" in text


def test_a_session_whose_own_name_looks_like_a_step_is_shown(file_store: str) -> None:
    with open_log(file_store) as log, log.session("night@3") as s:
        s.user("hello")
    shown = sawlog("--store", file_store, "show", "night@3", "--json").json
    assert shown["session"]["name"] == "night@3"
    assert sawlog("--store", file_store, "show", "night@3@1").code == 2


def test_texts_of_others_do_not_steer_the_terminal(file_store: str) -> None:
    """Escape sequences, bells and text that runs the other way stand as escapes."""
    with open_log(file_store) as log, log.session("bad\x1b[2J") as s:
        s.user("\x1b]0;owned\x07 red\x9b31m \u202ereversed\u2066 \r over\x08 \ud800 lone")
    for arguments in (("show", "-"), ("show", "-", "--all"), ("ls",)):
        done = sawlog("--store", file_store, *arguments)
        assert done.code == 0
        assert not set(done.text) & set("\x1b\x07\x9b\u202e\u2066\r\x08")
    shown = sawlog("--store", file_store, "show", "-").text
    assert "\\x1b]0;owned\\x07" in shown
    assert "\\ud800 lone" in shown
    told = sawlog("--store", file_store, "show", "-", "--json").json["events"][0]["text"]
    assert told.startswith("\x1b]0;owned")
    assert told.endswith("\ud800 lone")


def test_a_long_content_is_shown_by_its_beginning(file_store: str) -> None:
    """A content above 4,096 bytes is a blob; --all shows the whole of it."""
    text = "first line\n" + "x" * 50_000
    with open_log(file_store) as log, log.session("large") as s:
        s.user(text)
    short = sawlog("--store", file_store, "show", "large", "--json").json["events"][0]["text"]
    whole = sawlog("--store", file_store, "show", "large", "--json", "--all").json["events"]
    assert short == text[:2000]
    assert text in [event["text"] for event in whole]
    assert len(sawlog("--store", file_store, "show", "large").text) < 3000


@event("note.pinned", 1)
class NotePinned(Payload, frozen=True):
    """A third party's event type."""

    text: str


def test_a_type_that_is_not_registered_is_named_and_hides_nothing(file_store: str) -> None:
    with library.open(file_store, types=[NotePinned]) as log, log.session("third") as s:
        s.user("before")
        s.append(NotePinned("hello"), ignorable=True)
        s.user("after")
    shown = sawlog("--store", file_store, "show", "third")
    assert shown.code == 0
    assert "note.pinned" in shown.text
    assert "not registered here" in shown.text
    assert "after" in shown.text


def test_a_damaged_event_is_named_and_hides_no_other(file_store: str) -> None:
    head = sawlog("--store", file_store, "ls", "--json").json[0]["head"]
    with sqlite3.connect(file_store) as connection:
        connection.execute("UPDATE events SET payload = x'00' WHERE seq = 4")
    connection.close()
    for arguments in (("show", "-"), ("show", "-", "--all")):
        done = sawlog("--store", file_store, *arguments)
        assert done.code == 0
        assert "DAMAGED" in done.text
        assert written.NEW_ORDER in done.text
    events = sawlog("--store", file_store, "show", "-", "--all", "--json").json["events"]
    assert [event["seq"] for event in events if "damaged" in event] == [4]
    assert len(events) == head
    packet = sawlog("--store", file_store, "packet", f"-@{written.WRONG}")
    assert packet.code == 4
    assert "event 4" in one_sentence(packet) and "`sawlog salvage`" in one_sentence(packet)


# --- doctor ---------------------------------------------------------------------------------------


def test_doctor_tells_the_store_and_the_installation(store: str) -> None:
    done = sawlog("--store", store, "doctor", "--json")
    assert done.code == 0
    facts = done.json
    assert facts["store"]["dialect"] in ("sqlite", "postgresql")
    assert facts["store"]["schema"] == 2
    assert facts["store"]["sessions"] == 1
    assert facts["store"]["events"] == sawlog("--store", store, "ls", "--json").json[0]["head"]
    assert facts["store"]["size"] > 10_000
    assert facts["store"]["leases"] == facts["store"]["held"] == facts["advice"] == []
    assert {"sawlog", "python", "sqlite", "sqlalchemy"} <= set(facts["versions"])
    assert facts["missing_extras"] == []
    text = sawlog("--store", store, "doctor").text
    assert facts["store"]["epoch"] in text
    assert facts["versions"]["python"] in text


def test_doctor_names_leases(store: str) -> None:
    with open_log(store) as log, log.session(written.NAME, owner="host:7") as s:
        facts = sawlog("--store", store, "doctor", "--json").json["store"]
        assert [(one["session"], one["owner"]) for one in facts["leases"]] == [(s.id, "host:7")]
        assert "host:7" in sawlog("--store", store, "doctor").text


def test_doctor_shows_no_password(postgres_url: str) -> None:
    assert shown_url("postgresql://me:secret@host/db") == "postgresql://me@host/db"
    assert shown_url("/a/b@c.db") == "/a/b@c.db"
    written.make(postgres_url)
    password = postgres_url.partition("://")[2].partition("@")[0].partition(":")[2]
    if password:
        assert password not in sawlog("--store", postgres_url, "doctor").text


def test_doctor_of_no_store_tells_the_installation_all_the_same(tmp_path: Path) -> None:
    done = sawlog("--store", tmp_path / "none.db", "doctor", "--json")
    assert done.code == 2
    assert done.json["store"]["error"]["kind"] == "NoStore"
    assert "python" in done.json["versions"]
    one_sentence(done)


def test_doctor_names_an_open_writer_that_holds_followers_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.make(postgres_url)
    plain = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain, application_name="the slow one") as connection:
        connection.execute("UPDATE sawlog.store SET epoch = epoch")
        process = connection.info.backend_pid
        with open_log(postgres_url) as log, log.session("late") as s:
            s.user("hello")
        facts = sawlog("--store", postgres_url, "doctor", "--json").json
        (held,) = facts["store"]["held"]
        assert held["process"] == process
        assert held["application"] == "the slow one"
        assert facts["store"]["waiting"] == 2
        assert facts["advice"] == []  # it has written for a moment only
        monkeypatch.setattr("sawlog.cli.doctor._SLOW_SECONDS", 0)
        done = sawlog("--store", postgres_url, "doctor")
        assert done.code == 1
        assert "the slow one" in done.text
    until = time.monotonic() + 30  # the server learns of it by and by
    while sawlog("--store", postgres_url, "doctor", "--json").json["store"]["held"]:
        assert time.monotonic() < until, "the writer is gone"
        time.sleep(0.05)
