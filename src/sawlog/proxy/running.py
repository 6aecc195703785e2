"""A command that runs behind the proxy, as if nothing stood in between.

Its standard streams and other open files are its own, signals reach it, and its exit status is
given back.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence

from sawlog.proxy.upstreams import variables

_PASSED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_OF_THE_TERMINAL = ("SIGINT", "SIGQUIT")

_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_UNPROXIED = ("no_proxy", "NO_PROXY")

NOT_FOUND = 127
NOT_RUN = 126
"""Exit statuses of a command that there is not, and of one that cannot be run."""


def environment(given: Mapping[str, str], url: str) -> dict[str, str]:
    """The environment of the command: that which is given, and the way to the proxy in it."""
    made = {**given, **variables(url)}
    if any(given.get(name) for name in _PROXIES):
        # A client would look for this proxy behind the other one.
        for name in _UNPROXIED:
            known = given.get(name, "")
            made[name] = f"{known},127.0.0.1" if known else "127.0.0.1"
    return made


async def run(command: Sequence[str], made: Mapping[str, str]) -> int:
    """Run a command to its end and give its exit status, 128 + n when signal n ended it.

    Raises OSError when it cannot be started.
    """
    loop = asyncio.get_running_loop()
    waiting: list[int] = []
    child: asyncio.subprocess.Process | None = None

    def pass_on(number: int) -> None:
        if child is None:
            waiting.append(number)
        elif child.returncode is None and not _has_it_already(number):
            child.send_signal(number)

    for number in _PASSED:
        loop.add_signal_handler(number, pass_on, number)
    try:
        # What else is open, such as a pipe that the shell made for an argument, is the command's.
        child = await asyncio.create_subprocess_exec(*command, env=made, close_fds=False)
        for number in waiting:
            pass_on(number)
        status = await child.wait()
    finally:
        for number in _PASSED:
            loop.remove_signal_handler(number)
    return status if status >= 0 else 128 - status


def _has_it_already(number: int) -> bool:
    """True of a key of the terminal, such as Ctrl-C: that signal goes to the whole group."""
    if signal.Signals(number).name not in _OF_THE_TERMINAL:
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
