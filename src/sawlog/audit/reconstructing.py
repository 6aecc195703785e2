"""Reconstruction: the packet of a step that a foreign file shows without its request.

What the file does not hold is named as missing, never invented.
"""

from __future__ import annotations

from sawlog.builder.build import Built, Cache, Sending, build
from sawlog.builder.contents import Contents
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Header
from sawlog.builder.policy import AS_RECORDED, Rules
from sawlog.builder.profiles import profile_for, profile_named
from sawlog.builder.render import renderer_of
from sawlog.builder.state import State
from sawlog.store.errors import NoStep
from sawlog.store.events.steps import PolicySet


def reconstruct(
    state: State,
    policy: PolicySet | None,
    sending: Sending,
    as_of: int,
    contents: Contents,
    cache: Cache | None = None,
    *,
    unknown: tuple[str, ...] = (),
) -> Built | Refusal:
    """The packet that stands to reason over a state, by the policy recorded with it.

    `policy` is the one in force (None: as recorded), `as_of` microseconds UTC. `unknown` names
    what is missing besides `absent_of`. For the rest see `builder.build.build`.
    """
    return build(
        state,
        as_recorded(policy),
        sending,
        as_of,
        contents,
        cache,
        allow_waiting=True,
        reconstructed=True,
        missing=(*absent_of(state), *unknown),
    )


def as_recorded(policy: PolicySet | None) -> Rules:
    """The rules that rebuild an import's steps; `policy` is the one recorded with it, if any."""
    return Rules(policy.policy, policy.measure) if policy else Rules(AS_RECORDED)


def absent_of(state: State) -> tuple[str, ...]:
    """What the model saw and a foreign file does not hold: named, never invented."""
    absent: list[str] = []
    if not state.system:
        absent.append("system_text")
    if not state.tools[0]:
        absent.append("tool_schemas")
    if state.summary_lost:
        absent.append("compaction_summary")
    absent.append("request_parameters")
    return tuple(absent)


def base_params(api: str) -> str:
    """Parameters that an API does not do without, for packets whose own are not known."""
    return '{"max_tokens":4096}' if api == "anthropic" else "{}"


def sending_for(api: str, model: str) -> Sending:
    """What a packet goes out under for another provider than the recorded one."""
    profile, _ = profile_for(api, model)
    header = Header(api, model, base_params(api), profile.named, renderer_of(profile))
    return Sending(header, profile)


def foreign_sending(policy: PolicySet | None, model: str = "") -> Sending:
    """What an import's steps go out under: the base profile and renderer recorded with it.

    Raises NoStep when none are.
    """
    if policy is None or policy.profile is None or policy.renderer is None:
        raise NoStep("this import names no profile: it cannot be rebuilt")
    profile = profile_named(policy.profile)
    header = Header(
        profile.api,
        model or "unknown",
        base_params(profile.api),
        profile.named,
        policy.renderer,
    )
    return Sending(header, profile)
