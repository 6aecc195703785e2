"""What a session is told of its surroundings: instruction files, environment, workspace.

Here files are read and git is asked; what comes of it is appended as any other word about the
world, and only where it differs from what the log holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from sawlog.builder.facts import File
from sawlog.store.errors import ConfigError, OutsideRoot, quoted
from sawlog.store.events.world import FileChanged
from sawlog.store.jsontext import source_of
from sawlog.work.believing import believed
from sawlog.work.given import paths, texts
from sawlog.work.offering import Offering
from sawlog.workspace.comparing import changes
from sawlog.workspace.files import within
from sawlog.workspace.gitversion import git_version
from sawlog.workspace.instructions import BOUND, NAMES, Found, discover


class Compared(msgspec.Struct, frozen=True):
    """What a workspace was found to be: the changes that were appended, by path.

    `unreadable` are files of which nothing is known now, `outside` paths that lead out of the root;
    neither is a change.
    """

    changed: tuple[FileChanged, ...] = ()
    unreadable: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class Surroundings(Offering):
    """The part of a session that looks at files. See `Session`."""

    def instructions(
        self,
        root: str | os.PathLike[str],
        cwd: str | os.PathLike[str] | None = None,
        *,
        user: str | os.PathLike[str] | None = None,
        above: Mapping[str, str | os.PathLike[str]] | None = None,
        touched: Iterable[str | os.PathLike[str]] = (),
        names: Sequence[str] = NAMES,
        limit: int = BOUND,
    ) -> Found:
        """Find the instruction files for work in `cwd` (None: the root), and tell what is new.

        They are those of the folders `above`, by their scopes (`{"organisation": …, "team": …}`),
        of the folder `user`, of each folder from `root` down to `cwd`, and of those down to each
        file that a tool saw, or that is `touched`; nearer ones come later. Packets tell which are
        new, changed and gone, in at most `limit` bytes when told in full; files with the digests
        that were told append nothing, and one that cannot be read keeps what it had.
        They override nothing that system, developer or user say. Gives what was found, problems
        included. Raises as `sawlog.workspace.instructions.discover`.
        """
        touched = paths(touched, "touched")
        names = texts(names, "names")
        with self._driver.lock:
            last = self._section("instructions")
            found = discover(
                root,
                root if cwd is None else cwd,
                touched=(*touched, *self._seen_in(root)),
                user=user,
                above=above,
                names=names,
                bound=limit,
                last=last or "",
            )
            # No files at all are no section: then packets say of each that it is gone.
            there = bool(found.files or found.omitted)
            self._sections({"instructions": found.source if there else None})
            return found

    def _seen_in(self, root: str | os.PathLike[str]) -> list[str]:
        """The folders in a root that hold a file that the log knows of."""
        found: list[str] = []
        files = _files(self._driver.load().files.items())
        for folder in dict.fromkeys(os.path.dirname(path) for path in files):
            with suppress(OutsideRoot, ValueError):  # of another root, or no path at all
                within(folder, root)
                found.append(folder)
        return found

    def environment(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        platform: str | Mapping[str, Any] | None = None,
        permissions: str | Mapping[str, Any] | None = None,
        model: str | Mapping[str, Any] | None = None,
        tools: Sequence[str | Mapping[str, Any]] | None = None,
        mode: str | Mapping[str, Any] | None = None,
        terminal: str | Mapping[str, Any] | None = None,
        time: datetime | None = None,
        git: str | os.PathLike[str] | None = None,
    ) -> None:
        """Say where the session works: the usual sections of the world, those that are given.

        Packets tell what differs from what they told before. `permissions` may list `approved`
        commands, which are told apart. `time` comes from the caller's clock, with its zone; each
        other time is news, so leave it out unless the task needs it.
        `git` is a folder whose commit is told, and whether its files differ from it. What is left
        out stays as it was; `world(mode=None)` takes a section back. Raises ConfigError for a time
        without a zone.
        """
        if isinstance(tools, str):
            raise ConfigError(
                f"tools is a list, not {quoted(tools)} alone: give a list: [{quoted(tools)}]"
            )
        given: dict[str, object] = {
            "cwd": None if cwd is None else os.fspath(cwd),
            "platform": platform,
            "permissions": permissions,
            "model": model,
            "tools": tools,
            "mode": mode,
            "terminal": terminal,
            "time": None if time is None else _time(time),
        }
        sources: dict[str, str | None] = {
            name: source_of(value, name) for name, value in given.items() if value is not None
        }
        if git is not None:
            told = _git(git)
            sources["git"] = None if told is None else source_of(told, "git")
        self._sections(sources)

    def workspace(self, root: str | os.PathLike[str]) -> Compared:
        """Compare the files that the session saw with those in `root`, and append what changed.

        All changes are one batch, with the commit that the root is at where git holds it. A file
        that is gone is absent; one that cannot be read says nothing of its content, which is noted
        once. Relative paths are this root's. Raises ConfigError when the root is no folder.
        """
        with self._driver.lock:
            refused: list[OutsideRoot] = []
            known = believed(self._driver.catch_up(), self._driver.window)
            found = changes(known, root, refused=refused)
            unreadable = [one for one in found if one.state == "unreadable"]
            changed = [one for one in found if one.state != "unreadable"]
            commit = _commit(root) if changed else ""
            changed = [replace(one, commit=commit) for one in changed]
            new = self._driver.new
            if changed:
                self._driver.append([new(one, "watch") for one in changed])
            for one in unreadable:
                self._note_unreadable(one)
            return Compared(
                tuple(changed),
                tuple(str(one.path) for one in unreadable),
                tuple(error.path for error in refused),
            )

    def _note_unreadable(self, one: FileChanged) -> None:
        file = self._driver.load().files.get(str(one.path))
        since = file.seq if file is not None else 0
        # The key makes it once for as long as nothing newer is known of the file.
        key = f"file.unreadable {since} {one.path}"
        self._driver.append([self._driver.new(one, "watch", key=key)])


def _files(items: Iterable[tuple[str, File]]) -> dict[str, File]:
    """The files of a state; an index may give older values of a path before its newest."""
    return dict(items)


def _commit(root: str | os.PathLike[str]) -> str:
    version = git_version(root)
    return version.commit if version is not None else ""


def _git(folder: str | os.PathLike[str]) -> dict[str, object] | None:
    """What the section `git` says; None where no repository holds the folder."""
    version = git_version(folder)
    if version is None:
        return None
    if version.state == "unreadable":
        return {"unreadable": version.reason}
    return {"commit": version.commit, "dirty": version.dirty}


def _time(time: datetime) -> dict[str, str]:
    if time.tzinfo is None or time.utcoffset() is None:
        raise ConfigError(
            "a time needs its zone: give datetime.now(timezone.utc) or one of zoneinfo.ZoneInfo"
        )
    return {"zone": str(time.tzinfo), "time": time.isoformat(" ", "seconds")}
