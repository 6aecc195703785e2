"""The checkpoints of a recorded session, foreign ones included: what each covers and says."""

from __future__ import annotations

import msgspec

from sawlog.audit.recorded import Recorded
from sawlog.builder.checkpointtext import checkpoint_text
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.store.event import Event
from sawlog.store.events.compaction import (
    Checkpoint,
    CompactionCompleted,
    CompactionFailed,
    CompactionRefused,
    CompactionStarted,
)


class Listed(msgspec.Struct, frozen=True):
    """A completed compaction as it is listed.

    `number` is 0 for a foreign one. `by` is who wrote it: `code`, a summariser's name, or
    `foreign`. `through` is the last event that it covers (0: a foreign file does not say), `kept`
    how many events at or before it go on. `units` is what the checkpoint takes and `region` what it
    replaced (-1: not known). `text` is what it says, as packets show it. `stands`: it is in front
    of the history now.
    """

    seq: int
    number: int
    by: str
    trigger: str
    route: str
    through: int
    kept: int
    units: int
    region: int
    text: str
    stands: bool
    attempts: int = 0


def checkpoints_of(session: Recorded) -> list[Listed]:
    """All completed compactions of a session's branch, oldest first. Raises BlobMissing."""
    found: list[Listed] = []
    begun: CompactionStarted | None = None
    drafts = 0
    checkpoint: tuple[int, Checkpoint] | None = None
    state = State()
    contents = session.window
    for event in session.events():
        state = fold(state, event)
        match event.content:
            case CompactionStarted():
                begun, drafts, checkpoint = event.content, 0, None
            case CompactionRefused():
                drafts += 1
            case Checkpoint():
                checkpoint = (event.seq, event.content)
            case CompactionFailed():
                begun = checkpoint = None
            case CompactionCompleted():
                found.append(_listed(event, event.content, begun, checkpoint, drafts, contents))
                begun = checkpoint = None
            case _:
                pass
    return [msgspec.structs.replace(one, stands=one.seq == state.checkpoint) for one in found]


def _listed(
    event: Event,
    ended: CompactionCompleted,
    begun: CompactionStarted | None,
    checkpoint: tuple[int, Checkpoint] | None,
    drafts: int,
    contents: Contents,
) -> Listed:
    trigger = begun.trigger if begun is not None else ""
    if checkpoint is None:
        summary = text_of(ended.summary, contents)
        text = summary or ("[opaque]" if ended.opaque else "" if not ended.unknown else "[unknown]")
        kept = len(ended.history)
        return Listed(event.seq, 0, "foreign", trigger, "", 0, kept, -1, -1, text, stands=False)
    seq, said = checkpoint
    return Listed(
        seq,
        said.number,
        "code" if said.summariser is None else str(said.summariser),
        trigger,
        begun.route if begun is not None else "",
        ended.through,
        len(ended.kept),
        said.units,
        begun.units if begun is not None else -1,
        checkpoint_text(said, lambda text: text_of(text, contents)),
        stands=False,
        attempts=drafts + 1,
    )
