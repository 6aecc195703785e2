"""Tools as the model is told of them: from functions, JSON schemas and MCP tools to one form.

`tool` gives any of these an effect class, another name or description; `declare` and `declare_all`
are what `s.tools([...])` calls. The one form (`Tool.source`) is a JSON object with `name`,
`description` and `parameters` in this order; a schema that the caller wrote keeps its own order,
one made from a function depends on nothing but the function and the release of pydantic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from sawlog.builder.effects import CLASSES, READ_ONLY
from sawlog.store.errors import ConfigError, InvalidArguments, InvalidEvent
from sawlog.store.events.world import Tool
from sawlog.store.jsontext import source_of
from sawlog.work.function_schema import Arguments

_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")
_OWN = "__sawlog_effect__"
_NO_PARAMETERS: Mapping[str, object] = {"type": "object", "properties": {}}


F = TypeVar("F", bound=Callable[..., Any])


def own_tool(function: F) -> F:
    """Mark a method of sawlog's own that is offered as a tool: it reaches nothing beside the log,
    so that it is `read_only` without anybody's saying so."""
    setattr(function, _OWN, READ_ONLY)
    return function


@dataclass(frozen=True)
class Declared:
    """A tool, and the function that runs it where one was given.

    `free_form`: its calls carry free text instead of JSON; `call_arguments` gives it as `input`.
    """

    tool: Tool
    function: Callable[..., Any] | None = None
    free_form: bool = False
    arguments: Arguments | None = field(default=None, repr=False, compare=False)


def tool(
    function: Any,
    *,
    effect: str | None = None,
    name: str | None = None,
    description: str | None = None,
) -> Declared:
    """Declare a tool with an effect class, another name or description; no decorator.

    `function` is anything that `s.tools([...])` takes. `effect` is `read_only`, `idempotent` (the
    tool does a thing once for one key) or `side_effect`, the default. Raises ConfigError for what
    cannot be a tool.
    """
    declared = declare(function, name=name)
    if effect is not None and effect not in CLASSES:
        raise ConfigError(
            f"{effect!r} is no effect class of a tool; it is one of {', '.join(CLASSES)}"
        )
    made = declared.tool
    if description is not None:
        made = _described(made, description)
    made = Tool(made.name, made.source, effect or made.effect)
    return Declared(made, declared.function, declared.free_form, declared.arguments)


def declare_all(tools: Iterable[Any]) -> list[Declared]:
    """The declarations of several tools, in order. Raises ConfigError for a name given twice, and
    for one tool that is no list."""
    if not _is_list(tools):
        raise ConfigError(f"tools is a list, not {_shown(tools)} alone: give a list: [the tool]")
    found: dict[object, int] = {}
    declared: list[Declared] = []
    for at, one in enumerate(tools):
        made = declare(one)
        first = found.setdefault(made.tool.name, at)
        if first != at:
            raise ConfigError(
                f"tools {first} and {at} are both named {made.tool.name!r}; give one another name "
                "with sawlog.tool(…, name=…)"
            )
        declared.append(made)
    return declared


def _is_list(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)


def declare(given: Any, *, name: str | None = None) -> Declared:
    """The declaration of one tool, under another name if one is given.

    Takes a function (its parameters' type hints become the schema, the first paragraph of its
    docstring the description), the forms of the OpenAI and Anthropic APIs, an MCP tool (object or
    dict), a Tool, or what `tool` gave. A dict of a type that its provider runs itself (web search)
    is passed on as it is. Hints of an MCP server about effects do not count: say `effect` yourself.
    Raises ConfigError, naming the tool, for what cannot be one.
    """
    if isinstance(given, Declared):
        return given if name is None else _renamed(given, name)
    if isinstance(given, Tool):
        _check_name(given.name if isinstance(given.name, str) else "", given)
        return _renamed(Declared(given), name) if name is not None else Declared(given)
    if isinstance(given, Mapping):
        return _of_mapping(cast("Mapping[str, Any]", given), name)
    for key in ("inputSchema", "input_schema"):
        schema = getattr(given, key, None)
        if isinstance(schema, Mapping):
            called = _text(getattr(given, "name", None), given) if name is None else name
            said = getattr(given, "description", None)
            return _of_schema(called, said, cast("Mapping[str, Any]", schema), {})
    if callable(given):
        return _of_function(given, name)
    raise ConfigError(
        f"{_shown(given)} is no tool: give a function, a dict in the form of OpenAI, Anthropic or "
        "MCP, or an MCP tool"
    )


def call_arguments(declared: Declared, source: str) -> dict[str, Any]:
    """The arguments of a call, ready for `declared.function(**arguments)`.

    For a function they are checked and converted by its type hints; else they are the JSON object
    as it is. An empty source is no arguments. Raises InvalidArguments, in words that the model can
    mend them by.
    """
    if declared.free_form:
        return {"input": source}
    values = json_arguments(str(declared.tool.name), source)
    if declared.arguments is None:
        return values
    return declared.arguments.read(str(declared.tool.name), values)


def json_arguments(name: str, source: str) -> dict[str, Any]:
    """The JSON object that the arguments of a call are. Raises InvalidArguments for all else."""
    if not source.strip(" \t\r\n"):
        return {}
    try:
        value = json.loads(source, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidArguments(f"the arguments of {name} are nested too deeply") from None
    except ValueError as error:
        raise InvalidArguments(f"the arguments of {name} are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments of {name} are JSON, but no object")
    return cast(dict[str, Any], value)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


# --- the forms that a tool comes in --------------------------------------------------------------


def _of_function(function: Callable[..., Any], name: str | None) -> Declared:
    arguments = Arguments(function)
    called = arguments.name if name is None else name
    if called is None:
        raise ConfigError(
            f"{_shown(function)} has no name; give it one with sawlog.tool(…, name=…)"
        )
    _check_name(called, function)
    made = _made(called, arguments.description, arguments.schema(called), {})
    effect = getattr(function, _OWN, made.effect)
    if effect in CLASSES:
        made = Tool(made.name, made.source, effect)
    return Declared(made, function, arguments=arguments)


def _of_mapping(given: Mapping[str, Any], name: str | None) -> Declared:
    kind = given.get("type")
    if kind in ("function", "custom") and isinstance(given.get(kind), Mapping):
        # Chat Completions put the tool into a field of its own.
        inner = cast("Mapping[str, Any]", given[kind])
        return _of_mapping({"type": kind, **inner}, name)
    own = kind in (None, "function", "custom")
    called = _text(given.get("name", None if own else kind), given) if name is None else name
    _check_name(called, given)
    if not own:
        return Declared(Tool(called, _source(called, {**given})))
    for key in ("parameters", "input_schema", "inputSchema"):
        if isinstance(given.get(key), Mapping):
            left = {"type", "name", "description", key}
            if key == "inputSchema":
                left |= given.keys()  # what else an MCP tool says is not for the model
            more = {k: v for k, v in given.items() if k not in left}
            return _of_schema(called, given.get("description"), given[key], more)
        if given.get(key) is not None:
            raise ConfigError(f"the {key} of the tool {called!r} are no JSON schema object")
    more = {k: v for k, v in given.items() if k not in ("name", "description")}
    if kind == "custom":
        made = Tool(called, _source(called, _members(called, given.get("description")) | more))
        return Declared(made, free_form=True)
    if kind is None:
        raise ConfigError(
            f"the tool {called!r} has no schema: give it one as parameters, input_schema or "
            "inputSchema"
        )
    more = {k: v for k, v in more.items() if k not in ("type", "parameters")}
    return _of_schema(called, given.get("description"), _NO_PARAMETERS, more)


def _of_schema(
    name: str, description: object, schema: Mapping[str, Any], more: Mapping[str, Any]
) -> Declared:
    _check_name(name, name)
    if description is not None and not isinstance(description, str):
        raise ConfigError(f"the description of the tool {name!r} is no text")
    return Declared(_made(name, description, schema, more))


def _made(
    name: str, description: str | None, schema: Mapping[str, Any], more: Mapping[str, Any]
) -> Tool:
    members = {**_members(name, description), "parameters": schema, **more}
    return Tool(name, _source(name, members))


def _members(name: str, description: str | None) -> dict[str, Any]:
    return {"name": name, **({"description": description} if description else {})}


def _source(name: str, members: Mapping[str, Any]) -> str:
    try:
        return source_of(members, name)
    except InvalidEvent as error:
        raise ConfigError(f"the tool {name!r} cannot be written as JSON: {error}") from error


# --- changes -------------------------------------------------------------------------------------


def _renamed(declared: Declared, name: str) -> Declared:
    _check_name(name, declared.tool)
    members = _read(declared.tool)
    if "name" in members:
        members["name"] = name
    made = Tool(name, _source(name, members), declared.tool.effect)
    return Declared(made, declared.function, declared.free_form, declared.arguments)


def _described(made: Tool, description: str) -> Tool:
    members = _read(made)
    rest = {key: value for key, value in members.items() if key not in ("name", "description")}
    name = str(made.name)
    return Tool(name, _source(name, {**_members(name, description), **rest}), made.effect)


def _read(made: Tool) -> dict[str, Any]:
    try:
        members = json.loads(made.source) if isinstance(made.source, str) else None
    except ValueError:
        members = None
    if not isinstance(members, dict):
        raise ConfigError(f"the source of the tool {made.name!r} is no JSON object")
    return cast(dict[str, Any], members)


# --- names ---------------------------------------------------------------------------------------


def _check_name(name: str, given: object) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot be the name of a tool ({_shown(given)}): providers take 1 to 64 of "
            "A-Z, a-z, 0-9, _ and -; give it another with sawlog.tool(…, name=…)"
        )


def _text(name: object, given: object) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"{_shown(given)} has no name")
    return name


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:77]}…"
