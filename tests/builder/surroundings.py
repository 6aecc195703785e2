"""A log in memory that is told of world, files, items and messages, in one call each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sawlog.builder.build import Built, Cache
from sawlog.builder.channels import CHANNELS
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Entry
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import state_digest
from sawlog.builder.state import State
from sawlog.store.content import Part
from sawlog.store.event import Event
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label, TaskSet
from sawlog.store.events.steps import PacketBuilt, StepCompleted
from sawlog.store.events.world import FileChanged, Saw, Section, WorldChanged
from tests.builder.memory import RENDERERS, MemoryLog, text

ASIDE = ("world", "goal", "notice", "observation", "instruction", "task")


class Told:
    """A memory log and what happens in it. Each packet that is built is kept and checked."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.log = MemoryLog()
        self.rules = rules or Rules()
        self.built: list[Built] = []
        self.serial = 0

    # --- what happens ----------------------------------------------------------------------------

    def user(self, said: str = "") -> Event:
        """A message of the user."""
        self.serial += 1
        return self.log.append(MessageUser(text(said or f"message {self.serial}")))

    def world(self, *unknown: str, **sections: Any) -> Event:
        """The world is this now; None removes a section."""
        new = [
            Section(name, removed=True) if value is None else Section(name, json.dumps(value))
            for name, value in sections.items()
        ]
        new += [Section(name, unknown=True) for name in unknown]
        return self.log.append(WorldChanged(tuple(new)), source="harness")

    def task(self, goal: str = "", **fields: Any) -> Event:
        """The task is set."""
        return self.log.append(TaskSet(goal, **fields), source="harness")

    def changed(self, path: str, version: str = "", state: str = "present") -> Event:
        """A file changed."""
        return self.log.append(FileChanged(path, version, state), source="watch")

    def ask(self, name: str = "tool") -> Event:
        """The model asks for a call."""
        self.serial += 1
        step = self.log.state.open_step or self.log.state.step + 1
        source = "provider:openai-chat"
        call = ToolRequested(f"call_{self.serial}", name, "{}")
        return self.log.append(call, step=step, source=source)

    def start(self, call: Event) -> None:
        """A call is started."""
        self.log.append(ToolStarted(call=call.id), source="harness")

    def finish(self, call: Event, said: str, *saw: Saw) -> Event:
        """A call's result arrives."""
        asked = call.content
        assert isinstance(asked, ToolRequested)
        result = ToolFinished(call.id, asked.call_id, asked.name, "ok", text(said), saw=saw)
        return self.log.append(result, source=f"tool:{asked.name}")

    def read(self, path: str, version: str = "", said: str = "") -> Event:
        """A step's reply reads a file, and the result says which version it saw."""
        call = self.ask("read")
        self.start(call)
        return self.finish(call, said or f"text of {path} {version}", Saw(path, "", version))

    def says(self, said: str = "ok") -> None:
        """The model answers and asks for nothing."""
        step = self.log.state.open_step or self.log.state.step + 1
        self.log.append(MessageAssistant(text(said)), step=step, source="provider:openai-chat")
        self.log.append(StepCompleted(), step=step, source="provider:openai-chat")

    def offer(
        self, said: str = "", channel: str = "retrieval", *, parts: Sequence[Part] = (), **more: Any
    ) -> Event:
        """An item is offered through a channel, with the labels that it grants."""
        self.serial += 1
        labels = CHANNELS[channel]
        label = Label(
            str(labels.kind), str(labels.authority), str(labels.trust),
            str(labels.retention), str(labels.sensitivity),
        )  # fmt: skip
        fields: dict[str, Any] = {"source_id": f"source-{self.serial}", **more}
        item = ItemOffered(tuple(parts) or text(said), label, **fields)
        return self.log.append(item, source=channel)

    def withdraw(self, source_id: str, channel: str = "retrieval", reason: str = "") -> Event:
        """A source takes back what it said."""
        return self.log.append(ItemWithdrawn(channel, source_id, reason), source="harness")

    # --- packets ---------------------------------------------------------------------------------

    def build(self, **options: Any) -> Built | Refusal:
        """The next packet, or why there is none."""
        return self.log.build(self.rules, **options)

    def packet(self, **options: Any) -> Built:
        """The next packet, logged: it grows from the one before, or names why not."""
        built = self.log.packet(self.rules, **options)
        if self.built and not built.trace.breaks:
            before = self.built[-1].entries
            assert built.entries[: len(before)] == before[:], "law 13: what was sent stays"
        self.built.append(built)
        return built

    def step(self, said: str = "", **options: Any) -> Built:
        """A whole step: a message, its packet, an answer."""
        self.user(said)
        built = self.packet(**options)
        self.says()
        return built

    def refused(self, reason: str, **options: Any) -> Refusal:
        """There is no next packet, for this reason."""
        found = self.build(**options)
        assert isinstance(found, Refusal), found
        assert found.reason == reason, found
        return found

    def cold(self) -> None:
        """A process ends and another one goes on from the log alone."""
        state = fold_all(State(), self.log.events)
        assert state_digest(state) == state_digest(self.log.state)
        self.log.state = state
        self.log.cache = Cache()

    def same_under_all(self) -> None:
        """What each packet said when it was built is what the log says of it still."""
        packets = [one.content for one in self.log.events if isinstance(one.content, PacketBuilt)]
        assert [one.semantic for one in packets] == [one.semantic for one in self.built]


def beside(built: Built, *roles: str) -> list[str]:
    """The texts beside the history in a packet, in order; those of the roles if any are given."""
    return [one.text for one in built.entries if one.role in (roles or ASIDE)]


def new(built: Built, *roles: str) -> list[str]:
    """The same of what came in with this packet."""
    fresh = built.entries.between(built.trace.kept, len(built.entries))
    return [one.text for one in fresh if one.role in (roles or ASIDE)]


def texts(built: Built) -> list[str]:
    """All texts of a packet."""
    return [one.text for one in built.entries]


def entry(built: Built, said: str) -> Entry:
    """The one entry with this text in it."""
    [found] = [one for one in built.entries if said in one.text]
    return found


def rendered(told: Told, built: Built) -> dict[str, bytes]:
    """The body of a packet for each API, from the log alone."""
    bodies: dict[str, bytes] = {}
    for api in RENDERERS:
        again = told.log.build(told.rules, api)
        assert isinstance(again, Built), again
        bodies[api] = again.request.body
    return bodies
