"""`fake`: a provider on loopback, for programs in any language, with or without a recording."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sawlog.audit.recorded import Recorded
from sawlog.providers.fake import FakeProvider
from sawlog.providers.fake_answers import error_answer
from sawlog.providers.fake_replies import HttpError, Script
from sawlog.providers.fake_scripts import read_script
from sawlog.providers.fake_server import Answer, Received
from sawlog.providers.fake_streams import Piece
from sawlog.store.exchange import is_export
from sawlog.testing.answering import end
from sawlog.testing.failures import ReplayFailed
from sawlog.testing.playing import Player
from sawlog.testing.recordings import Source, recording_of


@contextmanager
def fake(
    source: Source | Script, *, port: int = 0, ignore: Collection[str] = ()
) -> Generator[FakeProvider]:
    """A provider that runs while the block does; `url` and `base_url(api)` are its addresses.

    Of a script (a list of replies, or a file with a JSON list of them) it is the strict
    `FakeProvider`. Of a recorded session, or of a file that `sawlog export` wrote, it plays the
    recorded replies in their order, each request held to the recorded one as in `replaying`: one
    that differs is refused with status 400 and the difference in its message, and so are all after
    it. Where the block ends, the failure is raised, or StepsLeft for requests that were not made.
    `port` 0 takes a free one.
    """
    script = _script(source)
    if script is not None:
        with FakeProvider(script, port) as provider:
            yield provider
        return
    player = Player(recording_of(cast(Source, source)), ignore=ignore)
    with _Playing(player, port) as provider:
        try:
            yield provider
        except BaseException as error:
            end(player, error)
            raise
    player.finish()


def _script(source: Source | Script) -> Script | None:
    """The script that is given; None for a recording."""
    if isinstance(source, Recorded):
        return None
    if not isinstance(source, str | os.PathLike):
        return source
    path = Path(cast(str, source))
    if not path.is_file():
        return None  # which the reader of recordings says best
    with path.open("rb") as opened:
        start = opened.read(64)
    return None if is_export(start) else read_script(path)


class _Playing(FakeProvider):
    """The server, with a recording that decides."""

    def __init__(self, player: Player, port: int) -> None:
        super().__init__([], port)
        self._player = player

    def _decide(self, received: Received, number: int) -> Answer:
        api = received.api or ""
        try:
            if not api:
                raise self._player.unknown(received.method, received.path.partition("?")[0])
            answer = self._player.answer(api, received.body)
        except ReplayFailed as failure:
            return error_answer(api, HttpError(400, str(failure)), {})
        headers = {name: value for name, value in answer.headers.items() if name != _TYPE}
        body = b"".join(answer.pieces)
        if answer.status and answer.headers.get(_TYPE, "").startswith("text/event-stream"):
            pieces = [Piece(one) for one in answer.pieces]
            return Answer(answer.status, body, headers, pieces=pieces, drops=answer.drops)
        return Answer(answer.status, body, headers)


_TYPE = "content-type"  # which the server writes itself
