"""A reference to another session: what was said in it, bounded, as it was when it was captured.

A snapshot is text of others, whoever said it: it is offered on the channel `session_reference`,
which is untrusted, and shown in its frame. Rules: CONTRACTS S2-22, CASE 60.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from sawlog.builder.contents import Contents, text_of
from sawlog.builder.plainwords import block, word
from sawlog.store.content import Part, TextPart
from sawlog.store.errors import ConfigError
from sawlog.store.event import Event
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from sawlog.store.events.lifecycle import HistoryRewound
from sawlog.store.text import BlobMissing, Text, plain, raw_bytes

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog

MOST = 3
"""References that one step takes."""

LIMIT = 65_536
"""Bytes of one reference's text."""

LEAST_LIMIT = 4096

_NAME = 100  # characters of a session's name that are shown


class Reference(msgspec.Struct, frozen=True):
    """A session as it was at its event `captured`.

    `session` is its id (hex), `label` its name. `text` holds `messages` of its messages, the newest
    ones; `omitted_messages` and `omitted_bytes` are of what it leaves out, of a message that is
    shown in part its bytes alone.
    """

    session: str
    label: str
    captured: int
    text: str
    messages: int
    omitted_messages: int = 0
    omitted_bytes: int = 0


def capture(log: AgentLog, name: str, *, limit: int = LIMIT) -> Reference:
    """The messages of another session of this tenant, the newest in at most `limit` bytes.

    Messages alone: no tools, no reasoning, no system text, no harness's own words, nothing that was
    rewound. Reading writes nothing. Raises NoSession alike for one that is missing and for one that
    is another tenant's, ConfigError for a limit below 4096.
    """
    if limit < LEAST_LIMIT:
        raise ConfigError(f"a limit of {limit} bytes has no room: give {LEAST_LIMIT} or more")
    session = log.read(name)
    head = session.row.head
    said: list[_Said] = []
    for event in session.events(0, head):
        content = event.content
        if isinstance(content, HistoryRewound):
            while said and said[-1].seq > content.to:
                said.pop()
        elif (one := _said(event)) is not None:
            said.append(one)
    total = sum(one.size for one in said)
    widest = _heading(session.id, session.name, head, len(said), len(said), total)
    room = limit - len(widest.encode()) - 1
    shown: list[str] = []
    left_out = total
    for one in reversed(said):
        text, rest, whole = _message(one, session.window, room)
        if text:
            room -= len(text.encode()) + 1
            left_out -= one.size - rest
            shown.append(text)
        if not whole:
            break
    omitted = len(said) - len(shown)
    heading = _heading(session.id, session.name, head, len(shown), omitted, left_out)
    return Reference(
        session=session.id,
        label=session.name,
        captured=head,
        text="\n".join((heading, *reversed(shown))),
        messages=len(shown),
        omitted_messages=omitted,
        omitted_bytes=left_out,
    )


def capture_all(
    log: AgentLog, names: Iterable[str], *, most: int = MOST, limit: int = LIMIT
) -> tuple[Reference, ...]:
    """A reference to each of these sessions, in their order; one that is named twice is there once.

    Raises ConfigError for more than `most`, and what `capture` raises.
    """
    names = list(dict.fromkeys(names))
    if len(names) > most:
        raise ConfigError(
            f"{len(names)} sessions are referred to, and {most} are allowed: name less"
        )
    found: dict[str, Reference] = {}
    for name in names:
        reference = capture(log, name, limit=limit)
        found.setdefault(reference.session, reference)
    return tuple(found.values())


class _Said(msgspec.Struct, frozen=True):
    """Where a message stands: event, who said it, bytes of its texts."""

    seq: int
    who: str
    size: int


def _said(event: Event) -> _Said | None:
    content = event.content
    if isinstance(content, MessageUser):
        # What a harness or a summary says in the user's place is not what a person said.
        if content.copy or content.origin or event.source.startswith("tool:"):
            return None
        channel = event.source.partition(":")[0]
        who = "user" if channel in ("user", "import") else word(event.source)
    elif isinstance(content, MessageAssistant):
        if content.copy:
            return None
        who = "assistant, interrupted" if content.interrupted else "assistant"
    else:
        return None
    texts = _texts(content.parts)
    return _Said(event.seq, who, sum(map(_size, texts))) if texts else None


def _texts(parts: tuple[Part, ...]) -> list[Text]:
    return [part.text for part in parts if isinstance(part, TextPart) and part.text != ""]


def _size(text: Text) -> int:
    if not isinstance(text, str) and text.blob:
        return text.size
    return len(raw_bytes(plain(text, {})))


def _message(said: _Said, contents: Contents, room: int) -> tuple[str, int, bool]:
    """A message as it is shown, the bytes of it that are left out, and whether it had room.

    If it had not, its end is shown, or nothing.
    """
    content = contents.event(said.seq).content
    assert isinstance(content, MessageUser | MessageAssistant)
    try:
        whole = "".join(text_of(text, contents) for text in _texts(content.parts))
    except BlobMissing:
        gone = f"{said.who}:\n[This message's content is no longer in the log.]"
        return (gone, said.size, True) if _fits(gone, room) else ("", said.size, False)
    shown = f"{said.who}:\n{block(whole)}" if len(whole) <= room else ""
    if shown and _fits(shown, room):
        return shown, 0, True
    low, high = 0, min(len(whole), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(_end(said.who, whole[-middle:], said.size), room):
            low = middle
        else:
            high = middle - 1
    # A shorter notice may make one character more cheaper: what is found is looked at again.
    if not low or not _fits(shown := _end(said.who, whole[-low:], said.size), room):
        return "", said.size, False
    return shown, said.size - len(raw_bytes(whole[-low:])), False


def _end(who: str, end: str, size: int) -> str:
    """The end of a message of so many bytes, and how many stand before it."""
    return f"{who}:\n[{size - len(raw_bytes(end))} bytes are left out here.]\n{block(end)}"


def _fits(text: str, room: int) -> bool:
    return len(text.encode()) + 1 <= room


def _heading(session: str, name: str, head: int, shown: int, omitted: int, left_out: int) -> str:
    label = f"{word(name[:_NAME])} ({session})" if name else session
    text = f"Session {label} up to its event {head}, messages alone: {shown}"
    if omitted or left_out:
        text += f"; left out before them: {omitted} messages, {left_out} bytes in all"
    return f"{text}."
