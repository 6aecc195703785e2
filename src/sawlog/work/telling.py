"""What a session is told beside its conversation: task, world, files, items, waiting messages.

Each call appends what is new and nothing else; what packets make of it is the builder's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec.structs import replace

from sawlog.builder.channels import CHANNELS, Channels
from sawlog.builder.contents import text_of
from sawlog.builder.facts import GOAL
from sawlog.builder.item import Retention, Sensitivity
from sawlog.builder.world import digest_of
from sawlog.store.codec import sealed
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import ConfigError, InvalidEvent, InvalidItem, quoted
from sawlog.store.events.base import Payload
from sawlog.store.events.inbox import InboxCancelled, InboxInjected
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label, TaskSet
from sawlog.store.events.world import (
    FileChanged,
    ObservationRecorded,
    Saw,
    Section,
    WorldChanged,
)
from sawlog.store.ids import keyed_id
from sawlog.store.jsontext import source_of
from sawlog.store.text import seal
from sawlog.work.driver import Driver
from sawlog.work.given import Moment, Span, moment, names, of_item, span
from sawlog.work.loading import LOADING, Load, shortened
from sawlog.work.showing import shown

Target = Literal["next-step", "next-turn"]

_FAILURE = 2_048
"""Bytes of what a source's failure says that packets show."""


REMINDED = ("plan", "skills", "agents")
"""Sections that packets tell again after each compaction, and that are bounded for it."""

REMINDER = 8_000
"""Bytes of such a section's JSON."""


class Telling:
    """The half of a session that tells it of the world. See `Session`."""

    _driver: Driver
    channels: Channels = CHANNELS
    """The channels that items may come through; `Channels.extended` adds a caller's own."""
    loading: Mapping[str, Load] = LOADING
    """How the items of each channel come in; see `sawlog.work.loading`."""

    # --- the task --------------------------------------------------------------------------------

    def task(
        self,
        goal: str = "",
        *,
        done_when: str = "",
        requirements: Iterable[str] = (),
        topics: Iterable[str] = (),
        phase: str = "",
        repository: str = "",
        path: str = "",
        task: str = "",
        tenant: str = "",
        allowed: Iterable[str] = (),
        clearance: int = 0,
    ) -> None:
        """Say what the session is for; the same again appends nothing.

        Goal and completion condition are in every packet from here on. `requirements` are names
        that some item must satisfy, or a step is refused with `needs_context`; so must each of
        `topics` be covered by a trusted item. `repository`,
        `path`, `task` and `tenant` are the scope: items of another one stay out. `phase` chooses
        the policy's working set. Raises ConfigError for a text in place of a list, InvalidItem
        (`unknown_phase`) for a phase that the policy has no set for.
        """
        self._check_phase(phase)
        sensitivities = names(allowed, "allowed")
        unknown = [one for one in sensitivities if one not in set(Sensitivity)]
        if unknown:
            raise ConfigError(
                f"there is no sensitivity {quoted(unknown[0])}: {', '.join(Sensitivity)}"
            )
        self._task(
            TaskSet(
                goal=goal,
                done_when=done_when,
                requirements=names(requirements, "requirements"),
                topics=names(topics, "topics"),
                phase=phase,
                repository=repository,
                path=path,
                task=task,
                tenant=tenant,
                allowed=sensitivities,
                clearance=clearance,
            )
        )

    def phase(self, name: str) -> None:
        """Go on to another phase of the same task: `investigate`, `edit` or `verify`, or one of
        the session's own policy. Raises InvalidItem (`unknown_phase`) for any other."""
        self._check_phase(name)
        with self._driver.lock:
            now = self._task_now()
            self._task(replace(now, phase=name, record=None))

    def _check_phase(self, name: str) -> None:
        """Raise InvalidItem for a phase that steps of this session would be refused for."""

    def _task(self, wanted: TaskSet) -> None:
        with self._driver.lock:
            state = self._driver.load()
            if state.task and self._task_now() == sealed(wanted)[0]:
                return
            self._tell(wanted)

    def _task_now(self) -> TaskSet:
        state = self._driver.load()
        content = self._driver.window.event(state.task).content if state.task else TaskSet()
        assert isinstance(content, TaskSet)
        return content

    # --- the world -------------------------------------------------------------------------------

    def world(self, /, **sections: Any) -> None:
        """Say what sections of the world are now; None removes one, an equal value says nothing.

        Packets tell the difference to what they told before, and all of it once that has left, as
        after a compaction. So `plan`, `skills` and `agents` (what runs in the background) have at
        most 8,000 bytes as JSON: InvalidEvent is raised for more.
        """
        sources = {
            name: None if value is None else source_of(value, name)
            for name, value in sections.items()
        }
        for name in REMINDED:
            size = len((sources.get(name) or "").encode("utf-8", "surrogatepass"))
            if size > REMINDER:
                raise InvalidEvent(
                    f"the section {name} has {size} bytes, and {REMINDER} are the most: keep the "
                    "rest in a file, and name that",
                    path=name,
                )
        self._sections(sources)

    def _sections(self, sources: Mapping[str, str | None]) -> None:
        """Append the sections that differ from what they are, from the JSON of their values."""
        with self._driver.lock:
            known = {one.name: one for one in self._driver.load().world}
            new: list[Section] = []
            if GOAL in sources:
                raise ConfigError("the goal is the task's: say it with task(goal)")
            for name, source in sources.items():
                now = known.get(name)
                if source is None:
                    if now is not None and not now.removed:
                        new.append(Section(name, removed=True))
                elif now is None or now.removed or now.digest != digest_of(seal(source)[0]):
                    new.append(Section(name, source))
            if new:
                self._tell(WorldChanged(tuple(new)))

    def _section(self, name: str) -> str | None:
        """The JSON of a section's value as the log has it; None when there is none."""
        with self._driver.lock:
            now = next((one for one in self._driver.load().world if one.name == name), None)
            if now is None or now.removed:
                return None
            content = self._driver.window.event(now.seq).content
            if not isinstance(content, WorldChanged):
                return None
            return text_of(content.sections[now.part - 1].value, self._driver.window)

    def file_changed(
        self, path: str, version: str = "", *, state: str = "present", commit: str = ""
    ) -> None:
        """Say that a file is no longer as it was read: its version now, or that it is `absent`.

        Every text of it that packets show is labelled in the next one.
        """
        if state not in ("present", "absent", "unreadable"):
            raise ConfigError(f"a file is present, absent or unreadable, not {quoted(state)}")
        self._tell(FileChanged(path, version, state, commit), source="watch")

    # --- items -----------------------------------------------------------------------------------

    def offer(
        self,
        content: str | Sequence[Part] = "",
        *,
        channel: str,
        source_id: str,
        version: str = "",
        observed_at: str = "",
        updated_at: str = "",
        title: str = "",
        locator: str = "",
        repository: str = "",
        path: str = "",
        task: str = "",
        tenant: str = "",
        topics: Iterable[str] = (),
        required_for: Iterable[str] = (),
        valid_until: Moment = 0,
        ttl: Span = 0,
        relevance: int = -1,
        canonical: str = "",
        role: str = "",
        saw: Sequence[Saw] = (),
        handle: str = "",
        took: Span = -1,
        key: str | None = None,
    ) -> str:
        """Offer an item: a candidate for the packets from here on; gives the id of its event.

        The channel alone says what it is and how far it is trusted; no text changes that. What a
        `secret` channel brings is a `handle` and never a value. `valid_until` is a datetime with
        its zone, or microseconds UTC since 1970; `ttl`, how long it holds from now, and `took`,
        how long the fetching took, are timedeltas or microseconds; `relevance` is per mille.
        What its channel loads just in time is shown shortened when it is long, unless it is
        required; what it never loads has a handle alone, as a secret has.
        Raises InvalidItem with the rule's code.
        """
        labels = self.channels[channel]
        row = self.loading[channel]
        never = row.when == "never"
        if never and labels.sensitivity != Sensitivity.SECRET and (content or not handle):
            raise InvalidItem(
                "never_loaded",
                f"the channel {quoted(channel)} is never loaded in this session: give a handle and "
                "no text, or open the session with another loading of it",
            )
        sensitivity = str(Sensitivity.SECRET if never else labels.sensitivity)
        parts = self._item_parts(content, sensitivity, handle, source_id)
        if labels.located and not locator.strip(" \t\r\n"):
            raise InvalidItem(
                "missing_source_context",
                f"the source {quoted(source_id)} is a piece of something: give its locator",
            )
        if not source_id.strip(" \t\r\n"):
            raise InvalidItem("blank_item_id", "an item needs the id of its source")
        if not -1 <= relevance <= 1000:
            raise InvalidItem(
                "relevance_out_of_range", f"relevance is per mille, 0 to 1000, not {relevance}"
            )
        required_for = names(required_for, "required_for", of_item)
        blobs: list[Blob] = []
        until, holds = moment(valid_until, "valid_until"), span(ttl, "ttl")
        if row.when == "just_in_time":
            if not (required_for or labels.retention == Retention.REQUIRED):
                parts, blobs = shortened(parts, row)
            holds = holds or (0 if until else row.ttl)
        item = ItemOffered(
            parts=parts,
            label=Label(
                str(labels.kind),
                str(labels.authority),
                str(labels.trust),
                str(labels.retention),
                sensitivity,
            ),
            source_id=source_id,
            version=version,
            observed_at=observed_at,
            updated_at=updated_at or observed_at,
            title=title,
            locator=locator,
            repository=repository,
            path=path,
            task=task,
            tenant=tenant,
            topics=names(topics, "topics", of_item),
            required_for=required_for,
            valid_until=until,
            ttl=holds,
            relevance=relevance,
            canonical=canonical,
            role=role,
            saw=_seen(saw),
            handle=handle,
            took=span(took, "took", least=0, none=-1),
        )
        with self._driver.lock:
            return self._tell(item, source=channel, key=key, blobs=blobs)

    def _item_parts(
        self, content: str | Sequence[Part], sensitivity: str, handle: str, source_id: str
    ) -> tuple[Part, ...]:
        if sensitivity == Sensitivity.SECRET:
            if content or not handle:
                raise InvalidItem(
                    "secret_value",
                    f"the source {quoted(source_id)} is secret: give a handle, and keep the value",
                )
            return ()
        if not isinstance(content, str):
            parts = parts_of(content, "offer")
        else:
            parts = (TextPart(content),) if content.strip(" \t\r\n") else ()
        if not parts:
            raise InvalidItem("blank_source_content", f"the source {quoted(source_id)} has no text")
        return parts

    def unavailable(
        self, error: str, *, channel: str, source_id: str, query: str = "", locator: str = ""
    ) -> str:
        """Say that a source gave nothing, and why; gives the id of the event.

        It is told to the model as an observation, framed as what others wrote, so that neither it
        nor a reader of the log takes what is not there for what does not exist. `query` is what was
        looked for, `locator` where. Raises InvalidItem for an unknown channel, and for one whose
        handles never come in.
        """
        _ = self.channels[channel]
        if self.loading[channel].when == "never":
            raise InvalidItem(
                "never_loaded",
                f"of the channel {quoted(channel)} nothing comes in, a failure neither: leave it "
                "out",
            )
        if not source_id.strip(" \t\r\n"):
            raise InvalidItem("blank_item_id", "a source needs its id")
        told = [f"This source could not be read: {error or 'no reason was given'}"]
        told += [f"looked for: {query}"] if query else []
        told += [f"at: {locator}"] if locator else []
        parts, blobs = shown("\n".join(told), _FAILURE, "ends", None)
        with self._driver.lock:
            failed = ObservationRecorded(parts, source_id)
            return self._tell(failed, source=channel, blobs=blobs)

    def withdraw(self, channel: str, source_id: str, reason: str = "") -> None:
        """Take back what a source said: its memory, schema or permission changed.

        What packets show of it is labelled; what was not shown yet is no candidate any more.
        """
        self._tell(ItemWithdrawn(channel, source_id, reason))

    # --- the inbox -------------------------------------------------------------------------------

    def inject(
        self,
        content: str | Sequence[Part],
        *,
        id: str | None = None,
        source: str = "user",
        target: Target = "next-step",
        wakes: bool = False,
        strict: bool = False,
    ) -> str:
        """Put a message into the inbox for a later step; gives the id of its event.

        It waits until a step claims it, and is no reason for one unless it `wakes`. The same `id`
        with the same content is once, however often it is sent; with another content it raises
        Conflict. `strict` refuses an id that is pending already. `source` says who it is from.
        """
        with self._driver.lock:
            if strict and id is not None:
                named = keyed_id(inbox_key(id)).hex()
                if any(one.id == named for one in self._driver.catch_up().inbox):
                    raise InvalidEvent(f"the message {quoted(id)} is already pending", path="id")
            key = None if id is None else inbox_key(id)
            return self._tell(injected(content, target, wakes), source=source, key=key)

    def steer(self, content: str | Sequence[Part], *, id: str | None = None) -> str:
        """Inject for the next step, and be a reason for one."""
        return self.inject(content, id=id, wakes=True)

    def followup(self, content: str | Sequence[Part], *, id: str | None = None) -> str:
        """Inject for the next turn, and be a reason for one."""
        return self.inject(content, id=id, target="next-turn", wakes=True)

    def pending(self, target: Target | None = None) -> tuple[str, ...]:
        """The ids of events of messages that wait, oldest first."""
        with self._driver.lock:
            waiting = self._driver.catch_up().inbox
        return tuple(one.id for one in waiting if target in (None, one.target))

    def cancel(self, *messages: str, reason: str = "") -> None:
        """Take messages out of the inbox; without any, all of them, next-step ones first."""
        with self._driver.lock:
            there = self.pending("next-step") + self.pending("next-turn")
            gone = tuple(one for one in there if not messages or one in messages)
            unknown = [one for one in messages if one not in there]
            if unknown:
                raise InvalidEvent(f"no message {unknown[0]} is pending", path="messages")
            if gone:
                self._tell(InboxCancelled(gone, reason))

    # --- appending -------------------------------------------------------------------------------

    def _tell(
        self,
        payload: Payload,
        *,
        source: str = "harness",
        key: str | None = None,
        blobs: Sequence[Blob] = (),
    ) -> str:
        new = self._driver.new(payload, source, key=key, blobs=blobs)
        self._driver.append([new])
        assert new.id is not None
        return new.id.hex()


def inbox_key(id: str) -> str:
    """The key under which a message of the inbox is appended."""
    return f"inbox.injected {id}"


def injected(content: str | Sequence[Part], target: str, wakes: bool) -> InboxInjected:
    """The payload of an injection. Raises InvalidEvent for what is neither text nor parts."""
    if target not in ("next-step", "next-turn"):
        raise ConfigError(f"a message waits for next-step or next-turn, not {quoted(target)}")
    if isinstance(content, str):
        return InboxInjected((TextPart(content),), target, wakes)
    return InboxInjected(parts_of(content, "inject"), target, wakes)


def _seen(saw: Sequence[Saw]) -> tuple[Saw, ...]:
    given = cast("object", saw)
    seen = cast("tuple[object, ...]", tuple(saw)) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(one, Saw) for one in seen):
        raise of_item(f"saw is a list of what was seen, not {quoted(saw)}: give a list of Saw")
    return cast("tuple[Saw, ...]", seen)


def parts_of(value: object, path: str) -> tuple[Part, ...]:
    """The parts in a sequence. Raises InvalidEvent for what is none."""
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidEvent(f"{type(value).__name__} is neither a text nor parts", path=path)
    return tuple(cast("Sequence[Part]", value))
