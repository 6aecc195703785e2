"""The six graders of a packet (S1-15). A case passes when all of them do; none weighs another."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sawlog.builder.selection.reliability import ContextCase, EvidencePacket


class Grade(msgspec.Struct, frozen=True):
    """What one grader says of one packet, and on what grounds."""

    name: str
    passed: bool
    detail: str


def available_topics(case: ContextCase) -> set[str]:
    """The required topics that evidence is there for: those that the gold label does not miss."""
    return set(case.required_topics) - set(case.expected_missing_topics)


def covered_topics(packet: EvidencePacket) -> set[str]:
    """The topics of what was selected."""
    return {topic for source in packet.selected for topic in source.topics}


def grade(case: ContextCase, packet: EvidencePacket) -> tuple[Grade, ...]:
    """The six grades, in the lab's order."""
    lost = available_topics(case) - covered_topics(packet)
    expected, actual = sorted(set(case.expected_missing_topics)), sorted(packet.missing_topics)
    required = set(case.required_topics)
    forbidden = [one.id for one in packet.selected if one.id in case.forbidden_source_ids]
    irrelevant = [one.id for one in packet.selected if not required & set(one.topics)]
    untraceable = [one.id for one in packet.selected if not (one.locator and one.updated_at)]
    used, limit = packet.budget.used_estimated_tokens, packet.budget.limit_estimated_tokens
    return (
        _none(
            "required_evidence", "missing", sorted(lost), "all available required topics selected"
        ),
        Grade("missing_evidence", actual == expected, f"actual={actual}, expected={expected}"),
        _none("forbidden_sources", "selected", forbidden, "no forbidden sources selected"),
        _none("relevance", "irrelevant", irrelevant, "all selected sources match a required topic"),
        Grade("budget", used <= limit, f"used={used}, limit={limit}"),
        _none(
            "traceability",
            "untraceable",
            untraceable,
            "all selected sources retain locator and updated_at",
        ),
    )


def _none(name: str, what: str, found: Iterable[str], otherwise: str) -> Grade:
    """A grade that passes when nothing was found."""
    told = ", ".join(found)
    return Grade(name, not told, f"{what}={told}" if told else otherwise)
