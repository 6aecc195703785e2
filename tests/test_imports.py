"""Who may import whom: the floors of the house, held by reading every import statement."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import sawlog
from tests.fresh import import_milliseconds, imported_modules
from tests.timing import slowness

FACE = Path(sawlog.__file__).parent


class Room(NamedTuple):
    """The files of a room, and what they may import besides each other and the standard library."""

    files: tuple[str, ...]
    may_import: tuple[str, ...] = ()


# A file belongs to the first room with a pattern that fits (`*` crosses folders). What it may
# import is named by room, by file of another room, or by top-level module from outside.
HOUSE: dict[str, Room] = {
    # Floor 1: what can happen, and the log of what did.
    "store values": Room(
        (
            "store/__init__.py",
            "store/checkpoint.py",
            "store/codec.py",
            "store/content.py",
            "store/envelope.py",
            "store/errors.py",
            "store/event.py",
            "store/events/*",
            "store/ids.py",
            "store/invariants.py",
            "store/jsonslices.py",
            "store/jsontext.py",
            "store/registry.py",
            "store/text.py",
        ),
        ("msgspec",),
    ),
    "store log": Room(
        (
            "store/append.py",
            "store/blobs.py",
            "store/checked.py",
            "store/database.py",
            "store/dictionaries.py",
            "store/dictionary.py",
            "store/directory.py",
            "store/erasure.py",
            "store/exchange.py",
            "store/exported.py",
            "store/follow.py",
            "store/graft.py",
            "store/health.py",
            "store/incoming.py",
            "store/lease.py",
            "store/log.py",
            "store/objects.py",
            "store/pack.py",
            "store/packing.py",
            "store/packs.py",
            "store/postgresql.py",
            "store/postgresqlline.py",
            "store/redaction.py",
            "store/rows.py",
            "store/salvage.py",
            "store/schema.py",
            "store/sidelock.py",
            "store/snapshots.py",
            "store/sqlitefile.py",
            "store/sqlitetransaction.py",
            "store/sqlitewriter.py",
            "store/unproved.py",
        ),
        ("store values", "first use", "msgspec", "psycopg", "sqlalchemy", "zstandard"),
    ),
    # The one arrow up, and a deferred one: an SQLite store is made and migrated on first use.
    "first use": Room(
        ("store/sqlite.py",),
        ("store values", "store log", "migrations/__init__.py", "sqlalchemy"),
    ),
    # Floor 2: pure, from events to what the model sees; foreign logs; the schema's history.
    "builder selection": Room(
        ("builder/selection/*",),
        ("builder/estimate.py", "builder/item.py", "store values", "msgspec", "pydantic"),
    ),
    "builder render": Room(("builder/render/*",), ("builder", "store values", "msgspec")),
    "builder": Room(
        ("builder/*",), ("builder selection", "builder render", "store values", "msgspec")
    ),
    "formats": Room(("formats/*",), ("store values", "msgspec")),
    "migrations": Room(
        ("migrations/*",),
        ("store/schema.py", "store/database.py", "alembic", "msgspec", "sqlalchemy"),
    ),
    "fixtures": Room(("fixtures/*",)),
    # Floor 3: checkpoints; doors to models.
    "compaction": Room(
        ("compaction/*",),
        (
            "builder",
            "builder render",
            "store values",
            "msgspec",
            "pydantic",
        ),
    ),
    "providers": Room(
        ("providers/*",),
        ("builder render", "builder/profiles.py", "store values", "msgspec", "httpx"),
    ),
    # A measure that needs a package of its own.
    "tokens": Room(("tokens.py",), ("builder", "store values", "tiktoken")),
    # Files around an agent: looked at, watched, read for instructions.
    "workspace": Room(
        ("workspace/*",),
        ("builder", "store values", "msgspec", "watchfiles"),
    ),
    # Floor 4: the hall: one session, one loop, and the same session read again.
    "summariser": Room(
        ("work/summarising.py",),
        (
            "work/exchange.py",
            "work/spellings.py",
            "builder",
            "builder render",
            "store values",
            "msgspec",
            "httpx",
        ),
    ),
    "session": Room(
        ("agentlog.py", "audit/*", "work/*"),
        (
            "compaction",
            "summariser",
            "workspace",
            "builder",
            "builder render",
            "builder selection",
            "store values",
            "store log",
            "first use",
            "migrations",
            "msgspec",
            "pydantic",
        ),
    ),
    "importing": Room(
        ("importing.py",),
        ("session", "formats", "builder", "builder render", "store values", "store log", "msgspec"),
    ),
    # Requests that other programs build, recorded as they leave.
    "recorder": Room(
        ("recorder/*",),
        (
            "session",
            "formats",
            "builder",
            "builder render",
            "store values",
            "msgspec",
            "anyio",
        ),
    ),
    # Floor 5: pages that write nothing; the public names.
    "viewer": Room(("viewer/*",), ("session", "builder/render/markdown.py", "store values")),
    # The published labs, and policies compared on cases.
    "labs": Room(
        ("labs/*",),
        (
            "builder",
            "builder selection",
            "fixtures",
            "store values",
            "workspace/files.py",
            "msgspec",
            "httpx",
        ),
    ),
    "face": Room(
        ("__init__.py", "errors.py"),
        (
            "session",
            "recorder",
            "testing",
            "summariser",
            "providers/httpclient.py",
            "builder",
            "builder selection",
            "store values",
            "store/objects.py",
        ),
    ),
    # Doors for agent frameworks. Each framework is imported by its own file, and none by another.
    "adapters": Room(
        (
            "adapters/__init__.py",
            "adapters/keeping.py",
            "adapters/missing.py",
            "adapters/place.py",
            "adapters/records.py",
        ),
        ("session", "formats", "builder", "builder render", "store values", "store log", "msgspec"),
    ),
    "adapter for openai-agents": Room(
        ("adapters/openai_agents.py",),
        ("adapters", "session", "formats", "store values", "msgspec", "agents"),
    ),
    "adapter for pydantic-ai": Room(
        (
            "adapters/pydantic_ai.py",
            "adapters/pydantic_conversation.py",
            "adapters/pydantic_messages.py",
        ),
        (
            "adapters",
            "session",
            "formats",
            "store values",
            "msgspec",
            "pydantic",
            "pydantic_ai",
        ),
    ),
    "adapter for langgraph": Room(
        ("adapters/langchain_messages.py", "adapters/langgraph.py", "adapters/langgraph_thread.py"),
        (
            "adapters",
            "session",
            "formats",
            "store values",
            "msgspec",
            "langchain_core",
            "langgraph",
        ),
    ),
    "adapter for claude-agent-sdk": Room(
        ("adapters/claude_agent_sdk.py",),
        (
            "adapters",
            "session",
            "formats",
            "builder",
            "builder render",
            "store values",
            "store log",
            "msgspec",
        ),
    ),
    # Tests of agents: recordings that answer in a model's place.
    "testing": Room(
        ("testing/*",),
        (
            "session",
            "recorder",
            "providers",
            "builder",
            "builder render",
            "store values",
            "store log",
            "msgspec",
            "pytest",
        ),
    ),
    # A door for programs in any language: what they say to models passes through and is recorded.
    "proxy": Room(
        ("proxy/*",),
        ("session", "recorder", "store values", "msgspec", "h11", "httpx"),
    ),
    # The command's own agent, in a process that can be killed.
    "demo": Room(("demo/*",), ("session", "store values", "store log", "msgspec")),
    # Floor 6: the command. Nothing imports it but `python -m sawlog`.
    "cli": Room(
        ("cli/*",),
        (
            "face",
            "session",
            "importing",
            "viewer",
            "workspace",
            "providers",
            "formats",
            "fixtures",
            "demo",
            "labs",
            "proxy",
            # Profiles are data, which a command lists.
            "builder/profiles.py",
            "builder/profiledoc.py",
            "builder/render/__init__.py",
            "migrations",
            "store values",
            "store log",
            "msgspec",
            "rich",
            "typer",
        ),
    ),
    "main": Room(("__main__.py",), ("cli",)),
}

LIBRARY = sys.stdlib_module_names | {"compression"}  # which is new in Python 3.14

# Rooms that a fold, a packet or a digest may depend on: no clock, no I/O, no chance (law 4).
PURE = ("builder", "builder render", "builder selection", "compaction")
PURE_LIBRARY = frozenset(
    "__future__ abc base64 binascii bisect collections contextlib copy dataclasses datetime "
    "decimal difflib enum functools hashlib heapq itertools json math operator re string struct "
    "threading tomllib types typing".split()  # threading for locks around a shared structure
)
# Methods of str whose answer changes with the Unicode tables of the Python release.
UNICODE_METHODS = frozenset(
    "capitalize casefold isalnum isalpha isdecimal isdigit isidentifier islower isnumeric "
    "isprintable isspace istitle isupper lower swapcase title upper".split()
)
# What a published contract says in these words; a file of its own, for the lab's policy alone.
PUBLISHED_FOLD = ("builder/selection/published.py", "casefold")

FILES = sorted(
    str(path.relative_to(FACE))
    for folder in (FACE, *(path for path in FACE.iterdir() if path.is_dir()))
    # A pattern with ** does not follow links, so each folder of the face is a start of its own.
    for path in (folder.glob("*.py") if folder == FACE else folder.rglob("*.py"))
)


@cache
def room_of(file: str) -> str | None:
    """Give the room of a file, named relative to the package, or None."""
    for name, room in HOUSE.items():
        if any(fnmatchcase(file, pattern) for pattern in room.files):
            return name
    return None


def file_of(module: str) -> str | None:
    """Give the file of a module of sawlog, relative to the package, or None if there is none."""
    place = "/".join(module.split(".")[1:])
    for file in (f"{place}.py", f"{place}/__init__.py".lstrip("/")):
        if (FACE / file).is_file():
            return file
    return None


@cache
def syntax(file: str) -> ast.Module:
    """Give the syntax tree of a file."""
    return ast.parse((FACE / file).read_text(encoding="utf-8"), file)


def statements(tree: ast.AST, deferred: bool) -> Iterator[ast.AST]:
    """Walk a tree; without `deferred`, leave out what stands inside functions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if deferred or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from statements(node, deferred)


@cache
def imports(file: str, deferred: bool = True) -> frozenset[str]:
    """Give what a file imports: files of sawlog, and the top names of everything else.

    Imports under TYPE_CHECKING count like all others, and so do `deferred` ones, which stand inside
    functions.
    """
    found: set[str] = set()
    for node in statements(syntax(file), deferred):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{file}:{node.lineno}: a relative import"
            # What is imported may be a module itself: from sawlog.store import errors
            modules = [
                whole
                if node.module.startswith("sawlog") and file_of(whole := f"{node.module}.{a.name}")
                else node.module
                for a in node.names
            ]
        else:
            continue
        for module in modules:
            top = module.split(".")[0]
            if top != "sawlog":
                found.add(top)
            elif inner := file_of(module):
                found.add(inner)
            elif not (FACE / "/".join(module.split(".")[1:])).is_dir():
                found.add(module)  # no such module: no room may import it
    return frozenset(found)


def forbidden(file: str) -> list[str]:
    """List what a file imports and may not."""
    room = room_of(file)
    assert room, f"{file} belongs to no room: add it to the table"
    library = PURE_LIBRARY if room in PURE else LIBRARY
    allowed = {room, *HOUSE[room].may_import}
    return sorted(
        name
        for name in imports(file)
        if name not in library and not {name, room_of(name)} & allowed
    )


def test_every_folder_is_searched() -> None:
    """The folders behind links are in the list; without them the tests below would say nothing."""
    top = {file.split("/")[0] for file in FILES}
    assert {"__init__.py", "store", "builder", "compaction", "migrations", "cli"} <= top


@pytest.mark.parametrize("file", FILES)
def test_imports_go_only_where_the_house_allows(file: str) -> None:
    assert forbidden(file) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Deferred imports are left out: a chooser beside an interface loads what implements it."""
    graph = {file: imports(file, deferred=False) & set(FILES) - {file} for file in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("file", [file for file in FILES if room_of(file) in PURE])
def test_pure_code_reads_no_unicode_tables(file: str) -> None:
    """Law 4: what a release of Python thinks of a character never reaches a packet."""
    tree = syntax(file)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = [
        f"{file}:{node.lineno}: .{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in UNICODE_METHODS
        and (file, node.attr) != PUBLISHED_FOLD
        # A source has a field of this name; the method would be called.
        and (node.attr != "title" or id(node) in called)
    ]
    assert found == []


@pytest.mark.parametrize("room", ["store values", "builder", "builder render", "formats"])
def test_values_and_pure_code_load_no_database(room: str) -> None:
    modules = [
        ".".join(("sawlog", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
        for file in FILES
        if room_of(file) == room
    ]
    loaded = imported_modules(f"import {', '.join(modules)}")
    assert set(modules) <= loaded
    assert not {"sqlalchemy", "sqlite3", "psycopg", "alembic", "httpx"} & loaded


def test_every_public_name_is_there() -> None:
    """The three lists in the face agree, and each name leads to something."""
    exports: dict[str, str] = vars(sawlog)["_EXPORTS"]
    assert sorted(sawlog.__all__) == sorted({"__version__", *exports})
    for name in sawlog.__all__:
        assert getattr(sawlog, name) is not None
        assert name in dir(sawlog)
    typed = {
        alias.asname or alias.name
        for node in syntax("__init__.py").body
        if isinstance(node, ast.If)
        for inner in node.body
        if isinstance(inner, ast.ImportFrom)
        for alias in inner.names
    }
    assert typed == set(exports)


def test_errors_are_a_module_of_the_face() -> None:
    """Each error has its name there, and it is one module whichever way it is had."""
    from sawlog.store import errors

    tree = {name for name, one in vars(errors).items() if isinstance(one, type)}
    module = import_module("sawlog.errors")
    assert module is sawlog.errors and set(module.__all__) == tree
    assert all(getattr(module, name) is getattr(errors, name) for name in tree)
    for first in ("import sawlog.errors", "import sawlog; sawlog.errors"):
        loaded = imported_modules(f"{first}; from sawlog.errors import Refused")
        assert "sawlog.errors" in loaded and not {"msgspec", "sqlalchemy"} & loaded


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'sawlog' has no attribute 'nonsense'"):
        _ = vars(sawlog)["__getattr__"]("nonsense")


@pytest.mark.alone
def test_the_face_costs_nothing_to_import() -> None:
    """On the machine of `slowness`; on a slower one so many times as much."""
    bare = import_milliseconds("pass")
    assert import_milliseconds("import sawlog") - bare < 25 * slowness()


@pytest.mark.alone
def test_help_takes_less_than_150_ms_of_imports() -> None:
    if "main" not in (FACE / "cli" / "__init__.py").read_text(encoding="utf-8"):
        pytest.skip("the command is not written yet")
    assert import_milliseconds("from sawlog.cli import main; main()", "--help") < 150 * slowness()
