"""Runs a lab: one packet for each case under one policy, graded. Asks no model, runs no tool."""

from __future__ import annotations

import msgspec

from sawlog.builder.selection.measure import GIVEN, LAB_ESTIMATOR
from sawlog.builder.selection.policy import Policy
from sawlog.builder.selection.reliability import ContextCase, EvidencePacket, assemble
from sawlog.labs.comparing import Sample
from sawlog.labs.reliability.grading import Grade, grade
from sawlog.labs.reliability.loading import Lab


class CaseRun(msgspec.Struct, frozen=True):
    """A case, its packet under one policy, and the grades of it."""

    case: ContextCase
    packet: EvidencePacket
    grades: tuple[Grade, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the graders that it fails."""
        return tuple(one.name for one in self.grades if not one.passed)

    @property
    def passed(self) -> bool:
        """True when all graders pass it."""
        return not self.failed

    @property
    def sample(self) -> Sample:
        """The run as two policies are compared by it."""
        return Sample(self.case.id, self.failed)


def run(policy: Policy, lab: Lab) -> tuple[CaseRun, ...]:
    """The cases under a policy, in their order.

    A policy that measures nothing itself is given the lab's estimator.
    """
    if policy.measure == GIVEN:
        policy = msgspec.structs.replace(policy, measure=LAB_ESTIMATOR)
    packets = [assemble(policy, case, lab.sources) for case in lab.cases]
    return tuple(
        CaseRun(case, packet, grade(case, packet))
        for case, packet in zip(lab.cases, packets, strict=True)
    )
