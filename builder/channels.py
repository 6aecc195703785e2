"""Channels: the loading channel alone says what a text is (S0-16). No text changes its labels.

`TWELVE` is the published table. `CHANNELS` has five more, for what sawlog brings in from outside:
unverified, unless the caller says that a channel is its own (`owned`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from sawlog.builder.item import (
    AUTHORITY_RANK,
    RETENTION_RANK,
    TRUST_RANK,
    Authority,
    ContextItem,
    Kind,
    Provenance,
    Retention,
    Scope,
    Sensitivity,
    Trust,
    check_labels,
    content_digest,
    is_blank,
    json_digest,
)
from sawlog.store.errors import InvalidItem, quoted


class RawSource(msgspec.Struct, frozen=True):
    """A text as a loader brought it, before any label (S0-10).

    `locator` and `title` say where a piece was taken from and what stands around it (S3-24).
    """

    source_id: str
    channel: str
    content: str
    path: str | None = None
    version: str | None = None
    observed_at: str | None = None
    locator: str | None = None
    title: str | None = None


class Channel(msgspec.Struct, frozen=True):
    """The labels that a channel grants. `located`: its sources must name their place (S3-24)."""

    kind: Kind
    authority: Authority
    trust: Trust
    retention: Retention
    sensitivity: Sensitivity
    located: bool = False


class Channels:
    """The channels that a caller knows. A value: `extended` and `owned` give new ones."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        for name, channel in channels.items():
            _check(name, channel)
        self._channels = dict(channels)

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels)

    def __contains__(self, name: object) -> bool:
        return name in self._channels

    def __getitem__(self, name: str) -> Channel:
        """The channel of that name. Raises InvalidItem: there is no channel by default (S0-17)."""
        found = self._channels.get(name)
        if found is None:
            raise InvalidItem(
                "unknown_source_channel",
                f"there is no channel {quoted(name)}: add it with extended(), or use one of "
                f"{', '.join(sorted(self._channels))}",
            )
        return found

    def extended(self, channels: Mapping[str, Channel]) -> Channels:
        """Channels that hold these, too. Raises InvalidItem for a name that is taken."""
        taken = sorted(set(channels) & set(self._channels))
        if taken:
            raise InvalidItem(
                "channel_taken", f"the channel {quoted(taken[0])} exists: choose another name"
            )
        return Channels({**self._channels, **channels})

    def owned(self, *names: str) -> Channels:
        """Channels in which these are the caller's own: what they bring is a trusted source.

        They gain no authority. Raises InvalidItem for an unknown name, and for a channel that is
        hostile on purpose.
        """
        changed: dict[str, Channel] = {}
        for name in names:
            channel = self[name]
            if channel.trust == Trust.HOSTILE:
                raise InvalidItem(
                    "hostile_channel", f"the channel {quoted(name)} is hostile on purpose"
                )
            if TRUST_RANK[channel.trust] < TRUST_RANK[Trust.TRUSTED_SOURCE]:
                channel = msgspec.structs.replace(channel, trust=Trust.TRUSTED_SOURCE)
            changed[name] = channel
        return Channels({**self._channels, **changed})


def _check(name: str, channel: Channel) -> None:
    if is_blank(name):
        raise InvalidItem("blank_channel", "a channel needs a name")
    check_labels(f"the channel {name}", channel.kind, channel.authority)
    for label, value, known in (
        ("authority", channel.authority, set(AUTHORITY_RANK) - {Authority.UNTRUSTED}),
        ("trust", channel.trust, set(TRUST_RANK) - {Trust.UNKNOWN}),
        ("retention", channel.retention, set(RETENTION_RANK)),
        ("kind", channel.kind, set(Kind)),
        ("sensitivity", channel.sensitivity, set(Sensitivity)),
    ):
        if value not in known:
            raise InvalidItem(
                "label_not_assignable", f"no channel grants the {label} {value!s}: see {name}"
            )


def _channel(kind: str, authority: str, trust: str, retention: str, sensitivity: str) -> Channel:
    return Channel(
        Kind(kind),
        Authority(authority),
        Trust(trust),
        Retention(retention),
        Sensitivity(sensitivity),
    )


TWELVE = Channels(
    {
        "system": _channel("instruction", "system", "verified", "required", "internal"),
        "developer": _channel("instruction", "developer", "verified", "required", "internal"),
        "repository_rule": _channel(
            "instruction", "repository", "trusted_source", "high", "internal"
        ),
        "user_request": _channel("task", "none", "trusted_source", "required", "internal"),
        "user_instruction": _channel(
            "instruction", "user", "trusted_source", "required", "internal"
        ),
        "repository_file": _channel("artifact", "none", "trusted_source", "normal", "internal"),
        "tool_observation": _channel("observation", "none", "verified", "high", "internal"),
        "verified_fact": _channel("fact", "none", "verified", "high", "internal"),
        "web_content": _channel("fact", "none", "unverified", "low", "public"),
        "tool_schema": _channel("tool_schema", "none", "verified", "high", "internal"),
        "hostile_fixture": _channel("artifact", "none", "hostile", "low", "internal"),
        "secret_fixture": _channel("fact", "none", "verified", "required", "secret"),
    }
)
"""The published table of chapter 5."""

CHANNELS = TWELVE.extended(
    {
        "memory": _channel("fact", "none", "unverified", "normal", "internal"),
        "retrieval": msgspec.structs.replace(
            _channel("artifact", "none", "unverified", "low", "internal"), located=True
        ),
        "skill": _channel("artifact", "none", "unverified", "normal", "internal"),
        "handover": _channel("observation", "none", "unverified", "normal", "internal"),
        "session_reference": _channel("artifact", "none", "unverified", "low", "internal"),
    }
)
"""The table and what sawlog brings in itself; `handover` is what a sub-agent gives back."""


def classify(
    raw: RawSource,
    *,
    repository: str,
    task_id: str | None = None,
    tenant: str | None = None,
    required_for: Iterable[str] = (),
    channels: Channels = TWELVE,
) -> ContextItem:
    """The item that a source is, labelled by its channel alone.

    The same source has the same id whatever it is required for; a tenant is part of the id where
    there is one. Raises InvalidItem: `blank_source_content`, `unknown_source_channel`,
    `missing_source_context`, `blank_scope_repository`.
    """
    if is_blank(raw.content):
        raise InvalidItem("blank_source_content", f"the source {quoted(raw.source_id)} has no text")
    channel = channels[raw.channel]
    if channel.located and is_blank(raw.locator or ""):
        raise InvalidItem(
            "missing_source_context",
            f"the source {quoted(raw.source_id)} is a piece of something: give its locator",
        )
    scope = Scope(repository, raw.path, task_id, tenant)
    digest = content_digest(raw.content)
    inputs: dict[str, str | None] = {
        "channel": raw.channel,
        "content_digest": digest,
        "observed_at": raw.observed_at,
        "path": raw.path,
        "repository": repository,
        "source_id": raw.source_id,
        "task_id": task_id,
        "version": raw.version,
    }
    if tenant is not None:
        inputs["tenant"] = tenant
    return ContextItem(
        item_id=f"ctx-{json_digest(inputs)[:20]}",
        kind=channel.kind,
        content=raw.content,
        scope=scope,
        authority=channel.authority,
        trust=channel.trust,
        retention_priority=channel.retention,
        sensitivity=channel.sensitivity,
        provenance=Provenance(raw.channel, raw.source_id, raw.version, raw.observed_at, digest),
        required_for=frozenset(required_for),
    )
