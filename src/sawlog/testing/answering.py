"""`replaying` and `replay`: recorded sessions answer what official clients ask; nothing leaves."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sawlog.recorder.watching import ANSWERING
from sawlog.testing.playing import Player
from sawlog.testing.recordings import Source, recording_of
from sawlog.testing.transport import Answering, wrap

T = TypeVar("T")


@contextmanager
def replaying(
    session: Source | Sequence[Source], *, ignore: Collection[str] = ()
) -> Generator[Player]:
    """Answer from a recording what this block asks of models, through any official client.

    `session` is a recorded session (`log.read(name)`), or a file that `sawlog export` wrote, or a
    list of those, one for each conversation. The n-th request has to say what the n-th recorded one
    says, item by item and parameter by parameter; `ignore` are members of the body that may differ.
    Each gets the recorded reply: whole as received, a stream told once more from what the log keeps
    of it, a refusal as it was, a broken line as one. It holds in all threads and tasks of the
    process that are in no other.

    Raises RequestDiffers at the first request that differs, RequestBeyond at one too many, which no
    `except Exception` catches; where the block ends, StepsLeft for requests that were not made.
    Raises ConfigError for what cannot be replayed.
    """
    player = Player(recording_of(session), ignore=ignore)
    answering = Answering(player)
    with ANSWERING.held(answering):
        ANSWERING.begin(answering)
        try:
            yield player
        except BaseException as error:
            end(player, error)
            raise
        finally:
            ANSWERING.end(answering)
            player.close()
        player.finish()


def end(player: Player, error: BaseException) -> None:
    """Raise the replay's own failure for an error that only came of it; else do nothing."""
    failure = player.failure
    if failure is None or error is failure:
        return
    failure.add_note(f"and the program went on to {type(error).__name__}: {error}")
    raise failure from None


def replay(client: T, *, session: Source | Sequence[Source], ignore: Collection[str] = ()) -> T:
    """The same client, answered from a recording from here on, as `replaying` does for a block.

    `client` is an official `openai` or `anthropic` client, or one of `httpx` or `httpx2`, sync or
    async; it stays the object that it is, and no request of it leaves. Of requests that are not
    made it says nothing: for that, use `replaying`.
    """
    wrap(client, Player(recording_of(session), ignore=ignore))
    return client
