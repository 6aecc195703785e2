"""What an event says, as text for a person: nothing here reaches a packet."""

from __future__ import annotations

from sawlog.cli.output import counted
from sawlog.store import text as texts
from sawlog.store.content import (
    BoundPart,
    IncompletePart,
    MediaPart,
    Part,
    RawPart,
    TextPart,
)
from sawlog.store.directory import SessionRow
from sawlog.store.errors import Damaged
from sawlog.store.event import Event, decoded
from sawlog.store.events import compaction, effects, inbox, items, steps, world
from sawlog.store.events import conversation as talk
from sawlog.store.events import lifecycle as life
from sawlog.store.events.base import Payload
from sawlog.store.events.registry import Erased, Unknown
from sawlog.store.log import Log
from sawlog.store.text import Text, TextObject

BOOKKEEPING = frozenset(
    "attempt.answered attempt.running attempt.sent compaction.answered compaction.asked "
    "compaction.started foreign.record inbox.claimed measure.recorded packet.built "
    "packet.recorded policy.set session.created step.completed tool.checked tool.started "
    "tools.changed".split()
)
"""Types that a reader of the conversation can do without."""

_LARGE = 1_000_000
"""Bytes above which a content is named and not read for a glance."""


class Teller:
    """Tells events of one session. `whole` reads contents of any size."""

    def __init__(self, log: Log, session: SessionRow, *, whole: bool = False) -> None:
        self._log = log
        self._session = session
        self._whole = whole
        self._tools: dict[str, str] = {}  # of the calls told so far, by event id

    def tell(self, event: Event) -> str:
        """What the event says."""
        content = event.content
        if isinstance(content, Unknown):
            kept = "may be passed over" if content.ignorable else "stops the projector here"
            return f"[a type that is not registered here, version {content.version}; it {kept}]"
        if isinstance(content, Erased):
            return "[erased]"
        if isinstance(content, talk.ToolRequested):
            self._tools[event.id] = self.text(content.name)
        return self._payload(content)

    def text(self, text: Text) -> str:
        """A text, or what is known of one that is too large for a glance or gone."""
        if not isinstance(text, TextObject) or not text.blob:
            return texts.plain(text, {})
        named = f"[{text.size:,} bytes, sha256:{text.blob}]"
        if text.size > _LARGE and not self._whole:
            return named
        try:
            raw = self._log.blob(self._session, bytes.fromhex(text.blob))
        except Damaged:
            return f"{named} [damaged]"
        return f"{named} [missing]" if raw is None else texts.plain(text, {text.blob: raw})

    def parts(self, parts: tuple[Part, ...]) -> str:
        """The parts of a message or result."""
        return "\n".join(self._part(part) for part in parts)

    def _part(self, part: Part) -> str:
        match part:
            case TextPart():
                return self.text(part.text)
            case MediaPart():
                where = f"sha256:{part.blob}" if part.blob else self.text(part.url or part.file)
                return f"[{part.media} {where}]"
            case BoundPart():
                readable = self.text(part.text)
                return f"[{part.kind}] {readable or 'sealed: only its provider can read it'}"
            case RawPart():
                return f"[{part.api}] {self.text(part.source)}"
            case IncompletePart():
                return f"[a call of {self.text(part.name)} that was cut off] {self.text(part.text)}"
            case _:
                return f"[withheld: {part.kind}, {part.reason}]"

    def _payload(self, content: Payload) -> str:
        match content:
            case talk.MessageAssistant() if content.interrupted:
                return f"[interrupted] {self.parts(content.parts)}"
            case talk.MessageUser() | talk.MessageSystem() | talk.MessageAssistant():
                return self.parts(content.parts)
            case world.ObservationRecorded():
                name = self.text(content.name)
                return f"{name}: {self.parts(content.parts)}" if name else self.parts(content.parts)
            case world.ToolsChanged():
                return ", ".join(self.text(tool.name) for tool in content.tools) or "none"
            case life.SessionCreated():
                origin = f" from {content.format} {self.text(content.source_id)}"
                return self.text(content.name) + (origin if content.format else "")
            case life.SessionForked():
                return f"from {content.parent} at {content.at}"
            case life.HistoryRewound():
                ran = f" ({len(content.calls)} not undone)" if content.calls else ""
                return f"back to event {content.to}{ran}: {self.text(content.reason)}"
            case life.HistoryTrimmed():
                return (
                    f"{len(content.calls)} results as {content.form}: {self.text(content.reason)}"
                )
            case life.HistoryEdited():
                gone = f"the program repeats {counted(len(content.gone), 'event')} no longer"
                return _because(gone, self.text(content.reason))
            case life.ForeignRecord():
                line = self.text(content.record.line) if content.record else ""
                return f"{self.text(content.kind)} {line}"
            case _:
                return self._call(content)

    def _call(self, content: Payload) -> str:
        match content:
            case talk.ToolRequested():
                return f"{self.text(content.name)} {self.text(content.arguments)}"
            case talk.ToolStarted():
                tool = self._tools.get(content.call, "")
                return f"{tool} ({content.effect})" if tool else content.effect
            case talk.ToolFinished():
                status = "" if content.status == "ok" else f"[{content.status}] "
                return status + self.parts(content.parts)
            case talk.ToolDenied():
                return f"{content.kind}: {self.text(content.reason)}"
            case effects.EffectIntended():
                what = self.text(content.what)
                return f"{self.text(content.key)} ({content.effect}){': ' if what else ''}{what}"
            case effects.EffectSettled():
                return f"{self.text(content.key)}: {content.outcome} {self.text(content.receipt)}"
            case effects.EffectReconciled():
                by = self.text(content.by)
                return f"{self.text(content.key)}: {content.outcome}, says {by}"
            case talk.ApprovalRequested():
                return self.text(content.question)
            case talk.ApprovalDecided():
                word = "allowed" if content.allow else "denied"
                return _because(f"{word} by {self.text(content.by)}", self.text(content.reason))
            case _:
                return self._around(content)

    def _around(self, content: Payload) -> str:
        match content:
            case items.TaskSet():
                done = self.text(content.done_when)
                needs = ", ".join(content.requirements)
                told = [self.text(content.goal), f"done when {done}" if done else ""]
                return "; ".join(one for one in (*told, needs and f"needs {needs}") if one)
            case items.ItemOffered():
                name = self.text(content.title) or self.text(content.source_id)
                return f"{content.label.kind} {name}: {self.parts(content.parts)}"
            case items.ItemWithdrawn():
                gone = f"{content.channel} {self.text(content.source_id)}"
                return _because(gone, self.text(content.reason))
            case world.WorldChanged():
                return "\n".join(self._section(one) for one in content.sections)
            case world.FileObserved() | world.FileChanged():
                version = f" {content.version[:12]}" if content.version else ""
                return f"{self.text(content.path)}: {content.state}{version}"
            case inbox.InboxInjected():
                return f"for the {content.target}: {self.parts(content.parts)}"
            case inbox.InboxClaimed() | inbox.InboxCancelled():
                word = "rejected" if getattr(content, "rejected", False) else "taken"
                return _because(f"{len(content.messages)} {word}", self.text(content.reason))
            case _:
                return self._compaction(content)

    def _section(self, section: world.Section) -> str:
        if section.removed:
            return f"{section.name}: removed"
        return f"{section.name}: {'not known' if section.unknown else self.text(section.value)}"

    def _compaction(self, content: Payload) -> str:
        match content:
            case compaction.CompactionStarted() if content.through:
                units = counted(content.units, "unit")
                return f"{content.trigger}: events up to {content.through}, {units}"
            case compaction.Checkpoint():
                by = "code" if content.summariser is None else f"{content.summariser}"
                goal = self.text(content.goal)
                told = f"checkpoint {content.number} by {by}, {counted(content.units, 'unit')}"
                return f"{told}: {goal}" if goal else told
            case compaction.CompactionCompleted() if content.checkpoint:
                kept = f" but {counted(len(content.kept), 'event')}" if content.kept else ""
                return f"events up to {content.through}{kept} give way to the checkpoint"
            case compaction.CompactionCompleted():
                summary = self.text(content.summary)
                kept = f"{counted(len(content.history), 'event')} go on"
                return f"{kept}: {summary}" if summary else kept
            case compaction.CompactionRefused():
                codes = ", ".join(dict.fromkeys(code for code, _ in content.reasons))
                return f"draft {content.attempt} does not count: {codes}"
            case compaction.CompactionFailed():
                return self.text(content.reason)
            case compaction.NoteRecorded():
                return f"{content.kind} {content.name}: {self.text(content.text)}"
            case compaction.NoteClosed():
                reason = self.text(content.reason)
                return f"{content.name}: {reason}" if reason else content.name
            case _:
                return self._step(content)

    def _step(self, content: Payload) -> str:
        match content:
            case steps.PacketBuilt():
                return (
                    f"{self.text(content.model)}, {content.size:,} bytes for {content.api}, "
                    f"request sha256:{content.request}"
                )
            case steps.PacketRecorded():
                return (
                    f"{self.text(content.model) or 'no model named'}, {content.size:,} bytes for "
                    f"{content.api} that another program built, request sha256:{content.request}"
                )
            case steps.PolicySet():
                return f"{content.policy}"
            case steps.AttemptSent():
                return self._sent(content)
            case steps.AttemptAnswered():
                return self._answered(content)
            case steps.AttemptRefused():
                return f"attempt {content.number}: {content.kind}: {self.text(content.message)}"
            case steps.AttemptLost():
                return f"attempt {content.number}: {self.text(content.reason)}"
            case steps.StepCompleted():
                return self.text(content.stop_reason)
            case steps.StepFailed() | steps.StepRefused() | steps.StepAbandoned():
                return self.text(content.reason)
            case _:
                import msgspec

                return msgspec.json.encode(content).decode()

    def _sent(self, content: steps.AttemptSent) -> str:
        """Where an attempt went, also where it names an earlier one that went there."""
        url = self.text(content.url)
        if not url and content.like:
            like = decoded_at(self._log, self._session, content.like)
            url = self.text(like.url) if isinstance(like, steps.AttemptSent) else ""
        if not url:
            by = "received by the caller" if content.client == "caller" else "through a function"
        else:
            by = f"to {url} by {content.client or 'a client that is not named'}"
        return f"attempt {content.number} {by}".rstrip()

    def _answered(self, content: steps.AttemptAnswered) -> str:
        streamed = ", a stream" if content.assembler is not None else ""
        broke = ", interrupted" if content.interrupted else ""
        ends = " ".join(filter(None, (self.text(content.stop_reason), self.text(content.usage))))
        edits = self.text(content.edits)
        edited = f"; the provider edited what it was sent: {edits}" if edits else ""
        told = f"attempt {content.number}: {content.status}{streamed}{broke}"
        return (f"{told}, {ends}" if ends else told) + edited


def decoded_at(log: Log, session: SessionRow, seq: int) -> object:
    """What the event at that place says; None where there is none that can be read."""
    for row in log.stored(session, seq - 1, seq):
        try:
            return decoded(row.event, log.registry).content if row.event else None
        except Damaged:
            return None
    return None


def _because(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what
