"""Thinking that is bound to what stood before it, in sessions that are compacted at random.

The fake provider signs what it thinks over the very prefix that it received, and refuses what
comes back changed, moved, or without what it was made for. After each cut it takes the packet, and
every bound item that stays out has a verdict.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from sawlog.agentlog import AgentLog
from sawlog.builder.packet import Entry
from sawlog.builder.trace import Trace
from sawlog.compaction.blocks import with_beta
from sawlog.providers.fake import Call, FakeProvider, Part, Reply, Text, Thinking
from sawlog.store.errors import NotCompacted, Refused
from sawlog.work.call import Call as Asked
from sawlog.work.session import Session
from sawlog.work.step import Step
from sawlog.work.summarising import Provider
from tests.session.agents import SYSTEM, TOOLS, client_of, read_file, sound

SESSIONS, MANY = 12, 200
"""Sessions of each API, and how many `make test-long` tries."""

ACTS = 40
SEALS = ("signature", "data", "encrypted_content")
"""Where a bound item carries what only its provider can make."""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "test")


class Model:
    """Thinks, talks and calls at random, and never the same twice."""

    def __init__(self, api: str, chance: Random) -> None:
        self.api = api
        self.chance = chance
        self.said = 0

    def __call__(self, api: str, request: dict[str, object], number: int) -> Reply:
        return Reply(parts=list(self._parts()))

    def _parts(self) -> Iterator[Part]:
        chance = self.chance
        self.said += 1
        thinks = chance.random() < 0.7
        if thinks:
            hidden = self.api == "anthropic" and chance.random() < 0.3
            yield Thinking(self._words("thought", 80), redacted=hidden)
        calls = chance.choice((0, 1, 1, 2, 3))
        if not calls or chance.random() < 0.6:
            yield Text(self._words("said", 60))
        for at in range(calls):
            if at and thinks and self.api == "anthropic" and chance.random() < 0.3:
                yield Thinking(self._words(f"between {at}", 20))
            yield Call("read_file", {"path": f"{self.said}-{at}.py"}, id=f"call_{self.said}_{at}")

    def _words(self, what: str, most: int) -> str:
        return f"{what} {self.said}: " + "so it is. " * self.chance.randrange(1, most)


class Agent:
    """A session that does at random what agents and their users do, and compacts in between."""

    def __init__(self, s: Session, api: str, fake: FakeProvider, chance: Random) -> None:
        self.s = s
        self.api = api
        self.fake = fake
        self.chance = chance
        self.model = "some-model"
        self.params: dict[str, Any] = {}
        if api == "anthropic":
            thinking = {"type": "enabled", "budget_tokens": 1024}
            self.params = {"max_tokens": 4000, "headers": dict(with_beta(()))}
            if chance.random() < 0.5:
                self.params["thinking"] = thinking
        elif api == "openai-responses":
            self.params = {"store": False, "include": ["reasoning.encrypted_content"]}
        self.open: list[Asked] = []
        self.left_out: dict[tuple[int, int], str] = {}
        self.met: Counter[str] = Counter()
        self.compacted = False
        self.traces: dict[int, Trace] = {}
        """Of the steps behind a compaction, by number."""

    def act(self, client: Any) -> None:
        """One thing more."""
        what = self.chance.choices(
            ("step", "run", "user", "compact", "model", "tools"), (9, 8, 2, 4, 1, 1)
        )[0]
        match what:
            case "step":
                self.step(client)
            case "run" if self.open:
                call = self.open.pop(self.chance.randrange(len(self.open)))
                with self.s.tool(call) as run:
                    run.result(f"content of {call.args['path']} " * self.chance.randrange(1, 40))
            case "user":
                self.s.user("go on " * self.chance.randrange(1, 60))
            case "compact":
                self.compact()
            case "model" if self.chance.random() < 0.5:
                self.model = "another-model" if self.model == "some-model" else "some-model"
            case "tools":
                self.s.tools(TOOLS if self.chance.random() < 0.5 else [read_file])
            case _:
                pass

    def step(self, client: Any) -> None:
        """The next step, after a message where there is nothing to send."""
        options: dict[str, Any] = {"model": self.model, "allow_waiting": True, **self.params}
        try:
            step = self.s.step(self.api, **options)
        except Refused as refused:
            assert refused.reason == "nothing_to_send", refused
            self.s.user("And now?")
            step = self.s.step(self.api, **options)
        reply = step.send(client)  # raises for what is refused
        self.open.extend(reply.tool_calls)
        self.look_at(step)

    def compact(self) -> None:
        """Compact by code, or at the provider where it does that."""
        at_provider = self.api in ("anthropic", "openai-responses") and self.chance.random() < 0.3
        asks = Provider(
            api=self.api,
            model=self.model,
            base_url=self.fake.base_url(self.api),
            params='{"max_tokens":4000}' if self.api == "anthropic" else "",
            retries=0,
        )
        try:
            self.s.compact(
                budget=self.chance.choice((0, 0, 400, 1500, 4000)),
                keep_user=self.chance.choice((None, 0, 200)),
                route="provider" if at_provider else self.chance.choice(("rules", "local")),
                summariser=asks if at_provider else None,
            )
        except NotCompacted as error:
            self.met[error.code] += 1
        else:
            self.met["at the provider" if at_provider else "compacted"] += 1
            self.compacted = True

    def look_at(self, step: Step) -> None:
        """Each bound item of the packet is in the request or has a verdict, never both."""
        trace = step.packet.trace
        fresh = {
            (one.seq, one.part): one.reason
            for one in trace.verdicts
            if one.stage == "render" and one.reason.startswith("left_out: ")
        }
        self.left_out |= fresh
        if self.compacted:
            assert "compacted" in [one.cause for one in trace.breaks]
            self.compacted = False
            self.traces[step.number] = trace
        for ref, entry in zip(step.packet.refs, step.packet.entries, strict=True):
            if entry.part != "bound" or entry.text == '""':  # DeepSeek's word for no thinking
                continue
            place = (ref.seq, ref.part)
            if seal_of(entry).encode() in step.body:
                assert place not in fresh
                self.left_out.pop(place, None)
                self.met["sent"] += 1
            else:
                assert place in self.left_out, entry
                self.met[self.left_out[place]] += 1


def seal_of(entry: Entry) -> str:
    """What of a bound item is nowhere but in it, as it stands in a body."""
    source: Any = json.loads(entry.text)
    if isinstance(source, str):
        return entry.text
    return next(str(source[name]) for name in SEALS if source.get(name))


def assert_told(again: Trace | None, trace: Trace) -> None:
    """The log alone gives the same verdicts and breaks."""
    assert again is not None
    assert again.breaks == trace.breaks
    assert [one for one in again.verdicts if one.stage == "render"] == [
        one for one in trace.verdicts if one.stage == "render"
    ]


@pytest.mark.long
@pytest.mark.parametrize("api", ["anthropic", "openai-responses", "deepseek-chat"])
def test_after_each_cut_the_packet_is_taken_and_what_stayed_out_has_a_verdict(
    log: AgentLog, api: str
) -> None:
    met: Counter[str] = Counter()
    sessions = MANY if settings.get_current_profile_name() == "long" else SESSIONS
    for serial in range(sessions):
        chance = Random(f"{api} {serial}")
        name = f"task {serial}"
        window = chance.choice((0, 0, 6000))
        with (
            FakeProvider(Model(api, chance)) as fake,
            client_of(api, fake) as client,
            log.session(name, window=window) as s,
        ):
            s.system(SYSTEM)
            s.tools(TOOLS)
            s.user("Mend it.")
            agent = Agent(s, api, fake, chance)
            for _ in range(ACTS):
                agent.act(client)
            agent.step(client)
            refused = [one.refusal for one in fake.requests if one.refusal]
            assert refused == [], refused
        recorded = sound(log, name)
        for number, trace in agent.traces.items():
            assert_told(recorded.steps[number].trace(), trace)
        met += agent.met
    assert met["compacted"] > sessions and met["sent"] > sessions
    assert met["left_out: other_model"] and (api != "anthropic" or met["left_out: binding_broken"])
