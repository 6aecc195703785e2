"""A history in memory whose beginning gives way, and what code might know of it."""

from __future__ import annotations

from msgspec.structs import replace

from sawlog.builder.projector import fold_all
from sawlog.builder.state import State
from sawlog.compaction.history import history_of
from sawlog.compaction.past import Past
from sawlog.compaction.region import Region, choose
from sawlog.store.content import BoundPart, Part, TextPart
from sawlog.store.events.base import Named
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionStarted,
    Line,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.store.text import Text, preview
from tests.builder.memory import MemoryLog, text

MEASURE = Named("utf8-quarter")
SCHEMA = '{"name":"read_file","parameters":{"type":"object"}}'


def work(api: str = "anthropic", *, long: str = "", thought: bool = False) -> MemoryLog:
    """A system text, a tool, two steps that call it, and a last message of the user.

    `long` is what the first call gives back; above 1,000 bytes packets show it as a preview.
    """
    log = MemoryLog()
    log.append(MessageSystem(text("You mend programs."), "system"), source="system")
    log.append(ToolsChanged((Tool("read_file", SCHEMA),)), source="harness")
    log.append(MessageUser(text("Mend the parser. Never touch vendor/.")))
    told: Text = long or "def parse(): ..."
    for step, result in enumerate((told, "ok: 3 tests passed"), 1):
        built = log.packet(api=api)
        source = f"provider:{api}"
        parts: tuple[Part, ...] = (TextPart(f"I look at it ({step})."),)
        if thought:
            signed = '{"type":"thinking","thinking":"hm","signature":"c2ln"}'
            parts = (BoundPart("thinking", "anthropic", signed, "hm"), *parts)
        log.append(MessageAssistant(parts), step=step, source=source)
        name = '{"path": "src/</sawlog:known>.py"}' if step == 2 else '{"path": "src/parser.py"}'
        call = log.append(ToolRequested(f"c{step}", "read_file", name), step=step, source=source)
        log.append(ToolStarted(call.id), source="harness")
        shown, blob = preview(str(result), 1000)
        if blob is not None:
            log.blobs[blob.digest.hex()] = blob.data
        finished = ToolFinished(call.id, f"c{step}", "read_file", "ok", (TextPart(shown),))
        log.append(finished, source="tool:read_file")
        assert built.request.size
    log.packet(api=api)
    log.append(MessageAssistant(text("Mended.")), step=3, source=f"provider:{api}")
    log.append(MessageUser(text("And now the printer.")))
    return log


def region_of(log: MemoryLog) -> Region:
    """All that gives way but the last unit."""
    found = choose(history_of(log.state, MEASURE, log), log, keep_user=0)
    assert isinstance(found, Region), found
    return found


def past_of(log: MemoryLog, previous: Checkpoint | None = None, previous_id: str = "") -> Past:
    """What a checkpoint of this log is written from."""
    state = fold_all(State(), log.events)
    return Past(
        state, region_of(log), tuple(log.events), log, "ab" * 16, previous, previous_id
    )  # fmt: skip


def known_of(log: MemoryLog, number: int = 1) -> Checkpoint:
    """What code knows: the rule that the user gave, the first result, a task."""
    user, first, *_ = [
        event for event in log.events if isinstance(event.content, MessageUser | ToolFinished)
    ]
    return Checkpoint(
        "ab" * 16,
        number,
        goal="Mend the parser.",
        constraints=(Line("c-vendor", "Never touch vendor/.", (user.id,), "user"),),
        confirmed=(Line("d-read", "ran read_file", (first.id,)),),
        open=(Line("o-printer", "the printer", (), "summariser"),),
        evidence=(user.id, first.id),
    )


def compacted(log: MemoryLog, checkpoint: Checkpoint) -> int:
    """Append a whole bracket around a checkpoint; gives the checkpoint's seq."""
    region = region_of(log)
    started = log.append(
        CompactionStarted("manual", route="local", through=region.through, kept=region.kept),
        source="harness",
    )
    event = log.append(replace(checkpoint, started=started.id), source="harness")
    log.append(
        CompactionCompleted(checkpoint=event.seq, through=region.through, kept=region.kept),
        source="harness",
    )
    return event.seq
