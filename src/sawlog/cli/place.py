"""Where things are: the store, a session by any of its names, a step of it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog
    from sawlog.audit.recorded import RecordedStep
    from sawlog.store.log import Log


class Settings(NamedTuple):
    """What stands before the verb: the store as given (empty: not given) and the tenant."""

    store: str
    tenant: str

    @property
    def url(self) -> str:
        """The store that is meant."""
        return self.store or str(default_store())


def settings(context: typer.Context) -> Settings:
    """The settings that the command was called with."""
    found = context.obj
    assert isinstance(found, Settings)
    return found


def command(context: typer.Context, words: str) -> str:
    """A command to go on with, for the same store; a URL that may hold a password is left out."""
    store = settings(context).store
    if not store or store == os.environ.get("SAWLOG_STORE") or "@" in store:
        return f"sawlog {words}"
    return f"sawlog --store {shlex.quote(store)} {words}"


def default_store() -> Path:
    """The store that is used when none is named, in the platform's user data directory."""
    home = Path.home()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(home / "Library" / "Application Support")
    else:
        base = os.environ.get("XDG_DATA_HOME") or ""
        if not os.path.isabs(base):  # the specification says to pass over a relative one
            base = str(home / ".local" / "share")
    return Path(base) / "sawlog" / "sawlog.db"


def must_exist(url: str) -> None:
    """Raise NoStore, saying how to make one, when a file that should be a store is not there."""
    from sawlog.store.database import parse_url
    from sawlog.store.errors import NoStore

    dialect, place = parse_url(url)
    if dialect == "sqlite" and not os.path.lexists(place):
        raise NoStore(
            f"there is no store at {place}: `sawlog import PATH` makes one, --store URL (before "
            "the command) or SAWLOG_STORE names another"
        )


def reading(context: typer.Context) -> Log:
    """The log, to be read: nothing is made, migrated or written."""
    from sawlog.store.database import open_database
    from sawlog.store.log import Log

    chosen = settings(context)
    must_exist(chosen.url)
    database = open_database(chosen.url, create=False, read_only=True)
    context.call_on_close(database.close)
    return Log(database, tenant=chosen.tenant)


def auditing(context: typer.Context) -> AgentLog:
    """The same with all that reads packets."""
    from sawlog.agentlog import AgentLog

    return AgentLog(reading(context))


def writing(context: typer.Context) -> AgentLog:
    """The log, to be written; an SQLite store that is not there is made, and its folder where it
    is the default one."""
    from sawlog.agentlog import open

    chosen = settings(context)
    if not chosen.store:
        default_store().parent.mkdir(parents=True, exist_ok=True)
    log = open(chosen.url, chosen.tenant)
    context.call_on_close(log.close)
    return log


def changing(context: typer.Context) -> AgentLog:
    """The log, to be written, of a store that is there. Raises NoStore."""
    must_exist(settings(context).url)
    return writing(context)


def split_step(text: str) -> tuple[str, int]:
    """The session and the step number of `SESSION@STEP`; `@STEP` alone is of the newest session.

    Raises ConfigError for anything else.
    """
    from sawlog.store.errors import ConfigError

    session, at, number = text.rpartition("@")
    if not at or not (number.isascii() and number.isdigit()) or len(number) > 18:
        raise ConfigError(f"{text!r} names no step: write SESSION@STEP, such as -@3")
    return session or "-", int(number)


def recorded_step(log: AgentLog, text: str) -> RecordedStep:
    """The recorded step that `SESSION@STEP` names."""
    session, number = split_step(text)
    return log.read(session).steps[number]
