"""The summariser that needs no model: prose taken word for word from what gives way.

Deterministic and offline, and what a session uses unless it is given another.
"""

from __future__ import annotations

from msgspec.structs import replace

from sawlog.compaction.bounds import MEASURE, bounded
from sawlog.compaction.gone import Reading
from sawlog.compaction.past import Past
from sawlog.compaction.wording import cut, line_id, one_line, plan_in
from sawlog.store.events.base import Named
from sawlog.store.events.compaction import Checkpoint, Line

EXTRACTIVE = Named("extractive", 1)

NARRATIVE = 600
"""Characters of the narrative."""

SUMMARISER = "summariser"


def extract(
    past: Past, checkpoint: Checkpoint, most: int = 0, measure: Named = MEASURE
) -> Checkpoint:
    """A checkpoint that code wrote, with prose: the newest plan, and how the last reply began.

    The plan that the assistant told last takes the place of the plan of the checkpoint before;
    notes on what comes next stay in front of it. Where nothing that gives way is of the assistant
    there is no prose, and the checkpoint comes back as code wrote it. `most` is a bound in units as
    in `known`. Raises BlobMissing.
    """
    said = [one for one in Reading(past).said() if one.gone and not one.by_user]
    spoken = [one for one in said if one_line(one.text)]
    if not spoken:
        return checkpoint
    last = spoken[-1]
    plans = ((one, plan_in(one.text)) for one in reversed(spoken))
    told = next(((one, plan) for one, plan in plans if plan), None)
    next_lines = {line.id: line for line in checkpoint.next}
    if told is not None:
        next_lines = {id: line for id, line in next_lines.items() if line.by != SUMMARISER}
        event, plan = told[0].event, told[1]
        elsewhere = {
            line.id
            for lines in (checkpoint.constraints, checkpoint.confirmed, checkpoint.open)
            for line in lines
        }
        for text in plan:
            id = line_id("n", text)
            if id not in elsewhere:
                next_lines.setdefault(id, Line(id, cut(text), (event.id,), SUMMARISER))
    prose = replace(
        checkpoint,
        next=tuple(next_lines.values()),
        narrative=cut(one_line(last.text), NARRATIVE),
        summariser=EXTRACTIVE,
    )
    made = bounded(prose, past.contents, most, measure)
    # Where the bound left none of the prose, code wrote it alone.
    if made.narrative or any(line not in checkpoint.next for line in made.next):
        return made
    return replace(made, summariser=None)
