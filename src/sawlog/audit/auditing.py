"""Audit: why a text was or was not in a packet, and what two packets differ in."""

from __future__ import annotations

import difflib
import hashlib

import msgspec

from sawlog.audit.explaining import why as why
from sawlog.audit.findings import Change, Told
from sawlog.audit.holding import shown
from sawlog.audit.recorded import RecordedStep
from sawlog.audit.steppacket import StepPacket
from sawlog.builder.packet import Entry, entry_bytes
from sawlog.builder.requests.reading import read_body


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
    Requests that another program built have their sections in any order and each text as their API
    spells it: against a packet of ours or of another API, what is an event of the log is compared
    as that event, and sections are always compared in one order. A step against itself: what a
    client that wrote the packet again changed in its bytes.
    """
    if old.session.id == new.session.id and old.number == new.number:
        return rewritten(old) if old.session.is_rewritten(old.number) else []
    before, after = old.packet, new.packet
    changes: list[Change] = []
    for name in _headers(before, after):
        was, now = str(getattr(before.header, name)), str(getattr(after.header, name))
        if was != now:
            changes.append(Change("changed", -1, -1, (_header(name, was),), (_header(name, now),)))
    spelled = "recorded" not in (before.origin, after.origin) or (
        before.origin == after.origin and before.header.api == after.header.api
    )
    was_at, was_said = _compared(old, spelled)
    now_at, now_said = _compared(new, spelled)
    as_is = entry_bytes if spelled else _said
    matcher = difflib.SequenceMatcher(
        None, [*map(as_is, was_said)], [*map(as_is, now_said)], autojunk=False
    )
    names = {"insert": "added", "delete": "removed", "replace": "changed"}
    for op, a, b, c, d in matcher.get_opcodes():
        if op != "equal":
            changes.append(
                Change(
                    names[op],
                    was_at[a],
                    now_at[c],
                    tuple(told(entry) for entry in was_said[a:b]),
                    tuple(told(entry) for entry in now_said[c:d]),
                )
            )
    return changes


def rewritten(step: RecordedStep) -> list[Change]:
    """What a client changed that wrote the step's packet again, part by part as spelled."""
    built, sent = step.session.built(step.number), step.packet
    was, now = _parts(built), _parts(sent)
    changes: list[Change] = []
    if [name for name, _ in was] != [name for name, _ in now] and sorted(was) == sorted(now):
        order = ", ".join(name for name, _ in now)
        changes.append(Change("changed", -1, -1, (), (_header("order", order),)))
    matcher = difflib.SequenceMatcher(None, sorted(was), sorted(now), autojunk=False)
    for op, a, b, c, d in matcher.get_opcodes():
        if op != "equal":
            changes.append(
                Change(
                    {"insert": "added", "delete": "removed", "replace": "changed"}[op],
                    -1,
                    -1,
                    tuple(_header(*one) for one in sorted(was)[a:b]),
                    tuple(_header(*one) for one in sorted(now)[c:d]),
                )
            )
    if not changes:
        changes.append(
            Change("changed", -1, -1, (_header("spacing", built.body.decode("utf-8", "replace")),),
                   (_header("spacing", sent.body.decode("utf-8", "replace")),))
        )  # fmt: skip
    return changes


def _parts(packet: StepPacket) -> list[tuple[str, str]]:
    """The members of a request, those that are lists element by element, each as it is spelled."""
    body = read_body(packet.header.api, packet.request.body)
    if body is None:
        return [("body", packet.request.body.decode("utf-8", "replace"))]
    found = [(one.key, name, body.member(name) or "") for name, one in body.members.items()]
    counts: dict[str, int] = {}
    for piece in body.pieces:
        at = counts[piece.member] = counts.get(piece.member, -1) + 1
        found.append((piece.start, f"{piece.member}[{at}]", body.source(piece)))
    return [(name, source) for _, name, source in sorted(found)]


def _headers(before: StepPacket, after: StepPacket) -> tuple[str, ...]:
    """The header values that both packets have: what another program built has no rules of ours."""
    if "recorded" in (before.origin, after.origin):
        return ("api", "model", "params")
    return ("api", "model", "params", "profile", "renderer")


_SECTIONS = {"system": 0, "tools": 1, "history": 3}


def _compared(step: RecordedStep, spelled: bool) -> tuple[list[int], list[Entry]]:
    """A packet's entries as they are compared, and where each stands in the packet; one place more
    for the end. `spelled`: the other is spelled alike."""
    packet = step.packet
    places = list(range(len(packet.entries)))
    if packet.origin != "recorded":
        return [*places, len(places)], [*packet.entries]
    entries = list(packet.entries)
    ranks = [_SECTIONS.get(entry.section, 2) for entry in entries]
    if not spelled:
        step.session.window.prefetch(packet.refs)
        for at, ref in enumerate(packet.refs):
            event = shown(step.session.window, ref) if ref.seq else None
            entries[at] = event or entries[at]
        # Chat Completions have the system text in front of the messages, and it is one of them.
        for at, entry in enumerate(entries):
            if entry.role == "system":
                ranks[at] = 0
            elif entry.section == "history":
                break
    places.sort(key=lambda at: ranks[at])
    return [*places, len(places)], [entries[at] for at in places]


def _said(entry: Entry) -> bytes:
    """What an entry says, whoever spelled it: not where it stands and what its message is."""
    name = "" if entry.role == "result" else entry.name
    return entry_bytes(msgspec.structs.replace(entry, first=True, section="", name=name))


def _header(name: str, value: str) -> Told:
    raw = value.encode("utf-8", "surrogatepass")
    return Told("header", "", name, hashlib.sha256(raw).hexdigest(), len(raw), value[:120])
