"""Forms: how an entry of a packet is shown, by name and number. Frozen once released.

A form turns a reference and the contents into an `Entry`. Another wording, another order, another
standing is a new number beside the old one, for old packets must come out as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from sawlog.builder import blocks, forms_around
from sawlog.builder.checkpointtext import checkpoint_text
from sawlog.builder.compacted import SECTION
from sawlog.builder.contents import Contents, blob_of, preview_of, text_of
from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref
from sawlog.store.content import (
    BoundPart,
    IncompletePart,
    MediaPart,
    Part,
    RawPart,
    TextPart,
    WithheldPart,
)
from sawlog.store.errors import UnknownNumber
from sawlog.store.event import Event
from sawlog.store.events.compaction import Checkpoint
from sawlog.store.events.conversation import (
    ApprovalDecided,
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolDenied,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.world import ObservationRecorded, ToolsChanged
from sawlog.store.text import Text

Form = Callable[[Ref, Contents, Entry | None], Entry]


def show(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """The entry that a reference shows; `before` is the entry in front of it, if any.

    Raises BlobMissing when a content is not there, UnknownNumber for a form that is not installed.
    """
    form = FORMS.get((ref.form, ref.number))
    if form is None:
        raise UnknownNumber(
            f"the form {ref.form}@{ref.number} is not installed: this log was written by another "
            "release of sawlog, install that one or a newer one"
        )
    return form(ref, contents, before)


# --- full, preview ------------------------------------------------------------------------------


def _full(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    return _as_is(ref, contents, before, preview=False)


def _preview(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    return _as_is(ref, contents, before, preview=True)


def _as_is(ref: Ref, contents: Contents, before: Entry | None, *, preview: bool) -> Entry:
    event = contents.event(ref.seq)
    content = event.content
    match content:
        case ToolRequested():
            namespace = content.namespace
            return Entry(
                _begins("call", event, before, opens=False), ref.section, "call", "assistant",
                "trusted", "", _read(content.name, contents, preview),
                _read(content.arguments, contents, preview),
                _read(content.call_id, contents, preview), content.kind,
                _read(namespace, contents, preview) if namespace else "", step=event.step,
            )  # fmt: skip
        case ToolFinished():
            return _result(ref, content, contents, preview)
        case MessageAssistant():
            part = content.parts[ref.part - 1]
            if isinstance(part, TextPart):  # as nearly all are
                first = _begins("assistant", event, before, opens=ref.part == 1)
                return Entry(
                    first, ref.section, "assistant", "assistant", "trusted", "", "",
                    _read(part.text, contents, preview), step=event.step,
                    digest=_digest(part.text, preview),
                )  # fmt: skip
            entry = _part(
                ref, content.parts, "assistant", "assistant", "trusted", contents, preview
            )
            return _joined(entry, event, before, opens=ref.part == 1)
        case MessageUser():
            authority, trust = _standing(event, "user")
            return _part(ref, content.parts, "user", authority, trust, contents, preview)
        case ObservationRecorded():
            entry = _part(ref, content.parts, "observation", "none", "untrusted", contents, preview)
            name = entry.name or _read(content.name, contents, preview)
            return entry if name == entry.name else replace(entry, name=name)
        case MessageSystem():
            authority, trust = _standing(event, content.role)
            role = "developer" if content.role == "developer" else "system"
            return _part(ref, content.parts, role, authority, trust, contents, preview)
        case ToolsChanged():
            tool = content.tools[ref.part - 1]
            return Entry(
                first=True,
                section=ref.section,
                kind="tool",
                authority="system",
                trust="trusted",
                status="",
                name=_read(tool.name, contents, preview),
                text=_read(tool.source, contents, preview),
            )
        case _:
            raise forms_around.not_shown(event, f"has no form {ref.form}")


def _read(text: Text, contents: Contents, preview: bool) -> str:
    if isinstance(text, str):
        return text
    return preview_of(text) if preview and text.is_preview else text_of(text, contents)


def _digest(text: Text, preview: bool) -> str:
    """The digest of a text that is shown as it is, where the log names it by that."""
    return "" if isinstance(text, str) or (preview and text.is_preview) else text.blob


def _standing(event: Event, role: str) -> tuple[str, str]:
    """Authority and trust, from the channel alone."""
    channel = event.source.partition(":")[0]
    if channel in ("import", "user", "system", "developer", "harness"):
        if role == "user" or channel == "user":
            return "user", "trusted"
        return role, "trusted"
    return "none", "untrusted"


def _joined(entry: Entry, event: Event, before: Entry | None, *, opens: bool) -> Entry:
    """The entry of a reply with its step; it opens a message unless the one before is of it."""
    first = _begins(entry.kind, event, before, opens=opens)
    return replace(entry, first=first, step=event.step)


def _begins(kind: str, event: Event, before: Entry | None, *, opens: bool) -> bool:
    """True of an entry of a reply that opens a message."""
    if event.step:
        return before is None or before.step != event.step or before.authority != "assistant"
    if opens:
        return True
    if kind != "call":
        return False
    return before is None or before.authority != "assistant" or before.step != 0


def _result(ref: Ref, content: ToolFinished, contents: Contents, preview: bool) -> Entry:
    parts: tuple[Part, ...] = content.parts or (TextPart(""),)
    part = parts[ref.part - 1]
    if isinstance(part, TextPart):
        return Entry(
            ref.part == 1, ref.section, "result", "tool", "untrusted", content.status,
            _read(content.name, contents, preview), _read(part.text, contents, preview),
            _read(content.call_id, contents, preview),
            digest=_digest(part.text, preview),
        )  # fmt: skip
    entry = _part(ref, parts, "result", "tool", "untrusted", contents, preview)
    name = entry.name if entry.part == "media" else _read(content.name, contents, preview)
    return replace(
        entry, status=content.status, name=name, call_id=_read(content.call_id, contents, preview)
    )


def _part(
    ref: Ref,
    parts: tuple[Part, ...],
    kind: str,
    authority: str,
    trust: str,
    contents: Contents,
    preview: bool,
) -> Entry:
    part = parts[ref.part - 1]
    if isinstance(part, TextPart):  # as nearly all are
        return Entry(
            first=ref.part == 1,
            section=ref.section,
            kind=kind,
            authority=authority,
            trust=trust,
            status="",
            name="",
            text=_read(part.text, contents, preview),
        )
    entry = Entry(
        first=ref.part == 1,
        section=ref.section,
        kind=kind,
        authority=authority,
        trust=trust,
        status="",
        name="",
        text="",
    )
    match part:
        case MediaPart():
            data = blob_of(part.blob, contents) if part.blob else None
            if part.blob:
                text = f"sha256:{part.blob}"
            else:
                text = (
                    _read(part.url, contents, preview)
                    if part.url
                    else f"file:{_read(part.file, contents, preview)}"
                )
            return replace(entry, kind=f"{kind}/media", name=part.media, text=text, data=data)
        case BoundPart():
            return replace(
                entry,
                kind=f"{kind}/bound",
                text=_read(part.source, contents, preview),
                api=part.api,
                bound=part.kind,
                readable=_read(part.text, contents, preview),
            )
        case RawPart():
            return replace(
                entry, kind=f"{kind}/raw", text=_read(part.source, contents, preview), api=part.api
            )
        case IncompletePart():
            return replace(
                entry,
                kind=f"{kind}/incomplete",
                name=_read(part.name, contents, preview),
                text=_read(part.text, contents, preview),
            )
        case WithheldPart():
            return replace(entry, kind=f"{kind}/withheld", name=part.kind, text=part.reason)


# --- synthetic, late, stub, erased, notice --------------------------------------------------------

_SYNTHETIC = {
    "not_started": "This call was not started: the run was interrupted before it. "
    "It had no effect.",
    "unknown": "This call was started and its outcome is unknown: the run was interrupted before "
    "a result was recorded. It may have had effects; check before doing it again.",
    "interrupted": "This call was interrupted before it finished.",
    "denied": "This call was denied and was not run.",
    "ignored": "This call was ignored and was not run.",
    "unknown_tool": "There is no tool of this name; the call was not run.",
    "forked": "This call was open when this session was forked off; its outcome is not part of "
    "this session.",
    "awaiting_approval": "This call is waiting for approval and has not been run.",
}


def _synthetic(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    args = dict(ref.args)
    kind = str(args["kind"])
    content = contents.event(ref.seq).content
    assert isinstance(content, ToolRequested)
    # What another release or a program calls a denial is one, too.
    text = _SYNTHETIC.get(kind, _SYNTHETIC["denied"])
    because = args.get("because")
    if isinstance(because, int):
        reason = _reason(contents.event(because), contents)
        if reason:
            text = f"{text} Reason: {reason}"
    return Entry(
        first=True,
        section=ref.section,
        kind="result",
        authority="tool",
        trust="trusted",
        status=kind,
        name="",
        text=text,
        call_id=text_of(content.call_id, contents),
    )


def _aborted(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    event = contents.event(ref.seq)
    content = event.content
    assert isinstance(content, ToolRequested)
    return Entry(
        first=True,
        section=ref.section,
        kind="result",
        authority="tool",
        trust="trusted",
        status=str(dict(ref.args)["kind"]),
        name="",
        text="aborted",
        call_id=text_of(content.call_id, contents),
        step=event.step,  # it may stand within the reply of its call
    )


def _reason(event: Event, contents: Contents) -> str:
    content = event.content
    if isinstance(content, ToolDenied | ApprovalDecided):
        return text_of(content.reason, contents)
    return ""


def _late(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    content = contents.event(ref.seq).content
    assert isinstance(content, ToolFinished)
    entry = _result(ref, content, contents, preview=True)
    call = dict(ref.args).get("call")
    asked = contents.event(call).content if isinstance(call, int) else None
    name = text_of(asked.name, contents) if isinstance(asked, ToolRequested) else entry.name
    kind = "late" if not entry.part else f"late/{entry.part}"
    entry = replace(entry, kind=kind, call_id="")
    if not entry.part:
        entry = replace(entry, name=name)
    if ref.part > 1 or not isinstance(asked, ToolRequested) or entry.part:
        return entry
    arguments = text_of(asked.arguments, contents)
    if len(arguments) > 300:
        arguments = arguments[:300] + "…"
    text = f"The result of the earlier call {name} with {arguments} has arrived:\n{entry.text}"
    return replace(entry, text=text, digest="")


def _stub(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    content = contents.event(ref.seq).content
    assert isinstance(content, ToolFinished)
    return Entry(
        first=True,
        section=ref.section,
        kind="result",
        authority="tool",
        trust="untrusted",
        status=content.status,
        name=text_of(content.name, contents),
        text="[The old result of this call is no longer shown.]",
        call_id=text_of(content.call_id, contents),
    )


def _erased(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    event = contents.event(ref.seq)
    kind = {
        "tool.finished": "result",
        "message.assistant": "assistant",
        "message.system": "system",
    }.get(event.type, "user")
    entry = Entry(
        first=True,
        section=ref.section,
        kind=kind,
        authority="assistant" if kind == "assistant" else "none",
        trust="trusted",
        status="",
        name="",
        text="[This content was erased.]",
    )
    if kind == "assistant":
        return _joined(entry, event, before, opens=True)
    return entry


def _notice(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    args = dict(ref.args)
    count = args.get("messages", "0")
    return Entry(
        first=True,
        section=ref.section,
        kind="notice",
        authority="none",
        trust="trusted",
        status="",
        name=str(args["kind"]),
        text=f"Earlier history of this session ({count} messages and results) is no longer shown.",
    )


def _checkpoint(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    event = contents.event(ref.seq)
    content = event.content
    if not isinstance(content, Checkpoint):
        raise forms_around.not_shown(event, "is no checkpoint")
    return checkpoint_entry(content, contents)


def _block(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    content = contents.event(ref.seq).content
    entry = block_entry(content, contents) if isinstance(content, Checkpoint) else None
    if entry is None:
        raise UnknownNumber(f"event {ref.seq} is no checkpoint with a block")
    return entry


def block_entry(content: Checkpoint, contents: Contents) -> Entry | None:
    """The entry of a checkpoint's block, which stands in front of its text; None: it has none."""
    if content.block is None:
        return None
    return Entry(
        first=True,
        section=SECTION,
        kind="checkpoint/bound",
        authority="none",
        trust="untrusted",
        status="",
        name="",
        text=text_of(content.block.source, contents),
        api=content.block.api,
        bound=content.block.kind,
        readable=text_of(content.block.text, contents),
        made=blocks.made(content),
    )


def checkpoint_entries(content: Checkpoint, contents: Contents) -> tuple[Entry, ...]:
    """All entries that show a checkpoint, in packet order. Raises BlobMissing."""
    block = block_entry(content, contents)
    text = checkpoint_entry(content, contents)
    return (text,) if block is None else (block, text)


def checkpoint_entry(content: Checkpoint, contents: Contents) -> Entry:
    """The entry that shows a checkpoint, also before it is an event. Raises BlobMissing."""
    return Entry(
        first=True,
        section=SECTION,
        kind="checkpoint",
        authority="none",
        trust="untrusted",
        status="",
        name="",
        text=checkpoint_text(content, lambda text: text_of(text, contents)),
    )


FORMS: dict[tuple[str, int], Form] = {
    ("checkpoint", 1): _checkpoint,
    ("block", 1): _block,
    ("world", 1): forms_around.world,
    ("stale", 1): forms_around.stale,
    ("outdated", 1): forms_around.outdated,
    ("item", 1): forms_around.item,
    ("item", 2): forms_around.item_preview,
    ("missing", 1): forms_around.missing,
    ("full", 1): _full,
    ("preview", 1): _preview,
    ("synthetic", 1): _synthetic,
    ("synthetic", 2): _aborted,
    ("late", 1): _late,
    ("stub", 1): _stub,
    ("erased", 1): _erased,
    ("notice", 1): _notice,
}
"""All forms that this release can show."""
