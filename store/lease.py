"""Leases: who drives a session. A number fences the losers; the clock only lets another take over.

The number in the session's row grows whenever a lease begins, ends or is taken over. Whoever
appends with a lease shows its number, and the statement that moves the head compares it, so a
driver that slept through its own end is refused, whatever its clock says. An expired lease that
nobody took still writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import msgspec

from sawlog.store import directory
from sawlog.store.database import Database, Transaction
from sawlog.store.directory import SessionRow
from sawlog.store.errors import Busy, Fenced, Leased, StoreError

_TAKE = (
    "UPDATE sawlog.sessions SET fence = ?, owner = ?, expires_at = ?, crc = ? "
    "WHERE sid = ? AND fence = ?"
)


class Lease(msgspec.Struct, frozen=True):
    """The right to drive a session: `token` is the fencing number, `expires_at` is in µs UTC."""

    session: bytes
    owner: str
    token: int
    expires_at: int


def is_live(row: SessionRow, now: int) -> bool:
    """True when a lease stands in the row that nobody may take over yet."""
    return row.owner is not None and (row.expires_at or 0) > now


def leased(row: SessionRow) -> Leased:
    """The error that names the owner of a live lease."""
    return Leased(
        f"session {row.name or row.id.hex()} is driven by {row.owner}: "
        "wait until it ends, or give wait=SECONDS to wait for a lease that nobody renews",
        owner=row.owner or "",
        expires_at=row.expires_at or 0,
    )


def fenced(row: SessionRow) -> Fenced:
    """The error for a lease whose number is no longer the row's."""
    now = f"taken over by {row.owner}" if row.owner else "ended or taken over"
    return Fenced(
        f"the lease on session {row.name or row.id.hex()} was {now}: stop and open it again",
        owner=row.owner or "",
    )


class Leases:
    """The leases of one tenant's sessions."""

    def __init__(self, database: Database, tenant: str, clock: Callable[[], int]) -> None:
        self._database = database
        self._tenant = tenant
        self._clock = clock

    def acquire(self, session: bytes, owner: str, ttl: float) -> Lease:
        """Take the lease on a session for `ttl` seconds.

        Raises Leased while another one is live, also one of the same owner's name.
        """
        directory.checked_name(owner, "owner")
        with self._database.write() as tx:
            row = directory.hold(tx, self._tenant, session)
            now = tx.now(self._clock)
            if is_live(row, now):
                raise leased(row)
            lease = Lease(session, owner, row.fence + 1, now + int(ttl * 1_000_000))
            self._take(tx, row, lease.token, owner, lease.expires_at)
        return lease

    def renew(self, lease: Lease, ttl: float) -> Lease:
        """The lease, prolonged to `ttl` seconds from now. Raises Fenced when it was taken over."""
        with self._database.write() as tx:
            row = directory.hold(tx, self._tenant, lease.session)
            if (row.fence, row.owner) != (lease.token, lease.owner):
                raise fenced(row)
            expires_at = tx.now(self._clock) + int(ttl * 1_000_000)
            self._take(tx, row, row.fence, row.owner, expires_at)
        return msgspec.structs.replace(lease, expires_at=expires_at)

    def release(self, lease: Lease) -> bool:
        """Give a lease back; False when it was no longer held."""
        with self._database.write() as tx:
            row = directory.hold(tx, self._tenant, lease.session)
            return row.fence == lease.token and self._take(tx, row, lease.token + 1, None, None)

    def _take(
        self, tx: Transaction, row: SessionRow, fence: int, owner: str | None, until: int | None
    ) -> bool:
        taken = msgspec.structs.replace(row, fence=fence, owner=owner, expires_at=until)
        values = (fence, owner, until, directory.crc(self._tenant, taken), row.sid, row.fence)
        return bool(tx.run(_TAKE, values))


class Renews(Protocol):
    """What a renewer needs of the log."""

    def renew(self, lease: Lease, ttl: float) -> Lease:
        """The lease, prolonged."""
        ...


class Renewer:
    """Keeps a lease alive from a thread of its own, three times in each of its lifetimes.

    It stops when the lease is lost, and says so: `lost` holds the error, `check` raises it.
    A database that is busy or away is asked again, for the lease may well outlive that.
    """

    def __init__(self, leases: Renews, lease: Lease, ttl: float) -> None:
        self.lease = lease
        self.lost: Fenced | None = None
        self.trouble: StoreError | None = None
        self._leases = leases
        self._ttl = ttl
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sawlog-lease", daemon=True)

    def start(self) -> Self:
        """Begin to renew."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, and wait for a renewal that is under way."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def check(self) -> None:
        """Raise Fenced when the lease was found to be lost."""
        if self.lost is not None:
            raise self.lost

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        pause = self._ttl / 3
        while not self._stop.wait(pause):
            try:
                self.lease = self._leases.renew(self.lease, self._ttl)
                self.trouble = None
                pause = self._ttl / 3
            except Fenced as error:
                self.lost = error
                return
            except Busy as error:
                self.trouble = error
                pause = self._ttl / 30
            except StoreError as error:
                # Kept where the driver finds it; its own next append meets the same trouble.
                self.trouble = error
                pause = self._ttl / 10
