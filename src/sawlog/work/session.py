"""One session at work: what an agent's loop calls, each call an append.

It decides nothing: what a packet holds is the builder's word, what may be written the log's. The
lease, the folded state and the contents are its `Driver`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from types import TracebackType
from typing import Any, Self

import msgspec

from sawlog.builder.build import Sending
from sawlog.builder.contents import text_of
from sawlog.builder.packet import Header
from sawlog.builder.profiles import Profile
from sawlog.builder.state import State
from sawlog.store.content import MediaPart, Part, TextPart
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import Blob, NewEvent
from sawlog.store.errors import ConfigError, InvalidEvent, NoSession, StoreError, quoted
from sawlog.store.event import Event
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageSystem,
    MessageUser,
)
from sawlog.store.jsontext import source_of
from sawlog.store.log import Log
from sawlog.store.text import Text, seal
from sawlog.work.apis import APIS
from sawlog.work.checking import Checks
from sawlog.work.child import Handing, checked_label
from sawlog.work.compacting import Compactor
from sawlog.work.credentials import Credentials
from sawlog.work.dials import Dials
from sawlog.work.driver import Driver
from sawlog.work.effecting import EffectLog
from sawlog.work.forking import fork
from sawlog.work.given import names
from sawlog.work.opening import Opening, check_phase, profile_given
from sawlog.work.resolving import Resolving
from sawlog.work.shortening import Shortening
from sawlog.work.step import Step
from sawlog.work.stepper import Asked, Stepper
from sawlog.work.streaming import StreamRecord
from sawlog.work.telling import parts_of
from sawlog.work.triggers import Triggers
from sawlog.work.window import Window


class Session(Resolving, Shortening):
    """A session being written. Made by `AgentLog.session`; use it as a context manager.

    It may be shared by threads: calls wait for each other and never conflict among themselves.
    """

    def __init__(self, log: Log, row: SessionRow, opened: Opening) -> None:
        self._driver = Driver(
            log,
            row,
            owner=opened.owner,
            ttl=opened.ttl,
            wait=opened.wait,
            make_id=opened.make_id,
        )
        self._stepper = Stepper(self._driver, opened.rules, opened.clock, opened.pre_step)
        self._compactor = Compactor(self._driver, opened.rules)
        self._compaction = opened.compaction
        self._triggers = Triggers(self._driver)
        self.channels = opened.channels
        self.loading = opened.loading
        self._effects = EffectLog(self._driver)
        self.checks = Checks(self._driver, opened.guard, self._effects)
        self.credentials = Credentials(opened.secrets, opened.handed)
        self._declared = {}
        self._streams: list[StreamRecord] = []
        self._leaving: list[Callable[[], None]] = []
        self.dials = Dials()
        self._newest_step: Step | None = None
        self._log = log
        self._opened = opened

    # --- life ----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.release()
        except StoreError as trouble:
            if error is None:
                raise
            # What went wrong inside matters more; the lease ends by itself.
            error.add_note(f"and the session's lease could not be given back: {trouble}")

    def acquire(self, *, wait: float | None = None) -> None:
        """Take the lease and read where the session stands.

        `wait` (seconds; None: as the session was opened with) is for another owner's lease to end.
        Raises Leased, naming the owner, when another process drives it.
        """
        self._driver.acquire(self.wait if wait is None else wait)

    def release(self) -> None:
        """Give the lease back; any process may go on from here.

        A stream that nobody read to its end is over: what had come of it is logged first.
        """
        leaving, self._leaving = self._leaving, []
        with ExitStack() as stack:
            stack.callback(self._driver.release)
            for leave in (*leaving, self._stop_streams):
                stack.callback(leave)

    @property
    def wait(self) -> float:
        """Seconds that `acquire` waits for another owner's lease to end."""
        return self._driver.wait

    @property
    def id(self) -> str:
        """The session's id, 32 hex digits."""
        return self._driver.row.id.hex()

    @property
    def name(self) -> str:
        """The session's name; empty when it has none."""
        return self._driver.row.name or ""

    @property
    def state(self) -> State:
        """The projector's state after the newest event that this handle knows."""
        return self._driver.load()

    # --- what is said ---------------------------------------------------------------------------

    def system(self, text: str) -> None:
        """Set the system text; text that already stands appends nothing.

        Before the first step it is the header's; later it is an instruction that stands where it
        was said, and the header's counts no more as what stands.
        """
        _is_text(text, "system")
        with self._driver.lock:
            state = self._driver.load()
            later = self._said_later(state)
            if seal(text)[0] in (later or [self._said(seq) for seq, _ in state.system]):
                return
            self._append([self._new(MessageSystem((TextPart(text),)), "system")])

    def user(self, content: str | Sequence[Part], *, key: str | None = None) -> None:
        """Append a user message. With a key it is appended once, however often this runs.

        Raises Conflict when the key was used for another content, InvalidEvent for what is
        neither a text nor parts.
        """
        if key is not None:
            _is_text(key, "key")
        parts = (TextPart(content),) if isinstance(content, str) else parts_of(content, "user")
        self._append([self._new(MessageUser(parts), "user", key=key)])

    def media(self, data: bytes, media: str, *, name: str = "") -> MediaPart:
        """A part that shows these bytes, such as an image, for a message or a tool's result.

        `media` is the media type. The bytes go into the log with the event that holds the part.
        """
        return self._driver.media(data, media, name)

    def append(
        self,
        payload: Payload,
        *,
        source: str = "harness",
        step: int | None = None,
        key: str | None = None,
        ignorable: bool = False,
    ) -> int:
        """Append any event and return its seq: the way for registered event types."""
        new = self._new(payload, source, step=step, key=key, ignorable=ignorable)
        return self._append([new])[0]

    # --- steps ----------------------------------------------------------------------------------

    def step(
        self,
        api: str,
        *,
        model: str,
        headers: dict[str, str] | None = None,
        profile: str | PathLike[str] | Profile | None = None,
        fallback_of: Step | None = None,
        allow_waiting: bool = False,
        allow_missing: bool = False,
        strict: bool = False,
        cache_marks: bool = False,
        params: str | None = None,
        **parameters: Any,
    ) -> Step:
        """Build the next packet and log it: it is durable before this returns.

        `api` is one of `anthropic`, `openai-chat`, `openai-responses` (also `openai`),
        `deepseek-chat`. Parameters go to the provider as they are, in this order; `params` gives
        them as JSON text instead. `allow_missing` builds although a requirement of the task is not
        satisfied, and says so in the packet. `profile` is one of the caller's own, or the path of
        its TOML file, in place of the session's. `strict` refuses a model without a profile of its
        own. `cache_marks` sets cache marks by the profile's rule, and is refused without one.
        Raises Refused with the reason when there is no packet, NotEntered without the lease,
        ConfigError when the session has another policy of the same name and number.
        """
        self._driver.drives("a step")
        self._stop_streams()
        chosen = APIS.get(api)
        if chosen is None:
            raise ConfigError(f"there is no API {quoted(api)}: use one of {', '.join(APIS)}")
        if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{model!r} is no model's name")
        if params is not None and parameters:
            raise ConfigError("give the parameters either as keywords or as JSON text, not both")
        used, renderer = self._opened.profile_for(
            chosen, model, profile_given(profile), strict=strict, marks=cache_marks
        )
        body = source_of(parameters, "parameters") if params is None else params
        sending = Sending(
            Header(chosen, model, body, used.named, renderer),
            used,
            tuple(sorted((name.lower(), value) for name, value in (headers or {}).items())),
        )
        fallback = fallback_of.event_id if fallback_of is not None else ""
        asked = Asked(sending, fallback, allow_waiting, allow_missing)
        self._compact_when_due(self._stepper.rules_for(sending), sending.header)
        self._newest_step = Step(self, *self._stepper.step(asked))
        return self._newest_step

    def built_body(self, step: int) -> bytes | None:
        """The body of that step's packet, if it is the newest that this handle built."""
        newest = self._newest_step
        return newest.body if newest is not None and newest.number == step else None

    def is_sending(self, body: bytes) -> bool:
        """True while a step of this handle sends these very bytes."""
        newest = self._newest_step
        return newest is not None and newest.under_way and newest.body == body

    def sending(self) -> None:
        """Raise NotEntered unless this handle may send; what a Step asks before bytes leave."""
        self._driver.drives("the sending of a step")

    def streaming(self, record: StreamRecord) -> None:
        """Take note of a stream; one that is left open ends when the session goes on."""
        self._streams = [*(one for one in self._streams if not one.settled), record]

    def on_release(self, leave: Callable[[], None]) -> None:
        """Call this when the lease is given back, while it is held still."""
        self._leaving.append(leave)

    def beside(self, name: str) -> Session:
        """The session of that name in the same store, new or continued, opened as this one is."""
        opened = msgspec.structs.replace(self._opened, pre_step=None)
        return Session(self._log, self._log.session(name, create=True), opened)

    def _stop_streams(self) -> None:
        streams, self._streams = self._streams, []
        for record in streams:
            record.interrupt()

    # --- sub-agents ------------------------------------------------------------------------------

    def child(
        self, name: str, task: str, *, required_for: Iterable[str] = (), inherit: bool = False
    ) -> ChildSession:
        """A session of its own for a part of the work, new or continued; enter it to drive it.

        It has this session's rules and guards, a log of its own, and of this session the task
        alone. What comes back is its `hand_over`: a result, evidence and open questions, checked
        and bounded, as an item of the channel `handover`, which may satisfy the requirements named
        in `required_for`. Nothing else of it enters this session.

        With `inherit` it is a fork of this session as it is now: it has read all that this one has,
        its packets begin with the same bytes while it offers the same tools, and the task comes
        behind that. Calls that are open here show as `forked` there. Raises ConfigError when a
        child of this name is there that was begun the other way.
        """
        label = checked_label(name)
        needs = names(required_for, "required_for")
        row = self._child_row(f"{self.name or self.id}/{label}", inherit=inherit)
        opened = msgspec.structs.replace(self._opened, pre_step=None)
        return ChildSession(self, label, task, needs, self._log, row, opened)

    def _child_row(self, name: str, *, inherit: bool) -> SessionRow:
        if not inherit:
            row = self._log.session(name, create=True)
        else:
            try:
                row = self._log.session(name)
            except NoSession:
                at = self._driver.catch_up().seq
                row = fork(self._log, self._log.get(self._driver.row), at, name)
        if inherit != (row.parent == self._driver.row.sid):
            how = "inherits nothing of this session" if inherit else "is a fork of this session"
            raise ConfigError(
                f"the child {quoted(name)} is there and {how}: continue it with "
                f"inherit={not inherit}, or give the new one another name"
            )
        return row

    def _check_phase(self, name: str) -> None:
        policy = self._opened.rules.selection if name else None
        if policy is not None:
            check_phase(policy, name)

    # --- the log underneath ----------------------------------------------------------------------

    def record(
        self,
        events: Sequence[NewEvent],
        *,
        of_step: int | None = None,
        expected_seq: int | None = None,
    ) -> tuple[int, ...]:
        """Append prepared events under this handle's lease; gives their seqs.

        With `of_step` they belong to that step: raises StepEnded when it has its end already.
        With `expected_seq` they stand right behind that event: raises Conflict when others came.
        """
        return self._append(events, of_step=of_step, expected_seq=expected_seq)

    @property
    def next_seq(self) -> int:
        """The seq that the next event gets, if nobody else appends."""
        return self._driver.next_seq

    def place(self, step: int) -> int:
        """The seq of a step's packet. Raises NoStep."""
        return self._driver.place(step)

    def events_from(self, seq: int) -> Iterator[Event]:
        """The events from that one on, as the log holds them."""
        return self._driver.events(max(0, seq - 1))

    def caught_up(self) -> State:
        """The state after what others have appended meanwhile, too."""
        return self._driver.catch_up()

    def new(
        self,
        payload: Payload,
        source: str,
        *,
        step: int | None = None,
        blobs: Sequence[Blob] = (),
    ) -> NewEvent:
        """An event ready for `record`."""
        return self._new(payload, source, step=step, blobs=blobs)

    @property
    def window(self) -> Window:
        """The contents that this handle reads packets from."""
        return self._driver.window

    def _new(self, payload: Payload, source: str, **options: Any) -> NewEvent:
        return self._driver.new(payload, source, **options)

    def _append(self, events: Sequence[NewEvent], **options: Any) -> tuple[int, ...]:
        return self._driver.append(events, **options)

    def _said(self, seq: int) -> Text:
        """A system text as it is stored, which is the same value for the same text."""
        content = self.window.event(seq).content
        if not isinstance(content, MessageSystem):
            return ""
        texts = [part.text for part in content.parts if isinstance(part, TextPart)]
        if len(texts) == 1:
            return texts[0]
        return seal("".join(text_of(text, self.window) for text in texts))[0]

    def _said_later(self, state: State) -> list[Text]:
        """System texts that stand in the history, as far as packets show it."""
        self.window.prefetch(state.sent)
        shown = [ref.seq for ref in state.sent if ref.section == "history" and ref.part == 1]
        shown += [one.seq for one in state.news if one.kind == "message.system"]
        events = [self.window.event(seq) for seq in shown if seq]
        return [
            self._said(event.seq)
            for event in events
            if event.source == "system" and isinstance(event.content, MessageSystem)
        ]


class ChildSession(Handing, Session):
    """A session that works for another one. Made by `Session.child`; a context manager.

    It is one like any other, with tools, steps and a lease of its own, and knows nothing of its
    parent but the task, unless it was made to inherit what that has read.
    """

    def __init__(
        self,
        parent: Session,
        label: str,
        task: str,
        required_for: tuple[str, ...],
        log: Log,
        row: SessionRow,
        opened: Opening,
    ) -> None:
        super().__init__(log, row, opened)
        self._driver.parent = parent.id
        self._parent = parent
        self._label = label
        self._required_for = required_for
        self._task_given = task
        # A fork knows its parent's keys, and the parent may be a child with a task of its own.
        self._task_key = f"child.task {self.id}" if row.ancestors else "child.task"
        self._declared = dict(parent._declared) if row.ancestors else {}

    def acquire(self, *, wait: float | None = None) -> None:
        """Take the lease; the first time the task becomes the child's first message.

        Raises Conflict when a child of this name was given another task.
        """
        super().acquire(wait=wait)
        try:
            task = MessageUser((TextPart(self._task_given),), origin="parent")
            self._append([self._new(task, "harness", key=self._task_key)])
        except BaseException:
            self.release()
            raise


def _is_text(value: object, path: str) -> None:
    """Raise InvalidEvent for what is no text, while there is still a name to give it."""
    if not isinstance(value, str):
        raise InvalidEvent(f"{type(value).__name__} is no text", path=path)
