"""The log of one tenant, opened: sessions in it, to write or to read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Unpack, overload

from sawlog.store.database import open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import Conflict, Damaged, InvalidEvent, ToolError
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import ApprovalDecided, ApprovalRequested
from sawlog.store.follow import Followed, Position, follow
from sawlog.store.ids import new_id, new_salt
from sawlog.store.log import Log, now
from sawlog.store.objects import Objects

if TYPE_CHECKING:
    # Reading a log does not load what writes one.
    from concurrent.futures import ThreadPoolExecutor

    from sawlog.audit.recorded import Recorded
    from sawlog.store.content import Part
    from sawlog.work.aio import AsyncSession
    from sawlog.work.credentials import Credentials
    from sawlog.work.opening import Opening, SessionOptions
    from sawlog.work.session import Session
    from sawlog.work.telling import Target


def open(
    url: str,
    tenant: str = "default",
    *,
    read_only: bool = False,
    types: Iterable[type[Payload]] = (),
    objects: Objects | None = None,
    clock: Callable[[], int] = now,
    make_id: Callable[[], bytes] = new_id,
    make_salt: Callable[[], bytes] = new_salt,
) -> AgentLog:
    """Open a store: a file name, `sqlite:///…` or `postgresql+psycopg://…`.

    An SQLite store is made on first use; a PostgreSQL one by `sawlog migrate`. `types` are further
    event types; `objects` is an object store that large contents go to, such as `FileObjects`.
    Raises NoStore, OldSchema, NewerSchema.
    """
    database = open_database(url, read_only=read_only)
    registry = CORE.extended(types) if types else CORE
    log = Log(
        database,
        tenant=tenant,
        registry=registry,
        clock=clock,
        make_id=make_id,
        make_salt=make_salt,
        objects=objects,
    )
    return AgentLog(log, clock, make_id)


class AgentLog:
    """An open store, seen by one tenant. A context manager; `close` it when done."""

    def __init__(
        self, log: Log, clock: Callable[[], int] = now, make_id: Callable[[], bytes] = new_id
    ) -> None:
        self.store = log
        self._clock = clock
        self._make_id = make_id
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._handed: Credentials | None = None

    def __enter__(self) -> AgentLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database, after what is under way in threads."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        self.store.database.close()

    @overload
    def session(self, name: str, *, read_only: Literal[True]) -> Recorded: ...

    @overload
    def session(
        self, name: str, *, read_only: Literal[False] = False, **options: Unpack[SessionOptions]
    ) -> Session: ...

    def session(
        self, name: str, *, read_only: bool = False, **options: Unpack[SessionOptions]
    ) -> Session | Recorded:
        """The session of that name, new or continued, to be written; enter it to take the lease.

        With `read_only` it is the recorded session, as `read` gives it, and takes no options.

        `rules` stand for `policy`, `pairing`, `window` and `reserve` together.
        `window` and `reserve` bound its packets, in units of the measure (about tokens); 0 takes
        the model's. `policy` chooses what packets show: a built-in one by name, the path of a TOML
        file, or what `sawlog.policy_from_toml` gives; `pairing` is `default` or `codex`.
        `profile` is one of your own, or the path of its TOML file. `strict_profiles` refuses models
        without a profile of their own; `cache_marks` sets cache marks wherever the profile has a
        rule for them.
        `channels` are those that items may come through, and `loading` says by channel how: as
        `preload`, `never`, or by what `sawlog.just_in_time` gives; `sawlog.LOADING` holds for the
        rest. `pre_step` looks at what a step takes out of the inbox.
        `gateway` checks each call before it may run: `strict`, a function of your own, or None for
        no check. `root` is the absolute folder that absolute paths in calls may lead into.
        `approve="side_effects"` lets a call with side effects run only once `ask` was answered.
        `secrets` gives the values that `run.secret(handle)` hands to tools.
        `ttl` is the lease's life in seconds; it is renewed while the session is open.
        `wait` is how many seconds to wait for another owner's lease to end, such as that of a
        process that was killed.
        """
        if read_only:
            if options:
                raise TypeError(
                    f"a session that is read takes no options, and {min(options)!r} is one: drop "
                    "it, or read_only"
                )
            return self.read(name)
        from sawlog.work.session import Session

        opened = self._opening(options)
        return Session(self.store, self.store.session(name, create=True), opened)

    def resume(self, text: str, **options: Unpack[SessionOptions]) -> Session:
        """The session that a text names, as in `read`, to be gone on with; options as `session`.

        Raises NoSession where `session` would make one.
        """
        from sawlog.work.session import Session

        return Session(self.store, self.find(text), self._opening(options))

    def asession(self, name: str, **options: Unpack[SessionOptions]) -> AsyncSession:
        """The same for `async with`: one code path, its blocking work in threads of this log."""
        if "read_only" in options:
            raise TypeError("an async session is written: read one with log.read(name)")
        from sawlog.work.aio import AsyncSession
        from sawlog.work.offloop import OffLoop

        return AsyncSession(lambda: self.session(name, **options), OffLoop(self._executor()))

    def fork(
        self,
        session: str,
        *,
        step: int | None = None,
        at: int | None = None,
        name: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """A new session that shares that one's events up to `at`, or up to the packet of `step`.

        At a step the packet is the last thing that they share: what was shown there is the same,
        byte for byte, and the reply is the fork's own. Without a place it is the newest event. The
        session itself is not touched and may be driven meanwhile; no event is copied. What was open
        there shows as `forked`; messages that wait stay with the parent. Step numbers go on.

        Gives the fork to be written, with options as those of `session`; enter it to drive it.
        Without a name it is called after the session and the place. Raises NoSession, NoStep,
        InvalidEvent for a place that there is not, Conflict when the name is taken.
        """
        from sawlog.work.forking import fork
        from sawlog.work.session import Session

        opened = self._opening(options)
        row = self.find(session)
        if step is not None and at is not None:
            raise InvalidEvent("name either a step or an event", path="at")
        if step is not None:
            at = self.read(row.id.hex()).place(step)
        made = fork(self.store, row, row.head if at is None else at, name)
        return Session(self.store, made, opened)

    def afork(
        self,
        session: str,
        *,
        step: int | None = None,
        at: int | None = None,
        name: str | None = None,
        **options: Unpack[SessionOptions],
    ) -> AsyncSession:
        """The same for `async with`, which forks on entry."""
        from sawlog.work.aio import AsyncSession
        from sawlog.work.offloop import OffLoop

        def forked() -> Session:
            return self.fork(session, step=step, at=at, name=name, **options)

        return AsyncSession(forked, OffLoop(self._executor()))

    def _opening(self, options: SessionOptions) -> Opening:
        from sawlog.work.credentials import Credentials
        from sawlog.work.opening import opening

        with self._lock:
            if self._handed is None:
                self._handed = Credentials()
        return opening(options, self._clock, self._make_id, self._handed)

    def _scrubbed(self, text: str) -> str:
        """The text without the secrets that tools of this log's sessions got."""
        # What is no text is named where the event is made.
        if self._handed is None or not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return text
        return self._handed.scrub(text)

    def _executor(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._threads is None:
                # Few: they wait for one database, and each that computes delays the loop.
                self._threads = ThreadPoolExecutor(3, thread_name_prefix="sawlog")
            return self._threads

    def read(self, text: str) -> Recorded:
        """The recorded session of that name, id, unique prefix of an id, or `-` (the newest).

        Reading writes nothing. Raises NoSession.
        """
        from sawlog.audit.recorded import Recorded

        return Recorded(self.store, self.find(text))

    def find(self, text: str) -> SessionRow:
        """The one session that a text names, as in `read`. Raises NoSession."""
        return self.store.named(text)

    def sessions(self) -> list[SessionRow]:
        """All sessions of this tenant, oldest first."""
        return self.store.sessions()

    def decide(
        self, session: str, approval: str, *, allow: bool, by: str, reason: str = ""
    ) -> None:
        """Decide an approval from any process, whoever drives the session; the first one counts.

        The same decision again changes nothing. Raises Conflict when it was decided otherwise, or
        by another, ToolError when no such approval was asked for.
        """
        row = self.find(session)
        step = self._asked(row, approval)
        if step is None:
            raise ToolError(
                f"session {session!r} never asked for an approval {approval!r}: give the whole id, "
                "as `sawlog approve SESSION` lists those that wait"
            )
        decision = ApprovalDecided(approval, allow, self._scrubbed(by), self._scrubbed(reason))
        key = f"approval.decided {approval}"
        new = NewEvent(payload=decision, source="user", step=step, key=key)
        try:
            self.store.append(row, [new])
        except Conflict as error:
            raise Conflict(f"approval {approval} of session {session!r} is decided already") from (
                error
            )

    def follow(
        self, position: Position | None = None, *, wait: float | None = None, tenant: bool = True
    ) -> Iterator[Followed]:
        """Every event of all sessions once, in one order that all followers share.

        `position` goes on behind an event that was given before (`Followed.position`). Ends when
        all that arrived was given; with `wait` it looks again after so many seconds. Without
        `tenant` it follows those of all tenants. Raises WrongPosition for another store's.
        """
        mine = self.store.tenant if tenant else None
        return follow(self.store.database, position, tenant=mine, wait=wait)

    def repack(
        self,
        text: str | None = None,
        *,
        shrink: bool = False,
        progress: Callable[[str, int, int], None] = lambda name, done, all: None,
    ) -> None:
        """Pack the old events of one session, or of each of the tenant's, as densely as can be.

        `text` is a session's name, its id, the beginning of its id, or `-` for the newest; a
        fork's ancestors are sessions of their own. Nothing that can be read changes, and others
        may go on writing. With `shrink` the file is written anew without the room that this made,
        and others wait for it. `progress` is told a session's name and how many of how many
        events are done; the newest one stays as it is. PostgreSQL has no packs, and nothing
        happens. Raises NoSession, and what an append raises; Damaged, once all others are packed,
        where a session does not read.
        """
        from sawlog.store.packing import pack

        damaged: list[Damaged] = []
        for row in self.sessions() if text is None else [self.find(text)]:
            tell = partial(progress, row.name or row.id.hex())
            try:
                pack(self.store.database, row, again=True, told=tell)
            except Damaged as error:
                damaged.append(error)
        if shrink:
            self.store.database.shrink()
        if damaged:
            raise damaged[0]

    def inject(
        self,
        session: str,
        content: str | Sequence[Part],
        *,
        id: str | None = None,
        source: str = "user",
        target: Target = "next-step",
        wakes: bool = False,
    ) -> None:
        """Put a message into a session's inbox from any process, whoever drives the session.

        As `Session.inject`. Raises Conflict when the id was used for another content.
        """
        from sawlog.store.codec import sealed
        from sawlog.work.telling import inbox_key, injected

        stored, blobs = sealed(injected(content, target, wakes))
        key = None if id is None else inbox_key(id)
        new = NewEvent(payload=stored, source=source, key=key, blobs=tuple(blobs))
        self.store.append(self.find(session), [new])

    def _asked(self, row: SessionRow, approval: str) -> int | None:
        """The step whose call asked for that approval, or None."""
        for stored in self.store.read(row):
            if stored.type == "approval.requested":
                content = self.store.registry.decode(stored)
                if isinstance(content, ApprovalRequested) and content.approval == approval:
                    return stored.step
        return None
