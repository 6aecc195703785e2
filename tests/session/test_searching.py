"""All that a checkpoint stands for is found by a text in it, and nothing that no packet showed."""

from __future__ import annotations

import re

import pytest

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, Reply
from sawlog.store.errors import InvalidArguments
from sawlog.work.outputs import BOUND
from sawlog.work.session import Session
from tests.session.agents import TOOLS, next_step, provided, sound
from tests.session.branches import stepped


def read(s: Session, ref: str, start: int = 0, end: int = 0, pattern: str = "") -> str:
    """What the tool gives to the model."""
    function = s.read_output.function
    assert function is not None
    answer: str = function(ref, start, end, pattern)
    return answer


def worked(s: Session, *results: str) -> None:
    """A step for each result, which is what its one call gives."""
    for at, result in enumerate(results):
        [call] = stepped(s, f"look {s.state.step} {at}", "read_file")
        with s.tool(call) as run:
            run.result(result)


def begun(s: Session) -> None:
    """A session that offers tools and was asked for something."""
    s.tools([*TOOLS, s.read_output])
    s.user("find the ports. " + "Say nothing else. " * 60)


def test_what_no_line_cites_is_found_by_a_text_in_it(any_log: AgentLog) -> None:
    with any_log.session("task") as s:
        begun(s)
        worked(s, *(f"port {1000 + at} of service {at} " + "x" * 400 for at in range(30)))
        s.compact(keep_user=0)
        found = read(s, "k1", pattern="of service 3 ")
        name = re.findall(r"k1@[0-9]+", found)
        assert len(name) == 1 and f"{name[0]} result: port 1003 of service 3 xxx" in found
        assert found.startswith("[1 event of k1 holds the pattern")
        whole = read(s, name[0])
        assert whole.endswith("port 1003 of service 3 " + "x" * 400)
        assert "byte 10: port 1003" in read(s, f"[{name[0]}]", pattern="of service")
        worked(s, *(f"port {1030 + at} " + "y" * 400 for at in range(10)))
        s.compact()
        # The second stands for what the first did, too; the first for no more than before.
        assert "port 1003" in read(s, "k2", pattern="of service 3 ")
        assert "port 1031" in read(s, "k2", pattern="port 1031")
        assert read(s, "k1", pattern="port 1031").startswith("[0 events")
        body = next_step(s, "openai-chat").body
        assert b"searches all of it with ref k2 and a pattern" in body
    sound(any_log, "task")


def test_the_model_asks_as_for_any_tool_and_is_answered(log: AgentLog) -> None:
    with log.session("task") as s:
        begun(s)
        worked(s, "the secret of the cellar is a well " + "x" * 900, "nothing", "nothing more")
        s.compact(keep_user=0)
        again = Reply(calls=[Call("read_output", {"ref": "k1", "pattern": "of the cellar"})])
        with provided("openai-chat", [again]) as (_, client):
            [call] = next_step(s, "openai-chat").send(client).tool_calls
        with s.tool(call) as run:
            run.result(call.run())
        body = next_step(s, "openai-chat").body
    assert b"the secret of the cellar is a well" in body


def test_pages_go_on_from_each_other_and_are_bounded(log: AgentLog) -> None:
    with log.session("task") as s:
        begun(s)
        worked(s, *(f"é{'ü' * 500} a place {at}! {'ß' * 500}" for at in range(50)))
        worked(s, "the end")
        s.compact(keep_user=0)
        places: list[str] = []
        start = 0
        while True:
            answer = read(s, "k1", start, pattern="a place ")
            assert len(answer.encode()) <= BOUND + 200
            head, *lines = answer.split("\n")
            assert head.startswith("[50 events of k1")
            places += [re.findall(r"a place ([0-9]+)!", line)[0] for line in lines]
            more = re.search(r"go on with start=([0-9]+)\]", head)
            if not more:
                break
            start = int(more[1])
    assert places == [str(at) for at in reversed(range(50))]


def test_what_was_taken_back_or_never_shown_is_not_found(log: AgentLog) -> None:
    with log.session("task") as s:
        begun(s)
        s.task("find", repository="ours")
        s.offer(
            "a needle of another repository", channel="repository_file", source_id="x",
            repository="theirs",
        )  # fmt: skip
        s.offer(channel="secret_fixture", source_id="key", handle="needle")
        worked(s, "a needle in the hay " + "x" * 900)
        to = s.state.seq
        worked(s, "a needle that was dropped " + "x" * 900)
        s.rewind(to=to)
        worked(s, "y" * 900, "z" * 900)
        s.compact(keep_user=0)
        found = read(s, "k1", pattern="needle")
        assert found.startswith("[1 event of k1") and "in the hay" in found
        names = [read(s, f"k1@{seq}") for seq in _allowed(s)]
        assert not any("dropped" in text or "another repository" in text for text in names)


def _allowed(s: Session) -> list[int]:
    """The seqs that can be read as parts of checkpoint 1."""
    seqs: list[int] = []
    for seq in range(1, s.state.seq + 3):
        try:
            read(s, f"k1@{seq}")
            seqs.append(seq)
        except InvalidArguments:
            pass
    return seqs


def test_a_fork_finds_what_its_parent_had_read(log: AgentLog) -> None:
    with log.session("task") as s:
        begun(s)
        worked(s, "a well " + "x" * 900, "nothing")
        s.compact(keep_user=0)
        s.user("go on")
    with log.fork("task", name="other") as fork:
        assert "a well" in read(fork, "k1", pattern="a well")
        worked(fork, "a spring " + "x" * 2000, "nothing")
        fork.compact(keep_user=0)
        assert "a spring" in read(fork, "k2", pattern="a spring")
        assert "a well" in read(fork, "k2", pattern="a well")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("k1",), "give a pattern"),
        (("k2", 0, 0, "x"), "no checkpoint 'k2'"),
        (("k1", 0, 5, "x"), "takes a pattern"),
        (("k1", 0, 0, "é" * 600), "at most 1024 bytes"),
        (("k1@99999",), "names nothing that checkpoint 1 stands for"),
        (("k1@1",), "names nothing that checkpoint 1 stands for"),
        (("k0", 0, 0, "x"), "is no locator"),
        (("k1@", 0, 0, "x"), "is no locator"),
    ],
)
def test_what_cannot_be_found_is_said_in_words_for_the_model(
    log: AgentLog, arguments: tuple[str, int, int, str], said: str
) -> None:
    with log.session("task") as s:
        begun(s)
        worked(s, "x" * 900, "y")
        s.compact(keep_user=0)
        with pytest.raises(InvalidArguments, match=re.escape(said)):
            read(s, *arguments)
        assert read(s, "k1", 5, pattern="x").startswith("[")


def test_halves_of_characters_are_found_and_shown_as_what_can_be(log: AgentLog) -> None:
    with log.session("task") as s:
        begun(s)
        worked(s, "half \ud800 of one " + "x" * 900, "y")
        s.compact(keep_user=0)
        assert "half \ufffd" in read(s, "k1", pattern="half ")
