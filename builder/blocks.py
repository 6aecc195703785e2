"""A provider's own compaction of a checkpoint: who made it, and what it is bound to.

It is bound like thinking, to the API and model that it came from. Those are the name of the
checkpoint's summariser (`openai-responses:gpt-5.5`), so that the checkpoint alone says it.
"""

from __future__ import annotations

from sawlog.builder.packet import Binding
from sawlog.store.events.base import Named
from sawlog.store.events.compaction import Checkpoint


def maker_of(api: str, model: str) -> Named:
    """The name of a provider's own compaction as a checkpoint's summariser."""
    return Named(f"{api}:{model}")


def made(checkpoint: Checkpoint) -> Binding | None:
    """What the block of a checkpoint is bound to; None when nobody says who made it."""
    if checkpoint.block is None or checkpoint.summariser is None:
        return None
    api, told, model = checkpoint.summariser.name.partition(":")
    # The prefix that it was made of gave way: a profile that binds it to one has it stay out.
    return Binding("compacted", api, model, "") if told else None
