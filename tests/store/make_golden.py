"""Writes the golden vectors of format 1: `python -m tests.store.make_golden fixtures/golden`.

Clock, ids and salts are given, so every run and every machine writes the same bytes. What stands in
`fixtures/golden` is for ever: a release that writes other bytes has broken the format, and a new
event type gets a new vector beside the old ones.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from sawlog.store.codec import commit, genesis
from sawlog.store.content import (
    BoundPart,
    IncompletePart,
    MediaPart,
    Part,
    RawPart,
    TextPart,
    WithheldPart,
)
from sawlog.store.database import Database, open_database
from sawlog.store.directory import SessionRow
from sawlog.store.envelope import UNKNOWN_TIME, Blob, NewEvent
from sawlog.store.events import CORE
from sawlog.store.events.base import Named, Payload, Record, Redacted
from sawlog.store.events.compaction import (
    ChangedFile,
    Checkpoint,
    Closed,
    CompactionAnswered,
    CompactionAsked,
    CompactionCompleted,
    CompactionCompleted1,
    CompactionFailed,
    CompactionRefused,
    CompactionStarted,
    CompactionStarted1,
    Dropped,
    InstructionStatus,
    Line,
    NoteClosed,
    NoteRecorded,
    OpenCall,
    SeenFile,
    Withdrawn,
)
from sawlog.store.events.conversation import (
    ApprovalDecided,
    ApprovalRequested,
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolChecked,
    ToolDenied,
    ToolFinished,
    ToolRequested,
    ToolStarted,
    ToolStarted1,
)
from sawlog.store.events.effects import EffectIntended, EffectReconciled, EffectSettled
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label, TaskSet
from sawlog.store.events.lifecycle import (
    ForeignRecord,
    HistoryEdited,
    HistoryRewound,
    HistoryRewound1,
    HistoryTrimmed,
    Ran,
    SessionCreated,
    SessionForked,
)
from sawlog.store.events.registry import event
from sawlog.store.events.steps import (
    Again,
    AttemptAnswered,
    AttemptAnswered1,
    AttemptLost,
    AttemptRefused,
    AttemptRunning,
    AttemptSent,
    AttemptSent1,
    Keep,
    Literal,
    MeasureRecorded,
    PacketBuilt,
    PacketRecorded,
    PacketRecorded1,
    PolicySet,
    Quote,
    Run,
    StepAbandoned,
    StepCompleted,
    StepFailed,
    StepRefused,
)
from sawlog.store.events.world import (
    FileChanged,
    FileObserved,
    ObservationRecorded,
    Saw,
    Section,
    Tool,
    ToolsChanged,
    WorldChanged,
)
from sawlog.store.exchange import export
from sawlog.store.log import Log
from sawlog.store.text import Text, preview

HEADS = "heads.json"


@event("golden.reading", 3)
class Reading(Payload, frozen=True):
    """A type of a third party, with a text and a list of parts of its own."""

    sensor: str
    text: Text = ""
    parts: tuple[Part, ...] = ()


REGISTRY = CORE.extended((Reading,))

ODD_TEXTS = {
    "empty": "",
    "NUL": "a\0b\0",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x85\u2028\u2029",
    "quotes": 'a "quoted" \\ backslash / slash',
    "byte order mark": "\ufefftext\ufeff",
    "beyond the first plane": "\U0001f600 \U0010ffff",
    "combining": "e\u0301 \u00e9 \u1e9b\u0323",
    "from right to left": "\u202etxet\u202c \u05d0\u0628",
    "no character": "\ufffe\uffff\ufffd",
    "a high surrogate": "\ud800",
    "a low surrogate": "before \udfff after",
    "surrogates in the wrong order": "\udc00\ud800",
    "a pair in two halves": "\ud83d\ude00",
    "4,095 bytes": "a" * 4095,
    "4,096 bytes": "b" * 4096,
    "4,097 bytes": "c" * 4097,
    "4,096 bytes in 2,048 characters": "\u00e9" * 2048,
    "4,098 bytes in 2,049 characters": "\u00e9" * 2049,
    "4,096 bytes with a surrogate": "\ud800" + "d" * 4093,
    "4,097 bytes with a surrogate": "\ud800" + "e" * 4094,
}
"""Texts that something on the way might bend, by what is odd about them."""

ODD_JSON = {
    "negative zero": '{"zero":-0.0,"exponent":-0e-0}',
    "big integers": '{"n":123456789012345678901234567890,"m":-9223372036854775809}',
    "floats": '{"f":1E400,"g":0.1000000000000000055511151231257827,"h":1e-7}',
    "the order of keys": '{"b":1,"a":2,"A":3,"\u00e9":4,"b":5}',
    "spaces and escapes": '{ "a" : "\\u00e9\\/\\ud800" ,\r\n\t"b":[ ] }',
    "a list": "[1, 2, 3]",
    "no JSON": '{"path": "a',
    "nothing": "",
    "a name": "NaN",
}
"""Arguments as a model may write them: kept as they are, whatever they mean."""

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


class Maker:
    """A store whose clock, ids and salts are counted."""

    def __init__(self, database: Database, own: str = "") -> None:
        self.log = Log(
            database,
            registry=REGISTRY,
            clock=_times(),
            make_id=_bytes(f"{own}id"),
            make_salt=_bytes(f"{own}salt"),
        )
        self._sessions = _bytes(f"{own}session")

    def session(self, name: str | None) -> SessionRow:
        """A new session."""
        return self.log.session(name, id=self._sessions(), create=True)

    def fork(self, parent: SessionRow, at: int, name: str) -> SessionRow:
        """A fork with its first event."""
        child = self.log.fork(parent, at, name=name, id=self._sessions())
        forked = SessionForked(parent=parent.id.hex(), at=at, digest=child.digest.hex())
        self.log.append(child, [NewEvent(payload=forked, source="harness")])
        return child


def _bytes(what: str) -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: hashlib.sha256(f"{what} {next(numbers)}".encode()).digest()[:16]


def _times() -> Callable[[], int]:
    numbers = count(1_700_000_000_000_000, 1_000_001)
    return lambda: next(numbers)


def id_of(name: str) -> str:
    """An id in hex, for a payload that names an event."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


# --- one event of each type


def every_type(make: Maker) -> SessionRow:
    """At least one event of each core type, each field of it used; the last ones under a lease."""
    session = make.session("every type")
    digest = hashlib.sha256(b"some bytes").hexdigest()
    payloads: list[tuple[str, int, Payload]] = [
        ("import:codex", 0, SessionCreated(
            "every type", "codex", "0199-ab", "0199-aa", id_of("s"), 4,
        )),
        ("developer", 0, MessageSystem((TextPart("You fix bugs."),), role="developer", once=True)),
        ("harness", 0, PolicySet(
            policy=Named("block-cut"), pairing=Named("codex", 2), fold=1,
            measure=Named("utf8-quarter"), profile=Named("anthropic"), renderer=Named("anthropic"),
            window=200_000, reserve=8_000, params='{"share":0.6}', policy_text="{}",
            profile_text="{}",
        )),
        ("harness", 0, ToolsChanged((
            Tool("read_file", '{"name":"read_file","parameters":{}}', "read_only"),
            Tool("edit", "{}"),
        ))),
        ("user", 0, MessageUser(
            (TextPart("The test fails."),), origin="harness", copy=True, once=True,
        )),
        ("hook:stop", 0, ObservationRecorded(
            (TextPart("seen"),), name="watcher", once=True,
            saw=(Saw("src/a.py", "1-20", digest, "ttl:60"), Saw("b")),
        )),
        ("harness", 1, PacketBuilt(
            fold=1, policy=Named("block-cut"), measure=Named("utf8-quarter"),
            profile=Named("anthropic"), renderer=Named("anthropic"), api="anthropic", model="m-1",
            params='{"max_tokens":8000}', method="POST", path="/v1/messages",
            headers=(("anthropic-version", "2023-06-01"),), as_of=1_700_000_000_000_000,
            missing=("approval",), counts=(("history", 12), ("header", 3)), semantic=digest,
            request=digest, size=431, base=0,
            parts=(
                Run("header", 2, 5),
                Run("history", 6, 6, 1, "preview", 2, (("head", 4), ("why", "x"))),
            ),
            prefix=digest, profile_digest=digest, replaces=id_of("p0"), fallback_of=id_of("p"),
        )),
        ("harness", 1, AttemptSent1(
            id_of("p1"), 1, "https://models.invalid/v1/messages", (("user-agent", "x/1"),),
            "anthropic",
        )),
        ("harness", 1, AttemptLost(1, "the connection broke")),
        ("harness", 1, AttemptRunning(2, "batch_1")),
        ("provider:anthropic", 1, AttemptRefused(
            3, "overloaded", 529, "req_1", "Overloaded", '{"type":"error"}',
        )),
        ("provider:anthropic", 1, AttemptAnswered1(
            4, 200, "req_2", "msg_1", "m-1-served", "org_1", "tool_use", '{"output_tokens":7}',
            '{"id":"msg_1"}', Named("sse", 2), True,
        )),
        ("provider:anthropic", 1, MessageAssistant(
            (
                BoundPart("thinking", "anthropic", '{"type":"thinking","thinking":"hm"}', "hm"),
                TextPart("I look."),
                RawPart("anthropic", '{"type":"new_block"}'),
                IncompletePart("edit", '{"path": "a'),
                WithheldPart("thinking", "known secret"),
            ),
            interrupted=True, model="m-1", copy=True,
        )),
        ("provider:anthropic", 1, ToolRequested(
            "call_1", "read_file", '{"path":"a"}', "text", "fs", "item_1",
        )),
        ("provider:anthropic", 1, StepCompleted("tool_use", reconstructed=True)),
        ("harness", 1, ApprovalRequested(id_of("c1"), "ap_1", "May it read?")),
        ("user", 1, ApprovalDecided("ap_1", True, "someone", "it is safe")),
        ("harness", 1, ToolStarted1(id_of("c1"), "call_1", "idempotent", "key-1")),
        ("tool:read_file", 1, ToolFinished(
            id_of("c1"), "call_1", "read_file", "error",
            (TextPart("no such file"), MediaPart("image/png", url="https://media.invalid/a.png"),
             MediaPart("application/pdf", file="file_1", name="a.pdf")),
            True, (Saw("a", version=digest),),
        )),
        ("harness", 1, ToolDenied(id_of("c2"), "call_2", "ignored", "not now", "someone")),
        ("harness", 0, HistoryTrimmed(("call_1",), "stand_in", "too long")),
        ("user", 0, HistoryRewound1(5, "another way")),
        ("import:codex", 0, CompactionStarted1("budget", True)),
        ("import:codex", 0, CompactionCompleted1(
            True, (id_of("u"), id_of("v")), "so far", "opaque", True,
        )),
        ("harness", 0, CompactionStarted1()),
        ("harness", 0, CompactionFailed("no progress")),
        ("proxy", 2, PacketRecorded1(
            "openai-chat", "POST", "/chat/completions", (("x", "y"),), "m-2", digest, 40, 3,
            (Literal('{"model":"m-2",'), Keep(0, 2), Literal("}")), "held",
        )),
        ("harness", 2, StepFailed("no answer", reconstructed=True)),
        ("provider:anthropic", 3, StepRefused("declined")),
        ("user", 4, StepAbandoned("enough", reconstructed=True)),
        ("harness", 0, SessionForked(id_of("s"), 7, digest)),
    ]  # fmt: skip
    make.log.append(
        session,
        [NewEvent(payload=payload, source=source, step=step) for source, step, payload in payloads],
    )
    record = Record("codex", 17, digest, '{"type":"event_msg"}')
    foreign = ForeignRecord("event_msg", record=record)
    make.log.append(
        session,
        [
            NewEvent(payload=foreign, source="import:codex", ignorable=True, occurred_at=0),
            NewEvent(payload=foreign, source="import:codex", occurred_at=UNKNOWN_TIME),
        ],
    )
    lease = make.log.leases.acquire(session.id, "driver", 30.0)
    redacted = Redacted(3, (("parts[0].text", "known", 2),))
    payload = MessageUser((TextPart("[withheld]"),), redacted=redacted)
    make.log.append(session, [NewEvent(payload=payload, source="user", key="task")], lease=lease)
    return make.log.get(session)


def around_the_history(make: Maker) -> SessionRow:
    """One event of each type that tells of task, world, files, items, inbox, checks, measures."""
    session = make.session("around")
    digest = hashlib.sha256(b"some bytes").hexdigest()
    text = (TextPart("The refund rule."),)
    payloads: list[tuple[str, int, Payload]] = [
        ("harness", 0, TaskSet(
            "Fix it.", "The tests pass.", ("rule", "source"), ("refund",), "edit", "shop",
            "src/a.py", "t-1", "acme", ("internal", "public"), 2,
        )),
        ("harness", 0, WorldChanged((
            Section("cwd", '"/a"'), Section("mode", removed=True), Section("x", "{}", unknown=True),
        ))),
        ("harness", 0, FileObserved("a.py", digest, "absent", "1-20", "always", id_of("r1"))),
        ("watch", 0, FileChanged("a.py", digest, "unreadable", "c0ffee")),
        ("retrieval", 0, ItemOffered(
            text, Label("fact", "user", "verified", "required", "public"), "doc-1", "2",
            "2026-07-29", "2026-07-30", "Refunds", "repo://a#1", "shop", "src/", "t-1", "acme",
            ("refund",), ("rule",), 1_700_000_000_000_000, 60_000_000, 800, "refunds", "constraint",
            (Saw("a.py", version=digest),), "", 1200,
        )),
        ("secret_fixture", 0, ItemOffered(
            (), Label("fact", sensitivity="secret"), "key-1", handle="vault:key-1",
        )),
        ("harness", 0, ItemWithdrawn("retrieval", "doc-1", "the page is gone")),
        ("skill", 0, InboxInjected(text, "next-turn", True)),
        ("harness", 0, InboxClaimed((id_of("i1"),), True, "not now")),
        ("harness", 0, InboxCancelled((id_of("i2"),), "no longer")),
        ("harness", 1, ToolChecked(id_of("c1"), Named("strict", 2), "deny", "protected_path")),
        ("harness", 1, MeasureRecorded(
            Named("utf8-quarter"), 900, 1000, 20, 300, 1, 1111, 250, 1200,
        )),
    ]  # fmt: skip
    make.log.append(
        session,
        [NewEvent(payload=payload, source=source, step=step) for source, step, payload in payloads],
    )
    return make.log.get(session)


def starts(make: Maker) -> SessionRow:
    """Starts of calls as they say what allowed them: version 2, with and without a check."""
    session = make.session("starts")
    strict = Named("strict")
    payloads = [
        ToolStarted(id_of("c1"), "call_1", "read_only", "key-1", strict, "read_only"),
        ToolStarted(id_of("c2"), effect="idempotent", key="key-2"),
    ]
    for payload in payloads:
        make.log.append(session, [NewEvent(payload=payload, source="harness", step=1)])
    return make.log.get(session)


def recorded(make: Maker) -> SessionRow:
    """Requests that another program built, every kind of span; attempts as they are since then."""
    session = make.session("recorded")
    digest = "cd" * 32
    headers = (("accept", "*/*"), ("content-length", "40"), ("user-agent", "program/1"))
    payloads = [
        ("user", 0, MessageUser((TextPart("look"),))),
        ("recorder", 1, PacketRecorded(
            "openai-chat", "POST", "/v1/chat/completions", (("openai-beta", "x"),), "m-1", digest,
            40, 0, (Literal('{"messages":['), Quote(1), Quote(1, 2, "ascii"), Literal("]}")),
        )),
        ("provider:openai-chat", 1, AttemptSent(
            id_of("p1"), 1, "https://api.invalid/v1/chat/completions", headers, "openai",
        )),
        ("provider:openai-chat", 1, AttemptSent(
            id_of("p1"), 2, "https://other.invalid", headers[1:2], "openai", 3, ("accept",),
        )),
        ("provider:openai-chat", 1, AttemptAnswered(
            2, 200, "req-1", "r-1", "m-1", "org", "stop", '{"n":1}', "{}",
            Named("openai-chat-sse"), True, '[{"type":"clear"}]',
        )),
        ("harness", 0, HistoryEdited((id_of("m1"), id_of("m2")), "told otherwise")),
        ("recorder", 2, PacketRecorded(
            "openai-chat", size=9, base=2,
            spans=(Keep(0, 2), Again(2, 2, 4), Quote(1, 1, "raw")), origin="rewritten",
        )),
    ]  # fmt: skip
    for source, step, payload in payloads:
        make.log.append(session, [NewEvent(payload=payload, source=source, step=step or None)])
    return make.log.get(session)


def compactions(make: Maker) -> SessionRow:
    """A compaction as sawlog makes it, every field of its events set; notes; one that failed."""
    session = make.session("compactions")
    summariser = Named("extractive", 1)
    cited = (id_of("m1"), id_of("c1"))
    line = Line("open-1", "the \u00fcber-test fails", cited, "summariser")
    digest = "ab" * 32
    payloads = [
        ("user", NoteRecorded("open", "open-1", "the test fails", cited)),
        ("harness", NoteClosed("open-1", cited, "it passes")),
        ("harness", CompactionStarted("ratio", True, "local", 40, (3, 7), 900, digest, 38)),
        ("harness", CompactionAsked(1, summariser, "Sum up.", "anthropic", "m-1", "{}", digest, 9)),
        ("harness", CompactionAnswered(1, 200, '{"next":[]}', '{"output_tokens":7}', "cut off")),
        ("harness", CompactionRefused(1, (("larger", ""), ("dropped_open", "open-1")))),
        ("harness", Checkpoint(
            id_of("s1"), 2, id_of("k1"), "mend it", "tests pass",
            (Line("c-1", "never push"),), (Line("d-1", "edited", cited),),
            (ChangedFile("a.py", digest, "absent", cited),), (line,), (Line("n-1", "run tests"),),
            cited, (SeenFile("b.py", digest, id_of("c1"), True),),
            (OpenCall(id_of("c2"), "deploy", "awaiting_approval", "ap-1"),),
            (InstructionStatus(id_of("i1"), "replaced"),), (Withdrawn("memory", "m-1"),),
            (Closed("open-0", cited, "done"),), (Dropped("result", 12, cited),), "It went well.",
            summariser, BoundPart("compaction", "anthropic", "{}", "a summary"), 300,
        )),
        ("harness", CompactionCompleted(
            True, cited, "words", "opaque", True, 7, 40, (3, 7),
        )),
        ("harness", CompactionFailed("cannot_compact: nothing to cut")),
    ]  # fmt: skip
    for source, payload in payloads:
        make.log.append(session, [NewEvent(payload=payload, source=source)])
    return make.log.get(session)


def effects(make: Maker) -> SessionRow:
    """An effect of each outcome inside one run, by the run's own word and by others'."""
    session = make.session("effects")
    call = id_of("c1")
    payloads: list[tuple[str, Payload]] = [
        ("harness", EffectIntended(f"{call}:charge", call, "idempotent", "charge 42 EUR")),
        ("harness", EffectSettled(f"{call}:charge", "done", "ch_1")),
        ("harness", EffectIntended(f"{call}:mail", call)),
        ("harness", EffectSettled(f"{call}:mail", "failed")),
        ("harness", EffectIntended("free key")),
        ("user", EffectReconciled("free key", "not_done", "someone", "looked it up")),
        ("user", EffectReconciled(call, "done", "\u00fc" * 3000, "x" * 4097)),
    ]
    for source, payload in payloads:
        make.log.append(session, [NewEvent(payload=payload, source=source, step=1)])
    return make.log.get(session)


def rewinds(make: Maker) -> SessionRow:
    """Rewinds as they say what they could not undo: version 2, with and without anything."""
    session = make.session("rewinds")
    ran = (Ran(id_of("c1"), "run_tests", "ok"), Ran(id_of("c2"), "d\u00e9ploy"), Ran(id_of("c3")))
    payloads = [
        HistoryRewound(0),
        HistoryRewound(1, "another way", ran, ("a.py", "b \ud83d.py")),
    ]
    for payload in payloads:
        make.log.append(session, [NewEvent(payload=payload, source="harness")])
    return make.log.get(session)


# --- what might be bent


def odd_contents(make: Maker) -> SessionRow:
    """Odd texts and JSON, blobs and previews, unknown and ancient times, an erased event."""
    session = make.session("odd \u00e9 \u202e \U0001f600")
    log = make.log
    for text in ODD_TEXTS.values():
        parts = (TextPart(text),)
        log.append(session, [NewEvent(payload=MessageUser(parts), source="user")])
    for source in ODD_JSON.values():
        call = ToolRequested("call", "f", source)
        log.append(session, [NewEvent(payload=call, source="provider:x", step=1)])
    for text, limit in (("p" * 6000, 1024), ("q" * 2000, 512), ("\udcff" + "r" * 5000, 600)):
        value, blob = preview(text, limit)
        assert blob is not None
        result = ToolFinished(call_id="call", parts=(TextPart(value),))
        log.append(session, [NewEvent(payload=result, source="tool:f", blobs=(blob,))])
    png = Blob(hashlib.sha256(_PNG).digest(), _PNG, "image/png")
    picture = MediaPart("image/png", blob=png.digest.hex(), name="dot.png")
    reading = Reading("s-1", "t" * 5000, (TextPart("u" * 4500), picture, TextPart("t" * 5000)))
    log.append(session, [NewEvent(payload=reading, source="watch", blobs=(png,))])
    log.append(
        session,
        [
            # Blobs that are there already are not written again.
            NewEvent(payload=MessageUser((picture, TextPart("u" * 4500))), source="user"),
            NewEvent(payload=MessageUser(()), source="user", occurred_at=UNKNOWN_TIME),
            NewEvent(payload=MessageUser(()), source="user", occurred_at=-1),
            NewEvent(payload=MessageUser(()), source="user", occurred_at=2**62, ignorable=True),
            NewEvent(payload=MessageUser((TextPart("a secret"),)), source="user", id=bytes(16)),
        ],
    )
    erase(log, log.get(session))
    log.append(session, [NewEvent(payload=MessageUser(()), source="user", id=b"\xff" * 16)])
    return log.get(session)


def erase(log: Log, session: SessionRow) -> None:
    """Erase the content of the last event, as erasure leaves it."""
    [event] = log.events(session, [session.head])
    assert event.salt is not None and event.payload is not None
    commitment = commit(event.salt, event.payload)
    with log.database.write() as tx:
        tx.run(
            "UPDATE sawlog.events SET salt = NULL, payload = NULL, codec = 0, cites = NULL, "
            "commitment = ? WHERE sid = ? AND seq = ?",
            (commitment, session.sid, session.head),
        )


# --- forks


def branches(make: Maker) -> dict[str, SessionRow]:
    """A fork of a fork, with a blob of its grandparent's; a fork at the start; no events at all."""
    log = make.log

    def say(session: SessionRow, *texts: str) -> None:
        for text in texts:
            parts = (TextPart(text),)
            log.append(session, [NewEvent(payload=MessageUser(parts), source="user")])

    root = make.session("root")
    say(root, "one", "v" * 5000, "three", "left behind by the fork")
    child = make.fork(root, 3, "child")
    say(child, "five", "six")
    say(root, "later")
    grandchild = make.fork(child, 5, "grandchild")
    say(grandchild, "v" * 5000, "w" * 5000)
    start = make.fork(root, 0, "start")
    again = make.fork(start, 1, "again")
    empty = make.session(None)
    assert empty.digest == genesis(empty.id)
    rows = {"grandchild": grandchild, "fork-at-start": again, "empty": empty}
    return {name: log.get(row) for name, row in rows.items()}


def make(folder: Path) -> None:
    """Write all vectors into a folder."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        open_database(Path(temporary) / "store.db") as database,
    ):
        maker = Maker(database)
        rows = {"every-type": every_type(maker), "odd-contents": odd_contents(maker)}
        rows.update(branches(maker))
        rows["around-the-history"] = around_the_history(maker)
        rows["starts"] = starts(maker)
        rows["compactions"] = compactions(maker)
        heads: dict[str, dict[str, object]] = {}
        # Counted by itself, so that no vector in front of it has a part in its bytes.
        rows["effects"] = effects(Maker(database, "effects "))
        rows["rewinds"] = rewinds(Maker(database, "rewinds "))
        rows["recorded"] = recorded(Maker(database, "recorded "))
        for name, row in rows.items():
            data = b"".join(export(maker.log, row))
            (folder / f"{name}.jsonl").write_bytes(data)
            heads[f"{name}.jsonl"] = {
                "session": row.id.hex(),
                "head": row.head,
                "digest": row.digest.hex(),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        (folder / HEADS).write_text(json.dumps(heads, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
