"""Items: candidates for packets, as their channel labelled them. The text never labels itself."""

from __future__ import annotations

import msgspec

from sawlog.store.content import Part
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import event
from sawlog.store.events.world import Saw
from sawlog.store.text import Text


class Label(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the loading channel grants an item (CONTRACTS S0-16): the words of `builder.item`."""

    kind: str
    authority: str = "none"
    trust: str = "unverified"
    retention: str = "normal"
    sensitivity: str = "internal"


@event("item.offered", 1)
class ItemOffered(Payload, frozen=True):
    """A candidate for the packets from here on; the event's source is the channel that loaded it.

    `source_id` names it within its channel, and a newer version of it takes the older one's place;
    `canonical` is what it is about, where several sources tell of one thing (empty: the source).
    `observed_at` and `updated_at` are dates or times as the source gave them; `valid_until` is in
    microseconds UTC and holds on its last moment (0: no end); `ttl` is microseconds from the
    event's own time on. `relevance` is per mille as the source gave it (-1: none). `role` is what
    it is in a phase's working set, such as `error_log`. `saw` names the files it was taken from.
    `handle` of a secret is what the caller resolves: its value is in no event. `took` is how long
    it took to fetch, in microseconds.
    """

    parts: tuple[Part, ...]
    label: Label
    source_id: Text
    version: Text = ""
    observed_at: Text = ""
    updated_at: Text = ""
    title: Text = ""
    locator: Text = ""
    repository: Text = ""
    path: Text = ""
    task: Text = ""
    tenant: Text = ""
    topics: tuple[str, ...] = ()
    required_for: tuple[str, ...] = ()
    valid_until: int = 0
    ttl: int = 0
    relevance: int = -1
    canonical: Text = ""
    role: str = ""
    saw: tuple[Saw, ...] = ()
    handle: Text = ""
    took: int = -1


@event("item.withdrawn", 1)
class ItemWithdrawn(Payload, frozen=True):
    """What this channel's source said holds no longer: memory, a schema or a permission changed."""

    channel: str
    source_id: Text
    reason: Text = ""


@event("task.set", 1)
class TaskSet(Payload, frozen=True):
    """What the session is for, from here on: goal, completion condition, needs and scope.

    `requirements` are names that some item must satisfy before a step goes out. `phase` is
    `investigate`, `edit`, `verify` or another of the policy's. `allowed` are sensitivities that may
    leave (empty: the policy's); `clearance` the highest level, as a number.
    """

    goal: Text = ""
    done_when: Text = ""
    requirements: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    phase: str = ""
    repository: Text = ""
    path: Text = ""
    task: Text = ""
    tenant: Text = ""
    allowed: tuple[str, ...] = ()
    clearance: int = 0
