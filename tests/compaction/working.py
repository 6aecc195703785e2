"""A session in memory that works, notes and compacts, with the checkpoint that stands now."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sawlog.builder.checkpointtext import checkpoint_text
from sawlog.builder.contents import text_of
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.state import State
from sawlog.compaction.bounds import MEASURE
from sawlog.compaction.checking import check
from sawlog.compaction.extractive import extract
from sawlog.compaction.facts import known
from sawlog.compaction.history import history_of
from sawlog.compaction.past import Past, surviving
from sawlog.compaction.region import Region, choose
from sawlog.store.event import Event
from sawlog.store.events.base import EventId
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionStarted,
    NoteClosed,
    NoteRecorded,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.world import Saw
from tests.builder.memory import text
from tests.builder.surroundings import Told

STARTED = "ab" * 16
PROVIDER = "provider:openai-chat"


class Working(Told):
    """What `Told` can do; and calls with arguments, notes, compactions."""

    def __init__(self, rules: Rules | None = None) -> None:
        super().__init__(rules)
        self.checkpoint: Checkpoint | None = None
        self.checkpoint_id = ""
        self.covered = 0

    # --- what happens ----------------------------------------------------------------------------

    @property
    def step_now(self) -> int:
        """The step whose packet is out, or the next one."""
        return self.log.state.open_step or self.log.state.step + 1

    def spoke(self, said: str) -> Event:
        """A text of the reply that goes on."""
        return self.log.append(MessageAssistant(text(said)), step=self.step_now, source=PROVIDER)

    def asked(self, name: str, arguments: str = "{}", kind: str = "json") -> Event:
        """A call that the model asks for."""
        self.serial += 1
        call = ToolRequested(f"call_{self.serial}", name, arguments, kind)
        return self.log.append(call, step=self.step_now, source=PROVIDER)

    def began(self, call: Event, effect: str = "side_effect") -> None:
        """A call is started."""
        self.log.append(ToolStarted(call=call.id, effect=effect), source="harness")

    def ended(self, call: Event, said: str = "done", status: str = "ok") -> Event:
        """Its result arrives."""
        asked = call.content
        assert isinstance(asked, ToolRequested)
        result = ToolFinished(call.id, asked.call_id, asked.name, status, text(said))
        return self.log.append(result, source="tool:any")

    def ran(
        self,
        name: str,
        arguments: str = "{}",
        status: str = "ok",
        effect: str = "side_effect",
        kind: str = "json",
        said: str = "",
    ) -> tuple[Event, Event]:
        """A call from its request to its result."""
        call = self.asked(name, arguments, kind)
        self.began(call, effect)
        return call, self.ended(call, said or f"{status} " * 40, status)

    def looked(self, path: str, version: str) -> Event:
        """A call of a tool that only reads gives the text of a file."""
        call = self.asked("look", "{}")
        self.began(call, "read_only")
        return self.finish(call, "text " * 60, Saw(path, "", version))

    def note(self, kind: str, name: str, said: str, *refs: EventId, source: str = "user") -> Event:
        """Something is noted."""
        return self.log.append(NoteRecorded(kind, name, said, refs), source=source)

    def settle(self, name: str, *refs: EventId, reason: str = "") -> Event:
        """A note is closed."""
        return self.log.append(NoteClosed(name, refs, reason), source="user")

    # --- compaction ------------------------------------------------------------------------------

    def past(self, at: int | None = None, keep_user: int = 0) -> Past:
        """What the next checkpoint is written from: all but the last unit gives way, or up to a
        border."""
        log = self.log
        state = fold_all(State(), log.events)
        history = history_of(state, MEASURE, log)
        region = choose(history, log, at=at, keep_user=keep_user)
        assert isinstance(region, Region), region
        events = tuple(surviving(log.events[self.covered :]))
        return Past(state, region, events, log, STARTED, self.checkpoint, self.checkpoint_id)

    def against(self, checkpoint: Checkpoint, past: Past | None = None) -> list[tuple[str, str]]:
        """Why a checkpoint does not count, but for its size."""
        found = check(past or self.past(), checkpoint, 0)
        return [(code, what) for code, what in found if code != "larger"]

    def compact(
        self, *, keep_user: int = 0, checked: bool = True, prose: bool = True
    ) -> Checkpoint:
        """The newest checkpoint is written, checked and put in the place of its region."""
        past = self.past(keep_user=keep_user)
        made = known(past)
        if checked:
            assert self.against(made, past) == []
        if prose:
            made = extract(past, made)
            assert not checked or self.against(made, past) == []
        return self.commit(made, past)

    def commit(self, checkpoint: Checkpoint, past: Past) -> Checkpoint:
        """The bracket around a checkpoint is written."""
        region = past.region
        begun = CompactionStarted("manual", through=region.through, kept=region.kept)
        started = self.log.append(begun, source="harness")
        event = self.log.append(replace(checkpoint, started=started.id), source="harness")
        done = CompactionCompleted(checkpoint=event.seq, through=region.through, kept=region.kept)
        self.log.append(done, source="harness")
        assert isinstance(event.content, Checkpoint)
        self.checkpoint, self.checkpoint_id = event.content, event.id
        self.covered = region.through
        return event.content

    def text(self, checkpoint: Checkpoint) -> str:
        """A checkpoint as packets show it."""
        return checkpoint_text(checkpoint, lambda some: text_of(some, self.log))


def said(lines: Sequence[object]) -> list[object]:
    """The texts of lines, or the paths of files."""
    return [getattr(one, "text", None) or getattr(one, "path", None) for one in lines]
