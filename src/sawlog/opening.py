"""How a session is opened: what a caller may say of it, and what follows from that."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Literal, TypedDict

import msgspec

from sawlog.builder.channels import CHANNELS, Channels
from sawlog.builder.policy import Rules, rules_for
from sawlog.builder.profiles import Profile
from sawlog.builder.selection.policy import Policy
from sawlog.checking import Gateway, Guard
from sawlog.claims import PreStep
from sawlog.credentials import Secrets


class SessionOptions(TypedDict, total=False):
    """The options of `AgentLog.session` and `asession`, which say what each means."""

    rules: Rules | None
    policy: str | Policy | None
    pairing: str
    window: int
    reserve: int
    channels: Channels | None
    pre_step: PreStep | None
    gateway: Gateway | Literal["strict"] | None
    root: str | os.PathLike[str]
    approve: Literal["", "side_effects"]
    secrets: Secrets | None
    profile: Profile | None
    owner: str
    ttl: float
    wait: float


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is opened with. `ttl` and `wait` are seconds; `clock` gives microseconds."""

    rules: Rules
    clock: Callable[[], int]
    make_id: Callable[[], bytes]
    owner: str
    ttl: float = 30.0
    wait: float = 0.0
    channels: Channels = CHANNELS
    pre_step: PreStep | None = None
    guard: Guard = Guard()
    secrets: Secrets | None = None
    profile: Profile | None = None


def opening(
    options: SessionOptions, clock: Callable[[], int], make_id: Callable[[], bytes]
) -> Opening:
    """What these options make. Raises TypeError for one that there is not, ConfigError and
    UnknownNumber for a value that will not do."""
    unknown = sorted(set(options) - SessionOptions.__optional_keys__)
    if unknown:
        known = ", ".join(sorted(SessionOptions.__optional_keys__))
        raise TypeError(f"a session has no option {unknown[0]!r}: use {known}")
    rules = options.get("rules") or rules_for(
        options.get("policy"),
        options.get("window", 0),
        options.get("reserve", 0),
        options.get("pairing", "default"),
    )
    return Opening(
        rules=rules,
        clock=clock,
        make_id=make_id,
        owner=options.get("owner") or default_owner(),
        ttl=options.get("ttl", 30.0),
        wait=options.get("wait", 0.0),
        channels=options.get("channels") or CHANNELS,
        pre_step=options.get("pre_step"),
        guard=Guard.of(
            options.get("gateway", "strict"), options.get("root", ""), options.get("approve", "")
        ),
        secrets=options.get("secrets"),
        profile=options.get("profile"),
    )


def default_owner() -> str:
    """The owner's name that others are told: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"
