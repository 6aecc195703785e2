"""What a session is told beside its conversation: task, world, files, waiting messages.

Each call appends what is new and nothing else; what packets make of it is the builder's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec.structs import replace

from sawlog.builder.contents import text_of
from sawlog.builder.facts import GOAL
from sawlog.builder.item import Sensitivity
from sawlog.builder.world import digest_of
from sawlog.store.codec import sealed
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import ConfigError, InvalidEvent, quoted
from sawlog.store.events.base import Payload
from sawlog.store.events.inbox import InboxCancelled, InboxInjected
from sawlog.store.events.items import TaskSet
from sawlog.store.events.world import FileChanged, Section, WorldChanged
from sawlog.store.ids import keyed_id
from sawlog.store.jsontext import source_of
from sawlog.store.text import seal
from sawlog.work.driver import Driver
from sawlog.work.given import names

Target = Literal["next-step", "next-turn"]

REMINDED = ("plan", "skills", "agents")
"""Sections that packets tell again after each compaction, and that are bounded for it."""

REMINDER = 8_000
"""Bytes of such a section's JSON."""


class Telling:
    """The part of a session that is told of its task, the world and messages. See `Session`."""

    _driver: Driver

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


def parts_of(value: object, path: str) -> tuple[Part, ...]:
    """The parts in a sequence. Raises InvalidEvent for what is none."""
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise InvalidEvent(f"{type(value).__name__} is neither a text nor parts", path=path)
    return tuple(cast("Sequence[Part]", value))
