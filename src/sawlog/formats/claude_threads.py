"""One conversation of a Claude Code transcript, record by record, as events.

Order is file order: walking parents from the last record would lose parallel results, and times go
backwards in most files. What a record gives depends only on the records before it, so a longer
file gives the same events and more.

A model call is the records of one `message.id`. Its end is appended with the record that shows it:
another `message.id`, a text of the user, a summary, the end of the turn. A result is no such sign,
for an early call's result may stand between two blocks of one reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from sawlog.formats.base import ForeignRecord, ForeignSession
from sawlog.formats.claude_blocks import API, UserContent, assistant_content, user_content
from sawlog.formats.claude_compaction import Boundary, continuing, read_boundary
from sawlog.formats.claude_links import Links
from sawlog.formats.claude_notes import Notes
from sawlog.formats.claude_record import FORMAT, Making, kind_of
from sawlog.formats.claude_steps import Calls, Steps
from sawlog.formats.lines import Line
from sawlog.formats.tally import Tally
from sawlog.formats.values import as_list, as_object, as_text
from sawlog.store.content import Part, TextPart
from sawlog.store.events.compaction import (
    CompactionCompleted1,
    CompactionStarted1,
)
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import (
    HistoryRewound1,
    HistoryTrimmed,
)

Role = Literal["main", "agent", "summariser"]
"""Whose conversation it is: the user's, a sub-agent's, or the run that wrote a summary."""

_INTERRUPT = "[Request interrupted by user"
_TURN_ENDS = ("system/stop_hook_summary", "system/turn_duration")
_NO_SUMMARY = "a compaction's boundary has no summary behind it: no compaction"


class Thread:
    """Takes in the records of one conversation in file order; `session` gives what they make."""

    def __init__(self, source_id: str, role: Role, notes: Notes) -> None:
        self.source_id = source_id
        self.notes = notes
        self._role = role
        self._records: list[ForeignRecord] = []
        self._tally = Tally([])
        self._last = b""
        self._links = Links(notes)
        self._steps = Steps(notes)
        self._calls = Calls(notes)
        self._shown: dict[str, tuple[str, ...]] = {}
        self._boundary: Boundary | None = None
        self._summarised = False

    def add(self, line: Line) -> ForeignRecord:
        """Take in a record of this conversation; gives it with its events."""
        made = Making(self.source_id, line, self._tally, self._last)
        value = line.value
        if value is None:
            made.foreign("unreadable")
        elif self._links.is_echo(line, value):
            made.foreign(f"{kind_of(value)}/echo")
        else:
            self._take(line, value, made)
        return self._keep(line, made)

    def aside(self, line: Line, value: dict[str, Any]) -> None:
        """Take in a record that stands in this file but belongs to a sub-agent's conversation."""
        made = Making(self.source_id, line, self._tally, self._last)
        made.foreign(f"sidechain/{kind_of(value)}")
        self._keep(line, made)

    def holds(self, uuid: str) -> bool:
        """True when a record of that uuid stands before, of this conversation or beside it."""
        return self._links.holds(uuid)

    def session(self, parent: str, elsewhere: Callable[[str], bool]) -> ForeignSession:
        """The session of all records taken in; call it once, at the end of the file.

        `parent` is the source id of the session that started it; `elsewhere` is true of a uuid
        that another conversation holds, so that nothing is said of a record that hangs on it.
        """
        if self._boundary is not None:
            self.notes.add(_NO_SUMMARY, self._boundary.position)
        self._calls.finish()
        self._links.finish(elsewhere)
        return ForeignSession(
            format=FORMAT,
            source_id=self.source_id,
            name=self.source_id,
            api=API,
            parent=parent,
            records=self._records,
            counts=msgspec.structs.replace(
                self._tally.counts(),
                steps=self._steps.count,
                anomalies=self.notes.sentences(),
            ),
        )

    def _keep(self, line: Line, made: Making) -> ForeignRecord:
        if line.value is not None:
            self._links.seen(line, line.value)
            uuid = line.value.get("uuid")
            if isinstance(uuid, str):
                self._shown.setdefault(uuid, _shown(made))
        record = made.done()
        self._records.append(record)
        self._last = made.last
        return record

    def _take(self, line: Line, value: dict[str, Any], made: Making) -> None:
        if value.get("type") == "assistant":
            self._assistant(line, value, made)
            return
        if value.get("type") == "user":
            self._user(line, value, made)
            return
        kind = kind_of(value)
        match kind:
            case "system/microcompact_boundary":
                self._trimmed(value, made)
            case "system/compact_boundary":
                if self._boundary is not None:
                    self.notes.add(_NO_SUMMARY, self._boundary.position)
                self._boundary = read_boundary(value, line.position)
                made.foreign(kind)
            case _:
                if kind in _TURN_ENDS:
                    self._steps.end(made)
                elif kind.startswith("attachment"):
                    self.notes.add(
                        "the file does not say how the model was shown an attachment",
                        line.position,
                    )
                made.foreign(kind)

    # --- replies ---------------------------------------------------------------------------------

    def _assistant(self, line: Line, value: dict[str, Any], made: Making) -> None:
        message = as_object(value.get("message"))
        model = as_text(message.get("model"))
        if model == "<synthetic>" or value.get("isApiErrorMessage") is True:
            # The harness wrote it in the model's place; it is never sent back.
            made.foreign("assistant/synthetic")
            return
        contents = assistant_content(line, message.get("content"), model)
        if not contents:
            self.notes.add("a reply's record holds no content", line.position)
            made.foreign("assistant/empty" if contents is not None else "assistant/malformed")
            return
        self._no_summary_came()
        key = (
            as_text(message.get("id"))
            or as_text(value.get("requestId"))
            or as_text(value.get("uuid"))
            or f"record {line.position}"
        )
        step = self._steps.of(key, as_text(message.get("stop_reason")), made)
        for payload in contents:
            id = made.add(payload, step=step)
            if isinstance(payload, ToolRequested):
                assert isinstance(payload.call_id, str)
                self._calls.requested(payload.call_id, id, step, line.position)

    # --- what the user side holds ----------------------------------------------------------------

    def _user(self, line: Line, value: dict[str, Any], made: Making) -> None:
        content = user_content(line, as_object(value.get("message")).get("content"), self.notes)
        if content is None or not (content.results or content.parts):
            self.notes.add("a user record holds no content", line.position)
            made.foreign("user/malformed" if content is None else "user/empty")
            return
        for result in content.results:
            self._calls.finished(result, made)
        if not content.parts:
            return
        if value.get("isCompactSummary") is True:
            self._summary(value, content, made)
            return
        origin = self._origin(value, content.parts)
        if content.results:
            # Typed while the tools ran, and sent beside their results: no new turn.
            pass
        elif value.get("isMeta") is True or isinstance(value.get("sourceToolUseID"), str):
            # Hooks and skills speak between the blocks of a reply, too.
            self._links.harness_text(value)
        else:
            self._no_summary_came()
            self._steps.end(made)
            if origin != "harness":
                self._prompt(value, made)
        self._summarised = False
        made.add(
            MessageUser(parts=content.parts, origin=origin),
            blobs=content.blobs,
        )

    def _origin(self, value: dict[str, Any], parts: tuple[Part, ...]) -> str:
        first = parts[0]
        if (
            value.get("isMeta") is True
            or isinstance(value.get("sourceToolUseID"), str)
            or self._role == "summariser"
            or (
                isinstance(first, TextPart)
                and isinstance(first.text, str)
                and first.text.startswith(_INTERRUPT)
            )
        ):
            return "harness"
        # A sub-agent's task was written by the model that started it.
        return "parent" if self._role == "agent" and not self._steps.count else ""

    def _prompt(self, value: dict[str, Any], made: Making) -> None:
        back = self._links.prompt(made.position, value, made.last)
        if back is None:
            return
        self.notes.add("the session was rewound and another prompt given", made.position)
        made.add(
            HistoryRewound1(to=0, reason="two prompts with one parent"),
            rewind_to=back,
        )

    # --- cuts ------------------------------------------------------------------------------------

    def _summary(self, value: dict[str, Any], content: UserContent, made: Making) -> None:
        # All of a compaction stands here, as one batch: before the summary is read the model still
        # has the old history, and a file may end between the boundary and the summary.
        self._steps.end(made)
        message = MessageUser(parts=content.parts, origin="summary")
        if self._summarised and self._boundary is None:
            # A summary in several records: the first one was the compaction.
            made.add(message, blobs=content.blobs)
            return
        boundary = self._boundary
        self._boundary = None
        self._summarised = True
        if boundary is None:
            self.notes.add("a summary has no boundary before it", made.position)
        trigger = "" if boundary is None else boundary.trigger
        made.add(CompactionStarted1(trigger=trigger, foreign=True))
        summary = made.add(message, blobs=content.blobs)
        made.add(
            CompactionCompleted1(
                foreign=True,
                history=continuing(
                    boundary, summary.hex(), as_text(value.get("uuid")), self._shown, self.notes
                ),
                summary="\n".join(
                    part.text
                    for part in content.parts
                    if isinstance(part, TextPart) and isinstance(part.text, str)
                ),
            ),
        )

    def _no_summary_came(self) -> None:
        # Something else followed the boundary: that compaction failed, or its summary is cut away.
        if self._boundary is not None:
            self.notes.add(_NO_SUMMARY, self._boundary.position)
            self._boundary = None
        self._summarised = False

    def _trimmed(self, value: dict[str, Any], made: Making) -> None:
        ids = as_object(value.get("microcompactMetadata")).get("compactedToolIds")
        calls = [one for one in as_list(ids) or () if isinstance(one, str)]
        if not calls:
            made.foreign(kind_of(value))
            return
        if not all(self._calls.knows(call) for call in calls):
            self.notes.add("a micro-compaction names calls that were not read", made.position)
        made.add(HistoryTrimmed(calls=tuple(calls), form="stub"))


def _shown(made: Making) -> tuple[str, ...]:
    # What of a record the model saw, as ids: these a compaction may let continue.
    kinds = MessageUser | MessageAssistant | ToolRequested | ToolFinished
    return tuple(event.id.hex() for event in made.events if isinstance(event.payload, kinds))
