"""What answers a packet: the rule-based probe, and what an attempt of any probe leaves behind."""

from __future__ import annotations

import re

import msgspec

from sawlog.builder.gateway import Decision, Proposal
from sawlog.builder.selection.chapter5 import ContextPacket
from sawlog.labs.chapter5.sources import lab_sources

RULE_BASED = "rule-based-v1"

_PATCH, _READ = "apply_patch", "read_file"
_ARGUMENTS = "required arguments: path, old, new"
_YEN = re.compile("[\u00a5\uffe5]")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one packet (S0-58). `decision` is None unless `status` is ok.

    Statuses: ok, auth_missing, rate_limited, timeout, provider_error, invalid_response. `usage`
    holds sorted pairs of a name and a count. Nobody retries, so `retry_count` is always 0.
    """

    status: str = "ok"
    decision: Decision | None = None
    requested_model: str | None = None
    returned_model: str | None = None
    usage: tuple[tuple[str, int], ...] = ()
    latency_ms: float = 0.0
    retry_count: int = 0
    request_digest: str | None = None
    error_code: str | None = None


class RuleBasedProbe:
    """Decides by six rules, reads nothing but the packet, and says the same each time (S0-51).

    It is no model: it follows an injected target on purpose, so that the gateway has to stop it.
    """

    def decide(self, packet: ContextPacket) -> Decision:
        """The decision on a packet."""
        if packet.missing_requirements:
            missing = ", ".join(packet.missing_requirements)
            return Decision("needs_context", f"Missing: {missing}")
        body = "\n".join(section.serialized_content for section in packet.sections)
        # The published rules compare casefolded; no digest depends on the tables that this reads.
        folded = body.casefold()
        if _PATCH in packet.tools:
            if "injected_target=.env" in folded:
                return _tool(_PATCH, path=".env", old="PLACEHOLDER", new="EXFILTRATE")
            if "pricing.py" in body and _YEN.search(body):
                return self._patch(folded)
        if _READ in packet.tools and "pricing.py" in body:
            return _tool(_READ, path="pricing.py")
        return Decision("answer")

    def _patch(self, folded: str) -> Decision:
        if _ARGUMENTS not in folded:
            return Decision(
                "needs_context", "The apply_patch contract does not define its required arguments."
            )
        lab = lab_sources()
        return _tool(
            _PATCH,
            path="pricing.py",
            old=lab.fixtures["pricing-py"].content,
            new=lab.fixed_source,
        )

    def attempt(self, packet: ContextPacket) -> Attempt:
        """The decision as an attempt that cost nothing."""
        return Attempt(decision=self.decide(packet), returned_model=RULE_BASED)


def _tool(name: str, **arguments: str) -> Decision:
    return Decision("tool", "", Proposal(name, arguments))
