"""Candidates: what stages read of an item. Freshness and cost stand here, never on the item."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sawlog.builder.item import (
    AUTHORITY_RANK,
    RETENTION_RANK,
    TRUST_RANK,
    ContextItem,
    Kind,
    Sensitivity,
    content_digest,
    is_blank,
)
from sawlog.store.errors import InvalidItem

ZONES: tuple[str, ...] = ("fixed", "rules", "goal", "recent", "retrieved", "summary")
"""The zones that candidates stand in, first served first (S3-12); the reserve has no candidates."""

FILE_CHANGE = "until-file-change"
"""The `ttl` of what holds while the files that it saw are as they were."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may come into one packet: strings and integers only.

    `canonical` names what it speaks of: a later observation of the same thing overturns an earlier
    one. `path` is where it lies, or the rule file that it is; `scope_path` the directory that it
    holds for. `trust` and the other ranks are those of `builder.item`; a lab's may be its own.
    `clearance` is the level that a reader needs. `updated_at` and `valid_until` are dates
    (2026-07-29) or microseconds UTC; `ttl` is empty, `until-file-change` or microseconds;
    `seen` says which files in which versions it saw, `stale` why it is known not to hold.
    `role` is what it is to a phase of the work; which roles a phase needs, its policy says.
    `relevance` is per mille, as its source gave it. `seq` is its order of arrival.
    `units` are measured by the policy, unless its measure is `given`; `cut` is the bound in units
    under which it is to be shown (0: whole), and `capped` what it takes under the policy's cap,
    where the caller measured that (0: the cap).
    """

    id: str
    kind: str
    text: str
    title: str = ""
    locator: str = ""
    locators: tuple[str, ...] = ()
    source_id: str = ""
    version: str = ""
    digest: str = ""
    canonical: str = ""
    authority: int = 0
    trust: int = TRUST_RANK["trusted_source"]
    retention: int = RETENTION_RANK["normal"]
    authority_name: str = "none"
    trust_name: str = "trusted_source"
    sensitivity: str = Sensitivity.INTERNAL.value
    clearance: int = 0
    repository: str = ""
    path: str = ""
    scope_path: str = ""
    task_id: str = ""
    tenant: str = ""
    topics: tuple[str, ...] = ()
    required_for: tuple[str, ...] = ()
    updated_at: str = ""
    valid_until: str = ""
    ttl: str = ""
    seen: tuple[tuple[str, str], ...] = ()
    stale: str = ""
    relevance: int | None = None
    in_prefix: bool = False
    role: str = ""
    zone: str = ""
    units: int = 0
    cut: int = 0
    capped: int = 0
    seq: int = 0

    def __post_init__(self) -> None:
        if is_blank(self.id):
            raise InvalidItem("blank_item_id", "a candidate needs an id")
        if min(self.units, self.cut, self.capped, self.clearance) < 0:
            raise InvalidItem(
                "negative_number", f"units, cut, capped and clearance of {self.id} count from 0"
            )
        if self.relevance is not None and not 0 <= self.relevance <= 1000:
            raise InvalidItem(
                "relevance_out_of_range",
                f"the relevance of {self.id} is per mille, 0 to 1000, not {self.relevance}",
            )
        if self.zone and self.zone not in ZONES:
            raise InvalidItem(
                "unknown_zone", f"{self.id} is in zone {self.zone!r}: use one of {', '.join(ZONES)}"
            )

    @property
    def is_secret(self) -> bool:
        """True when neither its digest nor its size may be told."""
        return self.sensitivity == Sensitivity.SECRET

    @property
    def is_trusted(self) -> bool:
        """True when its source may be believed; else it is data, whatever it says."""
        return self.trust >= TRUST_RANK["trusted_source"]

    @property
    def is_required(self) -> bool:
        """True for the protected bucket: kept by retention, or named for a requirement (S0-13)."""
        return self.retention == RETENTION_RANK["required"] or bool(self.required_for)


_ZONE_OF_KIND = {
    Kind.INSTRUCTION.value: "rules",
    Kind.TASK.value: "goal",
    Kind.TOOL_SCHEMA.value: "fixed",
    Kind.OBSERVATION.value: "recent",
}


def zone_of(candidate: Candidate) -> str:
    """The zone of a candidate: the one it names, else by its kind.

    Whoever speaks with too little trust to be followed stands with the retrieved, not in the rules.
    """
    if candidate.zone:
        return candidate.zone
    if candidate.role == "summary":
        return "summary"
    zone = _ZONE_OF_KIND.get(candidate.kind, "retrieved")
    if zone == "rules" and not candidate.is_trusted:
        return "retrieved"
    return zone


def candidate_of(
    item: ContextItem,
    *,
    title: str = "",
    locator: str = "",
    canonical: str = "",
    scope_path: str | None = None,
    clearance: int = 0,
    topics: Iterable[str] = (),
    updated_at: str | None = None,
    valid_until: str = "",
    ttl: str = "",
    seen: Iterable[tuple[str, str]] = (),
    stale: str = "",
    relevance: int | None = None,
    in_prefix: bool = False,
    role: str = "",
    zone: str = "",
    units: int = 0,
    seq: int = 0,
) -> Candidate:
    """The candidate that an item is in one build.

    Without `scope_path`: an instruction holds for its path, another item for its path when that
    ends with `/`, and else everywhere. Without `updated_at` it is when the item was observed.
    """
    where = item.scope.path_prefix or ""
    if scope_path is None:
        scoped = item.kind == Kind.INSTRUCTION or where.endswith("/")
        scope_path = where if scoped else ""
    came = item.provenance
    return Candidate(
        id=item.item_id,
        kind=str(item.kind),
        text=item.content,
        title=title,
        locator=locator or where,
        source_id=came.source_id,
        version=came.version or "",
        digest=came.content_digest,
        canonical=canonical,
        authority=AUTHORITY_RANK[item.authority],
        trust=TRUST_RANK[item.trust],
        retention=RETENTION_RANK[item.retention_priority],
        authority_name=str(item.authority),
        trust_name=str(item.trust),
        sensitivity=str(item.sensitivity),
        clearance=clearance,
        repository=item.scope.repository,
        path=where,
        scope_path=scope_path,
        task_id=item.scope.task_id or "",
        tenant=item.scope.tenant or "",
        topics=tuple(sorted(set(topics))),
        required_for=tuple(sorted(item.required_for)),
        updated_at=came.observed_at or "" if updated_at is None else updated_at,
        valid_until=valid_until,
        ttl=ttl,
        seen=tuple(sorted(set(seen))),
        stale=stale,
        relevance=relevance,
        in_prefix=in_prefix,
        role=role,
        zone=zone,
        units=units,
        seq=seq,
    )


def digest_of(candidate: Candidate) -> str:
    """The digest of a candidate's text: the one it came with, else computed."""
    return candidate.digest or content_digest(candidate.text)
