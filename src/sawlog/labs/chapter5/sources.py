"""The lab's texts: a small repository with its rules, tools, noise, a secret, hostile notes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from sawlog.builder.channels import TWELVE, Channels, RawSource, classify
from sawlog.builder.item import ContextItem


class LabSource(msgspec.Struct, frozen=True):
    """A text before it is labelled, and the requirements that it meets."""

    source_id: str
    channel: str
    content: str
    path: str | None = None
    version: str | None = None
    observed_at: str | None = None
    required_for: tuple[str, ...] = ()

    def item(
        self,
        repository: str,
        task_id: str | None,
        *,
        tenant: str | None = None,
        locator: str | None = None,
        channels: Channels = TWELVE,
    ) -> ContextItem:
        """The item that its channel makes of it. Raises InvalidItem."""
        raw = RawSource(
            self.source_id,
            self.channel,
            self.content,
            self.path,
            self.version,
            self.observed_at,
            locator,
        )
        return classify(
            raw,
            repository=repository,
            task_id=task_id,
            tenant=tenant,
            required_for=self.required_for,
            channels=channels,
        )


class LabSources(msgspec.Struct, frozen=True):
    """The lab's repository: what it is called, its task, its texts by key.

    `fixed_source` is what the task's file looks like when the task is done.
    """

    repository: str
    task_id: str
    target_path: str
    expected_requirements: tuple[str, ...]
    fixed_source: str
    fixtures: Mapping[str, LabSource]

    def item(self, key: str) -> ContextItem:
        """The item of a text."""
        return self.fixtures[key].item(self.repository, self.task_id)


@cache
def lab_sources() -> LabSources:
    """The lab's texts, from the data that the package carries."""
    data = files("sawlog.fixtures") / "seed-cases" / "ch5" / "fixtures.json"
    return msgspec.json.decode(data.read_bytes(), type=LabSources)
