"""A thread of LangGraph as its session's records tell it: checkpoints, writes, channel values."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from sawlog.adapters.keeping import Keeper, Kept

POINT, WRITES, DROPPED, DELETED = "checkpoint", "writes", "dropped", "thread.deleted"

Typed = tuple[str, bytes]
"""A value as the serializer of LangGraph writes it."""


class Value(msgspec.Struct, frozen=True):
    """A channel's value: absent, one serialized value, or the elements of a list."""

    items: tuple[Typed, ...] = ()
    many: bool = False
    empty: bool = False


class Point(msgspec.Struct, frozen=True):
    """A checkpoint without its values, its metadata, and the id of its parent."""

    checkpoint: Typed
    metadata: Typed
    parent: str | None


class Thread(msgspec.Struct):
    """A thread as it was read so far. Points and writes are by namespace and checkpoint id."""

    keeper: Keeper
    read: int = 0
    points: dict[tuple[str, str], Point] = {}
    writes: dict[tuple[str, str], dict[tuple[str, int], tuple[str, Typed, str]]] = {}
    values: dict[tuple[str, str, str | int | float], Value] = {}
    newest: dict[tuple[str, str], str | int | float] = {}


def take(thread: Thread, ever: Sequence[Kept]) -> None:
    """Read what came since."""
    for one in ever[thread.read :]:
        if not one.kind:
            continue
        value = json.loads(one.source)
        if one.kind == DELETED:
            for known in (thread.points, thread.writes, thread.values, thread.newest):
                known.clear()
        elif one.kind == DROPPED:
            for ns, id in value:
                thread.points.pop((ns, id), None)
                thread.writes.pop((ns, id), None)
        elif one.kind == WRITES:
            written = thread.writes.setdefault((value["ns"], value["id"]), {})
            for at, channel, kind, data in value["writes"]:
                # A task that is done again repeats what it wrote; only an error's may change.
                if at < 0 or (value["task"], at) not in written:
                    typed = (kind, base64.b64decode(data))
                    written[value["task"], at] = (channel, typed, value["path"])
        else:
            _take_point(thread, value)
    thread.read = len(ever)


def _take_point(thread: Thread, value: dict[str, Any]) -> None:
    ns = value["ns"]
    thread.points[ns, value["id"]] = Point(
        _typed(value["checkpoint"]), _typed(value["metadata"]), value["parent"]
    )
    for name, given in value["values"].items():
        version = given["version"]
        if "one" in given:
            made = Value((_typed(given["one"]),))
        elif "new" in given:
            old = thread.values[ns, name, given["of"]].items if given["keep"] else ()
            made = Value((*old[: given["keep"]], *map(_typed, given["new"])), many=True)
        else:
            made = Value(empty=True)
        thread.values[ns, name, version] = made
        thread.newest[ns, name] = version


def text_of(typed: Typed) -> Sequence[str]:
    """A serialized value as JSON holds it."""
    kind, data = typed
    return [kind, base64.b64encode(data).decode("ascii")]


def _typed(pair: Sequence[str]) -> Typed:
    kind, data = pair
    return kind, base64.b64decode(data)
