"""compact and checkpoints: what gives way, why nothing does, what a checkpoint says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sawlog.agentlog import open as open_log
from sawlog.builder.policy import Rules
from sawlog.providers.fake import FakeProvider, Reply
from sawlog.store.events.base import Named
from tests.cli.command import one_sentence, sawlog, spawned
from tests.session.agents import next_step, sound, talker
from tests.session.branches import worked
from tests.session.foreign_files import FOREIGN

NAME = "fix-refund"
RULE = "Never touch vendor/."


@pytest.fixture
def long_store(store_url: str) -> str:
    """A store with a session that has something to give way, and one that has not."""
    _fill(store_url)
    return store_url


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The same as an SQLite file."""
    path = str(tmp_path / "agent.db")
    _fill(path)
    return path


def _fill(url: str) -> None:
    with open_log(url) as log:
        with log.session("short") as s:
            s.system("You say hello.")
            s.user("hello")
        with log.session(NAME) as s:
            s.system("You fix bugs.")
            s.user(f"{RULE} " + "It is not ours. " * 80)
            worked(s, 12)
            s.note("open", "flaky", "test_b is flaky")
            s.user("more")


def test_the_history_gives_way_and_every_step_still_replays(long_store: str) -> None:
    before = [sawlog("--store", long_store, "packet", f"{NAME}@{n}", "--raw").out for n in (1, 12)]
    done = sawlog("--store", long_store, "compact", NAME, "--budget", 600, "--keep-user", 0)
    assert done.code == 0 and done.err == ""
    assert done.text.startswith("checkpoint 1: the history took ")
    assert f"sawlog checkpoints {NAME} tells what it says" in done.text
    after = [sawlog("--store", long_store, "packet", f"{NAME}@{n}", "--raw").out for n in (1, 12)]
    assert after == before
    with open_log(long_store) as log:
        sound(log, NAME)
    told = sawlog("--store", long_store, "checkpoints", NAME).text
    assert "* 1" in told and "manual" in told
    assert "- [c" in told and RULE in told and "- [flaky] test_b is flaky" in told


def test_the_json_of_both(long_store: str) -> None:
    done = sawlog("--store", long_store, "compact", NAME, "--keep-user", "0", "--json").json
    assert set(done) == {
        "session", "compacted", "checkpoint", "seq", "trigger", "route", "through", "kept",
        "before", "after", "region", "units", "fixed", "refused",
    }  # fmt: skip
    assert done["compacted"] is True and done["checkpoint"] == 1
    assert (done["trigger"], done["route"], done["kept"], done["refused"]) == (
        "manual", "local", [], [],
    )  # fmt: skip
    assert done["after"] == done["before"] - done["region"] + done["units"] < done["before"]
    found = sawlog("--store", long_store, "checkpoints", NAME, "--json").json
    assert found["session"] == done["session"]
    [one] = found["checkpoints"]
    assert set(one) == {
        "seq", "number", "by", "trigger", "route", "through", "kept", "units", "region", "text",
        "stands", "attempts",
    }  # fmt: skip
    assert {name: one[name] for name in ("seq", "through", "units", "region")} == {
        name: done[name] for name in ("seq", "through", "units", "region")
    }
    assert one["by"] == "extractive@1" and one["stands"] is True and RULE in one["text"]


def test_a_session_by_any_of_its_names(file: str) -> None:
    [id] = [
        one["id"] for one in sawlog("--store", file, "ls", "--json").json if one["name"] == NAME
    ]
    for number, name in enumerate((NAME, id, id[:14], "-"), 1):
        with open_log(file) as log, log.session(NAME) as s:
            worked(s, 20, f"round{number}")
            s.user("on")
        done = sawlog("--store", file, "compact", name, "--json")
        assert (done.code, done.json["checkpoint"]) == (0, number), name
        listed = sawlog("--store", file, "checkpoints", name, "--json").json["checkpoints"]
        assert [one["stands"] for one in listed] == [False] * (number - 1) + [True]
    with open_log(file) as log:
        sound(log, NAME)


def test_it_waits_for_a_lease_that_nobody_renews(long_store: str) -> None:
    with open_log(long_store) as log:
        killed = log.session(NAME, owner="the killed one", ttl=1.5)
        killed.acquire()
        killed._driver._renewer.stop()  # type: ignore[union-attr]  # pyright: ignore
        refused = sawlog("--store", long_store, "compact", NAME)
        assert refused.code == 3 and "the killed one" in one_sentence(refused)
        assert sawlog("--store", long_store, "compact", NAME, "--wait", "20").code == 0
    wrong = sawlog("--store", long_store, "compact", NAME, "--wait", "soon")
    assert wrong.code == 2 and "--wait" in one_sentence(wrong)


def test_what_cannot_be_compacted_says_why_and_changes_nothing(long_store: str) -> None:
    head = sawlog("--store", long_store, "ls", "--json").json[0]["head"]
    done = sawlog("--store", long_store, "compact", "short")
    assert done.code == 1 and done.err == ""
    reason, units = done.text.splitlines()
    assert reason.startswith("cannot_compact (nothing_to_cut): ")
    assert units.startswith("units: 8 fixed, ")
    said = sawlog("--store", long_store, "compact", "short", "--json")
    assert said.code == 1
    assert said.json | {"message": ""} == {
        "compacted": False, "reason": "cannot_compact", "code": "nothing_to_cut", "message": "",
        "fixed": 8, "history": 6, "last": 6,
    }  # fmt: skip
    assert sawlog("--store", long_store, "ls", "--json").json[0]["head"] == head
    assert sawlog("--store", long_store, "checkpoints", "short").text.startswith("no checkpoints")
    assert sawlog("--store", long_store, "checkpoints", "short", "--json").json["checkpoints"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "a lot"), "give a whole number"),
        (("--budget", "-3"), "give a whole number"),
        (("--keep-user", "1.5"), "give a whole number"),
        (("--route", "telepathy"), "use rules, local or provider"),
        (("--route", "provider"), "name it with --summarizer API/MODEL"),
        (("--summarizer", "nope"), "is no summariser"),
        (("--summarizer", "nope/model"), "is no summariser"),
        (("--summarizer", "anthropic/m"), "set ANTHROPIC_API_KEY"),
        (("--route", "provider", "--summarizer", "openai-responses/m"), "set OPENAI_API_KEY"),
    ],
)
def test_what_means_nothing_is_one_sentence_and_begins_nothing(
    file: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    head = sawlog("--store", file, "ls", "--json").json[1]["head"]
    done = sawlog("--store", file, "compact", NAME, *arguments)
    assert done.code == 2 and said in one_sentence(done)
    assert sawlog("--store", file, "ls", "--json").json[1]["head"] == head


def test_there_is_no_such_session(file: str) -> None:
    for verb in ("compact", "checkpoints"):
        done = sawlog("--store", file, verb, "nobody")
        assert done.code == 2 and "nobody" in one_sentence(done)
    assert sawlog("--store", file, "ls", "--json").json[-1]["name"] == NAME


def test_a_session_that_somebody_drives_is_theirs(long_store: str) -> None:
    with open_log(long_store) as log, log.session(NAME, owner="the other"):
        done = sawlog("--store", long_store, "compact", NAME)
        assert done.code == 3 and "the other" in one_sentence(done)


def test_a_model_writes_the_prose(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, with the key from the environment; what it was asked and said is in the log."""
    answer = (
        '{"goal":"","constraints":[],"confirmed":[],"changed":[],"open":[],"next":[],'
        '"narrative":"It went well until the tests hung."}'
    )
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    with FakeProvider([Reply(answer)]) as fake:
        monkeypatch.setattr(
            "sawlog.work.summarising._BASES", {"anthropic": (fake.url, "ANTHROPIC_API_KEY")}
        )
        arguments = ("compact", NAME, "--keep-user", "0", "--summarizer", "anthropic/m")
        done = sawlog("--store", file, *arguments, "--json")
        assert len(fake.bodies("anthropic")) == 1
    assert done.json["refused"] == []
    [one] = sawlog("--store", file, "checkpoints", "-", "--json").json["checkpoints"]
    assert one["by"] == "model@1" and "It went well until the tests hung." in one["text"]
    shown = sawlog("--store", file, "show", NAME, "--all").text
    assert "compaction.asked" in shown and "compaction.answered" in shown and "a-key" not in shown


@pytest.mark.parametrize(
    "name", ["claude-code/compaction-odd.jsonl", "codex/compacted-summary.jsonl"]
)
def test_foreign_compactions_are_listed_with_what_they_say(tmp_path: Path, name: str) -> None:
    store = str(tmp_path / "agent.db")
    assert sawlog("--store", store, "import", FOREIGN / name).code == 0
    foreign = sawlog("--store", store, "checkpoints", "-", "--json").json["checkpoints"]
    assert len(foreign) >= 2
    assert all((one["number"], one["by"], one["units"]) == (0, "foreign", -1) for one in foreign)
    told = [one["text"] for one in foreign if one["text"] not in ("", "[opaque]", "[unknown]")]
    assert told
    text = sawlog("--store", store, "checkpoints", "-").text
    assert all(each.splitlines()[0] in text for each in told)
    with open_log(store) as log, log.resume("-") as s:
        s.user("We go on here. " + "And here. " * 200)
        worked(s, 8)
        s.user("more")
    assert sawlog("--store", store, "compact", "-", "--keep-user", "0").code == 0
    both = sawlog("--store", store, "checkpoints", "-", "--json").json["checkpoints"]
    assert both[:-1] == foreign
    assert (both[-1]["number"], both[-1]["stands"]) == (1, True)
    assert sawlog("--store", store, "verify", "-").code == 0


def test_help_teaches_with_an_example(file: str) -> None:
    for verb in ("compact", "checkpoints"):
        done = spawned(verb, "--help")
        assert done.code == 0 and f"sawlog {verb} fix-refund" in done.text


def test_units_are_those_of_the_session_s_own_measure(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    rules = Rules(measure=Named("utf8-bytes"))
    with open_log(url) as log, log.session("task", rules=rules) as s:
        for n in range(6):
            s.user(f"message {n} " + "x" * 1000)
            next_step(s, "openai-chat").send(talker("answer " + "y" * 1000))
    done = sawlog("--store", url, "compact", "task", "--keep-user", "0", "--json").json
    assert done["before"] > 12_000  # bytes, where the default measure says a quarter
