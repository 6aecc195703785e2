"""`record`: an official client, or an HTTP client, with a recording transport inside."""

from __future__ import annotations

from typing import Any, TypeVar

from sawlog.recorder.conversations import Conversations, Say
from sawlog.recorder.transport import ahandle, handle, library_of_transport
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
    http = getattr(client, "_client", client)
    places = _transports(http, client)
    conversations = Conversations(first, strict=strict)
    library = library_of(client)
    for holder, key, transport in places:
        holder[key] = _wrapped(transport, conversations.sent, library)
    return client


def _transports(http: Any, client: object) -> list[tuple[dict[Any, Any], Any, Any]]:
    """Where an HTTP client holds its transports."""
    inner = getattr(http, "_transport", None)
    mounts: dict[Any, Any] = getattr(http, "_mounts", {})
    mounted = [(mounts, key, one) for key, one in mounts.items() if one is not None]
    if any(getattr(one, "sawlog_records", False) for one in (inner, *mounts.values())):
        raise ConfigError("this client is recorded already: make another one for another session")
    if inner is None or library_of_transport(inner) is None:
        raise ConfigError(
            f"{type(client).__name__} is no client that can be recorded: give an openai or "
            "anthropic client, or one of httpx or httpx2"
        )
    found: list[tuple[dict[Any, Any], Any, Any]] = [(vars(http), "_transport", inner), *mounted]
    return found


def _wrapped(transport: Any, say: Say, client: str) -> Any:
    """The recording transport in a transport's place; of those that serve both kinds of client,
    such as `MockTransport`, one that serves both."""
    library = library_of_transport(transport)
    assert library is not None

    class Recording(library.BaseTransport):  # type: ignore[misc, name-defined]
        sawlog_records = True

        def handle_request(self, request: Any) -> Any:
            return handle(library, say, request, client, transport.handle_request)

        def close(self) -> None:
            transport.close()

    class AsyncRecording(library.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        sawlog_records = True

        async def handle_async_request(self, request: Any) -> Any:
            send = transport.handle_async_request
            return await ahandle(library, say, request, client, send)

        async def aclose(self) -> None:
            await transport.aclose()

    class BothRecording(Recording, AsyncRecording):
        pass

    if not hasattr(transport, "handle_async_request"):
        return Recording()
    return BothRecording() if hasattr(transport, "handle_request") else AsyncRecording()
