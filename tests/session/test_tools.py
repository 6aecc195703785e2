"""Tools in all the forms they come in, and the arguments of their calls."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from openai.types.responses import FunctionTool
from pydantic import BaseModel, Field

from sawlog.store.errors import ConfigError, InvalidArguments, ToolError
from sawlog.store.events.world import Tool
from sawlog.work.tools import Declared, call_arguments, declare, declare_all, tool

if TYPE_CHECKING:
    from pathlib import PurePath as Hidden  # a name that is not there at run time


def read_file(path: str, start: int = 1, limit: int | None = None) -> str:
    """Read a file
    of the repository.

    The rest of the docstring is for people.
    """
    return f"{path}:{start}:{limit}"


READ_FILE = (
    '{"name":"read_file","description":"Read a file of the repository.","parameters":'
    '{"type":"object","properties":{"path":{"type":"string"},'
    '"start":{"default":1,"type":"integer"},'
    '"limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null}},'
    '"required":["path"],"additionalProperties":false}}'
)


def schema(declared: Declared) -> dict[str, Any]:
    """The members of a tool's source."""
    assert isinstance(declared.tool.source, str)
    found: dict[str, Any] = json.loads(declared.tool.source)
    return found


# --- functions -----------------------------------------------------------------------------------


def test_a_function_is_a_tool_by_its_hints_and_its_docstring() -> None:
    declared = declare(read_file)
    assert declared.tool == Tool("read_file", READ_FILE, "side_effect")
    assert declared.function is read_file


def test_a_function_gets_its_arguments_as_its_hints_say() -> None:
    declared = declare(read_file)
    assert call_arguments(declared, '{"path":"a","limit":"7"}') == {"path": "a", "limit": 7}
    assert read_file(**call_arguments(declared, '{"path":"a"}')) == "a:1:None"


class Color(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Edit(BaseModel):
    """One replacement."""

    old: str
    new: str = Field(title="The new text", description="Stands there afterwards.")


@dataclass
class Place:
    line: int


def edit(
    edits: list[Edit],
    place: Place,
    options: dict[str, bool],
    color: Color = Color.RED,
    how: Literal["now", "later"] = "now",
    limit: Annotated[int, Field(ge=1, description="At most so many.")] = 5,
    from_: Annotated[str, Field(alias="from")] = "",
    note: str = Field(default="none", description="Why."),
    where: Path = Path("src"),
    tags: frozenset[str] = frozenset({"b", "a", "c"}),
) -> dict[str, Any]:
    return dict(locals())


def test_types_of_all_kinds_have_a_schema_without_titles() -> None:
    source = declare(edit).tool.source
    assert isinstance(source, str)
    assert "title" not in source.replace("The new text", "")
    members = json.loads(source)
    assert list(members) == ["name", "parameters"]
    parameters = members["parameters"]
    assert list(parameters)[:3] == ["type", "properties", "required"]
    assert parameters["required"] == ["edits", "place", "options"]
    assert list(parameters["properties"]) == (
        ["edits", "place", "options", "color", "how", "limit", "from", "note", "where", "tags"]
    )
    assert parameters["properties"]["limit"] == {
        "default": 5, "description": "At most so many.", "minimum": 1, "type": "integer"
    }  # fmt: skip
    assert parameters["properties"]["tags"]["default"] == ["a", "b", "c"]
    assert parameters["$defs"]["Edit"]["description"] == "One replacement."
    assert parameters["$defs"]["Color"]["enum"] == ["red", "blue"]


def test_values_become_what_the_hints_say() -> None:
    source = json.dumps(
        {
            "edits": [{"old": "a", "new": "b"}],
            "place": {"line": 3},
            "options": {"dry": True},
            "color": "blue",
            "from": "x",
            "tags": ["z"],
        }
    )
    found = edit(**call_arguments(declare(edit), source))
    assert found["edits"] == [Edit(old="a", new="b")]
    assert found["place"] == Place(3)
    assert found["options"] == {"dry": True}
    assert found["color"] is Color.BLUE
    assert (found["from_"], found["note"], found["where"]) == ("x", "none", Path("src"))
    assert found["tags"] == frozenset({"z"})


def test_a_parameter_may_have_any_name() -> None:
    def odd(schema: str, model_config: int, _x: bool, copy: str = "c", p0: int = 0) -> str:
        return f"{schema} {model_config} {_x} {copy} {p0}"

    declared = declare(odd)
    names = ["schema", "model_config", "_x", "copy", "p0"]
    assert list(schema(declared)["parameters"]["properties"]) == names
    source = '{"schema":"s","model_config":1,"_x":true}'
    assert odd(**call_arguments(declared, source)) == "s 1 True c 0"


def test_a_function_without_hints_takes_anything() -> None:
    loose: Callable[..., object] = eval("lambda a, b=1: (a, b)")
    declared = tool(loose, name="loose")
    assert schema(declared)["parameters"]["properties"] == {"a": {}, "b": {"default": 1}}
    assert call_arguments(declared, '{"a":[1]}') == {"a": [1]}


def test_a_function_with_more_keywords_takes_them() -> None:
    def more(path: str, *rest: str, **options: Any) -> None: ...

    declared = declare(more)
    assert schema(declared)["parameters"]["additionalProperties"] is True
    assert list(schema(declared)["parameters"]["properties"]) == ["path"]
    assert call_arguments(declared, '{"path":"a","x":[1]}') == {"path": "a", "x": [1]}


def test_methods_async_functions_and_partials_are_functions_too() -> None:
    class Shell:
        """Not this."""

        def run(self, cmd: str) -> str:
            """Run it."""
            return cmd

        def __call__(self, cmd: str, cwd: str) -> str:
            """Call it."""
            return cmd + cwd

    async def wait(seconds: float) -> None:
        """Wait."""

    shell = Shell()
    assert schema(declare(shell.run))["description"] == "Run it."
    assert list(schema(declare(shell.run))["parameters"]["properties"]) == ["cmd"]
    assert declare(wait).function is wait
    fixed = tool(functools.partial(shell.run, cmd="ls"), name="ls")
    assert (fixed.tool.name, schema(fixed)["description"]) == ("ls", "Run it.")
    assert schema(fixed)["parameters"]["properties"]["cmd"]["default"] == "ls"
    called = tool(shell, name="shell")
    assert schema(called)["parameters"]["required"] == ["cmd", "cwd"]
    assert schema(called)["description"] == "Call it."


def test_a_default_that_json_cannot_say_is_no_part_of_the_schema() -> None:
    def log(text: str, to: object = sys.stderr) -> None: ...

    assert schema(declare(log))["parameters"]["properties"]["to"] == {}


PROGRAM = """
from enum import Enum
from sawlog.work.tools import declare

Color = Enum("Color", {"RED": "red", "BLUE": "blue"})

def edit(color: Color, more: dict[str, Color | None], tags: frozenset[str] = frozenset("abcdef")):
    pass

print(declare(edit).tool.source)
"""


def test_a_function_gives_the_same_source_in_every_process() -> None:
    """Equal tools append nothing when the script runs again; a set's order must not show."""

    def run(seed: int) -> bytes:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(command, env=environment, capture_output=True, check=True).stdout

    assert len({run(seed) for seed in range(4)}) == 1


# --- schemas -------------------------------------------------------------------------------------

SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["z", "a"],
    "properties": {"z": {"type": "string"}, "a": {}},
}
NEUTRAL = (
    '{"name":"find","description":"Find it.","parameters":{"type":"object","required":["z","a"],'
    '"properties":{"z":{"type":"string"},"a":{}}}}'
)
FORMS: list[object] = [
    {
        "type": "function",
        "function": {"name": "find", "description": "Find it.", "parameters": SCHEMA},
    },
    {"type": "function", "name": "find", "description": "Find it.", "parameters": SCHEMA},
    {"name": "find", "description": "Find it.", "input_schema": SCHEMA},
    {"type": "custom", "name": "find", "description": "Find it.", "input_schema": SCHEMA},
    {"description": "Find it.", "inputSchema": SCHEMA, "name": "find", "title": "F", "_meta": {}},
    SimpleNamespace(name="find", description="Find it.", inputSchema=SCHEMA, annotations=None),
    SimpleNamespace(name="find", description="Find it.", input_schema=SCHEMA),
    Tool("find", NEUTRAL),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_one_neutral_source(form: object) -> None:
    """The caller's schema keeps its own order."""
    declared = declare(form)
    assert declared.tool == Tool("find", NEUTRAL)
    assert declared.function is None
    assert call_arguments(declared, '{"z":"x","q":1}') == {"z": "x", "q": 1}


def test_what_else_a_tool_says_stands_behind() -> None:
    given = {"name": "find", "strict": True, "parameters": SCHEMA, "description": "Find it."}
    assert declare(given).tool.source == NEUTRAL[:-1] + ',"strict":true}'
    official = FunctionTool(type="function", name="find", parameters=SCHEMA, strict=True)
    assert declare(official.model_dump(exclude_none=True)).tool.source == (
        NEUTRAL.replace('"description":"Find it.",', "")[:-1] + ',"strict":true}'
    )


def test_a_function_tool_may_have_no_parameters() -> None:
    declared = declare({"type": "function", "function": {"name": "now", "parameters": None}})
    empty = '{"name":"now","parameters":{"type":"object","properties":{}}}'
    assert declared.tool.source == empty


@pytest.mark.parametrize("nested", [True, False])
def test_a_custom_tool_of_openai_takes_free_text(nested: bool) -> None:
    about = {"name": "patch", "description": "Patch.", "format": {"type": "text"}}
    given = {"type": "custom", "custom": about} if nested else {"type": "custom", **about}
    declared = declare(given)
    assert declared.free_form
    assert declared.tool.source == (
        '{"name":"patch","description":"Patch.","type":"custom","format":{"type":"text"}}'
    )
    assert call_arguments(declared, "*** {") == {"input": "*** {"}


def test_a_tool_that_its_provider_runs_is_passed_on() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    assert declare(search).tool == Tool(
        "web_search", '{"type":"web_search_20250305","name":"web_search","max_uses":5}'
    )
    assert declare({"type": "web_search"}).tool == Tool("web_search", '{"type":"web_search"}')


# --- effects, names, descriptions ----------------------------------------------------------------


def test_a_tool_is_given_an_effect_another_name_and_description() -> None:
    declared = tool(read_file, effect="read_only", name="cat", description="Show a file.")
    assert declared.tool.effect == "read_only"
    assert declared.tool.source == READ_FILE.replace("read_file", "cat").replace(
        "Read a file of the repository.", "Show a file."
    )
    assert declared.function is read_file
    assert declare(declared) is declared
    assert tool(declared, effect="idempotent").tool.effect == "idempotent"
    assert tool(declared, name="show").tool.effect == "read_only"
    assert tool(Tool("find", NEUTRAL, "read_only"), name="seek").tool == Tool(
        "seek", NEUTRAL.replace("find", "seek"), "read_only"
    )
    described = tool({"name": "x", "parameters": SCHEMA}, description="X.").tool.source
    assert isinstance(described, str)
    assert described.startswith('{"name":"x","description":"X.","parameters":{')


def test_hints_of_a_server_about_effects_do_not_count() -> None:
    given = {"name": "rm", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    assert declare(given).tool.effect == "side_effect"
    assert tool(given, effect="read_only").tool.effect == "read_only"


def test_an_unknown_effect_is_refused() -> None:
    with pytest.raises(ConfigError, match="'readonly' is no effect class.*read_only, idempotent"):
        tool(read_file, effect="readonly")


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "café", "a.b", "a\n"])
def test_a_name_that_providers_refuse_is_refused_by_name(name: str) -> None:
    named: list[object] = [
        {"name": name, "parameters": SCHEMA},
        {"type": "web_search", "name": name},
        SimpleNamespace(name=name, description="", inputSchema=SCHEMA),
        Tool(name, NEUTRAL),
    ]
    for given in named:
        with pytest.raises(ConfigError) as caught:
            declare(given)
        assert repr(name) in str(caught.value)
    for given in (read_file, Tool("find", NEUTRAL), {"name": "find", "parameters": SCHEMA}):
        with pytest.raises(ConfigError) as caught:
            tool(given, name=name)
        assert repr(name) in str(caught.value)


def test_a_name_given_twice_is_refused() -> None:
    again = {"name": "read_file", "parameters": SCHEMA}
    with pytest.raises(ConfigError, match="tools 0 and 2 are both named 'read_file'"):
        declare_all([read_file, edit, again])
    names = [one.tool.name for one in declare_all([read_file, tool(again, name="other")])]
    assert names == ["read_file", "other"]


class Thing:
    """No type that JSON knows."""


def positional(x: int, /) -> None: ...
def unreadable(x: Hidden) -> None: ...
def untyped(x: Thing) -> None: ...
def endless(x: float = float("inf")) -> None: ...
def called(f: Callable[[int], int]) -> None: ...


NO_TOOLS: list[tuple[object, str]] = [
    (7, "7 is no tool"),
    ("read_file", "'read_file' is no tool"),
    ({"name": "x"}, "'x' has no schema"),
    ({"parameters": SCHEMA}, "has no name"),
    ({"type": "function"}, "has no name"),
    ({"type": "function", "function": {}}, "has no name"),
    ({"name": "x", "parameters": "{}"}, "the parameters of the tool 'x'"),
    ({"name": "x", "description": 1, "parameters": {}}, "the description of the tool 'x'"),
    ({"name": "x", "parameters": {"a": float("nan")}}, "x.parameters.a"),
    ({"name": "x", "parameters": {1: 2}}, "x.parameters"),
    (SimpleNamespace(inputSchema={}), "has no name"),
    (lambda: 0, "'<lambda>' cannot be the name"),
    (functools.partial(read_file), "has no name; give it one"),
    (positional, "'positional' takes 'x' by position only"),
    (unreadable, "hints of the tool 'unreadable'.*Hidden"),
    (untyped, "'untyped'"),
    (called, "'called'"),
    (endless, "'endless'"),
]


@pytest.mark.parametrize(("given", "why"), NO_TOOLS)
def test_what_cannot_be_a_tool_is_named(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        declare(given)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("", "path: Field required"),
        ("{}", "path: Field required"),
        ('{"path":1}', "path: Input should be a valid string"),
        ('{"path":"a","start":"x"}', "start: .*valid integer"),
        ('{"path":"a","stat":1}', "stat: Extra inputs"),
        ('{"path":"a","p0":1}', "p0: Extra inputs"),
        ('{"path":"a"', "no JSON"),
        ('{"path":NaN}', "NaN is no JSON value"),
        ("[1]", "no object"),
        ("null", "no object"),
        ("read it", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"path":"a","start":' + "1" * 5000 + "}", "no JSON"),
    ],
)
def test_arguments_that_do_not_fit_say_how(source: str, why: str) -> None:
    with pytest.raises(InvalidArguments, match=f"the arguments of read_file.*{why}") as caught:
        call_arguments(declare(read_file), source)
    assert not isinstance(caught.value, ToolError), "that would end the loop instead of the call"


def test_arguments_of_a_tool_without_a_function_are_the_object() -> None:
    declared = declare({"name": "find", "parameters": SCHEMA})
    assert call_arguments(declared, ' {"z":"\\ud800"} ') == {"z": "\ud800"}
    assert call_arguments(declared, "") == {}
    with pytest.raises(InvalidArguments, match="no object"):
        call_arguments(declared, "[]")
