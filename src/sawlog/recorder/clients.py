"""`record`: an official client, or an HTTP client, with a recording transport inside."""

from __future__ import annotations

from typing import Any, TypeVar

from sawlog.recorder.conversations import Conversations, Say
from sawlog.recorder.transport import ahandle, handle, in_place_of, transports_of
from sawlog.store.errors import ConfigError
from sawlog.work.aio import AsyncSession
from sawlog.work.exchange import library_of
from sawlog.work.session import Session

T = TypeVar("T")


def record(client: T, *, session: Session | AsyncSession, strict: bool = True) -> T:
    """The same client, every exchange of it with a model recorded in a session from here on.

    `client` is an official `openai` or `anthropic` client, or a client of `httpx` or `httpx2`, sync
    or async; it stays the object that it is. `session` is one that was entered: its lease is held
    while the client is used. A conversation that does not go on from the session's history has a
    session of its own beside it, NAME/2 and so on. Bytes are logged before they leave, replies as
    they came, streams included; retries of the client are attempts of their own.

    If a request cannot be recorded it is not sent, and the error of the log is raised where it is
    sent; with `strict=False` it is sent, and the gap is marked. Raises ConfigError for what is no
    such client, or one that is recorded already.
    """
    first = session.sync if isinstance(session, AsyncSession) else session
    first.sending()
    places = transports_of(client, "recorded")
    if any(getattr(one, "sawlog_records", False) for _, _, one in places):
        raise ConfigError("this client is recorded already: make another one for another session")
    conversations = Conversations(first, strict=strict)
    library = library_of(client)
    for holder, key, transport in places:
        holder[key] = _wrapped(transport, conversations.sent, library)
    return client


def _wrapped(transport: Any, say: Say, client: str) -> Any:
    """The recording transport in a transport's place."""

    def send(library: Any, request: Any) -> Any:
        return handle(library, say, request, client, transport.handle_request)

    async def asend(library: Any, request: Any) -> Any:
        return await ahandle(library, say, request, client, transport.handle_async_request)

    recording = in_place_of(transport, send, asend)
    recording.sawlog_records = True
    return recording
