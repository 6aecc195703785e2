"""The `sawlog` command. What each verb needs is loaded when the verb runs, not before."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code.

    0 fine, 1 a check found something, 2 usage or configuration, 3 conflict or lease, 4 damaged
    data. `arguments` default to those of the process.
    """
    from sawlog.cli.app import run

    return run(arguments)
