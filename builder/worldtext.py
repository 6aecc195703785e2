"""What the model reads of the world state: one section as it is, or how it differs.

Pure, and frozen once released (number 1): another wording is another module beside this one. Names
and paths are quoted where they are no plain words, and text of others stands two spaces in, so that
no value can pass for a line of this module. Rules: CONTRACTS S2-10, S2-11, S2-12, S2-20, S2-21.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from sawlog.builder import instructiontext
from sawlog.builder.jsonvalue import Value, compact, quoted, value_of
from sawlog.builder.mergepatch import difference, same, without_nulls
from sawlog.builder.plainwords import block, one_line, word

__all__ = ["NUMBER", "difference", "section_text"]

NUMBER = 1
"""The number of these texts."""


def section_text(name: str, before: str | None, now: str | None) -> str:
    """What the model reads for one section, from the JSON sources of its values.

    None, and JSON's null, is no value. Without `before` it is the section in full, with it the
    difference, without `now` that there is none any more. It is empty when there is nothing to
    tell: there is no value, or what is read of both is the same. A value of another shape than its
    name asks for is shown as JSON, one that is no JSON as the text that it is.
    """
    was, value = _value(before), _value(now)
    if same(was, value):
        return ""
    if value is None:
        return _gone(name, was)
    reading = _READINGS.get(name, _any)
    try:
        return reading(_label(name), was, value)
    except _Misshaped:
        pass
    try:
        # What was told before may have another shape: nothing to compare with.
        return reading(_label(name), None, value)
    except _Misshaped:
        return _any(_label(name), was, value)


class _Misshaped(Exception):
    """A value is not what the section's own reading needs; never leaves this module."""


_Reading = Callable[[str, Value, Value], str]
"""Gives the text from a label, what was told (None: nothing) and what is."""


def _value(source: str | None) -> Value:
    if source is None:
        return None
    try:
        return value_of(source)
    except ValueError:
        return source


_LABELS = {
    "cwd": "Working directory",
    "platform": "Platform",
    "permissions": "Permissions",
    "model": "Model",
    "tools": "Tools",
    "mode": "Mode",
    "instructions": "Instruction files",
    "time": "Time",
    "terminal": "Terminal",
    "goal": "Goal",
}
_LOWER = re.compile(r"[a-z_][a-z0-9_.-]*")


def _label(name: str) -> str:
    # Labels of this module begin with a capital, so no other section's name can pass for one.
    return _LABELS.get(name) or (name if _LOWER.fullmatch(name) else quoted(name))


def _gone(name: str, was: Value) -> str:
    if name == "instructions":
        files = instructiontext.files_of(was)
        if files is not None:
            return instructiontext.changed(files, {})
    return f"{_label(name)}: none any more."


# --- sections that are a word or a few members ---------------------------------------------------


def _any(label: str, was: Value, now: Value) -> str:
    """The value as JSON; of an object that changed in part, its merge patch."""
    whole = compact(now)
    if was is None:
        return f"{label}: {whole}"
    if isinstance(was, dict) and isinstance(now, dict) and same(without_nulls(now), now):
        patch = cast("Value", difference(was, now))
        if patch and len(short := compact(patch)) < len(whole):
            return f"{label}, changed (null: removed): {short}"
    return f"{label}, now: {whole}"


def _word_or_members(label: str, was: Value, now: Value) -> str:
    """A string, with the one before it; or the members of an object, those that changed."""
    if isinstance(now, str):
        return f"{label}: {word(now)}" + (f" (was {word(was)})" if isinstance(was, str) else "")
    if not isinstance(now, dict):
        raise _Misshaped
    if isinstance(was, dict):
        return "\n".join((f"{label}, changed:", *_changed(was, now)))
    members = (f"- {word(name)}: {one_line(value)}" for name, value in now.items())
    return "\n".join((f"{label}:" if now else f"{label}: {{}}", *members))


def _changed(was: Mapping[str, Value], now: Mapping[str, Value]) -> list[str]:
    lines: list[str] = []
    for name, value in now.items():
        if name not in was:
            lines.append(f"- {word(name)}: {one_line(value)} (new)")
        elif not same(was[name], value):
            lines.append(f"- {word(name)}: {one_line(value)} (was {one_line(was[name])})")
    lines += [
        f"- {word(name)}: (removed, was {one_line(value)})"
        for name, value in was.items()
        if name not in now
    ]
    return lines


def _permissions(label: str, was: Value, now: Value) -> str:
    """What is allowed; approvals are told apart, and alone when all else is the same (S2-11)."""
    if not isinstance(now, dict) or not isinstance(was, dict):
        return _word_or_members(label, was, now)
    old, new = was.get("approved", []), now.get("approved", [])
    if not isinstance(old, list) or not isinstance(new, list):
        return _word_or_members(label, was, now)
    stable = _changed(_without(was, "approved"), _without(now, "approved"))
    lines = [f"{label}, changed:", *stable] if stable else []
    groups = (("Newly approved", _beyond(new, old)), ("No longer approved", _beyond(old, new)))
    for title, found in groups:
        if found:
            shown = (word(one) if isinstance(one, str) else compact(one) for one in found)
            lines.append(f"{title}: {', '.join(shown)}")
    return "\n".join(lines)


def _without(value: Mapping[str, Value], name: str) -> dict[str, Value]:
    return {key: inner for key, inner in value.items() if key != name}


def _beyond(some: Sequence[Value], others: Sequence[Value]) -> list[Value]:
    """Those of some that are not among others, each once."""
    there = {compact(item) for item in others}
    found = {compact(item): item for item in some}
    return [item for key, item in found.items() if key not in there]


def _tools(label: str, was: Value, now: Value) -> str:
    """The names of the tools; of a difference, which are new, changed and removed."""
    tools = _named(now)
    if was is None:
        return f"{label}: {', '.join(map(word, tools)) or 'none'}"
    old = _named(was)
    kept = [name for name in tools if name in old]
    groups = (
        ("New tools", [name for name in tools if name not in old]),
        ("Changed tools", [name for name in kept if not same(old[name], tools[name])]),
        ("Removed tools", [name for name in old if name not in tools]),
    )
    return "\n".join(f"{title}: {', '.join(map(word, names))}" for title, names in groups if names)


def _named(value: Value) -> dict[str, Value]:
    """Tools by name: each a name, or an object that has one."""
    found: dict[str, Value] = {}
    if not isinstance(value, list):
        raise _Misshaped
    for item in value:
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str) or name in found:
            raise _Misshaped
        found[name] = item
    return found


_CLOCK = re.compile(r"[0-9][0-9T:. +Z-]*")


def _time(label: str, was: Value, now: Value) -> str:
    """The time, and its zone unless that is the one told before."""
    zone, time = _two(now, "zone", "time")
    if not time:
        raise _Misshaped
    before = "" if was is None else _two(was, "zone", "time")[0]
    text = f"{label}: {time if _CLOCK.fullmatch(time) else word(time)}"
    if zone == before:
        return text
    told = word(zone) if zone else "no zone"
    return f"{text} ({told}; was {word(before)})" if before else f"{text} ({told})"


def _goal(label: str, was: Value, now: Value) -> str:
    """The goal and when it is reached; of a difference, that of the two which changed."""
    new = _two(now, "goal", "done_when")
    old = ("", "") if was is None else _two(was, "goal", "done_when")
    lines: list[str] = []
    for title, value, before in zip((label, "Done when"), new, old, strict=True):
        if value and value != before:
            lines.append(f"{title}{', changed' if before else ''}:\n{block(value)}")
        elif value != before:
            lines.append(f"{title}: none any more.")
    return "\n".join(lines)


def _two(value: Value, first: str, second: str) -> tuple[str, str]:
    """Two members that are strings, absent ones empty, of an object that has no other."""
    if not isinstance(value, dict) or not value.keys() <= {first, second}:
        raise _Misshaped
    one, other = value.get(first, ""), value.get(second, "")
    if not isinstance(one, str) or not isinstance(other, str):
        raise _Misshaped
    return one, other


def _instructions(label: str, was: Value, now: Value) -> str:
    """The files with their texts; of a difference, what `instructiontext.changed` tells."""
    files, old = instructiontext.files_of(now), instructiontext.files_of(was)
    if files is None:
        raise _Misshaped
    return instructiontext.changed(old, files) if old else instructiontext.in_full(files)


_READINGS: dict[str, _Reading] = {
    "cwd": _word_or_members,
    "platform": _word_or_members,
    "permissions": _permissions,
    "model": _word_or_members,
    "tools": _tools,
    "mode": _word_or_members,
    "instructions": _instructions,
    "time": _time,
    "terminal": _word_or_members,
    "goal": _goal,
}
