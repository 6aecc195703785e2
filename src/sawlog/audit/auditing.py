"""Audit: why a text was or was not in a packet, and what two packets differ in."""

from __future__ import annotations

import difflib
import hashlib

from sawlog.audit.explaining import why as why
from sawlog.audit.findings import Change, Told
from sawlog.audit.recorded import RecordedStep
from sawlog.builder.packet import Entry, entry_bytes


def told(entry: Entry) -> Told:
    """An entry in short."""
    raw = entry_bytes(entry)
    return Told(
        entry.kind,
        entry.status,
        entry.name,
        hashlib.sha256(raw).hexdigest(),
        len(raw),
        entry.text[:120],
    )


def diff(old: RecordedStep, new: RecordedStep) -> list[Change]:
    """What the new step's packet has that the old one's has not, and the other way round.

    Header values (model, parameters, profile, renderer) come first, as entries of kind `header`.
    """
    before, after = old.packet, new.packet
    changes: list[Change] = []
    for name in ("api", "model", "params", "profile", "renderer"):
        was, now = str(getattr(before.header, name)), str(getattr(after.header, name))
        if was != now:
            changes.append(Change("changed", -1, -1, (_header(name, was),), (_header(name, now),)))
    left = [entry_bytes(entry) for entry in before.entries]
    right = [entry_bytes(entry) for entry in after.entries]
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    names = {"insert": "added", "delete": "removed", "replace": "changed"}
    for op, a, b, c, d in matcher.get_opcodes():
        if op != "equal":
            changes.append(
                Change(
                    names[op],
                    a,
                    c,
                    tuple(told(entry) for entry in before.entries[a:b]),
                    tuple(told(entry) for entry in after.entries[c:d]),
                )
            )
    return changes


def _header(name: str, value: str) -> Told:
    raw = value.encode("utf-8", "surrogatepass")
    return Told("header", "", name, hashlib.sha256(raw).hexdigest(), len(raw), value[:120])
