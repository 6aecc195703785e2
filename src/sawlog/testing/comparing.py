"""Where a request differs from the recorded one: item by item, in the order of the recorded one.

What is equal as JSON is equal, however it is spelled. A message that repeats what the model said
may also lack or have members that are null or empty: a log keeps no deltas, so a reply that was
streamed comes back without what said nothing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from sawlog.builder.requests.cutting import Body, Piece
from sawlog.builder.requests.showing import entries_of
from sawlog.store.jsonslices import SCANNER

_WIDE = 100  # characters of a line that is compared with others
_LINES = 24  # lines of a difference that are shown


class Difference(msgspec.Struct, frozen=True):
    """One place where two requests differ.

    `item` is the place, `index` the item's index in the recorded request (-1: it is none there),
    `kind` what stands there, `expected` and `came` the texts, None for nothing.
    """

    item: str
    index: int
    kind: str
    expected: str | None
    came: str | None

    @property
    def shown(self) -> str:
        """The difference in lines: what was expected, what came."""
        return _shown(self.expected, self.came)


def differences(expected: Body, came: Body, ignore: Collection[str] = ()) -> list[Difference]:
    """Every place where they differ, items first; empty when they say the same.

    `ignore` are names of members that are not looked at.
    """
    found: list[Difference] = []
    ours, theirs = _by_member(expected), _by_member(came)
    for member in dict.fromkeys((*ours, *theirs)):
        if member in ignore:
            continue
        left, right = ours.get(member, []), theirs.get(member, [])
        for at in range(max(len(left), len(right))):
            one = left[at] if at < len(left) else None
            other = right[at] if at < len(right) else None
            if one is None or other is None or not _alike(expected, one, came, other):
                found.append(_item(expected, one, came, other, at))
    for name in dict.fromkeys(("model", *expected.members, *came.members)):
        if name in ignore:
            continue
        source, theirs_source = expected.member(name), came.member(name)
        if source is None and theirs_source is None:
            continue
        if source is None or theirs_source is None or _plain(source) != _plain(theirs_source):
            found.append(Difference(name, -1, "parameter", source, theirs_source))
    return found


def in_common(expected: Body, came: Body) -> int:
    """How many items two requests begin with alike."""
    count = 0
    for one, other in zip(expected.pieces, came.pieces, strict=False):
        if one.member != other.member or not _alike(expected, one, came, other):
            break
        count += 1
    return count


def last_said(body: Body) -> str:
    """The end of a request in a few words, for a message that names it."""
    entries = entries_of(body)
    if not entries:
        return "nothing"
    text = " ".join(entries[-1].text.split())
    return f"{entries[-1].kind} {_clipped(text)!r}"


def _by_member(body: Body) -> dict[str, list[Piece]]:
    found: dict[str, list[Piece]] = {}
    for piece in body.pieces:
        found.setdefault(piece.member, []).append(piece)
    return found


# --- equal or not ---------------------------------------------------------------------------------


def _alike(expected: Body, one: Piece, came: Body, other: Piece) -> bool:
    ours, theirs = expected.source(one), came.source(other)
    if ours == theirs:
        return True
    left, right = SCANNER.decode(ours), SCANNER.decode(theirs)
    if _spelled(left) == _spelled(right):
        return True
    if one.kind != "item" or not (_of_the_model(left) and _of_the_model(right)):
        return False
    return _spelled(_said(left)) == _spelled(_said(right))


def _plain(source: str) -> str:
    return _spelled(SCANNER.decode(source))


def _spelled(value: Any) -> str:
    return json.dumps(_number(value), sort_keys=True, separators=(",", ":"))


def _number(value: Any) -> Any:
    """The value with one spelling for each number: 1.0 is 1."""
    if isinstance(value, dict):
        return {key: _number(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_number(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_the_model(value: Any) -> bool:
    """True of an item that repeats what the model said."""
    if not isinstance(value, dict):
        return False
    members: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]
    role, kind = members.get("role"), str(members.get("type", ""))
    return role == "assistant" or (role is None and kind != "" and not kind.endswith("_output"))


def _said(value: Any) -> Any:
    """The value without members that say nothing, and without the id of a Responses message."""
    if isinstance(value, list):
        return [_said(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    members: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    message = members.get("type") == "message"
    return {
        name: _said(one)
        for name, one in members.items()
        if one is not None
        and one != []
        and not (message and name == "id")
        and not (name == "caller" and one == {"type": "direct"})
    }


# --- as people read it ----------------------------------------------------------------------------


def _item(
    expected: Body, one: Piece | None, came: Body, other: Piece | None, at: int
) -> Difference:
    body, piece = (expected, one) if one is not None else (came, other)
    assert piece is not None
    place = f"{piece.member}[{at}]" if _is_listed(body, piece) else piece.member
    index = -1 if one is None else expected.pieces.index(one)
    said, told = _text(expected, one), _text(came, other)
    if said == told:  # they differ in what is not shown, such as a mark
        said, told = _source(expected, one), _source(came, other)
    return Difference(place, index, _kind(body, piece), said, told)


def _is_listed(body: Body, piece: Piece) -> bool:
    """True of an element of a list; a system text may be a member of its own."""
    before = body.text[: piece.start].rstrip(" \t\r\n")
    return before.endswith(("[", ","))


def _alone(body: Body, piece: Piece) -> Body:
    return Body(body.api, body.text, (piece,), {})


def _kind(body: Body, piece: Piece) -> str:
    kinds = [f"{one.kind} {one.name}".rstrip(" ") for one in entries_of(_alone(body, piece))]
    return ", ".join(dict.fromkeys(kinds)) or piece.kind


def _text(body: Body, piece: Piece | None) -> str | None:
    if piece is None:
        return None
    if piece.kind == "tool":
        return _source(body, piece)
    entries = entries_of(_alone(body, piece))
    if len(entries) == 1 and not entries[0].part:
        one = entries[0]
        return f"{one.name}({one.text})" if one.role == "call" else one.text
    return "\n".join(f"{one.kind} {one.name}: {one.text}" for one in entries)


def _source(body: Body, piece: Piece | None) -> str | None:
    if piece is None:
        return None
    value = SCANNER.decode(body.source(piece))
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)


def _shown(expected: str | None, came: str | None) -> str:
    short = all(one is None or (len(one) <= _WIDE and "\n" not in one) for one in (expected, came))
    if short or expected is None or came is None:
        return f"expected: {_quoted(expected)}\n    came: {_quoted(came)}"
    compared = difflib.unified_diff(_lines(expected), _lines(came), n=1, lineterm="")
    lines = [line for at, line in enumerate(compared) if at > 1 and not line.startswith("@@")]
    more = len(lines) - _LINES
    if more > 0:
        lines = [*lines[:_LINES], f"… and {more} lines more"]
    return "\n".join(["- expected, + came", *(f"  {line}" for line in lines)])


def _lines(text: str) -> list[str]:
    """The lines of a text, long ones in pieces."""
    return list(_wrapped(text.split("\n")))


def _wrapped(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        for at in range(0, max(len(line), 1), _WIDE):
            yield line[at : at + _WIDE]


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else repr(_clipped(text, 4 * _WIDE))


def _clipped(text: str, wide: int = _WIDE) -> str:
    return text if len(text) <= wide else f"{text[:wide]}…"
