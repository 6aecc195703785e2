"""Items: what may come into a packet, with the labels that decide whether it does.

Values only. A label is a name and, where names are ordered, a rank; authority, trust, retention
and sensitivity are never added up (S0-14). What an item costs is no field of it (S0-15).
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum

import msgspec

from sawlog.store.errors import InvalidItem
from sawlog.store.text import raw_bytes


class Kind(StrEnum):
    """What an item is. Only an instruction has authority."""

    INSTRUCTION = "instruction"
    TASK = "task"
    FACT = "fact"
    OBSERVATION = "observation"
    ARTIFACT = "artifact"
    TOOL_SCHEMA = "tool_schema"


class Authority(StrEnum):
    """Who speaks in an instruction. `untrusted` is given by no channel."""

    NONE = "none"
    UNTRUSTED = "untrusted"
    USER = "user"
    REPOSITORY = "repository"
    DEVELOPER = "developer"
    SYSTEM = "system"


class Trust(StrEnum):
    """How far a text may be believed. `unknown` is given by no channel."""

    HOSTILE = "hostile"
    UNKNOWN = "unknown"
    UNVERIFIED = "unverified"
    TRUSTED_SOURCE = "trusted_source"
    VERIFIED = "verified"


class Retention(StrEnum):
    """How hard an item holds its place when room is short; `required` is the protected bucket."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    REQUIRED = "required"


class Sensitivity(StrEnum):
    """Where a text may go; what the build does not allow never comes in."""

    PUBLIC = "public"
    INTERNAL = "internal"
    SECRET = "secret"


AUTHORITY_RANK: dict[str, int] = {name: rank for rank, name in enumerate(Authority)}
TRUST_RANK: dict[str, int] = {name: rank for rank, name in enumerate(Trust)}
RETENTION_RANK: dict[str, int] = {name: rank for rank, name in enumerate(Retention)}
SENSITIVITY_RANK: dict[str, int] = {name: rank for rank, name in enumerate(Sensitivity)}

SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""The characters that count as space here, listed so that no release of Python changes them."""


def is_blank(text: str) -> bool:
    """True when a text is empty or nothing but space."""
    return not text.strip(SPACE)


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces and text unescaped: what the labs' digests are over."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def json_digest(value: object) -> str:
    """The hex SHA-256 of a value's canonical JSON: item, packet, call and action ids."""
    return hashlib.sha256(raw_bytes(canonical_json(value))).hexdigest()


def content_digest(text: str) -> str:
    """The hex SHA-256 of a text."""
    return hashlib.sha256(raw_bytes(text)).hexdigest()


class Scope(msgspec.Struct, frozen=True):
    """Where an item is valid. No path, no task, no tenant: everywhere, for any, for all.

    `path_prefix` of an instruction is the rule file or the directory that it governs. Of another
    kind it is where the thing lies, unless it ends with `/`: then what it says holds below there.
    """

    repository: str
    path_prefix: str | None = None
    task_id: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if is_blank(self.repository):
            raise InvalidItem(
                "blank_scope_repository", "a scope needs the name of its repository (S0-08)"
            )


class Provenance(msgspec.Struct, frozen=True):
    """Where an item came from: its channel, its source, and the digest of its text.

    `observed_at` is evidence: it is part of the id and expires nothing by itself (S0-11).
    """

    source_type: str
    source_id: str
    version: str | None
    observed_at: str | None
    content_digest: str


class ContextItem(msgspec.Struct, frozen=True):
    """A text with its labels. Immutable; raises InvalidItem for labels that do not go together."""

    item_id: str
    kind: Kind
    content: str
    scope: Scope
    authority: Authority
    trust: Trust
    retention_priority: Retention
    sensitivity: Sensitivity
    provenance: Provenance
    required_for: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if is_blank(self.item_id):
            raise InvalidItem("blank_item_id", "an item needs an id")
        if is_blank(self.content):
            raise InvalidItem("blank_item_content", f"the item {self.item_id} has no text")
        check_labels(self.item_id, self.kind, self.authority)


def check_labels(name: str, kind: str, authority: str) -> None:
    """Raise InvalidItem unless exactly an instruction has authority (S0-02)."""
    if kind == Kind.INSTRUCTION and authority == Authority.NONE:
        raise InvalidItem(
            "instruction_authority_required",
            f"{name} is an instruction and has no authority: say whose it is",
        )
    if kind != Kind.INSTRUCTION and authority != Authority.NONE:
        raise InvalidItem(
            "non_instruction_authority",
            f"{name} is of kind {kind}, which has no authority, and claims {authority!s}",
        )
