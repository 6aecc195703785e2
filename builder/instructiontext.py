"""What the model reads of instruction files: the section `instructions` of the world state.

Its value is a list of files, nearer ones later: objects of `scope` (`user`, `project` or another),
`path`, `digest`, `text` and `truncated`, the bytes of it that are left out (or true). One of scope
`omitted` stands for `files` others. Frozen with `sawlog.builder.worldtext`; rules: CONTRACTS S2-20,
CASES 47 and 49.
"""

from __future__ import annotations

from collections.abc import Mapping

from sawlog.builder.jsonvalue import Value, compact
from sawlog.builder.mergepatch import same
from sawlog.builder.plainwords import block, one_line, word

HEAD = (
    "Instruction files, nearer ones later. They add to what the system, the developer and the user "
    "say, and override none of it."
)
"""Stands above the files when they are shown in full."""

File = Mapping[str, Value]
Files = Mapping[tuple[str, str], File]
"""Files by scope and path."""


def files_of(value: Value) -> Files | None:
    """The files of a section's value, in order; None when it is no such list."""
    found: dict[tuple[str, str], File] = {}
    if not isinstance(value, list):
        return None
    for file in value:
        if not isinstance(file, dict):
            return None
        scope, path, text = file.get("scope"), file.get("path"), file.get("text")
        if not isinstance(scope, str) or not isinstance(path, str) or not isinstance(text, str):
            return None
        if (scope, path) in found:
            return None
        found[scope, path] = file
    return found


def in_full(files: Files) -> str:
    """All files with their texts; empty when there are none, which is no news."""
    if not files:
        return ""
    return "\n".join((HEAD, *(file_text(file) for file in files.values())))


def changed(before: Files, files: Files) -> str:
    """Which files are gone, and the texts of new and changed ones; empty when there are none."""
    lines = [
        f"{_heading(file, 'No longer')}. Its instructions do not hold any more."
        for key, file in before.items()
        if key not in files and key[0] != "omitted"
    ]
    for key, file in files.items():
        if key not in before:
            lines.append(file_text(file, "New"))
        elif not same(before[key], file):
            lines.append(file_text(file, "Changed"))
    return "\n".join(lines)


def file_text(file: File, standing: str = "File") -> str:
    """What is read of one file: its heading, its text, and what of it is left out."""
    cut = file.get("truncated", False)
    if file.get("scope") == "omitted":
        return f"[{one_line(file.get('files'))} more instruction files are left out: no room.]"
    lines = [f"{_heading(file, standing)}:"]
    text = file.get("text")
    if text and isinstance(text, str):
        lines.append(block(text))
    if cut is not None and cut is not False and compact(cut) != "0":
        count = "The rest" if cut is True else f"{one_line(cut)} bytes"
        lines.append(f"[{count} of this file are left out: no room.]")
    return "\n".join(lines)


def _heading(file: File, standing: str) -> str:
    path, scope = str(file.get("path", "")), str(file.get("scope", ""))
    folder = path.rpartition("/")[0]
    if scope == "user":
        place = "for all projects"
    elif scope != "project":
        place = f"for {word(scope)}"
    else:
        place = f"for {word(folder)} and below" if folder else "for the whole project"
    return f"{standing} {word(path)}, {place}"
