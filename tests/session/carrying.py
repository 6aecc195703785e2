"""Steps of one's own behind an imported session."""

from __future__ import annotations

from collections.abc import Sequence

from sawlog.agentlog import AgentLog
from sawlog.builder.packet import Entry
from sawlog.builder.projector import fold_all
from sawlog.builder.state import State
from sawlog.importing import Imported
from sawlog.providers.fake import Reply
from sawlog.store.events.steps import PacketBuilt
from tests.session.agents import next_step, provided


def live(log: AgentLog, name: str, text: str = "go on", api: str = "anthropic") -> bytes:
    """One step of one's own behind what was imported; gives what the provider received."""
    thinking = None if api == "openai-chat" else "I see."
    reply = Reply("Done.", thinking)
    with log.session(name) as session, provided(api, [reply]) as (fake, client):
        session.user(text)
        next_step(session, api).send(client)
        (body,) = fake.bodies()
    return body


def named_only(entries: Sequence[Entry]) -> bool:
    """True when a medium is shown of which the log has a name and no bytes."""
    return any(one.part == "media" and not one.text.startswith("sha256:") for one in entries)


def carried_on(log: AgentLog, one: Imported, api: str = "anthropic") -> None:
    """Holds of an imported session that steps of one's own follow: raises AssertionError."""
    name = log.read(one.session).name
    state = state_of(log, one)
    bodies = [live(log, name, "go on", api), live(log, name, "and on", api)]
    recorded = log.read(name)
    built = [e.content for e in recorded.events() if isinstance(e.content, PacketBuilt)]
    assert [packet.base == 0 for packet in built] == [True, False]
    assert len(recorded.steps) == one.steps + 2
    for at, body in enumerate(bodies, 1):
        step = recorded.steps[one.steps + at]
        assert step.outcome == "completed"
        # Of an image that the file only names the log has no bytes.
        assert step.sent == ("external" if named_only(step.packet.entries) else "exact")
        assert step.packet.body == body
        assert step.verify()
    # Nothing that was undone in the file comes back, and nothing that stood in it is lost.
    first = recorded.steps[one.steps + 1].packet
    shown = {ref.seq for ref in first.refs if ref.section == "history"}
    said = {news.seq for news in state.news if news.flag not in ("no_call", "duplicate")}
    assert shown == said | {max(shown)}
    assert [entry.text for entry in first.entries][-1] == "go on"
    report = recorded.verify()
    assert report.sound and report.steps == one.steps + 2
    imported = ("cold", "incremental", "snapshot") if one.steps else ("cold", "snapshot")
    assert report.paths == {path: "ok" for path in ("stored", *imported)}


def state_of(log: AgentLog, one: Imported) -> State:
    """The folded state of a session."""
    return fold_all(State(), log.read(one.session).events())
