"""Rules of the published lab that read Unicode tables; for the policy `chapter5` alone (S0-25, 27).

They belong to a contract that was published with them. Nothing else may use them: what a release
of Python thinks of a character would reach a digest.
"""

from __future__ import annotations


def folded(text: str) -> str:
    """The text as the published lab compares it."""
    return text.casefold()


def rule_prefix(path: str) -> str:
    """The directory that a rule file governs, or the path itself, as published.

    A leading dot of a rule file's directory is lost with it: `.claude/CLAUDE.md` governs `claude`.
    """
    whole = path.replace("\\", "/").strip("/")
    folder, _, name = whole.rpartition("/")
    if folded(name) in ("agents.md", "claude.md"):
        return folder.strip("./")
    return whole
