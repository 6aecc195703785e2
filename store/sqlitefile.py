"""An SQLite file as a store: what it is, connections to it, and names for SQLite's errors."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from sawlog.store.errors import (
    Busy,
    Damaged,
    NoStore,
    ReadOnly,
    StoreError,
    StoreFull,
)
from sawlog.store.sidelock import SideLock, wait_a_little

APPLICATION_ID = 0x5341574C
"""What the header of our files says: SAWL."""

T = TypeVar("T")


def connect(path: str, options: str) -> sqlite3.Connection:
    """A bare connection that begins and ends no transaction by itself and never waits."""
    return sqlite3.connect(
        f"file:{quote(path)}?{options}",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def connect_to_write(path: str, url: str, wait: float, side: SideLock) -> sqlite3.Connection:
    """A connection whose commits are durable and which leaves checkpoints to its owner."""
    raw = connect(path, "mode=rw")
    try:
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA wal_autocheckpoint=0")
        if patiently(lambda: _journal(raw), url, wait) != "wal":
            # Our files are made in WAL; a copy by VACUUM INTO is not.
            with side.exclusive(wait):
                patiently(lambda: raw.execute("PRAGMA journal_mode=WAL").fetchall(), url, wait)
    except sqlite3.Error as error:
        raw.close()
        raise named(error, url) from error
    except StoreError:
        raw.close()
        raise
    return raw


def _journal(raw: sqlite3.Connection) -> str:
    mode: str = raw.execute("PRAGMA journal_mode").fetchone()[0]
    return mode


def wal_size(path: str) -> int:
    """The size of the file's WAL in bytes; 0 without one."""
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def version_of(raw: sqlite3.Connection) -> int:
    """The schema's number as this connection sees it."""
    version: int = raw.execute("PRAGMA user_version").fetchone()[0]
    return version


def patiently(action: Callable[[], T], url: str, wait: float) -> T:
    """Run what may meet SQLite's lock until it gets through. Raises Busy after `wait` seconds."""
    deadline = 0.0
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            deadline = deadline or time.monotonic() + wait
            if not wait_a_little(deadline):
                raise named(error, url) from error


class Reader:
    """A reading connection. Raises NoStore, ReadOnly or Busy where the file cannot be read."""

    def __init__(self, path: str, url: str, wait: float) -> None:
        self.broken = False
        self.immutable = False
        self._path = path
        self._url = url
        self._wait = wait
        try:
            self.raw = connect(path, "mode=ro")
        except sqlite3.Error as error:
            raise named(error, url) from error
        try:
            patiently(partial(version_of, self.raw), url, wait)
        except StoreError:
            self.raw.close()
            raise
        except sqlite3.Error as error:
            self.raw.close()
            if _primary(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise named(error, url) from error
            self._fall_back(error)

    def begin(self) -> int:
        """Fix the state that this connection sees until it rolls back; gives its schema number."""
        self.raw.execute("BEGIN")
        return patiently(partial(version_of, self.raw), self._url, self._wait)

    @property
    def outdated(self) -> bool:
        """True when the file was taken for unchangeable and was written all the same."""
        return self.immutable and wal_size(self._path) > 0

    def _fall_back(self, error: sqlite3.Error) -> None:
        # The folder cannot be written, so SQLite cannot make the index of a WAL. Without a WAL
        # the file alone is the whole store.
        if not os.path.exists(self._path):
            raise NoStore(f"there is no store at {self._path}") from error
        if wal_size(self._path):
            raise ReadOnly(
                f"{self._path} lies where nothing can be written, and its newest events stand in "
                f"{self._path}-wal: copy both files to a folder that can be written and open "
                "the copy"
            ) from error
        self.immutable = True
        self.raw = connect(self._path, "mode=ro&immutable=1")
        try:
            version_of(self.raw)
        except sqlite3.Error as again:
            self.raw.close()
            raise named(again, self._url) from again


def identify(path: str, wait: float) -> int:
    """The schema's number of the store in a file; 0: no file, or one that holds nothing yet.

    Raises NoStore for a file of another kind. Writes nothing.
    """
    if not os.path.exists(path):
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise NoStore(f"there is no folder {folder} to hold a store")
        return 0
    if not os.path.isfile(path):
        raise NoStore(f"{path} is a folder or a device, and a store is a file")
    url = f"sqlite:///{path}"
    has_wal = wal_size(path) > 0
    try:
        application, version, tables = _at_first_glance(path)
        if has_wal or not (application or tables):
            # Its newest state may stand in the WAL, and somebody may just be making it.
            raw = Reader(path, url, wait).raw
            try:
                application, version, tables = patiently(partial(_looks, raw), url, wait)
            finally:
                raw.close()
    except sqlite3.DatabaseError as error:
        if _primary(error) == sqlite3.SQLITE_NOTADB:
            raise NoStore(
                f"{path} is no SQLite database, so it is no sawlog store; nothing was changed"
            ) from error
        raise named(error, url) from error
    if application == APPLICATION_ID:
        return version
    if application or version or tables:
        raise NoStore(
            f"{path} is an SQLite database of another program, not a sawlog store; "
            "nothing was changed"
        )
    return 0


def _at_first_glance(path: str) -> tuple[int, int, int]:
    # As unchangeable, which looks at no WAL and makes no file beside a stranger's. Beside a
    # checkpoint such a reading may meet half of a change: then it has seen nothing.
    raw = connect(path, "mode=ro&immutable=1")
    try:
        return _looks(raw)
    except sqlite3.DatabaseError as error:
        if _primary(error) != sqlite3.SQLITE_CORRUPT:
            raise
        return 0, 0, 0
    finally:
        raw.close()


def _looks(raw: sqlite3.Connection) -> tuple[int, int, int]:
    application: int = raw.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION_ID:
        return application, version_of(raw), 1
    tables: int = raw.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return application, version_of(raw), tables


def is_busy(error: sqlite3.Error) -> bool:
    """True when somebody else's lock was in the way."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_fatal(error: sqlite3.Error) -> bool:
    """True when the connection should not be used again."""
    return _primary(error) in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CANTOPEN,
    )


def is_io(error: sqlite3.Error) -> bool:
    """True when the medium failed."""
    return _primary(error) == sqlite3.SQLITE_IOERR


def is_no_text(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """True when a column that says it is text holds bytes that are none."""
    if isinstance(error, UnicodeDecodeError):
        return True  # the driver stumbles once more over the text of its own message
    return not hasattr(error, "sqlite_errorcode") and "decode to UTF-8" in str(error)


def corrupt(why: str) -> sqlite3.DatabaseError:
    """The driver's error for a damaged file, where the driver itself fails to make it."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def named(error: sqlite3.Error, url: str) -> StoreError:
    """The error of the tree that says what SQLite's error means for the caller."""
    match _primary(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Busy(f"{url} stayed locked by others; try again")
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"no room left for {url}: nothing of this was written; make room and try again"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return ReadOnly(f"{url} cannot be written here ({error})")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Damaged(
                f"{url} is damaged ({error}): `sawlog verify --all` names what is hit, "
                "`sawlog salvage` saves the rest"
            )
        case sqlite3.SQLITE_CONSTRAINT:
            return Damaged(
                f"{url} already holds a row where a new one belongs ({error}): "
                "run `sawlog verify --all`"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return NoStore(f"{url} cannot be opened ({error})")
        case sqlite3.SQLITE_TOOBIG:
            return StoreError(f"a value is larger than SQLite can hold ({error})")
        case _:
            return StoreError(f"{url}: {error}")


def _primary(error: sqlite3.Error) -> int:
    # Python's own complaints, such as a closed connection, carry no code.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF
