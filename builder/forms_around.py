"""Forms of what stands beside the history: world state, items, notices of what is out of date.

Frozen once released, like all forms. They are made of references alone: names and paths of others
are quoted, their texts are framed by the renderer.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from sawlog.builder.contents import Contents, blob_of, preview_of, text_of
from sawlog.builder.facts import GOAL
from sawlog.builder.packet import Entry
from sawlog.builder.state import Ref
from sawlog.builder.worldtext import section_text
from sawlog.store.content import MediaPart, Part, TextPart
from sawlog.store.errors import UnknownNumber
from sawlog.store.event import Event
from sawlog.store.events.conversation import ToolFinished
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, TaskSet
from sawlog.store.events.registry import Erased
from sawlog.store.events.world import ObservationRecorded, WorldChanged
from sawlog.store.jsontext import source_of
from sawlog.store.text import TextObject

_encode = msgspec.json.Encoder().encode


def not_shown(event: Event, why: str) -> UnknownNumber:
    """The error for an event that cannot be shown in the form that a packet gave it."""
    if isinstance(event.content, Erased):
        why = "was erased: what packets showed of it cannot be shown again"
    return UnknownNumber(f"event {event.seq} ({event.type}) {why}")


def world(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """A section of the world: in full, or as the difference to the text that `base` names."""
    args = dict(ref.args)
    event = contents.event(ref.seq)
    name, now = _section(event, ref.part, contents)
    kind = "goal" if name == GOAL else "world"
    if isinstance(event.content, WorldChanged) and not now:
        section = event.content.sections[ref.part - 1]
        if section.unknown and not section.removed:
            text = f"What was said above of {_quoted(name)} holds no longer; what it is now is "
            return _notice(ref, kind, name, f"{text}not known.")
    base = args.get("base")
    then = None
    if isinstance(base, int):
        _, then = _section(contents.event(base), int(args["part"]), contents)
    return _notice(ref, kind, name, section_text(name, then, now))


def _section(event: Event, part: int, contents: Contents) -> tuple[str, str | None]:
    match event.content:
        case TaskSet(goal=goal, done_when=done_when):
            if not goal and not done_when:
                return GOAL, None
            value = {"goal": text_of(goal, contents), "done_when": text_of(done_when, contents)}
            return GOAL, source_of(value, GOAL)
        case WorldChanged(sections=sections):
            section = sections[part - 1]
            return section.name, None if section.removed else text_of(section.value, contents)
        case _:
            raise not_shown(event, "has no section of the world")


_STALE = {
    "changed": "The file {name} changed after it was read. What is shown of it above is out of "
    "date: read it again before relying on it.",
    "removed": "The file {name} is gone. What is shown of it above is out of date.",
    "newer": "The file {name} was read anew: what is shown of it above from before is out of date.",
    "restored": "The file {name} is again as it was read: what is shown of it above holds.",
    "mixed": "What is shown above of the file {name} is of different times, and some of it is out "
    "of date: read it again before relying on it.",
    "back": "The file {name} is there again, and is not as it was: read it before relying on it.",
    "superseded": "What {name} said above is out of date: a newer version of it follows.",
    "overturned": "What {name} said above is out of date: a newer observation follows.",
    "replaced": "What {name} said above is out of date: there is a newer version, which is not "
    "shown here.",
    "withdrawn": "What {name} said above holds no longer: its source took it back.",
    "expired": "What {name} said above holds no longer: its time is over.",
}


def stale(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """A notice: text that is shown above is out of date, or is right again."""
    args = dict(ref.args)
    kind = str(args["kind"])
    name = args.get("path")
    if name is None:
        name = _item_name(contents.event(int(args["of"])), contents)
    else:
        name = _short(str(name))
    text = _STALE[kind].format(name=_quoted(name))
    cause = contents.event(ref.seq).content
    if isinstance(cause, ItemWithdrawn):
        reason = text_of(cause.reason, contents)
        if reason:
            text = f"{text} Reason: {_quoted(_short(reason))}"
    return _notice(ref, "notice", "stale", text)


def outdated(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """What stands in the place of a text that is out of date: the pair of call and result stays."""
    content = contents.event(ref.seq).content
    name = _quoted(_short(str(dict(ref.args)["path"])))
    text = f"[What this showed of the file {name} is out of date and is no longer shown.]"
    if isinstance(content, ToolFinished):
        return Entry(
            first=True,
            section=ref.section,
            kind="result",
            authority="tool",
            trust="untrusted",
            status=content.status,
            name=text_of(content.name, contents),
            text=text,
            call_id=text_of(content.call_id, contents),
        )
    entry = _notice(ref, "observation", "", text)
    name_of = content.name if isinstance(content, ObservationRecorded) else ""
    return replace(entry, trust="untrusted", name=text_of(name_of, contents))


def missing(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """Says what this step needs and does not have."""
    names = ", ".join(_quoted(_short(str(value))) for name, value in ref.args if name == "name")
    text = f"This is needed here and could not be provided: {names}. Do not assume what it says."
    return _notice(ref, "notice", "missing", text)


_KINDS = {"instruction": "instruction", "tool_schema": "observation", "task": "task"}
_TRUSTED = ("trusted_source", "verified")


def item(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """An item: framed as what its channel made it, never as more; `keep` cuts its text."""
    entry, content = _framed(ref, contents)
    return _filled(entry, content.parts[ref.part - 1], ref, content, contents)


def item_preview(ref: Ref, contents: Contents, before: Entry | None) -> Entry:
    """The same of a text that was offered to be shown as a preview; `keep` cuts that."""
    entry, content = _framed(ref, contents)
    part = content.parts[ref.part - 1]
    if not isinstance(part, TextPart) or isinstance(part.text, str):
        raise UnknownNumber(f"part {ref.part} of the item of event {ref.seq} is no preview")
    text = preview_of(part.text)
    keep = dict(ref.args).get("keep")
    if keep is not None and len(text) > int(keep):
        whole = f"sha256:{part.text.blob}, {part.text.size} bytes"
        text = f"{text[: int(keep)]}\n[the rest is left out here; the whole text is {whole}]"
    return replace(entry, text=text)


def item_form(part: Part) -> int:
    """The number of the form that shows this part of an item: 2 for a preview."""
    text = part.text if isinstance(part, TextPart) else ""
    return 2 if isinstance(text, TextObject) and text.is_preview else 1


def _framed(ref: Ref, contents: Contents) -> tuple[Entry, ItemOffered]:
    content = contents.event(ref.seq).content
    if not isinstance(content, ItemOffered):
        raise UnknownNumber(f"event {ref.seq} is no item")
    label = content.label
    trust = "trusted" if label.trust in _TRUSTED else "untrusted"
    kind = _KINDS.get(label.kind, "observation") if trust == "trusted" else "observation"
    entry = _notice(ref, kind, _item_name(contents.event(ref.seq), contents), "")
    return replace(entry, trust=trust, first=ref.part == 1), content


def _filled(entry: Entry, part: Part, ref: Ref, item: ItemOffered, contents: Contents) -> Entry:
    match part:
        case TextPart():
            text = text_of(part.text, contents)
            keep = dict(ref.args).get("keep")
            if keep is not None and len(text) > int(keep):
                where = _short(text_of(item.locator, contents))
                more = f"; the whole text is at {_quoted(where)}" if where else ""
                left_out = len(text) - int(keep)
                text = f"{text[: int(keep)]}\n[{left_out} characters are left out here{more}]"
            return replace(entry, text=text)
        case MediaPart():
            data = blob_of(part.blob, contents) if part.blob else None
            where = f"sha256:{part.blob}" if part.blob else text_of(part.url, contents)
            if not where:
                where = f"file:{text_of(part.file, contents)}"
            kind = f"{entry.kind}/media"
            return replace(entry, kind=kind, name=part.media, text=where, data=data)
        case _:
            raise UnknownNumber(f"an item shows text and media, and event {ref.seq} has another")


def _item_name(event: Event, contents: Contents) -> str:
    content = event.content
    if not isinstance(content, ItemOffered):
        return ""
    name = _short(text_of(content.title, contents) or text_of(content.source_id, contents))
    version = _short(text_of(content.version, contents))
    return f"{name} ({version})" if version else name


def _notice(ref: Ref, kind: str, name: str, text: str) -> Entry:
    return Entry(
        first=True,
        section=ref.section,
        kind=kind,
        authority="none",
        trust="trusted",
        status="",
        name=name,
        text=text,
    )


LONGEST = 200
"""Characters of a name that are shown: no outsider's title or reason may fill a window."""


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}…"


def _quoted(text: str) -> str:
    # As JSON writes it, so that no name ends its sentence or its line.
    return _encode(text.encode("utf-8", "replace").decode()).decode()
