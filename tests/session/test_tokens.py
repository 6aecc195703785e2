"""A real tokenizer as a measure: its name says all that its counts depend on."""

from __future__ import annotations

import base64
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.builder import measure
from sawlog.builder.measure import MEASURES, measure_of
from sawlog.builder.packet import Entry
from sawlog.builder.policy import Rules
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named
from sawlog.store.events.steps import MeasureRecorded, PacketBuilt
from sawlog.tokens import token_measure
from tests.session.agents import next_step, sound

WORDS = (b"th", b"the", b" the", b"token", b"tokens")
PATTERN = r" ?[a-z]+|\s+|[^a-z\s]+"


def vocabulary(folder: Path, *words: bytes, name: str = "tiny") -> Path:
    """A vocabulary of all single bytes and these tokens, in tiktoken's form."""
    # A word is merged from two tokens, each of which is there.
    parts = {word[:end] for word in words for end in range(2, len(word) + 1)}
    tokens = [bytes([n]) for n in range(256)] + sorted(parts, key=lambda one: (len(one), one))
    lines = [f"{base64.b64encode(one).decode()} {rank}" for rank, one in enumerate(tokens)]
    file = folder / f"{name}.tiktoken"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test installs is gone after it."""
    monkeypatch.setattr(measure, "MEASURES", dict(MEASURES))
    monkeypatch.setattr("sawlog.tokens.MEASURES", measure.MEASURES)


def entry(text: str, kind: str = "user", name: str = "", call_id: str = "") -> Entry:
    return Entry(True, "history", kind, "user", "trusted", "", name, text, call_id)


@pytest.mark.usefixtures("known")
def test_tokens_of_a_given_vocabulary_are_counted(tmp_path: Path) -> None:
    name = token_measure("tiny", vocabulary=vocabulary(tmp_path, *WORDS), pattern=PATTERN)
    package, encoding, release, digest = name.name.split("/")
    assert (package, encoding, release) == ("tiktoken", "tiny", version("tiktoken"))
    assert len(digest) == 12 and int(digest, 16) >= 0
    count = measure_of(name)
    assert count(entry("")) == 4
    assert count(entry("the")) == 5
    assert count(entry("the the tokens")) == 4 + 3 + 5  # " tokens" starts with a lone space
    assert count(entry("é")) == 6
    assert count(entry("the", name="the", call_id="the")) == 7
    assert count(entry("sha256:00", "user/media", "image/png")) == 1604
    assert count(entry("\ud83d")) > 4
    assert count(entry("<|endoftext|>")) > 8, "a special token in a text is text"
    assert count(entry("x" * 120_001)) == 4 + 120_001


@pytest.mark.usefixtures("known")
def test_the_name_tells_vocabularies_and_patterns_apart(tmp_path: Path) -> None:
    file = vocabulary(tmp_path, *WORDS)
    first = token_measure("tiny", vocabulary=file, pattern=PATTERN)
    assert token_measure("tiny", vocabulary=file, pattern=PATTERN) == first
    other = vocabulary(tmp_path, *WORDS, b"more", name="more")
    names = {
        first,
        token_measure("tiny", vocabulary=other, pattern=PATTERN),
        token_measure("tiny", vocabulary=file, pattern=r"\S+|\s+"),
        token_measure("small", vocabulary=file, pattern=PATTERN),
    }
    assert len(names) == 4


@pytest.mark.usefixtures("known")
def test_a_session_counts_with_it_and_replays_without_it(log: AgentLog, tmp_path: Path) -> None:
    file = vocabulary(tmp_path, *WORDS)
    name = token_measure("tiny", vocabulary=file, pattern=PATTERN)
    body = {"id": "r", "model": "m", "usage": {"prompt_tokens": 40},
            "choices": [{"message": {"role": "assistant", "content": "ok"},
                         "finish_reason": "stop"}]}  # fmt: skip
    with log.session("task", rules=Rules(measure=name, window=900)) as s:
        for n in range(12):
            s.user(f"the tokens {n} " * 40)
            next_step(s, "openai-chat").answer(body)
    recorded = sound(log, "task")
    assert recorded.verify().paths["cold"] == "ok"
    contents = [event.content for event in recorded.events()]
    packets = [one for one in contents if isinstance(one, PacketBuilt)]
    assert {one.measure for one in packets} == {name}
    assert dict(packets[0].counts)["history"] == measure_of(name)(entry("the tokens 0 " * 40))
    assert {one.measure for one in contents if isinstance(one, MeasureRecorded)} == {name}
    bodies = [step.packet.body for step in recorded.steps]
    del measure.MEASURES[name]  # as in a process that did not load it
    again = log.read("task")
    report = again.verify()
    assert report.sound and report.paths["stored"] == "ok" and report.paths["cold"] != "ok"
    assert [step.packet.body for step in again.steps] == bodies
    with (
        log.session("task", rules=Rules(measure=name)) as s,
        pytest.raises(UnknownNumber, match="load it with sawlog.tokens.token_measure"),
    ):
        s.user("more")
        next_step(s, "openai-chat")


@pytest.mark.usefixtures("known")
def test_what_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = vocabulary(tmp_path, *WORDS)
    good = file.read_text()
    with pytest.raises(ConfigError, match="needs the pattern"):
        token_measure("tiny", vocabulary=file)
    with pytest.raises(ConfigError, match="goes with a vocabulary file"):
        token_measure("tiny", pattern=PATTERN)
    with pytest.raises(ConfigError, match="does not take the pattern"):
        token_measure("tiny", vocabulary=file, pattern="(")
    with pytest.raises(ConfigError, match="no name of an encoding"):
        token_measure("a/b", vocabulary=file, pattern=PATTERN)
    with pytest.raises(ConfigError, match="cannot be read"):
        token_measure("tiny", vocabulary=tmp_path / "none", pattern=PATTERN)
    for bad, said in (
        (good + "no base64 7\n", f"line {len(good.splitlines()) + 1} of the vocabulary"),
        (good + "QQ== 999\n", "repeats a token"),
        (good + "QUFB 5\n", "have one rank"),
        ("QQ== 0\n", "lacks 255 of the 256"),
    ):
        file.write_text(bad)
        with pytest.raises(ConfigError, match=said):
            token_measure("tiny", vocabulary=file, pattern=PATTERN)
    with pytest.raises(ConfigError, match="TIKTOKEN_CACHE_DIR"):
        token_measure("no_such_encoding")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ConfigError, match=r"pip install 'sawlog\[tokens\]'"):
        token_measure()


def test_a_measure_is_installed_once() -> None:
    with pytest.raises(ValueError, match="installed already"):
        measure.install(Named("utf8-quarter"), lambda entry: 0)
