"""what-if: which steps of a session would differ, in words and as JSON."""

from __future__ import annotations

from pathlib import Path

from sawlog.agentlog import open as open_log
from tests.cli import written
from tests.cli.command import one_sentence, sawlog
from tests.session.test_own_policy import CHEAPEST


def test_less_of_a_budget_names_what_falls_out(store: str) -> None:
    with open_log(store) as log, log.session("long") as s:
        for number in range(12):
            s.user(f"Message {number}. " + "It rains in every town. " * 6)
            written.ask(s, written.says("I see."))
    run = ("--store", store, "what-if", "long", "--budget", "45%")
    found = sawlog(*run, "--json").json
    assert found["steps"] == 12
    assert found["budget"] == found["largest"] * 45 // 100
    first = next(step for step in found["differing"] if not step["refusal"])
    assert first["fell_out"] and all(one["units"] and one["reason"] for one in first["fell_out"])
    text = sawlog(*run).text
    assert "of 12 steps would differ" in text
    assert "block_cut" in text


def test_a_refusal_is_told_by_its_name(file_store: str) -> None:
    done = sawlog("--store", file_store, "what-if", "-", "--budget", "10")
    assert done.code == 0
    assert "step 1: refused: cannot_fit" in done.text


def test_a_policy_file_and_the_names_of_policies(file_store: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(CHEAPEST)
    run = ("--store", file_store, "what-if", "-", "--json", "--policy")
    assert sawlog(*run, mine).json["policy"] == "cheapest@3"
    assert sawlog(*run, "default@1").json["policy"] == "default@1"
    assert sawlog(*run, "dump-all-v1").json["policy"] == "dump-all-v1@1"
    assert "is no policy" in one_sentence(
        sawlog("--store", file_store, "what-if", "-", "--policy", "no.toml")
    )
    done = sawlog("--store", file_store, "what-if", "-", "--policy", "default@77")
    assert done.code == 2 and "default@77" in one_sentence(done)


def test_all_names_every_entry(file_store: str) -> None:
    run = ("--store", file_store, "what-if", "-", "--budget", "45%")
    few, all_ = sawlog(*run).text, sawlog(*run, "--all").text
    assert len(all_.splitlines()) >= len(few.splitlines())
    assert "more; --all names them" not in all_


def test_it_asks_what_would_be_otherwise(file_store: str) -> None:
    done = sawlog("--store", file_store, "what-if", "-")
    assert done.code == 2 and "--policy" in one_sentence(done)
    for wrong in (("--budget", "x"), ("--budget", "x%"), ("--reserve", "-1"), ("--provider", "x")):
        done = sawlog("--store", file_store, "what-if", "-", *wrong)
        assert done.code == 2 and len(one_sentence(done)) > 20


def test_all_of_what_it_had_changes_nothing(store: str) -> None:
    """It has block cuts, and counts tokens as its provider did."""
    text = sawlog("--store", store, "what-if", written.NAME, "--budget", "100%").text
    assert text.splitlines()[1:] == [
        "0 of 6 steps would differ in what they show, 0 would have no packet; "
        "6 would be the same byte for byte"
    ]


def test_the_head_and_the_refusals_speak_of_the_same_units(store: str) -> None:
    text = sawlog("--store", store, "what-if", written.NAME, "--budget", "200").text
    assert "a window of 200 units" in text.splitlines()[0]
    assert "refused: cannot_fit" in text and "the window has 200" in text
    found = sawlog("--store", store, "what-if", written.NAME, "--budget", "90%", "--json").json
    text = sawlog("--store", store, "what-if", written.NAME, "--budget", "90%").text
    most = found["largest"] * 90 // 100
    assert f"packets of at most {most:,} units" in text.splitlines()[0]
    assert all(one["units"] <= most for one in found["differing"])


def test_the_head_names_the_policies_that_steps_had(file_store: str) -> None:
    with open_log(file_store) as log:
        for policy in ("default", "chapter5"):
            with log.session("two", policy=policy) as s:
                s.user("go")
                written.ask(s, written.says("I see."))
    run = ("--store", file_store, "what-if", "two")
    head = sawlog(*run, "--reserve", "10").text.splitlines()[0]
    assert "two under the policy of each step (default@2, chapter5@" in head
    assert "10 units kept for the reply" in head
    assert "two under policy default@2, " in sawlog(*run, "--policy", "default").text


def test_another_api_is_why_no_bytes_are_the_same(store: str) -> None:
    run = ("--store", store, "what-if", written.NAME)
    other = sawlog(*run, "--provider", "openai-chat", "--model", "m", "--budget", "100%").text
    assert other.splitlines()[1] == (
        "0 of 6 steps would differ in what they show, 0 would have no packet; "
        "all requests differ in bytes, because another API is asked"
    )
    model = sawlog(*run, "--model", "another", "--budget", "100%").text
    assert "all requests differ in bytes, because another model is asked" in model
    same = sawlog(*run, "--provider", "anthropic", "--budget", "100%").text
    assert "6 would be the same byte for byte" in same
