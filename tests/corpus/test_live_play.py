"""Real transcripts played live: no request refused, every byte recorded and replayed.

The fake provider signs thinking and reasoning over the prefix that it received, so a request whose
history is not what it was is refused.
"""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import pytest

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.audit.recorded import Recorded
from sawlog.formats.base import ForeignSession
from sawlog.importing import import_path, read_file
from sawlog.providers.fake import Call, Part, Raw, Received, Text, Thinking
from sawlog.providers.strict import APIS
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.lifecycle import HistoryTrimmed
from sawlog.store.events.steps import PacketBuilt, Run
from tests.corpus.files import named, params
from tests.corpus.playing import Player, events_of
from tests.session.carrying import carried_on

COMPARED = 8
"""Packets of a play that are compared byte for byte; all others by the digest of the request."""

UNASKED = {"06": [1], "09": [27], "28": [1]}
"""Claude Code files in which a reply follows nothing: slices, and one repeated reply."""

SMALL = 30_000
"""A window, in tokens, that a long transcript overflows many times."""


@pytest.mark.parametrize("file", params("codex", "claude-code", "openai-chat"))
def test_a_transcript_is_played_live(file: Path, tmp_path: Path) -> None:
    for foreign in read_file(file):
        name = f"played-{foreign.source_id.rpartition('/')[2]}"
        with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
            player = played(foreign, log, name)
            recorded = log.read(name)
            assert_replayed(recorded, player)
            assert_thoughts_stayed(recorded, player)
            unasked = UNASKED.get(file.name[:2], []) if foreign.api == "anthropic" else []
            assert player.unasked == unasked


@pytest.mark.parametrize(
    ("name", "start"),
    [("codex", "17"), ("codex", "23"), ("claude-code", "05"), ("claude-code", "36")],
)
def test_a_transcript_is_played_live_on_postgresql(
    name: str, start: str, postgres_url: str
) -> None:
    with open_log(postgres_url) as log:
        player = played(read_file(named(name, f"{start}-"))[0], log, "played")
        assert_replayed(log.read("played"), player)


@pytest.mark.parametrize(
    ("name", "start", "thinking"),
    [
        ("codex", "03", False),
        ("codex", "16", False),
        ("claude-code", "11", False),
        ("claude-code", "11", True),
        ("claude-code", "36", True),
    ],
)
def test_a_transcript_is_played_in_a_small_window(
    name: str, start: str, thinking: bool, tmp_path: Path
) -> None:
    (foreign,) = read_file(named(name, f"{start}-"))
    with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
        player = played(foreign, log, "played", window=SMALL, thinking=thinking)
        recorded = log.read("played")
        assert_replayed(recorded, player)
        assert sum(_is_cut(packet) for packet in packets(recorded)) >= 5


@pytest.mark.parametrize("file", params("codex", "claude-code", "openai-chat"))
def test_an_imported_transcript_is_carried_on(file: Path, tmp_path: Path) -> None:
    api = APIS[len(file.read_bytes()) % len(APIS)]
    with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
        for one in import_path(log, file):
            carried_on(log, one, api)


def played(
    foreign: ForeignSession, log: AgentLog, name: str, *, window: int = 0, thinking: bool = False
) -> Player:
    """The player of a session that was played to its end."""
    player = Player(foreign, log, name, window=window, thinking=thinking)
    player.play()
    return player


# --- what must hold of a play ---------------------------------------------------------------------


def assert_replayed(recorded: Recorded, player: Player) -> None:
    """Nothing was refused, and what was received is what the log gives, by every path."""
    received = player.provider.requests
    assert [one.refusal for one in received if one.refusal] == []
    assert player.sent == list(player.script.decisions)

    report = recorded.verify()
    assert report.sound, [str(one) for one in report.differences]
    assert report.paths == {"stored": "ok", "cold": "ok", "snapshot": "ok"}
    assert report.steps == len(received) == len(recorded.steps) == len(player.sent)

    built = packets(recorded)
    for number, (one, packet) in enumerate(zip(received, built, strict=True), 1):
        assert request_digest(one) == packet.request, f"step {number}"
    compared = range(len(received), 0, -max(1, len(received) // COMPARED))
    for number in compared:
        assert recorded.steps[number].packet.body == received[number - 1].body
    assert_only_grows(recorded, built, received)
    assert_unanswered(recorded, player)


def request_digest(received: Received) -> str:
    """`provider_request_digest` as docs/format.md says it, of a request as it was received."""
    names = ("anthropic-version", "anthropic-beta", "openai-beta")
    kept = sorted((n.lower(), v) for n, v in received.headers.items() if n.lower() in names)
    hasher = hashlib.sha256(b"sawlog/1 request")
    for field in (received.method, received.path):
        hasher.update(len(field).to_bytes(4, "big") + field.encode())
    hasher.update(len(kept).to_bytes(4, "big"))
    for field in (field for pair in kept for field in pair):
        hasher.update(len(field).to_bytes(4, "big") + field.encode())
    hasher.update(received.body)
    return hasher.hexdigest()


def packets(recorded: Recorded) -> list[PacketBuilt]:
    """What `packet.built` says of each step."""
    contents = (event.content for event in recorded.events())
    return [content for content in contents if isinstance(content, PacketBuilt)]


def assert_only_grows(
    recorded: Recorded, built: list[PacketBuilt], received: list[Received]
) -> None:
    """Law 13 on the wire: between breaks that have a cause, each body begins the next one."""
    trimmed: set[int] = set()
    number = 0
    for event in recorded.events():
        number += event.type == "packet.built"
        if isinstance(event.content, HistoryTrimmed):
            trimmed.add(number)
    grown = 0
    for at, (old, new) in enumerate(pairwise(received), 1):
        broken = _is_cut(built[at]) or at in trimmed or built[at].model != built[at - 1].model
        # What ends a body may give way: the list's bracket, a user message left open for results.
        if not broken:
            assert new.body.startswith(old.body.removesuffix(b"]}").removesuffix(b"]}")), at
            grown += 1
    assert grown >= len(received) * 3 // 4 - 1


def _is_cut(packet: PacketBuilt) -> bool:
    return any(isinstance(part, Run) and part.form == "notice" for part in packet.parts)


def assert_unanswered(recorded: Recorded, player: Player) -> None:
    """The calls that the file leaves open are those that are open now."""
    payloads = [event.payload for event in events_of(player.foreign)]
    answered = {one.call for one in payloads if isinstance(one, ToolFinished)}
    asked = [call for each in player.script.decisions.values() for call in each.calls]
    left = [str(call.call_id) for event, call in asked if event not in answered]
    with player.log.session(player.name) as session:
        assert [call.call_id for call in session.open_calls()] == left


def assert_thoughts_stayed(recorded: Recorded, player: Player) -> None:
    """All thinking of the model goes back to it, where no cut broke what it is bound to."""
    events = [event.content for event in recorded.events()]
    trimmed = any(isinstance(one, HistoryTrimmed) for one in events)
    if trimmed or any(_is_cut(packet) for packet in packets(recorded)):
        return
    last = player.script.decisions[player.sent[-1]]
    count = SENDABLE[player.foreign.api]
    expected = sum(
        count(list(decision.reply.parts or ()))
        for step, decision in player.script.decisions.items()
        if step != player.sent[-1] and decision.model == last.model
    )
    sent = player.provider.requests[-1].body
    kinds = (b"thinking", b"redacted_thinking")
    found = sum(sent.count(b'{"type":"%b",' % kind) for kind in kinds)
    items = json.loads(sent).get("input", ())
    assert found + sum(item["type"] == "reasoning" for item in items) == expected


def _thinking(parts: list[Part]) -> int:
    # The API takes no blank text, and thinking behind one that is left out is bound to it.
    blank = (at for at, part in enumerate(parts) if isinstance(part, Text) and part.text.isspace())
    return sum(isinstance(part, Thinking) for part in parts[: next(blank, None)])


def _reasoning(parts: list[Part]) -> int:
    # Reasoning goes back in front of what knows it by more than an id: a call, or what was run.
    # The renderer sends a tool search as an ordinary call, which does not.
    followed = (after for part, after in pairwise(parts) if isinstance(part, Thinking))
    return sum(
        isinstance(part, Call)
        or (isinstance(part, Raw) and part.value["type"] != "tool_search_call")
        for part in followed
    )


def _none(parts: list[Part]) -> int:
    return 0


SENDABLE = {"anthropic": _thinking, "openai-responses": _reasoning, "openai-chat": _none}
"""How much of a reply's thinking an API takes back."""
