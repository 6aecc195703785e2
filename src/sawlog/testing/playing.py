"""The one who answers from a recording: each request is held to the record, then answered by it.

Several conversations may be played at once, each in its own order: a request belongs to the one
whose next request says the same.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from sawlog.builder.requests.cutting import Body
from sawlog.builder.requests.reading import read_body
from sawlog.testing.comparing import Difference, differences, in_common, last_said
from sawlog.testing.failures import ReplayFailed, RequestBeyond, RequestDiffers, StepsLeft
from sawlog.testing.recordings import Answer, Exchange, Recording

MEND = "if that is meant, record the session anew"


class Player:
    """Answers requests from recordings. Threads may share it.

    `ignore` are members of a request that are not compared; `mend` is what a message tells to do
    where a change is meant.
    """

    def __init__(
        self, recordings: Sequence[Recording], *, ignore: Collection[str] = (), mend: str = MEND
    ) -> None:
        self._tracks = [_Track(one) for one in recordings]
        self._ignore = frozenset(ignore)
        self._mend = mend
        self._lock = threading.Lock()
        self._closed = False
        self.asked = 0
        """How many requests came."""
        self.failure: ReplayFailed | None = None
        """The first way in which the program fell short; every later request meets it again."""

    def answer(self, api: str, body: bytes) -> Answer:
        """What the recording answers to a request.

        Raises RequestDiffers, RequestBeyond.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self.asked += 1
            track = self._track(api, body)
            exchange = track.next
            assert exchange is not None
            track.at += 1
            if exchange.answer is None:
                raise self._failed(
                    RequestBeyond(
                        f"request {self.asked} is step {exchange.step} of {track.name}, which has "
                        "no reply: its recording ends there; record the session anew"
                    )
                )
            return exchange.answer

    def unknown(self, method: str, url: str) -> ReplayFailed:
        """The failure that a request to something else than a model is."""
        with self._lock:
            return self.failure or self._failed(
                RequestBeyond(
                    f"{method} {url} was not recorded: a recording answers requests to a model "
                    "(chat completions, responses, messages); answer it in the test itself"
                )
            )

    def finish(self) -> None:
        """End the replay. Raises the failure that there was, StepsLeft where requests are left."""
        with self._lock:
            if self.failure is None:
                left = sum(track.left for track in self._tracks)
                if left:
                    self.failure = StepsLeft(self._left(left), left=left)
            if self.failure is not None:
                raise self.failure

    def close(self) -> None:
        """End the replay where the program ended in another way: nothing is answered from now."""
        with self._lock:
            self._closed = True

    # --- which request it is ----------------------------------------------------------------------

    def _track(self, api: str, body: bytes) -> _Track:
        """The conversation whose next request this is."""
        if self._closed:
            raise self._failed(
                RequestBeyond("a request came after the replay had ended, and was not answered")
            )
        read = read_body(api, body)
        waiting = [track for track in self._tracks if track.next is not None]
        for track in waiting:
            if self._same(track, api, body, read):
                return track
        last = max(self._tracks, key=lambda track: track.like(read))
        best = max(waiting, key=lambda track: track.like(read), default=None)
        if best is None or last.like(read) > best.like(read):
            count = len(last.exchanges)
            said = "" if read is None else f"; it ends with {last_said(read)}"
            raise self._failed(
                RequestBeyond(
                    f"request {self.asked} is one too many: {last.name} ends after "
                    f"{count} request{'s' if count > 1 else ''}{said}\n{self._mend}"
                )
            )
        raise self._failed(self._differs(best, api, body, read))

    def _same(self, track: _Track, api: str, body: bytes, read: Body | None) -> bool:
        exchange = track.next
        if exchange is None or exchange.api != api:
            return False
        if exchange.body == body:
            return True
        return (
            read is not None
            and track.body is not None
            and not differences(track.body, read, self._ignore)
        )

    # --- what is said -----------------------------------------------------------------------------

    def _differs(self, track: _Track, api: str, body: bytes, read: Body | None) -> RequestDiffers:
        exchange = track.next
        assert exchange is not None
        found: list[Difference] = []
        if exchange.api != api:
            found = [Difference("API", -1, "path", exchange.api, api)]
        elif read is not None and track.body is not None:
            found = differences(track.body, read, self._ignore)
        if not found:  # bytes that are no JSON object
            texts = [one.decode("utf-8", "backslashreplace") for one in (exchange.body, body)]
            found = [Difference("body", -1, "bytes", texts[0], texts[1])]
        first = found[0]
        number = "" if first.index < 0 else f"item {first.index}, "
        lines = [
            f"request {self.asked} is not the one recorded as step {exchange.step} of "
            f"{track.name}: {number}{first.item} ({first.kind}) differs",
            first.shown,
        ]
        if found[1:]:
            others = ", ".join(one.item for one in found[1:6])
            lines.append(f"also different: {others}{', …' if found[6:] else ''}")
        return RequestDiffers(
            "\n".join([*lines, self._mend]),
            step=exchange.step,
            item=first.item,
            index=first.index,
            expected=first.expected,
            came=first.came,
        )

    def _left(self, left: int) -> str:
        track = next(track for track in self._tracks if track.left)
        exchange = track.next
        assert exchange is not None
        total = sum(len(track.exchanges) for track in self._tracks)
        said = "" if track.body is None else f", which ends with {last_said(track.body)}"
        return (
            f"{left} of {total} recorded requests were not made; the next one is step "
            f"{exchange.step} of {track.name}{said}\n{self._mend}"
        )

    def _failed(self, failure: ReplayFailed) -> ReplayFailed:
        self.failure = failure
        return failure


class _Track:
    """A recording that is being played, and how far."""

    def __init__(self, recording: Recording) -> None:
        self.name = recording.name
        self.exchanges = recording.exchanges
        self.at = 0
        self._read: tuple[int, Body | None] = -1, None

    @property
    def next(self) -> Exchange | None:
        """The exchange that comes next; None at the end."""
        return self.exchanges[self.at] if self.at < len(self.exchanges) else None

    @property
    def left(self) -> int:
        """How many exchanges are left."""
        return len(self.exchanges) - self.at

    @property
    def body(self) -> Body | None:
        """The next request as it is cut, at the end the last one; None for what is no JSON."""
        at = min(self.at, len(self.exchanges) - 1)
        if self._read[0] != at:
            one = self.exchanges[at]
            self._read = at, read_body(one.api, one.body)
        return self._read[1]

    def like(self, read: Body | None) -> int:
        """How many items a request begins with as this one's next request does."""
        return in_common(self.body, read) if read is not None and self.body is not None else 0
