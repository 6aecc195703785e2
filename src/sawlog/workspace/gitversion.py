"""What git says of a folder: its commit, and whether it holds anything else.

git is asked in a way that runs nothing of the repository and changes nothing: no hook, no filter,
no file system monitor, no network, no lock, none of the user's own settings.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, Literal

import msgspec

from sawlog.workspace.files import checked_root

SECONDS = 20.0
"""Time that git has for an answer."""

_MOST = 1 << 20
"""Bytes of an answer's beginning that are looked at."""

# Set for the one call, above what the repository's own settings say; read by git 2.31 and newer.
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "protocol.allow": "never",
    "sawlog.heard": "true",
}


class GitVersion(msgspec.Struct, frozen=True):
    """A folder under git. `commit` is empty before the first one.

    `dirty`: a file in the folder differs from the commit or is in none, ignored ones left aside.
    `state` is `present`, or `unreadable` when git does not answer, and `reason` says why.
    """

    state: Literal["present", "unreadable"]
    commit: str = ""
    dirty: bool = False
    reason: str = ""


class _Failed(Exception):
    """git did not answer; its words."""


def git_version(root: str | os.PathLike[str]) -> GitVersion | None:
    """The commit that a folder is at; None when no repository holds it or there is no git.

    Raises ConfigError when it is no folder.
    """
    place = checked_root(root)
    program = shutil.which("git")
    # A program found by a relative path may be the repository's own.
    if program is None or not os.path.isabs(program) or not _in_repository(place):
        return None
    try:
        settings = dict(_SETTINGS)
        names = _lines(program, place, _FILTERS, settings, may_fail=True)
        if b"sawlog.heard" not in names:
            raise _Failed("this git is older than 2.31 or could not read the repository's settings")
        # An empty filter is no filter: what the repository calls one is not run.
        settings.update((os.fsdecode(n), "") for n in names if n != b"sawlog.heard")
        return _status(_lines(program, place, _STATUS, settings))
    except _Failed as error:
        return GitVersion("unreadable", reason=str(error))


_FILTERS = (
    *("config", "--null", "--name-only", "--get-regexp"),
    r"^(filter\..*\.(clean|process|required)|sawlog\.heard)$",
)
_STATUS = (
    *("status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-z", "--no-renames"),
    # Not into submodules: git asks them by their own settings.
    *("--untracked-files=normal", "--ignore-submodules=dirty", "--", "."),
)


def _in_repository(place: str) -> bool:
    """True when a folder or one above it holds `.git`, a folder or a file."""
    while True:
        if os.path.lexists(os.path.join(place, ".git")):
            return True
        above = os.path.dirname(place)
        if above == place:
            return False
        place = above


def _status(lines: list[bytes]) -> GitVersion:
    commit, dirty = "", False
    for line in lines:
        if line.startswith(b"# branch.oid "):
            commit = line.removeprefix(b"# branch.oid ").decode("ascii", "replace")
        elif not line.startswith(b"# "):
            dirty = True
            break
    else:
        if not commit:
            raise _Failed("git gave no commit")
    return GitVersion("present", "" if commit == "(initial)" else commit, dirty)


def _lines(
    program: str,
    place: str,
    arguments: tuple[str, ...],
    settings: dict[str, str],
    *,
    may_fail: bool = False,
) -> list[bytes]:
    """The records of an answer, those of its first bytes when it is long."""
    with _asked(program, place, arguments, settings) as process:
        assert process.stdout is not None and process.stderr is not None
        words = _Words(process.stderr)
        answer = process.stdout.read(_MOST)
        cut = bool(process.stdout.read(1))
        if cut:
            _end(process)  # what is known is enough
        code = process.wait()
        said = words.heard()
    if cut:
        return answer.split(b"\0")[:-1]
    if code < 0:
        raise _Failed(f"git gave no answer in {SECONDS:.0f} seconds, or was ended")
    if code and not may_fail:
        raise _Failed(said or f"git ended with {code}")
    return [line for line in answer.split(b"\0") if line]


class _Words:
    """The first of git's complaints, read beside the answer so that neither waits for the other."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._said = b""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        self._said = stream.read(2000)
        while stream.read(1 << 16):
            pass

    def heard(self) -> str:
        """Its first line; to be asked when git has ended."""
        self._thread.join()
        return self._said.decode("utf-8", "replace").partition("\n")[0].strip()


@contextmanager
def _asked(
    program: str, place: str, arguments: tuple[str, ...], settings: dict[str, str]
) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [program, "--no-optional-locks", "--no-pager", *arguments],
        cwd=place,
        env=_environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timer = threading.Timer(SECONDS, _end, (process,))
    timer.daemon = True
    timer.start()
    try:
        with process:
            try:
                yield process
            except BaseException:
                _end(process)
                raise
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End git, and with it whatever it may have started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _environment(settings: dict[str, str]) -> dict[str, str]:
    """All that git is told: none of the caller's own, so nobody's home, traces or askers."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for at, (name, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{at}"] = name
        environment[f"GIT_CONFIG_VALUE_{at}"] = value
    return environment
