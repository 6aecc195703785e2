"""Processes that are there at once: forked from one that has loaded everything.

A test process has one such server, which begins with its first child and loads then what it was
told to; so there is one list for all who use it.
"""

from __future__ import annotations

import multiprocessing
import sys

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "alembic.command",
        "anthropic",
        "httpx",
        "openai",
        "psycopg",
        "sawlog.cli",
        "sawlog.cli.proxy",
        "sawlog.importing",
        "sawlog.providers.fake",
        "sawlog.proxy.running",
        "sawlog.recorder.clients",
        "sawlog.store.postgresql",
        "sawlog.store.sqlite",
        "sawlog.work.session",
        "sqlalchemy.dialects.postgresql",
        "sqlalchemy.dialects.sqlite",
        "tests.session.killed",
        "tests.session.paying",
        "tests.session.sending",
        "tests.session.shrinking",
        "tests.store.victims",
    ]
)


def executed(code: str, *arguments: str) -> int:
    """How a process ends that runs `code` with these arguments: its exit code, or minus a signal.

    What it says goes where the test process says it.
    """
    process = CONTEXT.Process(target=_execute, args=(code, arguments))
    process.start()
    process.join(120)
    ended = process.exitcode
    if ended is None:
        process.kill()
        raise AssertionError("the process did not end")
    process.close()
    return ended


def _execute(code: str, arguments: tuple[str, ...]) -> None:
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
