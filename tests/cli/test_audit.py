"""why, diff and verify, on a wrong decision in a written session."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import sawlog as library
from sawlog.agentlog import open as open_log
from sawlog.builder import forms
from sawlog.builder.contents import Contents
from sawlog.store.text import Text
from tests.cli import written
from tests.cli.command import one_sentence, sawlog
from tests.cli.test_look import NotePinned

STEP = f"{written.NAME}@{written.WRONG}"

# --- why ------------------------------------------------------------------------------------------


def test_why_finds_where_the_rule_fell_out(store: str) -> None:
    """It was a candidate, packets 1 to 3 had it, and the block cut of packet 4 left it behind."""
    found = sawlog("--store", store, "why", STEP, "500 EUR", "--json").json
    assert found["seen"] is False
    (part,) = found["parts"]
    assert part["candidate"] is True
    assert part["present"] is False
    assert part["reason"] == "block_cut"
    assert (part["seen_first"], part["seen_until"], part["out_at"]) == (1, 3, 4)
    assert written.RULE in part["excerpt"]
    text = sawlog("--store", store, "why", STEP, "500 EUR").text
    assert (
        "not seen: out since step 4: the policy's block cut left it behind; "
        "packets of steps 1 to 3 had it" in text
    )


def test_why_says_that_a_text_was_seen_while_it_was(store: str) -> None:
    found = sawlog("--store", store, "why", f"{written.NAME}@3", "500 EUR", "--json").json
    assert found["seen"] is True
    assert found["parts"][0]["form"] == "full"
    assert "seen, as full" in sawlog("--store", store, "why", "-@3", "500 EUR").text


def test_why_tells_two_versions_of_a_fact_apart(store: str) -> None:
    """The decision was made on the second reading of the order, not on the first."""
    first, second = sawlog("--store", store, "why", STEP, "order 7: 900", "--json").json["parts"]
    assert (first["present"], second["present"]) == (False, True)
    assert first["version"] != second["version"]
    assert first["seq"] < second["seq"]


def test_why_names_what_came_only_later(store: str) -> None:
    (part,) = sawlog("--store", store, "why", "-@2", "disputed.", "--json").json["parts"]
    assert (part["candidate"], part["reason"]) == (False, "not_yet")


def test_why_says_when_the_log_does_not_hold_a_text(store: str) -> None:
    done = sawlog("--store", store, "why", STEP, "nobody said this")
    assert done.code == 0
    assert "does not hold this text at all" in done.text
    assert sawlog("--store", store, "why", STEP, "nobody said this", "--json").json["parts"] == []


def test_why_answers_for_an_item_in_words(file_store: str) -> None:
    """Where it fell out, what was preferred by which signal, which cause that is."""
    with open_log(file_store) as log, log.session("items", window=150) as s:
        s.offer("The port is 80. " + "x" * 300, channel="memory", source_id="old", relevance=9)
        s.offer("The port is 8443. " + "x" * 300, channel="memory", source_id="new", relevance=7)
        s.user("What is the port?")
        s.step("openai-chat", model="m")
    text = sawlog("--store", file_store, "why", "items@1", "new").text
    assert "not seen: budget_exceeded at stage budget (ranked low)" in text
    assert "instead: old (event 2): relevance 9 against 7" in text
    assert "in zone retrieved" in text
    found = sawlog("--store", file_store, "why", "items@1", "new", "--json").json
    assert (found["answer"], found["parts"][0]["preferred"][0]["because"]) == (
        "ranked_low",
        "relevance",
    )
    assert sawlog("--store", file_store, "why", "items@1", "old", "--json").json["answer"] == "seen"
    nowhere = sawlog("--store", file_store, "why", "items@1", "nowhere", "--json").json
    assert nowhere["answer"] == "not_recalled"
    assert "not recalled" in sawlog("--store", file_store, "why", "items@1", "nowhere").text


def test_why_says_what_made_an_item_hold_no_longer(file_store: str) -> None:
    """In words that people read: no number of a candidate, no stand-in for a date."""
    with open_log(file_store) as log, log.session("ends", window=1500) as s:
        s.offer("It is so.", channel="web_content", source_id="forum")
        s.offer("Port 80.", channel="memory", source_id="port", version="1")
        s.offer("Port\n8443.", channel="memory", source_id="port", version="2")
        for at in range(8):
            s.user(f"Question {at}")
            if at == 1:
                s.withdraw("web_content", "forum", "hoax\x1b[2J")
            written.ask(s, written.says("w" * 1000))
    run = ("--store", file_store, "why")
    first = sawlog(*run, "ends@1", "It is so.").text
    assert "relevance not given" in first and "freshness no date" in first
    assert "9223372036854775808" not in first
    shown = sawlog(*run, "ends@3", "It is so.").text
    assert "a notice says: withdrawn (hoax\\x1b[2J), event" in shown
    gone = sawlog(*run, "ends@8", "It is so.").text
    assert "out since step 7: withdrawn (hoax\\x1b[2J), event" in gone
    assert "at step 7: the policy's block cut left it behind" in gone
    old = sawlog(*run, "ends@1", "Port 80.").text
    assert "by event 4 (memory port)" in old and "0000000000000004" not in old
    assert "… 8443. …" in sawlog(*run, "ends@1", "8443").text
    found = sawlog(*run, "ends@1", "It is so.", "--json").json["parts"][0]
    assert ["freshness", None] in found["scores"] and found["ended"] is None


# --- diff -----------------------------------------------------------------------------------------


def test_diff_shows_what_the_cut_took_out(store: str) -> None:
    changes = sawlog("--store", store, "diff", "-@3", "-@4", "--json").json["changes"]
    gone = [entry["excerpt"] for change in changes for entry in change["old"]]
    come = [entry["kind"] for change in changes for entry in change["new"]]
    assert written.RULE in gone
    assert "notice" in come
    text = sawlog("--store", store, "diff", "-@3", "-@4").text
    assert f"- user  {len_of(written.RULE)}" in text.replace(",", "")


def len_of(text: str) -> str:
    """The bytes of a user's entry with this text, as `diff` writes them."""
    from sawlog.builder.packet import Entry, entry_bytes

    entry = Entry(True, "history", "user", "user", "trusted", "", "", text)
    return f"{len(entry_bytes(entry))} bytes"


def test_diff_of_a_packet_that_grew_adds_at_its_end(store: str) -> None:
    (change,) = sawlog("--store", store, "diff", "-@5", "-@6", "--json").json["changes"]
    assert change["op"] == "added"
    assert [entry["excerpt"] for entry in change["new"]] == ["It is disputed.", "Refund it."]


def test_diff_of_a_packet_with_itself_is_empty(store: str) -> None:
    done = sawlog("--store", store, "diff", "-@2", "-@2")
    assert done.code == 0
    assert "the same" in done.text


def test_diff_compares_packets_of_two_sessions(file_store: str) -> None:
    with open_log(file_store) as log, log.session("other") as s:
        s.system("You work for a bank.")
        s.user("Hello?")
        written.ask(s, written.says("Hello."), temperature=1)
    found = sawlog("--store", file_store, "diff", f"{written.NAME}@1", "other@1", "--json").json
    assert found["old"]["session"] != found["new"]["session"]
    names = [entry["name"] for change in found["changes"] for entry in change["new"]]
    assert "params" in names
    assert "header" in sawlog("--store", file_store, "diff", f"{written.NAME}@1", "other@1").text


# --- verify ---------------------------------------------------------------------------------------


def test_verify_finds_nothing_in_a_sound_session(store: str) -> None:
    done = sawlog("--store", store, "verify", written.NAME, "--json")
    assert done.code == 0
    assert done.json["sessions"] == 1
    assert done.json["steps"] == written.STEPS
    assert done.json["paths"] == {"stored": "ok", "cold": "ok", "snapshot": "ok"}
    assert done.json["differences"] == 0
    assert done.json["first"] is None
    assert done.json["chain"] == "ok"
    assert "differences: 0, damaged: 0" in sawlog("--store", store, "verify", "--all").text


def test_verify_all_adds_up_and_calls_an_import_s_manifests_absent(
    file_store: str, tmp_path: Path
) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]')
    assert sawlog("--store", file_store, "import", chat).code == 0
    found = sawlog("--store", file_store, "verify", "-", "--json").json
    assert found["steps"] == 1
    assert found["paths"]["stored"] == "absent"
    assert {found["paths"][path] for path in ("cold", "incremental", "snapshot")} == {"ok"}
    both = sawlog("--store", file_store, "verify", "--all", "--json").json
    assert (both["sessions"], both["steps"]) == (2, written.STEPS + 1)
    assert both["paths"]["stored"] == "ok"
    assert len(both["heads"]) == 2


def test_verify_of_an_empty_store_is_fine(tmp_path: Path) -> None:
    store = tmp_path / "empty.db"
    open_log(str(store)).close()
    done = sawlog("--store", store, "verify", "--all", "--json")
    assert (done.code, done.json["sessions"], done.json["chain"]) == (0, 0, "ok")


def test_verify_names_a_damaged_event_and_goes_on_with_other_sessions(file_store: str) -> None:
    with open_log(file_store) as log, log.session("other") as s:
        s.user("hello")
    with sqlite3.connect(file_store) as connection:
        (sid,) = connection.execute(
            "SELECT sid FROM sessions WHERE name = ?", (written.NAME,)
        ).fetchone()
        (payload,) = connection.execute(
            "SELECT payload FROM events WHERE sid = ? AND seq = 9", (sid,)
        ).fetchone()
        flipped = bytes([payload[0], payload[1] ^ 1, *payload[2:]])
        connection.execute(
            "UPDATE events SET payload = ? WHERE sid = ? AND seq = 9", (flipped, sid)
        )
    connection.close()
    done = sawlog("--store", file_store, "verify", "--all", "--json")
    assert done.code == 4
    assert done.json["sessions"] == 2
    assert done.json["chain"] == 9
    assert [(one["name"], one["seq"]) for one in done.json["damaged"]] == [(written.NAME, 9)]
    assert sawlog("--store", file_store, "verify", "other").code == 0
    text = sawlog("--store", file_store, "verify", written.NAME).text
    assert "DAMAGED" in text
    assert "seq 9" in text


def test_verify_names_the_session_whose_directory_row_is_damaged(file_store: str) -> None:
    id = sawlog("--store", file_store, "ls", "--json").json[0]["id"]
    with sqlite3.connect(file_store) as connection:
        connection.execute("UPDATE sessions SET name = 'renamed'")
    connection.close()
    done = sawlog("--store", file_store, "verify", "--all", "--json")
    assert done.code == 4
    assert [(one["session"], one["seq"]) for one in done.json["damaged"]] == [(id, 0)]
    assert "DAMAGED" in sawlog("--store", file_store, "verify", "--all").text


def test_a_packet_that_comes_out_otherwise_is_exit_code_1(
    file_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first difference is told by item, with both values' digests and lengths."""

    as_it_is = forms._read  # pyright: ignore[reportPrivateUsage]

    def otherwise(text: Text, contents: Contents, preview: bool) -> str:
        said = as_it_is(text, contents, preview)
        return "Refund at will." if said == written.RULE else said

    monkeypatch.setattr(forms, "_read", otherwise)
    done = sawlog("--store", file_store, "verify", "-", "--json")
    assert done.code == 1
    assert done.json["differences"] > 0
    assert done.json["first"]["path"] == "stored"
    assert done.json["first"]["step"] == 1
    assert len(done.json["first"]["expected"]) == len(done.json["first"]["found"]) == 64
    assert done.json["chain"] == "ok"
    assert "step 1 by path stored" in sawlog("--store", file_store, "verify", "-").text


def test_verify_stops_by_name_at_a_type_that_it_does_not_know(file_store: str) -> None:
    with library.open(file_store, types=[NotePinned]) as log, log.session("third") as s:
        s.append(NotePinned("hello"))
    done = sawlog("--store", file_store, "verify", "third", "--json")
    assert done.code == 1
    assert done.json["chain"] == "ok"
    assert "note.pinned" in done.json["blocked"][0]["at"]


def test_an_anchor_holds_while_the_session_grows(file_store: str) -> None:
    row = sawlog("--store", file_store, "ls", "--json").json[0]
    with open_log(file_store) as log, log.session(written.NAME) as s:
        s.user("more")
    for anchor in (row["digest"], f"sha256:{row['digest']}"):
        done = sawlog("--store", file_store, "verify", written.NAME, "--anchor", anchor, "--json")
        assert (done.code, done.json["anchor"]) == (0, row["head"])
    assert (
        f"the digest at event {row['head']}"
        in sawlog("--store", file_store, "verify", "-", "--anchor", row["digest"]).text
    )


def test_an_anchor_finds_that_the_end_was_cut_off(file_store: str) -> None:
    """The chain alone cannot: what is left of it is whole."""
    row = sawlog("--store", file_store, "ls", "--json").json[0]
    with open_log(file_store) as log:
        (kept,) = log.store.events(log.find("-"), [row["head"] - 1])
    with sqlite3.connect(file_store) as connection:
        connection.execute("DELETE FROM events WHERE seq = ?", (row["head"],))
        connection.execute(
            "UPDATE sessions SET head = ?, digest = ?, touched_at = ?",
            (kept.seq, kept.digest, kept.recorded_at),
        )
    connection.close()
    assert sawlog("--store", file_store, "verify", "-").code == 0
    done = sawlog("--store", file_store, "verify", "-", "--anchor", row["digest"], "--json")
    assert (done.code, done.json["anchor"]) == (4, "missing")
    text = sawlog("--store", file_store, "verify", "-", "--anchor", row["digest"]).text
    assert "its end was cut off" in text


def test_an_anchor_is_a_whole_digest(file_store: str) -> None:
    done = sawlog("--store", file_store, "verify", "-", "--anchor", "abcd")
    assert done.code == 2
    assert "64 hex digits" in one_sentence(done)
