"""World state: what each section is now, and what the model was last told of it.

The baseline of a section is the text that stands in the packet, never what was observed last. A
difference counts only while the text that it differs from is there, too; otherwise the section is
absent again and is shown in full (CONTRACTS S2-11, S2-12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec.structs import replace

from sawlog.builder.facts import GOAL, Told, Value
from sawlog.builder.state import Ref, State
from sawlog.store.events.items import TaskSet
from sawlog.store.events.world import WorldChanged
from sawlog.store.text import Text, raw_bytes

LONGEST_CHAIN = 8
"""Differences in a row after which a section is shown in full again."""


def digest_of(value: Text) -> str:
    """The hex SHA-256 of a value's source, however it is stored."""
    if not isinstance(value, str) and value.blob:
        return value.blob
    raw = raw_bytes(value) if isinstance(value, str) else (value.wtf8 or "").encode()
    return hashlib.sha256(raw).hexdigest()


def changed(state: State, seq: int, content: WorldChanged) -> State:
    """The state after sections of the world changed. The goal is the task's word alone."""
    for part, section in enumerate(content.sections, 1):
        if section.name == GOAL:
            continue
        value = Value(
            section.name,
            seq,
            part,
            "" if section.removed else digest_of(section.value),
            section.removed,
            section.unknown,
        )
        state = _with(state, value)
    return state


def task_set(state: State, seq: int, content: TaskSet) -> State:
    """The state after the task was set: its goal is a section of the world."""
    raw = b"\0".join((digest_of(content.goal).encode(), digest_of(content.done_when).encode()))
    empty = not content.goal and not content.done_when
    digest = "" if empty else hashlib.sha256(raw).hexdigest()
    return replace(_with(state, Value(GOAL, seq, 0, digest, empty)), task=seq)


def _with(state: State, value: Value) -> State:
    others = [one for one in state.world if one.name != value.name]
    return replace(state, world=tuple(sorted((*others, value), key=_by_name)))


def _by_name(value: Value) -> str:
    return value.name


def news(state: State) -> list[tuple[Ref, str]]:
    """What the next packet has to tell of the world, and why: goal first, then by name."""
    out: list[tuple[Ref, str]] = []
    baseline = {one.name: one for one in state.told}
    for value in sorted(state.world, key=lambda one: (one.name != GOAL, one.name)):
        base = baseline.get(value.name)
        if base is None or base.removed:
            if not value.removed:
                out.append((_ref(value), "world_unknown" if value.unknown else "world_absent"))
        elif value.unknown:
            if base.seq != value.seq:
                out.append((_ref(value), "world_unknown"))
        elif (base.digest, base.removed) != (value.digest, value.removed):
            why = "world_removed" if value.removed else "world_changed"
            ref = _ref(value)
            if value.removed or len(_chain(base, state.told)) < LONGEST_CHAIN:
                ref = replace(ref, args=(("base", base.seq), ("part", str(base.part))))
            out.append((ref, why))
    return out


def _ref(value: Value) -> Ref:
    # Part 0 would stand for all of an event: the goal's event has one text.
    return Ref("history", value.seq, max(1, value.part), "world")


def told(state: State, refs: Iterable[Ref], *, grown: bool) -> tuple[Told, ...]:
    """What is told of the world once a packet with these refs is out.

    `grown`: the refs came behind what was told already; else they are all that there is.
    """
    before = {(one.seq, one.part): one for one in state.told}
    values = {(one.seq, max(1, one.part)): one for one in state.world}
    out: list[Told] = list(state.told) if grown else []
    there = {(one.seq, one.part) for one in out}
    for ref in refs:
        if ref.form != "world":
            continue
        args = dict(ref.args)
        base = (int(args.get("base", 0)), int(args.get("part", 0)))
        value = values.get((ref.seq, ref.part))
        old = before.get((ref.seq, ref.part))
        if base[0] and base not in there:
            continue  # the text that it differs from has left
        if value is not None:
            one = Told(value.name, ref.seq, ref.part, value.digest, value.removed, *base)
        elif old is not None:
            one = old
        else:
            continue
        out = [each for each in out if each.name != one.name or _needed(each, one, out)]
        out.append(one)
        there.add((ref.seq, ref.part))
    return tuple(out)


def _needed(each: Told, newest: Told, out: list[Told]) -> bool:
    """True when a text is what the newest one of its section rests on."""
    return any(one is each for one in _chain(newest, out))


def _chain(newest: Told, out: Iterable[Told]) -> list[Told]:
    """The texts that a section's newest one differs from, back to the full one."""
    places = {(one.seq, one.part): one for one in out}
    chain: list[Told] = []
    at = newest
    while at.base:
        at = places[at.base, at.base_part]
        chain.append(at)
    return chain
