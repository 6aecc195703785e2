"""The workspace: what its files are now, which of them changed, and being told when one does.

A version is a content digest, so a file that changed and changed back is as it was. Nothing here
follows a path or a link out of the root.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Protocol

from sawlog.store.errors import ConfigError, OutsideRoot
from sawlog.store.events.world import FileChanged
from sawlog.workspace.files import Sight, State, checked_root, look, within
from sawlog.workspace.gitversion import GitVersion, git_version

__all__ = [
    "Believed",
    "GitVersion",
    "Sight",
    "State",
    "changes",
    "concerned",
    "git_version",
    "look",
    "watch",
]

Believed = Mapping[str, tuple[str, str]]
"""Path to the version and the state that it was last seen with; relative to a root, or inside."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


def changes(
    believed: Believed,
    root: str | os.PathLike[str],
    *,
    refused: list[OutsideRoot] | None = None,
) -> list[FileChanged]:
    """What is no longer as believed, by path: an event for each, with its version and state now.

    A version that is no content digest, such as a commit, is not compared; the state is. Unreadable
    is a state of its own and no removal. Raises ConfigError when `root` is no directory, and
    OutsideRoot for a path, or a link on it, that leads out of it; with `refused` those are put
    there, and the others are looked at.
    """
    place = checked_root(root)
    found: list[FileChanged] = []
    for path in sorted(believed):
        version, state = believed[path]
        try:
            seen = look(path, place)
        except OutsideRoot as error:
            if refused is None:
                raise
            refused.append(error)
            continue
        comparable = seen.state == "present" and _DIGEST.fullmatch(version) is not None
        if seen.state != state or (comparable and seen.version != version):
            found.append(FileChanged(path=path, version=seen.version, state=seen.state))
    return found


def concerned(
    believed: Believed, paths: Collection[str], root: str | os.PathLike[str]
) -> dict[str, tuple[str, str]]:
    """Those of the believed files that stand at or below one of these paths, as `watch` gives them.

    A file that is believed in by way of a link stands where the link leads, too.
    """
    top = checked_root(root)
    at = frozenset(paths)
    found: dict[str, tuple[str, str]] = {}
    for path, what in believed.items():
        places = [os.path.relpath(os.path.join(top, path), top)]
        with suppress(OutsideRoot, ValueError):  # then only its name is told
            places.append(os.path.relpath(within(path, top), top))
        if any(not at.isdisjoint(_up(place)) for place in places):
            found[path] = what
    return found


def _up(path: str) -> Iterator[str]:
    """A path relative to the root, and every folder above it, the root's own `""` the last."""
    while path not in ("", "."):
        yield path
        path = os.path.dirname(path)
    yield ""


class Stop(Protocol):
    """What ends a watch: a `threading.Event`, for one."""

    def is_set(self) -> bool:
        """True when the watch shall end."""
        ...


def watch(
    root: str | os.PathLike[str],
    on_change: Callable[[tuple[str, ...]], object],
    stop: Stop,
    *,
    pause: float = 0.05,
) -> None:
    """Call `on_change` with what changed below a root, until `stop` is set.

    It is called with paths relative to the root, sorted, when none changed for `pause` seconds:
    files, and folders that came or went whole; `concerned` says which believed files that means.
    The first call is for the root itself, `""`, as soon as changes are seen from there on: what
    changed before is for `changes` to find. The same call comes again when something was missed.
    What stands behind a link that leads out of the root is not told. Needs the extra `watch`;
    raises ConfigError without it, or when the system cannot watch.
    """
    try:
        import watchfiles
    except ModuleNotFoundError:
        raise ConfigError(
            "watching files needs watchfiles, which is not installed: pip install 'sawlog[watch]'"
        ) from None
    top = checked_root(root)
    step = max(1, round(pause * 1000))
    broken = 0
    while not stop.is_set():
        batches = watchfiles.watch(
            top,
            watch_filter=None,
            step=step,
            debounce=max(1600, step),
            stop_event=stop,
            rust_timeout=_TICK,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        with closing(batches):
            try:
                for found in _told(batches, top):
                    broken = 0
                    on_change(found)
                return
            except _Broken as error:
                broken += 1
                if broken > _TRIES:
                    raise ConfigError(f"{top!r} cannot be watched: {error}") from error
        time.sleep(_TICK / 1000)


class _Broken(Exception):
    """A watcher gave up, as it does when it meets a name that is no UTF-8: it says nothing more."""


def _told(batches: Iterator[set[tuple[Any, str]]], top: str) -> Iterator[tuple[str, ...]]:
    """What a watcher sees, as paths in the root; the root first, until it stops."""
    ready = False
    while True:
        try:
            batch = next(batches, None)
        except OSError as error:
            raise ConfigError(
                f"{top!r} cannot be watched: {error}; raise the system's limit of watches, or "
                "watch a smaller folder"
            ) from error
        except RuntimeError as error:
            raise _Broken(str(error)) from error
        if batch is None:
            return
        found = {path for _, raw in batch for path in _inside(raw, top)}
        if not ready:
            ready, found = True, {""}
        if found:
            yield tuple(sorted(found))


_TRIES = 20
"""Watchers in a row that break before they have begun."""

_TICK = 100
"""Milliseconds after which a watch without events says that it has begun."""


def _inside(raw: str, top: str) -> Iterator[str]:
    """Where a path stands in the root, and where it leads if it is a link; nothing outside."""
    try:
        folder = within(os.path.dirname(raw), top) if raw != top else top
    except OutsideRoot:
        return
    places = [os.path.join(folder, os.path.basename(raw)) if raw != top else top]
    with suppress(OutsideRoot):  # the link itself changed, and leads out now
        places.append(within(places[0], top))
    for place in places:
        path = os.path.relpath(place, top)
        yield "" if path == "." else path
