"""The lock beside an SQLite file: shared while someone writes, exclusive while the file is remade.

SQLite locks its own file well, but not against three things that happen around it: two first users
that both switch the file to WAL, a checkpoint beside a commit (releases before 3.51.3 may lose the
commit), and a migration that meets a writer. Whoever does one of those holds this lock exclusively;
a writer holds it shared from BEGIN IMMEDIATE to the end of its transaction. Readers never take it.
A writer asks for it exclusively first, so that it is also where writers wait for each other.

The lock is `flock` on a file of its own that is never removed. It belongs to the open file, not to
the process, so two handles of one process exclude each other, too, and it dies with its process: a
forked child closes what it inherits, or the lock would outlive a parent that is killed.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager

from sawlog.store.errors import Busy, ReadOnly


def wait_a_little(deadline: float) -> bool:
    """Sleep 0 to 2 ms, uniformly; False when the deadline (monotonic seconds) has passed.

    Shorter sleeps cost eight writers half their speed, the database's own growing ones starve some.
    """
    if time.monotonic() >= deadline:
        return False
    time.sleep(random.uniform(0.0, 0.002))
    return True


class SideLock:
    """The lock of one handle on one store. Not for two threads at once: its owner sees to that."""

    def __init__(self, path: str) -> None:
        """Name the lock file; it is made when the lock is first taken."""
        self.path = path
        self._file = -1
        _made.add(self)

    def try_shared(self) -> bool:
        """Take the lock as a writer, or say at once that somebody holds it exclusively.

        Whoever held it before holds it no more when this fails.
        """
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock alone, or say at once that somebody else holds it.

        Whoever held it before holds it no more when this fails.
        """
        return self._try(fcntl.LOCK_EX)

    def release(self) -> None:
        """Give the lock back; without one held nothing happens."""
        if self._file >= 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def exclusive(self, wait: float) -> Generator[None]:
        """Hold the lock alone for a block. Raises Busy after `wait` seconds."""
        deadline = time.monotonic() + wait
        while not self.try_exclusive():
            if not wait_a_little(deadline):
                raise Busy(f"others kept writing to the store for {wait:g} s; try again")
        try:
            yield
        finally:
            self.release()

    def close(self) -> None:
        """Let go of the file, and of the lock with it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _try(self, how: int) -> bool:
        if self._file < 0:
            self._file = self._open()
        try:
            fcntl.flock(self._file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _open(self) -> int:
        try:
            # Writable for whoever may write the store: the umask decides, as for the store itself.
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ReadOnly(
                f"the lock file {self.path} cannot be opened ({error.strerror}); "
                "whoever writes to a store must be able to write in its folder"
            ) from error


_made: weakref.WeakSet[SideLock] = weakref.WeakSet()


def _let_go() -> None:
    for lock in _made:
        lock.close()


os.register_at_fork(after_in_child=_let_go)
