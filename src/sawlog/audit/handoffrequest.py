"""The request that continues a session elsewhere, as whoever hands it over gets it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sawlog.builder.packet import Entry, Header, Request
from sawlog.builder.state import Ref
from sawlog.builder.trace import Trace, Verdict


class Note(msgspec.Struct, frozen=True):
    """Something of the history that this provider does not get as it stands, and why.

    `entry` is its place among the entries (-1: the header), `seq` and `part` say which part of
    which event that is (seq 0: of none). `kind` is the entry's kind (empty: the header), `bound`
    what a bound block is, such as `thinking`. `what` and `why` are the renderer's words; what is
    `left_out` does not go at all.
    """

    entry: int
    seq: int
    part: int
    kind: str
    bound: str
    what: str
    why: str


class OpenCall(msgspec.Struct, frozen=True):
    """A call whose result is not in the log: its event, its name, what stands in for the result."""

    seq: int
    name: str
    status: str


class Handoff(msgspec.Struct, frozen=True):
    """A request that continues a session, for any provider. It is in no log and was never sent.

    `sees` is the newest event that it is made of. `said` is the text that was added as the user's
    next message (None: none was). `as_of` is the newest time in the log, in microseconds UTC;
    UNKNOWN_TIME if it has none. `refs` and `entries` are parallel; an entry that is not in the log
    has a seq above `sees`. `missing` names what the model saw and a foreign file does not hold, and
    requirements that nothing satisfies. `undeclared` are the tools that calls of the history name
    and this request does not offer.
    `open_calls` show a synthetic result. `inbox` counts messages that wait: a step of the session
    would claim them, this request leaves them out. `trace` says what became of each part.
    """

    sees: int
    said: str | None
    as_of: int
    header: Header
    refs: Sequence[Ref]
    entries: Sequence[Entry]
    missing: tuple[str, ...]
    undeclared: tuple[str, ...]
    open_calls: tuple[OpenCall, ...]
    inbox: int
    notes: tuple[Note, ...]
    semantic: str
    request: Request
    trace: Trace

    @property
    def body(self) -> bytes:
        """The request's body."""
        return self.request.body

    @property
    def path(self) -> str:
        """Where it goes, behind the host and base of the client."""
        return self.request.path

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that are part of it; those of the client, such as its key, are not."""
        return dict(self.request.headers)

    @property
    def left_out(self) -> tuple[Note, ...]:
        """The notes on what does not go at all, such as what another provider sealed."""
        return tuple(note for note in self.notes if note.what == "left_out")

    @property
    def dropped(self) -> tuple[Verdict, ...]:
        """What of the log no packet shows, or this one cut, each with its reason; no text."""
        verdicts = self.trace.verdicts
        return tuple(one for one in verdicts if one.outcome == "dropped" and one.stage != "render")

    @property
    def summary_lost(self) -> bool:
        """True when what the last compaction replaced is not told: its summary is sealed or gone.

        Then the request says nothing of the history before it.
        """
        sealed = any(note.bound == "compaction" for note in self.left_out)
        return sealed or "compaction_summary" in self.missing

    @property
    def counted(self) -> tuple[tuple[int, Note], ...]:
        """The notes by kind: how many are alike, and the first of them, in the packet's order."""
        found: dict[tuple[str, str, str, str], tuple[int, Note]] = {}
        for note in self.notes:
            alike = (note.what, note.why, note.kind, note.bound)
            count, first = found.get(alike, (0, note))
            found[alike] = (count + 1, first)
        return tuple(found.values())
