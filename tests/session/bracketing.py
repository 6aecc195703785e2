"""What tests of a compaction that was cut ask: what the next packet would be, what was left open.

The session is `shrinking.worked`; how it is compacted is one of `shrinking.WAYS`.
"""

from __future__ import annotations

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import FakeProvider
from sawlog.providers.strict import check
from sawlog.store.errors import NotCompacted
from sawlog.store.event import Event
from sawlog.store.events.compaction import (
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
)
from sawlog.work.session import Session
from tests.session import shrinking
from tests.session.agents import next_step
from tests.session.shrinking import API, Way


def body(log: AgentLog, name: str) -> bytes:
    """The packet that would come next: of a fork, so that the session itself stays as it is."""
    with log.fork(name) as probe:
        probe.user("And now?")
        step = next_step(probe, API)
        check(API, step.body, step.headers)
        return step.body


def again(s: Session, way: Way) -> bool:
    """Compact once more; False where there was nothing to gain from the beginning."""
    with FakeProvider(list(way.again)) as fake:
        try:
            shrinking.compact(s, way, fake.base_url(API))
        except NotCompacted as error:
            assert error.code == "no_progress" and way.at is not None
            return False
        finally:
            assert len(fake.requests) == len(way.again), "a model was asked too rarely"
    return True


def brackets(events: list[Event]) -> tuple[int, int]:
    """How many compactions began, and how many have their end."""
    ends = (CompactionCompleted, CompactionFailed)
    begun = sum(isinstance(event.content, CompactionStarted) for event in events)
    return begun, sum(isinstance(event.content, ends) for event in events)
