"""A pack: old events of a session and the blobs that came with them, as the bytes of one row.

A row of its own costs an event more room than most of what it says. Together, events lie column by
column, so that what they have in common is written once. Digests are left out, for they follow from
one another: one in `RUN` is kept, and whoever asks for an event gets its run, proved by the digest
that must come out.

The layout is physical: it may change under another codec number, and no digest knows of it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import msgspec

from sawlog.store.codec import commit, header, link
from sawlog.store.database import Row
from sawlog.store.envelope import Unproved
from sawlog.store.errors import Damaged

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

RUN = 32
"""Events between two digests that are kept."""

ID, SALT, DIGEST = 16, 16, 32

PROVED = -1
"""The codec of a row whose payload is there as it is and has been found to fit its commitment."""

DENSEST = 40_000
"""No zstd frame gives more bytes than this for each of its own; a damaged one may say so."""

Wanted = Callable[[str, int], bool]
"""Says of a type and version whether events of it are wanted."""

_Column = tuple[bool, list[int]]
"""Whole numbers: as they are, or (True) each as its difference to the one before."""


class _Body(msgspec.Struct, frozen=True, array_like=True):
    """What the bytes of a pack hold; each list has an entry an event."""

    session: bytes
    first: int
    before: bytes
    """The chain's digest before the first event."""
    marks: bytes
    """The digests at the end of each run, joined."""
    ids: bytes
    salts: bytes
    kinds: list[tuple[str, int, int, str]]
    """Type, version, flags, source: each that occurs, once."""
    kind: list[int]
    steps: _Column
    occurred: _Column
    recorded: _Column
    fences: _Column
    arrived: _Column
    cites: list[bytes]
    payloads: list[bytes]
    erased: list[tuple[int, bytes]]
    """Places from 0, and commitments, of events whose salt and payload are gone."""
    texts: list[tuple[bytes, bytes]]
    """Blobs: digest and raw bytes."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


class Pack:
    """The events `first` to `last` of a session, and blobs, as they were packed.

    Events come as the rows that they were, their payloads unpacked, their commitments worked out
    (`PROVED`). Each call may raise Damaged.
    """

    def __init__(self, data: bytes) -> None:
        """Take the bytes of `packed`. Raises Damaged for any others."""
        try:
            body = _decode(_unpacked(data))
        except (*_FAULTS, msgspec.DecodeError, MemoryError) as error:
            raise Damaged(f"a pack does not unpack ({error})") from error
        self._body = body
        self.session = body.session
        self.first = body.first
        self.count = len(body.kind)
        self.last = body.first + self.count - 1
        self._columns: dict[str, list[int]] = {}
        self._check()
        self._erased = dict(body.erased)
        self._runs: dict[int, list[Row]] = {}
        self._texts = dict(body.texts)

    def _check(self) -> None:
        body, count = self._body, self.count
        runs = -(-count // RUN)
        lengths = (
            len(body.session) == ID,
            len(body.before) == DIGEST,
            len(body.marks) == DIGEST * runs,
            len(body.ids) == ID * count,
            len(body.salts) == SALT * count,
            len(body.steps[1]) == len(body.occurred[1]) == count,
            len(body.recorded[1]) == len(body.fences[1]) == len(body.arrived[1]) == count,
            len(body.cites) == count,
            len(body.payloads) == count,
        )
        kinds = count and 0 <= min(body.kind) and max(body.kind) < len(body.kinds)
        if not kinds or not all(lengths):
            raise Damaged("a pack does not hold what belongs there")

    def __len__(self) -> int:
        return self.count

    def _column(self, name: str, packed: _Column) -> list[int]:
        """A column as numbers; few readers need them all."""
        numbers = self._columns.get(name)
        if numbers is None:
            is_differences, numbers = packed
            if is_differences:
                numbers = list(accumulate(numbers))
            self._columns[name] = numbers
        return numbers

    @property
    def _steps(self) -> list[int]:
        return self._column("steps", self._body.steps)

    @property
    def _occurred(self) -> list[int]:
        return self._column("occurred", self._body.occurred)

    @property
    def arrived(self) -> list[int]:
        """Each event's place in the order of arrival."""
        return self._column("arrived", self._body.arrived)

    def columns(self) -> tuple[list[int], ...]:
        """Steps, times of both kinds, fences and places of arrival."""
        body = self._body
        recorded = self._column("recorded", body.recorded)
        fences = self._column("fences", body.fences)
        return self._steps, self._occurred, recorded, fences, self.arrived

    @property
    def size(self) -> int:
        """The bytes of its payloads and blobs."""
        return sum(map(len, self._body.payloads)) + sum(map(len, self._texts.values()))

    @property
    def ids(self) -> list[bytes]:
        """The ids of the events, in order."""
        ids = self._body.ids
        return [ids[at : at + ID] for at in range(0, len(ids), ID)]

    @property
    def before(self) -> bytes:
        """The chain's digest before the first event."""
        return self._body.before

    def rows(self, first: int, last: int) -> list[Row]:
        """The events of a range that lies within, as rows (`rows.COLUMNS`)."""
        start, end = first - self.first, last - self.first + 1
        found: list[Row] = []
        for run in range(start // RUN, -(-end // RUN)):
            rows = self._run(run)
            at = run * RUN
            found += rows[max(0, start - at) : end - at]
        return found

    def digests(self, *, all: bool = False) -> list[bytes]:
        """The chain's digest at each event; empty but for the last of each run, unless `all`."""
        marks = self._body.marks
        if all:
            return [row[12] for row in self.rows(self.first, self.last)]
        found: list[bytes] = []
        whole = self.count // RUN
        for at in range(0, whole * DIGEST, DIGEST):
            found += [b""] * (RUN - 1)
            found.append(marks[at : at + DIGEST])
        if self.count % RUN:
            found += [row[12] for row in self._run(whole)]
        return found

    def contents(self, seqs: Iterable[int], wanted: Wanted | None = None) -> list[Unproved]:
        """The events of seqs that lie within, as content, of the types that are wanted.

        No digest is worked out: that they are what was packed is the word of zstd's checksum.
        """
        body, first = self._body, self.first
        steps, occurred = self._steps, self._occurred
        kinds = [
            kind if wanted is None or wanted(kind[0], kind[1]) else None for kind in body.kinds
        ]
        found: list[Unproved] = []
        for seq in seqs:
            at = seq - first
            kind = kinds[body.kind[at]]
            if kind is not None:
                type, version, flags, source = kind
                found.append(
                    Unproved(
                        seq, body.ids[ID * at : ID * (at + 1)], type, version, flags, steps[at],
                        source, occurred[at],
                        None if at in self._erased else body.payloads[at], body.cites[at],
                    )
                )  # fmt: skip
        return found

    def blob(self, digest: bytes) -> bytes | None:
        """The raw bytes of a blob that lies within; None for any other."""
        return self._texts.get(digest)

    def blobs(self) -> Iterable[tuple[bytes, bytes]]:
        """All blobs that lie within: digest and raw bytes."""
        return self._texts.items()

    def _run(self, run: int) -> list[Row]:
        rows = self._runs.get(run)
        if rows is None:
            try:
                rows = self._made(run)
            except (struct.error, UnicodeError, OverflowError) as error:
                raise Damaged(f"a pack does not hold what belongs there ({error})") from error
            self._runs[run] = rows
        return rows

    def _made(self, run: int) -> list[Row]:
        body, session = self._body, self.session
        steps, occurred, recorded, fences, _ = self.columns()
        digest = body.marks[DIGEST * (run - 1) : DIGEST * run] if run else body.before
        rows: list[Row] = []
        for at in range(run * RUN, min(self.count, (run + 1) * RUN)):
            type, version, flags, source = body.kinds[body.kind[at]]
            id = body.ids[ID * at : ID * (at + 1)]
            seq = self.first + at
            salt: bytes | None = body.salts[SALT * at : SALT * (at + 1)]
            payload: bytes | None = body.payloads[at]
            commitment = self._erased.get(at)
            if commitment is None:
                proof = commit(salt or b"", payload or b"")
            else:
                salt, payload, proof = None, None, commitment
            head = header(
                session, seq, id, type, version, flags, steps[at], source,
                occurred[at], recorded[at], fences[at],
            )  # fmt: skip
            digest = link(digest, head, proof)
            rows.append(
                (
                    seq, id, type, version, flags, steps[at], source, occurred[at], recorded[at],
                    fences[at], salt, proof, digest, body.cites[at] or None, PROVED, payload,
                )
            )  # fmt: skip
        if digest != body.marks[DIGEST * run : DIGEST * (run + 1)]:
            raise Damaged(
                f"the digests of a pack do not come out: one of the events {rows[0][0]} to "
                f"{rows[-1][0]} is not as it was written"
            )
        return rows


class Gathered:
    """Events and blobs on their way into a pack, in order, without a gap."""

    def __init__(self, session: bytes, first: int, before: bytes) -> None:
        """Begin with the event `first`, behind the chain's digest `before`."""
        self.session = session
        self.first = first
        self.before = before
        self.digest = before
        self.size = 0
        """The bytes of payloads and blobs so far."""
        self.ids: list[bytes] = []
        self.digests: list[bytes] = []
        self._salts: list[bytes] = []
        self._kinds: dict[tuple[str, int, int, str], int] = {}
        self._kind: list[int] = []
        self._columns: tuple[list[int], ...] = ([], [], [], [], [])
        self._cites: list[bytes] = []
        self._payloads: list[bytes] = []
        self._erased: list[tuple[int, bytes]] = []
        self.texts: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def last(self) -> int:
        """The seq of the last event so far."""
        return self.first + len(self.ids) - 1

    @property
    def arrived(self) -> list[int]:
        """Each event's place in the order of arrival."""
        return self._columns[4]

    def add(self, row: Row, arrived: int) -> None:
        """Add the next event, as its row (`rows.COLUMNS`) has it, its payload unpacked.

        Raises Damaged for one that does not follow: a pack would hide which it was.
        """
        seq, id, type, version, flags, step, source, occurred, recorded, fence = row[:10]
        salt, commitment, digest, cites, _, payload = row[10:]
        at = len(self.ids)
        if payload is not None:
            commitment = commit(salt, payload)
        try:
            head = header(
                self.session, self.first + at, id, type, version, flags, step, source, occurred,
                recorded, fence,
            )  # fmt: skip
        except (struct.error, UnicodeError, OverflowError):
            head = b""  # no event has such a header
        if seq != self.first + at or link(self.digest, head, commitment) != digest:
            raise Damaged(f"event {seq} of session {self.session.hex()} does not follow")
        if payload is None:
            self._erased.append((at, commitment))
        self.digest = digest
        self.digests.append(digest)
        self.ids.append(id)
        self._salts.append(salt or bytes(SALT))
        kind = (type, version, flags, source)
        self._kind.append(self._kinds.setdefault(kind, len(self._kinds)))
        steps, times, records, fences, arrivals = self._columns
        steps.append(step)
        times.append(occurred)
        records.append(recorded)
        fences.append(fence)
        arrivals.append(arrived)
        self._cites.append(cites or b"")
        self._payloads.append(payload or b"")
        self.size += len(payload or b"")

    def add_pack(self, pack: Pack) -> None:
        """Add the events of a pack that follows, and its blobs, as the pack proves them.

        Raises Damaged for one that does not follow.
        """
        before = len(self.ids)
        if (pack.session, pack.first, pack.before) != (
            self.session, self.first + before, self.digest
        ):  # fmt: skip
            raise Damaged(f"a pack of session {self.session.hex()} does not follow")
        body = pack._body
        self.digests += pack.digests(all=before % RUN != 0)
        self.digest = self.digests[-1]
        self.ids += pack.ids
        self._salts += [body.salts[at : at + SALT] for at in range(0, len(body.salts), SALT)]
        kinds = [self._kinds.setdefault(kind, len(self._kinds)) for kind in body.kinds]
        self._kind += [kinds[kind] for kind in body.kind]
        for column, numbers in zip(self._columns, pack.columns(), strict=True):
            column += numbers
        self._cites += body.cites
        self._payloads += body.payloads
        self._erased += [(before + at, commitment) for at, commitment in body.erased]
        self.size += sum(map(len, body.payloads))
        for digest, data in body.texts:
            self.add_text(digest, data)

    def add_text(self, digest: bytes, data: bytes) -> None:
        """Add a blob."""
        if digest not in self.texts:
            self.texts[digest] = data
            self.size += len(data)

    def packed(self, level: int) -> bytes:
        """The bytes of the pack: what `Pack` takes."""
        steps, occurred, recorded, fences, arrived = map(_column, self._columns)
        ends = [*range(RUN - 1, len(self.ids) - 1, RUN), len(self.ids) - 1]
        body = _Body(
            session=self.session,
            first=self.first,
            before=self.before,
            marks=b"".join(self.digests[at] for at in ends),
            ids=b"".join(self.ids),
            salts=b"".join(self._salts),
            kinds=list(self._kinds),
            kind=self._kind,
            steps=steps,
            occurred=occurred,
            recorded=recorded,
            fences=fences,
            arrived=arrived,
            cites=self._cites,
            payloads=self._payloads,
            erased=self._erased,
            texts=list(self.texts.items()),
        )
        return _packed(_encode(body), level)


def _column(numbers: Sequence[int]) -> _Column:
    if min(numbers) < 0:  # unknown times are so small that a difference would not fit
        return False, list(numbers)
    before = [0, *numbers[:-1]]
    return True, [number - last for number, last in zip(numbers, before, strict=True)]


if sys.version_info >= (3, 14):

    def _packed(data: bytes, level: int) -> bytes:
        kind = zstd.CompressionParameter
        options = {kind.compression_level: level, kind.checksum_flag: 1}
        return zstd.compress(data, options=options)

    def _unpacked(data: bytes) -> bytes:
        decompressor = zstd.ZstdDecompressor()
        limit = len(data) * DENSEST
        out = decompressor.decompress(data, limit + 1)
        if len(out) > limit or not decompressor.eof or decompressor.unused_data:
            raise ValueError("the bytes are not one whole frame")
        return out

    _FAULTS: tuple[type[Exception], ...] = (zstd.ZstdError, ValueError, EOFError)
else:

    def _packed(data: bytes, level: int) -> bytes:
        packer = zstandard.ZstdCompressor(level=level, write_checksum=True)
        out: bytes = packer.compress(data)
        return out

    def _unpacked(data: bytes) -> bytes:
        if zstandard.frame_content_size(data) > len(data) * DENSEST:
            raise ValueError("the bytes are not one whole frame")
        unpacker = zstandard.ZstdDecompressor()
        out: bytes = unpacker.decompress(data, allow_extra_data=False)
        return out

    _FAULTS = (zstandard.ZstdError, ValueError)
