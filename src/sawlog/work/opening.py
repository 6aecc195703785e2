"""How a session is opened: what a caller may say of it, and what follows from that."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, cast

import msgspec

from sawlog.builder.channels import CHANNELS, Channels
from sawlog.builder.policy import Rules, rules_for
from sawlog.builder.profiles import Profile, profile_for
from sawlog.builder.render import renderer_of
from sawlog.builder.selection.choosing import Phase
from sawlog.builder.selection.policy import Policy
from sawlog.store.errors import ConfigError, InvalidItem, InvalidPolicy, quoted
from sawlog.store.events.base import Named
from sawlog.work.claims import PreStep
from sawlog.work.credentials import Credentials, Secrets
from sawlog.work.loading import LOADING, Load, Loadings, loading_for
from sawlog.work.triggers import Compaction
from sawlog.work.verdicts import Gateway, Guard
from sawlog.workspace.files import Absent, Unreadable, beginning

_LARGEST_DOCUMENT = 1024 * 1024


class SessionOptions(TypedDict, total=False):
    """The options of `AgentLog.session` and `asession`, which say what each means."""

    rules: Rules | None
    policy: str | os.PathLike[str] | Policy | None
    pairing: str
    window: int
    reserve: int
    channels: Channels | None
    loading: Loadings | None
    pre_step: PreStep | None
    gateway: Gateway | Literal["strict"] | None
    root: str | os.PathLike[str]
    approve: Literal["", "side_effects"]
    secrets: Secrets | None
    profile: str | os.PathLike[str] | Profile | None
    strict_profiles: bool
    cache_marks: bool
    owner: str
    ttl: float
    wait: float
    compaction: Compaction | None


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is opened with. `ttl` and `wait` are seconds; `clock` gives microseconds.

    `handed` knows what the sessions of one open log have handed out.
    """

    rules: Rules
    clock: Callable[[], int]
    make_id: Callable[[], bytes]
    owner: str
    ttl: float = 30.0
    wait: float = 0.0
    channels: Channels = CHANNELS
    loading: Mapping[str, Load] = LOADING
    pre_step: PreStep | None = None
    guard: Guard = Guard()
    secrets: Secrets | None = None
    handed: Credentials | None = None
    profile: Profile | None = None
    strict_profiles: bool = False
    cache_marks: bool = False
    compaction: Compaction | None = None

    def profile_for(
        self, api: str, model: str, given: Profile | None, *, strict: bool, marks: bool
    ) -> tuple[Profile, Named]:
        """The profile of a step and the renderer that it goes out by.

        The session's switches hold where the step's do not: with `cache_marks` a session sets marks
        wherever the profile has a rule. Raises ConfigError for an unknown model under `strict`, and
        for marks that a step asks for where there is no rule.
        """
        exact = True
        used = given or self.profile
        if used is None or used.api != api:
            used, exact = profile_for(api, model)
        if not exact and (strict or self.strict_profiles):
            switch = "strict" if strict else "strict_profiles"
            raise ConfigError(
                f"no profile of its own for {model!r} ({api}): `sawlog profiles` lists the models "
                f"that have one; give profile=…, or drop {switch}"
            )
        wanted = marks or (self.cache_marks and used.cache != "none")
        return used, renderer_of(used, marks=wanted)


def opening(
    options: SessionOptions,
    clock: Callable[[], int],
    make_id: Callable[[], bytes],
    handed: Credentials | None = None,
) -> Opening:
    """What these options make. Raises TypeError for one that there is not, ConfigError and
    UnknownNumber for a value that will not do."""
    unknown = sorted(set(options) - SessionOptions.__optional_keys__)
    if unknown:
        known = ", ".join(sorted(SessionOptions.__optional_keys__))
        raise TypeError(f"a session has no option {quoted(unknown[0])}: use {known}")
    rules = _rules(options)
    _check_seconds("ttl", options.get("ttl", 30.0), 0.001)
    _check_seconds("wait", options.get("wait", 0.0), 0)
    channels = options.get("channels") or CHANNELS
    return Opening(
        rules=rules,
        clock=clock,
        make_id=make_id,
        owner=options.get("owner") or default_owner(),
        ttl=options.get("ttl", 30.0),
        wait=options.get("wait", 0.0),
        channels=channels,
        loading=loading_for(options.get("loading"), channels),
        pre_step=options.get("pre_step"),
        guard=Guard.of(
            options.get("gateway", "strict"), options.get("root", ""), options.get("approve", "")
        ),
        secrets=options.get("secrets"),
        handed=handed,
        profile=profile_given(options.get("profile")),
        strict_profiles=_switch(options.get("strict_profiles", False), "strict_profiles"),
        cache_marks=_switch(options.get("cache_marks", False), "cache_marks"),
        compaction=_compaction(options.get("compaction")),
    )


def _compaction(given: object) -> Compaction | None:
    if given is None:
        return None
    if not isinstance(given, Compaction):
        raise ConfigError(f"{quoted(given)} is no compaction: give sawlog.Compaction(at=800)")
    given.check()
    return given


def _rules(options: SessionOptions) -> Rules:
    rules = options.get("rules")
    if rules is None:
        window, reserve = options.get("window", 0), options.get("reserve", 0)
        _check_units(window, reserve)
        policy, pairing = _policy(options.get("policy")), options.get("pairing", "default")
        return rules_for(policy, window, reserve, pairing)
    said = {"policy", "window", "reserve", "pairing"} & set(options)
    twice = sorted(name for name in said if options.get(name) not in (None, 0, "default"))
    if twice:
        raise ConfigError(f"rules stand for {twice[0]}, too: give it as one of theirs, not beside")
    _check_units(rules.window, rules.reserve)
    return rules


def _check_units(window: object, reserve: object) -> None:
    for name, units in (("window", window), ("reserve", reserve)):
        if not isinstance(units, int) or isinstance(units, bool) or units < 0:
            raise ConfigError(
                f"{name}={quoted(units)} is no number of units: give a whole one, 0 for the "
                "model's own"
            )


def _check_seconds(name: str, seconds: object, least: float) -> None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds < least:
        raise ConfigError(f"{name}={quoted(seconds)} is no number of seconds: {least} is the least")


def _policy(given: object) -> str | Policy | None:
    """A policy as a caller gives it: by name, by the file of its document, or as it is."""
    if given is None or isinstance(given, Policy):
        return given
    if isinstance(given, str) and not given.endswith(".toml"):
        return given
    if not isinstance(given, str | os.PathLike):
        raise ConfigError(
            f"{type(given).__name__} is no policy: give the name of a built-in one, the path of a "
            "TOML file, or what sawlog.policy_from(document) gives"
        )
    from sawlog.builder.selection.policydoc import policy_from_toml

    file = os.fspath(cast("str | os.PathLike[str]", given))
    text = _document(file, "policy")
    try:
        return policy_from_toml(text)
    except InvalidPolicy as error:
        error.add_note(f"in the policy {quoted(file)}")
        raise


def profile_given(given: object) -> Profile | None:
    """A profile as a caller gives it: as it is, or by the file of its document.

    Raises ConfigError for anything else, and for a file that cannot be read or is no profile.
    """
    if given is None or isinstance(given, Profile):
        return given
    named = isinstance(given, str) and given.endswith(".toml")
    if not named and not isinstance(given, os.PathLike):
        raise ConfigError(
            f"{quoted(given)} is no profile: give the path of a TOML file, or what "
            "sawlog.profile_from_toml(text) or sawlog.profile_of(json) gives"
        )
    from sawlog.builder.profiledoc import profile_from_toml

    file = os.fspath(cast("str | os.PathLike[str]", given))
    text = _document(file, "profile")
    try:
        return profile_from_toml(text)
    except ConfigError as error:
        error.add_note(f"in the profile {quoted(file)}")
        raise


def _document(file: str, what: str) -> str:
    """The text of a caller's file. Raises ConfigError when it cannot be read."""
    try:
        found = beginning(file, _LARGEST_DOCUMENT)
        if found.size > _LARGEST_DOCUMENT:
            raise Unreadable(f"it has more than {_LARGEST_DOCUMENT} bytes")
        return found.data.decode()
    except Absent:
        raise ConfigError(f"the {what} {quoted(file)} cannot be read: it is not there") from None
    except (Unreadable, UnicodeDecodeError) as error:
        raise ConfigError(f"the {what} {quoted(file)} cannot be read: {error}") from error


def _switch(given: object, name: str) -> bool:
    if not isinstance(given, bool):
        raise ConfigError(f"{name}={quoted(given)} is neither True nor False")
    return given


def check_phase(policy: Policy, name: str) -> None:
    """Raise InvalidItem for a phase that a policy with working sets has none for."""
    for use in policy.stages:
        if isinstance(use, Phase) and name not in (each.phase for each in use.sets):
            known = ", ".join(each.phase for each in use.sets)
            raise InvalidItem(
                "unknown_phase",
                f"the policy {policy} has no working set for {quoted(name)}: use one of {known}, "
                "or open the session with a policy that has it",
            )


def default_owner() -> str:
    """The owner's name that others are told: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"
