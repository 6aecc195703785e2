"""The rules that a packet was built under, out of the log.

A built-in policy is there by its name; the text of a caller's own stands in `policy.set`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.policy import Rules
from sawlog.builder.state import State
from sawlog.store.events.steps import PacketBuilt, PolicySet

if TYPE_CHECKING:
    from sawlog.builder.selection.policy import Policy


def rules_of(packet: PacketBuilt, policy: PolicySet | None, contents: Contents) -> Rules:
    """The rules of a recorded packet; `policy` are those that were in force before it.

    Raises InvalidPolicy for a policy's text that says none, BlobMissing when it is not there. That
    the policy is installed is not asked yet: see `Rules.selection`.
    """
    if policy is None:
        return Rules(packet.policy, packet.measure)
    rules = rules_from(policy, contents)
    stages = rules.stages if policy.policy == packet.policy else None
    return Rules(packet.policy, packet.measure, rules.window, rules.reserve, stages)


def rules_from(policy: PolicySet, contents: Contents) -> Rules:
    """The rules that `policy.set` says, for packets to come. Raises as `rules_of`."""
    text = text_of(policy.policy_text, contents)
    return Rules(
        policy.policy,
        policy.measure,
        policy.window,
        policy.reserve,
        _stages(text) if text else None,
    )


def rules_in_force(state: State, contents: Contents) -> Rules | None:
    """The rules for packets to come in a state; None where none were set. Raises as `rules_of`."""
    content = contents.event(state.policy).content if state.policy else None
    return rules_from(content, contents) if isinstance(content, PolicySet) else None


@lru_cache(maxsize=8)
def _stages(text: str) -> Policy:
    from sawlog.builder.selection.policy import read_policy

    return read_policy(text)
