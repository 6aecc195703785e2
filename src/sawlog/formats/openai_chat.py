"""Reads message arrays of the Chat Completions API, bare or with their request or log around.

    [message, …]
    {"messages": [message, …], "tools"?: […], "response"?: {…}, "session_id"?: …}

A record is one message, its bytes the message's own; the tools come first, a response last. Every
message of the assistant is a step that ends with its record. A message array names no session:
where the file gives no id, its source id is made of the texts up to the first message of the
user, which all that is recorded of one run has in common.
"""

from __future__ import annotations

import hashlib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

from sawlog.formats.base import ForeignRecord, ForeignSession
from sawlog.formats.batch import Batch
from sawlog.formats.chat_messages import API, call_of, content_parts, reply_parts, tools_of
from sawlog.formats.lines import BOUNDS, Bounds, read_document
from sawlog.formats.media import Blobs
from sawlog.formats.pairs import Pairs
from sawlog.formats.tally import Tally
from sawlog.formats.times import moment
from sawlog.formats.values import as_list, as_object, as_text
from sawlog.store.content import Part
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import TooLarge, UnknownFormat
from sawlog.store.events import lifecycle
from sawlog.store.events.base import Record
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
)
from sawlog.store.events.steps import StepCompleted
from sawlog.store.events.world import ToolsChanged
from sawlog.store.jsonslices import elements, fields
from sawlog.store.text import raw_bytes

FORMAT = "openai-chat"

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Content blocks of another API whose messages have roles, too.
_FOREIGN_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking")


def sniff(path: Path, bounds: Bounds = BOUNDS) -> bool:
    """True when a file is one JSON document that holds chat messages."""
    try:
        return _messages_of(read_document(path, bounds).value) is not None
    except UnknownFormat:
        return False


def read(path: Path, bounds: Bounds = BOUNDS) -> list[ForeignSession]:
    """The one session of a message array.

    Raises UnknownFormat when the file holds none, TooLarge past a bound.
    """
    document = read_document(path, bounds)
    messages = _messages_of(document.value)
    if messages is None:
        raise UnknownFormat(f"{path} is no array of chat messages", path=str(path))
    if len(messages) > bounds.records:
        raise TooLarge(f"{path} holds more than {bounds.records:,} messages", path=str(path))
    whole = as_object(document.value)
    sources = fields(document.text) if whole else {"messages": document.text}
    chat = _Chat(_named(whole) or _derived(messages))
    declared = next((name for name in ("tools", "functions") if whole.get(name)), "")
    if declared:
        chat.tools(sources[declared])
    for value, source in zip(messages, elements(sources["messages"]), strict=True):
        chat.message(value, source)
    if whole.get("response") is not None:
        chat.response(whole["response"], sources["response"], _time(whole, sources))
    return [chat.session(whole.get("context_window"))]


def _messages_of(value: object) -> list[object] | None:
    """The messages of a document, or None when they are not those of this API."""
    if isinstance(value, dict):
        if "system" in value:
            return None  # a request of another API, whose messages look alike
        value = cast(dict[str, Any], value).get("messages")
    if not isinstance(value, list) or not value:
        return None
    messages = cast(list[object], value)
    if as_object(messages[0]).get("role") not in _ROLES:
        return None
    for message in map(as_object, messages):
        for part in _list(message.get("content")):
            if as_object(part).get("type") in _FOREIGN_BLOCKS:
                return None
        for call in _list(message.get("tool_calls")):
            if isinstance(as_object(call).get("function"), str):
                return None
    return messages


def _named(whole: dict[str, Any]) -> str:
    # The id of a completion is one reply's and no session's.
    for name in ("session_id", "conversation_id", "id"):
        id = whole.get(name)
        if isinstance(id, str) and id and not id.startswith("chatcmpl"):
            return id
    return ""


def _derived(messages: list[object]) -> str:
    """An id made of the roles and texts up to the first message of the user."""
    hasher = hashlib.sha256()
    for message in map(as_object, messages):
        role, content = message.get("role"), message.get("content")
        given: list[Any] = [content] if isinstance(content, str) else _list(content)
        texts = [one if isinstance(one, str) else as_object(one).get("text") for one in given]
        said = "".join(text for text in texts if isinstance(text, str))
        for text in (str(role), said):
            raw = raw_bytes(text)
            hasher.update(len(raw).to_bytes(4, "big") + raw)
        if role == "user":
            break
    return f"sha256:{hasher.hexdigest()}"


def _time(whole: dict[str, Any], sources: dict[str, str]) -> int:
    """When a log was written: seconds since 1970 as a number, or RFC 3339."""
    stamp = whole.get("timestamp")
    if isinstance(stamp, bool) or not isinstance(stamp, int | float):
        return moment(stamp)
    try:
        seconds = Decimal(sources["timestamp"])
    except InvalidOperation:
        return UNKNOWN_TIME
    # Within the years that a 64-bit count of microseconds holds.
    return int(seconds * 1_000_000) if abs(seconds) < 9_000_000_000_000 else UNKNOWN_TIME


class _Chat:
    """A message array as read so far."""

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id
        self._anomalies: list[str] = []
        self._tally = Tally(self._anomalies)
        self._pairs = Pairs()
        self._records: list[ForeignRecord] = []
        self._last = b""

    def session(self, window: object) -> ForeignSession:
        """The session, once all is read; `window` is what the file says of the model's."""
        return ForeignSession(
            format=FORMAT,
            source_id=self._source_id,
            name=f"chat-{self._source_id.removeprefix('sha256:')[:40]}",
            api=API,
            window=window if type(window) is int and window > 0 else 0,
            records=self._records,
            counts=self._tally.counts(),
        )

    def tools(self, source: str) -> None:
        """Take in the tools as the first record."""
        batch = self._batch(source, UNKNOWN_TIME)
        try:
            batch.add(ToolsChanged(tools=tools_of(source)))
        except ValueError as error:
            self._odd(batch, f"tools that do not read, kept as they are ({error})")
            self._keep(batch, "tools")
        self._done(batch)

    def message(self, value: object, source: str) -> None:
        """Take in one message."""
        batch = self._batch(source, UNKNOWN_TIME)
        message = as_object(value)
        role = message.get("role")
        if role == "assistant":
            self._reply(batch, message, source)
        elif role in ("system", "developer", "user", "tool"):
            parts, blobs = content_parts(message.get("content"), source)
            if role == "tool":
                self._result(batch, message, parts, blobs)
            elif role == "user":
                batch.add(MessageUser(parts=parts), blobs=blobs)
            else:
                batch.add(MessageSystem(parts=parts, role=cast(str, role)), blobs=blobs)
            if role != "tool" and message.get("name"):
                self._odd(batch, "the name of who speaks is kept with the record and not shown")
        else:
            self._odd(batch, f"a message of the role {role!r}, kept as it is")
            self._keep(batch, f"role/{role}")
        self._done(batch)

    def response(self, value: object, source: str, time: int) -> None:
        """Take in the reply that a log holds beside its request, as the last record."""
        batch = self._batch(source, time)
        response = as_object(value)
        choices = _list(response.get("choices"))
        choice = as_object(choices[0]) if choices else {}
        message = as_object(choice.get("message"))
        if not message:
            self._odd(batch, "a response without a message, kept as it is")
            self._keep(batch, "response")
        else:
            if len(choices) > 1:
                self._odd(batch, f"{len(choices)} choices; the first is the reply")
            first = elements(fields(source)["choices"])[0]
            self._reply(
                batch,
                message,
                fields(first)["message"],
                model=as_text(response.get("model")),
                stop=as_text(choice.get("finish_reason")),
            )
        self._done(batch)

    def _reply(
        self, batch: Batch, message: dict[str, Any], source: str, *, model: str = "", stop: str = ""
    ) -> None:
        self._tally.steps += 1
        step = self._tally.steps
        parts, blobs = reply_parts(message, source)
        given = _list(message.get("tool_calls"))
        if parts or not given:
            batch.add(MessageAssistant(parts=parts, model=model), step=step, blobs=blobs)
        if message.get("function_call"):
            self._odd(batch, "a call of the old form without an id, kept as a bound part")
        texts = elements(fields(source)["tool_calls"]) if given else []
        for one, text in zip(given, texts, strict=True):
            call = call_of(one, text)
            if call is None:
                self._odd(batch, "a call that no result can name, kept with the record")
                continue
            self._pairs.asked(str(call.call_id), batch.add(call, step=step), step)
        # The message is whole and its step is over: nothing that follows can add to it.
        batch.add(StepCompleted(stop_reason=stop, reconstructed=True), step=step)

    def _result(
        self, batch: Batch, message: dict[str, Any], parts: tuple[Part, ...], blobs: Blobs
    ) -> None:
        result = ToolFinished(
            call_id=as_text(message.get("tool_call_id")),
            name=as_text(message.get("name")),
            parts=parts,
        )
        paired, step, odd = self._pairs.answered(result)
        if odd:
            self._odd(batch, odd)
        batch.add(paired, step=step, blobs=blobs)

    def _batch(self, source: str, time: int) -> Batch:
        raw = source.encode("utf-8", "surrogateescape")
        record = Record(FORMAT, len(self._records), hashlib.sha256(raw).hexdigest(), source)
        return Batch(self._source_id, record, time, self._tally, self._last)

    def _keep(self, batch: Batch, kind: str) -> None:
        batch.add(lifecycle.ForeignRecord(kind=kind), ignorable=True)

    def _odd(self, batch: Batch, what: str) -> None:
        self._anomalies.append(f"record {batch.record.position}: {what}")

    def _done(self, batch: Batch) -> None:
        self._last = batch.last
        self._records.append(batch.done())


def _list(value: object) -> list[Any]:
    return as_list(value) or []
