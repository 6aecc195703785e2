"""Which tool a call means among those that were offered: a model calls it by the name on the wire.

That is the tool's own name, its wire name where a provider refused that, the name inside of a
namespace, or the kind of a tool that a provider defines. The tools given here carry their texts as
strings, also those that lie in blobs in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sawlog.builder.profiles import PROFILES
from sawlog.builder.render.wire import wire_name
from sawlog.builder.replies.source import elements, fields, is_object, text_of
from sawlog.store.events.world import Tool

_ALPHABETS = tuple(dict.fromkeys(profile.names for profile in PROFILES))


def offered(name: str, namespace: str, tools: Iterable[Tool]) -> Tool | None:
    """The tool that a call means, under the name of the call; None when it was not offered."""
    for tool in tools:
        own, source = str(tool.name), str(tool.source)
        kind = _kind(source)
        if kind == "namespace":
            for inner, text in _inside(source):
                if name == inner if namespace == own else name in _wires(inner, own):
                    return Tool(name, text, tool.effect)
        elif not namespace and (name == own or name in _wires(own) or _is_computer(name, kind)):
            return Tool(name, source, tool.effect)
    return None


def may_find_more(tools: Iterable[Tool]) -> bool:
    """True when a tool search is on offer: what it finds may be called and was never declared."""
    return any(_kind(str(tool.source)).startswith("tool_search") for tool in tools)


def is_the_providers(tool: Tool) -> bool:
    """True for a tool that a provider defines and the client runs, such as a shell: no schema."""
    return _kind(str(tool.source)) not in ("", "function", "custom")


def _kind(source: str) -> str:
    return text_of(fields(source).get("type")) if is_object(source) else ""


def _inside(source: str) -> Iterator[tuple[str, str]]:
    for one in elements(fields(source).get("tools")) or ():
        yield text_of(fields(one).get("name")), one


def _wires(name: str, namespace: str = "") -> tuple[str, ...]:
    return tuple(wire_name(name, alphabet, namespace) for alphabet in _ALPHABETS)


def _is_computer(name: str, kind: str) -> bool:
    # The one kind of tool whose calls do not bear its name: computer_use_preview.
    return name == "computer" and kind.startswith("computer")
