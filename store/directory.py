"""The directory: one row a session, with its name, its head, its lease, and where it forked.

A session is found by tenant and id (or name) and by nothing else; one that belongs to another
tenant and one that does not exist give the same answer.

Head and digest are proved by the chain, the time of the last append by the last event. The rest of
a row is proved by nothing but its check number `crc`, which changes with it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from sawlog.store.codec import genesis
from sawlog.store.database import Row, Transaction
from sawlog.store.errors import Damaged, InvalidEvent, NoSession

COLUMNS = (
    "s.sid, s.id, s.name, s.source_id, s.head, s.digest, s.fence, s.owner, s.expires_at, "
    "s.created_at, s.touched_at, s.parent, s.ancestors, s.crc"
)
_FROM = f"SELECT {COLUMNS} FROM sawlog.sessions s WHERE s.tenant = ?"
BY_ID = f"{_FROM} AND s.id = ?"
_BY_NAME = f"{_FROM} AND s.name = ?"
_BY_PREFIX = f"{_FROM} AND s.id >= ? AND s.id <= ? ORDER BY s.sid"
_BY_SOURCE = f"{_FROM} AND s.source_id = ? ORDER BY s.sid"
_ALL = f"SELECT {COLUMNS} FROM (whole) WHERE s.tenant = ? ORDER BY s.sid"
_IDS = "SELECT sid, id FROM sawlog.sessions WHERE sid IN (*)"
_INSERT = (
    "INSERT INTO sawlog.sessions (tenant, id, name, source_id, head, digest, fence, created_at, "
    "touched_at, parent, ancestors, crc) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)

LONGEST_NAME = 1000
"""Characters that a name, a source id, a tenant or an owner may have."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the directory showed it when it was read.

    `head` is the seq of its last event, `digest` the chain's digest there. `owner` and
    `expires_at` (microseconds UTC) are of the lease that stands in the row, live or not. `parent`
    and `ancestors` are local numbers: seq up to each pair's second is in the rows of its first.
    """

    sid: int
    id: bytes
    name: str | None
    source_id: str | None
    head: int
    digest: bytes
    fence: int
    owner: str | None
    expires_at: int | None
    created_at: int
    touched_at: int
    parent: int | None
    ancestors: tuple[tuple[int, int], ...]

    @property
    def base(self) -> int:
        """The seq that this session forked at; 0 for one that is no fork."""
        return self.ancestors[-1][1] if self.ancestors else 0

    def segments(self, after: int, upto: int) -> list[tuple[int, int, int]]:
        """Where the events after `after`, up to `upto`, stand: sid, first seq, last seq."""
        out: list[tuple[int, int, int]] = []
        start = 1
        for sid, end in (*self.ancestors, (self.sid, self.head)):
            first, last = max(start, after + 1), min(end, upto)
            if first <= last:
                out.append((sid, first, last))
            start = end + 1
        return out


_decode_ancestors = msgspec.json.Decoder(tuple[tuple[int, int], ...]).decode
_encode = msgspec.msgpack.Encoder().encode

_COUNT, _TEXT = (int,), (str, type(None))
# Columns may hold anything in SQLite, and a flipped bit makes a text of bytes.
_SHAPE: tuple[tuple[type, ...], ...] = (
    *(_COUNT, (bytes,), _TEXT, _TEXT, _COUNT, (bytes,), _COUNT, _TEXT),
    *((int, type(None)), _COUNT, _COUNT, (int, type(None)), _TEXT, _COUNT),
)


def row_of(row: Row) -> SessionRow:
    """The session that a row of the directory holds. Raises Damaged for one that reads wrong."""
    wrong = [at for at, kinds in enumerate(_SHAPE) if type(row[at]) not in kinds]
    if wrong or len(row[1]) != 16 or len(row[5]) != 32:
        raise damaged(row, "it does not hold what belongs there")
    try:
        ancestors = _decode_ancestors(row[12]) if row[12] else ()
    except msgspec.DecodeError as error:
        raise damaged(row, str(error)) from error
    return SessionRow(
        sid=row[0],
        id=row[1],
        name=row[2],
        source_id=row[3],
        head=row[4],
        digest=row[5],
        fence=row[6],
        owner=row[7],
        expires_at=row[8],
        created_at=row[9],
        touched_at=row[10],
        parent=row[11],
        ancestors=ancestors,
    )


def damaged(row: Row, why: str) -> Damaged:
    """The error that names a session whose row in the directory is damaged."""
    id = row[1].hex() if isinstance(row[1], bytes) else f"with the number {row[0]}"
    name = f" ({row[2]})" if isinstance(row[2], str) else ""
    return Damaged(f"the directory's row of session {id}{name} is damaged: {why}", session=id)


def crc(tenant: str, row: SessionRow) -> int:
    """The check number of a session's row in the directory."""
    return _crc(
        tenant,
        row.id,
        row.name,
        row.source_id,
        row.fence,
        row.owner,
        row.expires_at,
        row.created_at,
        row.parent,
        _line(row.ancestors),
    )


def fits(tenant: str, row: Row) -> bool:
    """True when a row's check number is that of a session of this tenant.

    Rows that the first releases wrote leave the lease's end out; their next lease lets it in.
    """
    whole = _crc(tenant, *row[1:4], *row[6:10], *row[11:13])
    return row[13] in (whole, _crc(tenant, *row[1:4], *row[6:8], row[9], *row[11:13]))


def _crc(*values: object) -> int:
    return zlib.crc32(_encode(values))


def _line(ancestors: Sequence[tuple[int, int]]) -> str | None:
    return msgspec.json.encode(ancestors).decode() if ancestors else None


def get(tx: Transaction, tenant: str, session: bytes) -> SessionRow:
    """The session of that id. Raises NoSession."""
    return row_of(_asked_for(tx.one(BY_ID, (tenant, session)), session))


def hold(tx: Transaction, tenant: str, session: bytes) -> SessionRow:
    """The session of that id, kept from all other writers until the transaction ends.

    Raises NoSession, and Damaged for a row that nobody should build upon.
    """
    row = _asked_for(tx.hold(BY_ID, tenant, session), session)
    if not fits(tenant, row):
        raise damaged(row, "its check number does not fit")
    return row_of(row)


def _asked_for(row: Row | None, session: bytes) -> Row:
    if row is None:
        raise NoSession(f"there is no session {session.hex()}")
    if row[1] != session:
        # Only a damaged index does this, and another's events must not pass for the session's.
        raise damaged(row, f"an index leads to it for session {session.hex()}")
    return row


def by_name(tx: Transaction, tenant: str, name: str) -> SessionRow | None:
    """The session of that name, if any."""
    row = tx.one(_BY_NAME, (tenant, name))
    if row is not None and row[2] != name:
        raise damaged(row, f"an index leads to it for the name {name!r}")
    return None if row is None else row_of(row)


def matching(tx: Transaction, tenant: str, text: str) -> list[SessionRow]:
    """The session of that name; else those whose id begins with the text, in hex."""
    named = by_name(tx, tenant, text)
    if named is not None:
        return [named]
    prefix = text.replace("-", "").lower()
    if not prefix or len(prefix) > 32 or prefix.strip("0123456789abcdef"):
        return []
    low, high = (bytes.fromhex(prefix.ljust(32, fill)) for fill in "0f")
    return _readable(tx.all(_BY_PREFIX, (tenant, low, high)))


def by_source(tx: Transaction, tenant: str, source_id: str) -> list[SessionRow]:
    """The sessions of that source id, oldest first."""
    return _readable(tx.all(_BY_SOURCE, (tenant, source_id)))


def everyone(tx: Transaction, tenant: str) -> list[SessionRow]:
    """All sessions of a tenant that read, oldest first; `checked.directory_damage` names others."""
    return _readable(tx.all(_ALL.replace("(whole)", tx.whole("sessions")), (tenant,)))


def _readable(rows: Sequence[Row]) -> list[SessionRow]:
    # One damaged session never hides the others.
    found: list[SessionRow] = []
    for row in rows:
        with suppress(Damaged):
            found.append(row_of(row))
    return found


def ids(tx: Transaction, sids: Sequence[int]) -> dict[int, bytes]:
    """The ids of sessions by their local numbers."""
    return {sid: id for sid, id in tx.among(_IDS, (), sids)}


def insert(
    tx: Transaction,
    tenant: str,
    session: bytes,
    *,
    name: str | None,
    source_id: str | None,
    now: int,
    fork: tuple[SessionRow, int, bytes] | None = None,
) -> bool:
    """Make a session's row; False when that id or name was there before.

    A fork starts at a seq of its parent, with the parent's digest there.
    """
    head, digest, parent = 0, genesis(session), None
    line: list[tuple[int, int]] = []
    if fork is not None:
        row, head, digest = fork
        parent = row.sid
        # The first ancestor stays even where none of its events do: the chain begins with it.
        for sid, last in (*row.ancestors, (row.sid, row.head)):
            line.append((sid, min(last, head)))
            if last >= head:
                break
    ancestors = _line(line)
    check = _crc(tenant, session, name, source_id, 0, None, None, now, parent, ancestors)
    values = (tenant, session, name, source_id, head, digest, now, now, parent, ancestors, check)
    return tx.run(_INSERT, values) == 1


def source_name(format: str, source_id: str, digest: str = "") -> str:
    """What the directory keeps of a foreign session's own id; of a long or odd one the digest.

    `digest` is the hex SHA-256 of an id that is not at hand.
    """
    text = f"{format}:{source_id}"
    if not digest and len(text) <= LONGEST_NAME and text.isascii() and text.isprintable():
        return text
    raw = source_id.encode("utf-8", "surrogatepass")
    return f"{format}:sha256:{digest or hashlib.sha256(raw).hexdigest()}"


def is_name(text: str) -> bool:
    """True when both databases can hold the text as a name."""
    return (
        0 < len(text) <= LONGEST_NAME
        and "\0" not in text
        and not any("\ud800" <= c <= "\udfff" for c in text)
    )


def checked_name(text: str, path: str) -> str:
    """The text, if it can be a name. Raises InvalidEvent."""
    if not is_name(text):
        raise InvalidEvent(
            f"{text[:40]!r} is no name: 1 to {LONGEST_NAME} characters, none of them NUL or half "
            "of a pair",
            path=path,
        )
    return text
