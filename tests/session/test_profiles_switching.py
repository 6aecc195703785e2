"""One session among the families of all four APIs: switches, fallbacks and the way back, at random.

Each request goes over HTTP to the fake provider, which signs what its models think and refuses what
comes back changed, to the wrong reader, or without what it was made for. No packet is refused, and
each bound item that is not in a request has a verdict in a trace.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.agentlog import AgentLog
from sawlog.builder.packet import Entry
from sawlog.builder.profiles import profile_for
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.store.errors import NotCompacted, Refused
from sawlog.store.events.world import FileChanged
from sawlog.work.call import Call as Asked
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import APIS, SYSTEM, TOOLS, client_of, opened, read_file, sound
from tests.session.test_compacting_bound import assert_told, seal_of

FAMILIES: tuple[tuple[str, str], ...] = (
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("openai-chat", "gpt-5.6-sol"),
    ("openai-chat", "gemini-3-flash-preview"),
    ("openai-responses", "gpt-6-sol"),
    ("openai-responses", "gpt-5.4"),
    ("deepseek-chat", "deepseek-v4-pro"),
    ("deepseek-chat", "deepseek-v4-flash"),
)
PARAMS: dict[str, dict[str, Any]] = {
    "anthropic": {"max_tokens": 4000},
    "openai-responses": {"store": False, "include": ["reasoning.encrypted_content"]},
}
ACTS = ("step", "step", "switch", "switch", "run", "run", "late", "user", "file", "tools",
        "fallback", "compact")  # fmt: skip

numbers = itertools.count()


def answers(api: str, request: dict[str, object], number: int) -> Reply:
    """Thinks where the API shows it, and calls in two of three replies."""
    thinks = api != "openai-chat" and number % 4 != 0
    calls = [
        Call("read_file", {"path": f"{number}-{at}.py"}, id=f"call_{number}_{at}")
        for at in range(number % 3)
    ]
    text = f"turn {number}" if number % 2 or not calls else ""
    return Reply(text, f"thought {number}" if thinks else None, calls)


def sealed(entry: Entry) -> str:
    """What of a bound item is nowhere but in it, as it stands in a body."""
    if entry.bound == "call.extra_content":
        return str(json.loads(entry.text)["google"]["thought_signature"])
    return seal_of(entry)


class Switching:
    """A session that goes from family to family."""

    def __init__(self, s: Session, clients: dict[str, Any]) -> None:
        self.s = s
        self.clients = clients
        self.api, self.model = FAMILIES[0]
        self.open: list[Asked] = []
        self.left_out: dict[tuple[int, int], str] = {}
        self.steps: list[Step] = []

    def act(self, what: str, choice: int) -> None:
        """One thing more."""
        match what:
            case "step":
                self.step()
            case "switch":
                self.api, self.model = FAMILIES[choice % len(FAMILIES)]
                self.step()
            case "fallback":
                failed = self.built()
                self.api, self.model = FAMILIES[choice % len(FAMILIES)]
                self.step(fallback_of=failed)
            case "run" | "late" if self.open:
                # A result of a call that was sent without one comes late.
                call = self.open.pop(0 if what == "run" else -1)
                with self.s.tool(call) as run:
                    run.saw("a.py", version=f"{0:064x}")
                    run.result(f"content of {call.args['path']}")
            case "file":
                self.s.append(FileChanged("a.py", f"{choice:064x}"), source="watch")
            case "tools":
                self.s.tools(TOOLS if choice % 2 else [read_file])
            case "compact":
                with contextlib.suppress(NotCompacted):
                    self.s.compact(budget=200)
            case _:
                self.s.user("go on")

    def built(self, **options: Any) -> Step:
        """The next packet, after a message where there is nothing to send."""
        given: dict[str, Any] = {**PARAMS.get(self.api, {}), **options, "model": self.model}
        try:
            step = self.s.step(self.api, allow_waiting=True, strict=True, **given)
        except Refused as refused:
            assert refused.reason == "nothing_to_send", refused
            self.s.user("And now?")
            step = self.s.step(self.api, allow_waiting=True, strict=True, **given)
        self.look_at(step)
        return step

    def step(self, **options: Any) -> None:
        """The next step, sent."""
        step = self.built(**options)
        self.open.extend(step.send(self.clients[self.api]).tool_calls)  # raises for a refusal

    def look_at(self, step: Step) -> None:
        """Each bound item of the packet is in the request or has a verdict, never both."""
        self.steps.append(step)
        assert step.packet.header.profile == profile_for(self.api, self.model)[0].named
        fresh = {
            (one.seq, one.part): one.reason
            for one in step.packet.trace.verdicts
            if one.stage == "render" and one.reason.startswith("left_out: ")
        }
        self.left_out |= fresh
        for ref, entry in zip(step.packet.refs, step.packet.entries, strict=True):
            if entry.part != "bound" or entry.text == '""':
                continue
            place = (ref.seq, ref.part)
            if sealed(entry).encode() in step.body:
                assert place not in fresh
                self.left_out.pop(place, None)
            else:
                assert place in self.left_out, entry


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[AgentLog, FakeProvider]]:
    """A store and a provider that all examples share; each has a session of its own."""
    folder: Path = tmp_path_factory.mktemp("switching")
    with opened(str(folder / "agent.db")) as log, FakeProvider(answers) as fake:
        yield log, fake


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 17)), min_size=4, max_size=22),
    window=st.sampled_from((0, 0, 1500)),
    marks=st.booleans(),
)
def test_no_switch_makes_a_packet_that_is_refused(
    place: tuple[AgentLog, FakeProvider],
    acts: list[tuple[str, int]],
    window: int,
    marks: bool,
) -> None:
    """Laws 6, 7 and 8, and PROVIDERS, several models in one session."""
    log, fake = place
    name = f"task {next(numbers)}"
    before = len(fake.requests)
    with contextlib.ExitStack() as stack:
        clients = {api: stack.enter_context(client_of(api, fake)) for api in APIS}
        s = stack.enter_context(log.session(name, window=window, cache_marks=marks))
        s.system(SYSTEM)
        s.tools(TOOLS)
        s.user("Mend it.")
        session = Switching(s, clients)
        for what, choice in acts:
            session.act(what, choice)
        session.step()
    met = fake.requests[before:]
    assert [one.refusal for one in met if one.refusal] == []
    recorded = sound(log, name)
    sent = [step.body for step in session.steps if step.reply is not None]
    assert [one.body for one in met] == sent
    for step in session.steps:
        assert recorded.steps[step.number].packet.body == step.body
    last = session.steps[-1]
    assert_told(recorded.steps[last.number].trace(), last.packet.trace)
