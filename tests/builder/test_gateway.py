"""The lab's gateway by its vectors, and the strict one against every trick that a path can play."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sawlog.fixtures
from sawlog.builder.gateway import (
    ActionGateway,
    Decision,
    GatewayVerdict,
    Proposal,
    ToolCallFactory,
    check,
    dangerous_path,
)
from sawlog.builder.pathnames import names_path, paths_of
from sawlog.builder.paths import REASONS, path_danger
from sawlog.builder.schemas import Unreadable, misfit
from sawlog.store.errors import ToolError
from sawlog.store.events.world import Tool
from sawlog.store.text import TextObject

DATA = Path(sawlog.fixtures.__file__).parent / "seed-cases" / "ch5"
VECTORS: dict[str, Any] = json.loads((DATA / "probe-gateway-adapter.json").read_text("utf-8"))


def tool(name: str, schema: object, effect: str = "side_effect") -> Tool:
    return Tool(name, json.dumps({"name": name, "parameters": schema}), effect)


def strings(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": list(required)}


PATCH = tool("apply_patch", strings("path", "old", "new", required=("path", "old", "new")))
READ = tool("read_file", strings("path", required=("path",)), "read_only")
ANY = tool("any", {"type": "object"}, "read_only")
TOOLS = (PATCH, READ, ANY)


def decided(name: str, arguments: dict[str, Any]) -> Decision:
    return Decision("tool", "", Proposal(name, arguments))


def verdict(arguments: object, *, name: str = "any", root: str = "") -> GatewayVerdict:
    return check(name, json.dumps(arguments), TOOLS, root)


# --- the lab's ------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["gateway"]["vectors"], ids=lambda v: str(v["arguments"]))
def test_the_labs_gateway_answers_its_vectors(vector: dict[str, Any]) -> None:
    answer = ActionGateway().evaluate(decided(vector["tool"], vector["arguments"]))
    assert (answer.kind, answer.reason) == (vector["kind"], vector["reason"])


def test_there_are_18_vectors() -> None:
    assert len(VECTORS["gateway"]["vectors"]) == 18


@pytest.mark.parametrize("kind", ["answer", "needs_context", "refuse", "tool"])
def test_a_decision_for_no_tool_is_refused(kind: str) -> None:
    with pytest.raises(ToolError, match="^tool_decision_required: "):
        ActionGateway().evaluate(Decision(kind))
    with pytest.raises(ToolError, match="^tool_decision_required: "):
        ToolCallFactory("run").call(Decision(kind), 1)


@pytest.mark.parametrize("vector", VECTORS["tool_call_ids"]["vectors"])
def test_the_harness_makes_the_ids_of_calls(vector: dict[str, Any]) -> None:
    call = ToolCallFactory(vector["run_id"]).call(
        decided(vector["proposal"]["name"], vector["proposal"]["arguments"]), vector["ordinal"]
    )
    assert {
        "action_id": call.action_id,
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
    } == vector["expected"]


@given(st.characters(), st.sampled_from([".env", ".git"]))
def test_folding_ascii_is_all_that_lower_case_does_to_the_labs_names(c: str, name: str) -> None:
    """The lab lower-cases by the Unicode tables; the pure core does without, with no difference."""
    for at in range(len(name)):
        written = name[:at] + c + name[at + 1 :]
        answer = ActionGateway().evaluate(decided("read_file", {"path": written}))
        expected = written.replace("\\", "/").split("/")[0].lower() in (".env", ".git")
        assert (answer.kind == "deny") == expected


# --- the strict gateway ---------------------------------------------------------------------------


def test_what_is_harmless_is_allowed_or_asked_for() -> None:
    assert verdict({"path": "src/a.py"}, name="read_file") == GatewayVerdict(
        "allow", "policy_allows"
    )
    patch = {"path": "src/a.py", "old": "../x", "new": "/etc/passwd"}
    assert verdict(patch, name="apply_patch") == GatewayVerdict(
        "ask", "side_effect_requires_approval"
    )
    keyed = tool("pay", {}, "idempotent")
    assert check("pay", "{}", [keyed]).kind == "ask"


def test_an_unknown_tool_is_denied() -> None:
    assert verdict({}, name="write_file") == GatewayVerdict("deny", "unknown_tool")
    assert check("x", "{}", []) == GatewayVerdict("deny", "unknown_tool")
    hidden = Tool(TextObject(size=5, blob="0" * 64), "{}")
    assert check("x", "{}", [hidden]).reason == "unknown_tool"


@pytest.mark.parametrize(
    "source",
    [
        "[]", "1", "null", "not json", '"path"', '{"path":NaN}', '{"path":"a"', "\ufeff{}",
        '{"path":"a.py","path":".env"}', '{"x":' * 70 + "1" + "}" * 70,
        '{"path":' + "[" * 100_000 + "]" * 100_000 + "}", '{"path":' + "9" * 5000 + "}",
    ],
    ids=lambda source: source[:20],
)  # fmt: skip
def test_arguments_that_are_no_object_are_denied(source: str) -> None:
    assert check("any", source, TOOLS) == GatewayVerdict("deny", "invalid_arguments")


@pytest.mark.parametrize("source", ["", " \n", "{}"])
def test_no_arguments_are_an_empty_object(source: str) -> None:
    """As the session takes them when it runs the call."""
    assert check("any", source, TOOLS).kind == "allow"
    assert check("read_file", source, TOOLS).reason == "missing_required_arguments"


def test_what_the_schema_requires_must_be_there() -> None:
    missing = GatewayVerdict("deny", "missing_required_arguments")
    assert verdict({"path": "a", "old": "b"}, name="apply_patch") == missing
    # As in the lab, what is missing is told before what is dangerous.
    assert verdict({"path": ".env", "old": "b"}, name="apply_patch") == missing
    assert verdict({"path": 5}, name="read_file").reason == "invalid_arguments"
    inner = {
        "type": "object",
        "properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}}},
        "$defs": {"Edit": strings("path", "text", required=("path", "text"))},
    }
    edit = [tool("edit", inner)]
    assert check("edit", '{"edits":[{"path":"a"}]}', edit) == missing
    assert check("edit", '{"edits":[{"path":"a","text":""}]}', edit).kind == "ask"
    assert check("edit", '{"edits":{}}', edit).reason == "invalid_arguments"
    either = {"anyOf": [strings("a", required=("a",)), strings("b", required=("b",))]}
    assert check("t", '{"c":1}', [tool("t", either)]) == missing
    assert check("t", '{"b":"1"}', [tool("t", either)]).kind == "ask"


@pytest.mark.parametrize(
    "source",
    ["", "[]", "no json", '{"parameters":[]}', '{"parameters":{"$ref":"#/nowhere"}}',
     '{"parameters":{"$ref":"#"}}', '{"parameters":{"$ref":"http://x/y"}}',
     '{"parameters":{"type":"thing"}}', '{"parameters":{"required":"path"}}'],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_denies(source: str) -> None:
    verdict = check("t", '{"path":"a"}', [Tool("t", source, "read_only")])
    assert verdict == GatewayVerdict("deny", "unreadable_schema")


def test_free_form_calls_are_asked_for() -> None:
    free = Tool("patch", '{"name":"patch","type":"custom"}', "read_only")
    assert check("patch", "*** Begin Patch", [free]).reason == "free_form_arguments"


DANGEROUS = {
    "protected_path": [
        ".env", ".ENV", ".env/x", "./.env", "sub/.env", "a/b/.Env", ".env.local", ".env.", ".env ",
        ".env. .", " .env", "\u00a0.env", ".env::$DATA", ".env:x", ".env.::$DATA", ".git",
        ".git/HEAD", ".GIT\\config", "a\\.git", ".git::$INDEX_ALLOCATION/x", "a//.git//x", '".env"',
        "%2eenv", "%2Eenv", "%252eenv", ".%65nv", "%u002eenv", "a%2f.env", "a%5c.git",
        ".g\u200cit", ".e\ufeffnv", "\uff0eenv", ".\uff45\uff4e\uff56", "a\u2215.env", "GIT~1",
        "git~1/config", "ENV~1", "`.env`", "file:.env",
    ],
    "parent_segment": [
        "..", "../x", "a/../b", "a\\..\\b", "..\\x", "a/.. /b", "a/.../b", "a/...", "%2e%2e/x",
        "..%2fx", "%252e%252e/x", "\u2025/x", "\uff0e\uff0e/x", ".\u200d./x", "a/. ./b", "..:x",
        "%u002e%u002e/x",
    ],
    "absolute_path": ["/etc/passwd", "/", "\\Windows", "%2fetc/passwd", " /x", "file:///etc/passwd",
                      "FILE:/x", "file://localhost/x", "\uff0fetc"],
    "drive_path": ["C:\\x", "c:/x", "C:x", "C:", "file:///C:/x", "c%3a/x", "\uff23:\\x"],
    "unc_path": ["\\\\server\\share", "//server/share", "\\\\?\\C:\\x", "\\\\.\\pipe\\x", "/\\x/y",
                 "file://server/share", "%5c%5cserver"],
    "home_path": ["~", "~/x", "~root/x"],
    "control_character": ["a\x00.py", "a\n", "\t.env", "a%00", ".env%00.png", "a\x7f", "a\ud800"],
    "encoded_path": ["%c0%ae%c0%ae/x", "a%ff", "%" + "25" * 20 + "2eenv"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "path"), [(reason, path) for reason, paths in DANGEROUS.items() for path in paths]
)
def test_a_dangerous_path_is_denied(reason: str, path: str) -> None:
    assert path_danger(path) == reason
    assert verdict({"path": path}) == GatewayVerdict("deny", reason, path)


FINE = [
    "a.py", "src/a.py", "./a.py", "a/./b", "", ".", "a..b", "..a", "a/..b/c", ".environment",
    ".envrc", ".gitignore", ".github/workflows/x.yml", "env", "git", "x.env", "a b/c", "100%",
    "50%25", "Straße/ü.py", "ab:c", "https://example.org/x", "file", "…a", "a~", "$lib/x", "a.git",
    "my.env.py", "[id].tsx",
]  # fmt: skip


@pytest.mark.parametrize("path", FINE)
def test_a_harmless_path_is_allowed(path: str) -> None:
    assert path_danger(path) == ""
    assert verdict({"path": path}).kind == "allow"


def test_absolute_paths_may_lead_into_the_root() -> None:
    for path in ("/w/app", "/w/app/x.py", "/w//app/./x", "file:///w/app/x"):
        assert path_danger(path, "/w/app") == path_danger(path, "/w/app/") == ""
        assert path_danger(path) == "absolute_path"
    for path in ("/w", "/w/apple", "/W/app/x", "/w/x", "/"):
        assert path_danger(path, "/w/app") == "absolute_path"
    assert path_danger("//w/app", "/w/app") == "unc_path"
    assert path_danger("/w/app/../x", "/w/app") == "parent_segment"
    assert path_danger("/w/app/.env", "/w/app") == "protected_path"
    # What the root itself is called is its owner's affair.
    assert path_danger("/w/.git/x", "/w/.git") == ""
    for path in ("c:\\W\\App\\x", "C:/w/app"):
        assert path_danger(path, "C:\\w\\app") == ""
    assert path_danger("D:\\w\\app", "C:\\w\\app") == "drive_path"
    assert path_danger("/w/app", "C:\\w\\app") == "absolute_path"
    for path in ("C:w\\app", "C:w/app/x", "C:"):
        # Wherever the process stands on that drive.
        assert path_danger(path, "C:\\w\\app") == "drive_path"
    assert path_danger("../x", "relative") == "parent_segment"
    assert verdict({"cwd": "/w/app/src"}, root="/w/app").kind == "allow"


@pytest.mark.parametrize("path", ["/w/a\u200bpp/x", "/w/\uff41pp/x", "/w\u2215app/x"])
def test_what_only_looks_like_the_root_is_another_folder(path: str) -> None:
    assert path_danger(path, "/w/app")
    assert path_danger(path, "/w/app/x")


def test_a_root_is_reached_by_its_own_name() -> None:
    for root in ("/w/\uff41pp", "/w/caf\u00e9", "/w/a\u200bpp"):
        assert path_danger(f"{root}/x", root) == ""


HIDING = ("../x", "a/../x", "/x", "C:/x", ".env", "a/.git/x", "a\\.env")


def test_no_character_that_unicode_takes_for_ascii_hides_a_path() -> None:
    """Each one whose compatibility form is among what a dangerous path is made of."""
    hidden = 0
    for code in range(0x80, 0x110000):
        means = "" if 0xD800 <= code < 0xE000 else unicodedata.normalize("NFKC", chr(code))
        for path in HIDING if means.isascii() and means.strip() else ():
            if means in path:
                hidden += 1
                assert path_danger(path.replace(means, chr(code))), f"U+{code:04X} in {path}"
            if means.casefold() in path:
                assert path_danger(path.replace(means.casefold(), chr(code))), f"U+{code:04X}"
    assert hidden > 100


def test_no_character_without_a_shape_hides_a_path() -> None:
    # These say of the numbers beside them what those are, and are seen.
    seen = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    shapeless = [
        chr(code)
        for code in range(0x80, 0x110000)
        if code not in seen
        and not 0x13430 <= code < 0x13460
        and (unicodedata.category(chr(code)) == "Cf" or 0xFE00 <= code < 0xFE10)
    ]
    for one in (*shapeless, "\u3164", "\u180b", "\U000e0100"):
        assert path_danger(f".{one}./x") == "parent_segment", f"U+{ord(one):04X}"
        assert path_danger(f".e{one}nv") == "protected_path"


@pytest.mark.parametrize("path", ["..\u00a5x", "a\u20a9..\u20a9x", "\ufe30/x", "\ufe19/x"])
def test_what_a_code_page_turns_into_a_separator_parts_segments(path: str) -> None:
    assert path_danger(path) == "parent_segment"


@pytest.mark.parametrize(
    "name",
    [
        "path", "paths", "Path", "file_path", "filePath", "FILE-PATH", "filepath", "file", "files",
        "filename", "file_name", "fileName", "target", "target_file", "directory", "dir", "cwd",
        "workdir", "working_directory", "notebook_path", "old_path", "newPath", "path_to_read",
        "src", "destination", "uri", "output.file", "root_dir", "folder", "path1", "file1",
        "src_file_2", "file2Path", "file_list", "targetFilesList1", "ｐａｔｈ", "ＦＩＬＥ＿２",
        "pa\u200bth", "PDFPath", "HTMLFile", "filePATHs", "abspath", "relpath", "outfile",
        "logfiles", "outputfilename", "basedir", "subdirs", "dirname", "dirpath", "foldernames",
        "input_subfolder",
    ],
)  # fmt: skip
def test_an_argument_that_is_a_path_by_name_is_examined(name: str) -> None:
    assert names_path(name)
    for value in (".env", ["a", ".env"], [["a"], [".env"]], {"name": ".env"}, {"path": ".env"}):
        assert verdict({name: value}) == GatewayVerdict("deny", "protected_path", ".env")
        assert verdict({"x": [{name: value}]}).reason == "protected_path"


@pytest.mark.parametrize(
    "name", ["", "_", "text", "file_text", "content", "profile", "xpath", "command", "old", "name",
             "file_type", "targeting", "list", "2", "text1", "map_2", "tile", "profiles", "aXPath"],
)  # fmt: skip
def test_other_arguments_are_not(name: str) -> None:
    assert not names_path(name)
    assert verdict({name: "../.env"}).kind == "allow"


def test_paths_come_in_their_order() -> None:
    arguments = {"files": ["b", {"name": "c", "text": "d"}], "x": {"path": "a"}, "cwd": 5}
    assert list(paths_of(arguments)) == ["b", "c", "a"]
    assert dangerous_path({"files": ["a", "../x", ".env"]}) == ("parent_segment", "../x")
    assert dangerous_path(arguments) is None


BELOW = [
    {"files": {"../x": "t"}},
    {"paths": {".env": "x"}},
    {"path": {"a": {"value": ".env"}}},
    {"path": {"a": {"b": [{"c": ".env\n"}]}}},
    {"file": {"location": "../x"}},
    {"files": [{"n": "../../etc/passwd"}]},
    {"files": {"a.py": "../b.py"}},
    {"files": {"a.py": {"to": "../b.py"}}},
    {"path": {"content": ".env"}},
    {"file": {"0": ".env", "content": "x"}},
    {"url": "file:///etc/passwd"},
    {"urls": [" FILE:/etc/passwd"]},
    {"x": {"y": "file:.env"}},
    {"x": "\u200bfi\nle:///etc/passwd"},
    {"x": "ｆｉｌｅ:\\\\etc\\passwd"},
    {"x": {"file:///etc/passwd": 1}},
]


@pytest.mark.parametrize("arguments", BELOW)
def test_what_stands_below_a_path_name_is_a_path(arguments: dict[str, Any]) -> None:
    assert dangerous_path(arguments) is not None
    assert verdict(arguments).kind == "deny"
    assert verdict({"x": [arguments]}).kind == "deny"


BESIDE = [
    {"file": {"path": "a.js", "content": "// ../x"}},
    {"file": {"name": "a.js", "text": "/* one line */", "mode": "0644"}},
    {"files": [{"path": "a", "new_text": "../x", "reason": "~ as said"}]},
    {"files": [{"path": "tsconfig.json", "content": {"extends": "../base.json"}}]},
    {"files": {"a.css": "/* one line */\n", "b.py": "import os\n\nprint('../x')\n"}},
    {"files": {"a.css": {"content": "/* one line */"}}},
    {"file": {"path": "a.py", "lines": ["..", "~"]}},
    {"target": {"x": 1, "y": 2, "text": "Save"}},
    {"path": "a", "content": "~/x"},
    {"url": "https://example.org/../x"},
    {"note": "file: ../x is gone"},
    {"path": "a.py", "content": "profile:/etc"},
]


@pytest.mark.parametrize("arguments", BESIDE)
def test_what_stands_beside_a_path_is_none(arguments: dict[str, Any]) -> None:
    assert dangerous_path(arguments) is None
    assert verdict(arguments).kind == "allow"


# --- tricks, put together -------------------------------------------------------------------------

CORE = st.sampled_from([".env", ".git", "..", ".env.local", ".env.production"])


def _cases(text: str, bits: int) -> str:
    return "".join(c.upper() if bits >> at & 1 else c for at, c in enumerate(text))


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """A segment that means .env, .git or .. once every layer is taken off, somewhere in a path."""
    segment = _cases(draw(CORE), draw(st.integers(0, 2**16)))
    segment += draw(st.sampled_from(["", " ", ". ", "...", " . ", "::$DATA", ":x", "\u3000"]))
    segment = draw(st.sampled_from(["", " ", "\u2003"])) + segment
    if draw(st.booleans()):
        at = draw(st.integers(0, len(segment)))
        segment = segment[:at] + draw(st.sampled_from("\u200c\ufeff\u2060\u00ad")) + segment[at:]
    before = draw(st.lists(st.sampled_from(["a", ".", "b c", "ü", ""]), max_size=3))
    after = draw(st.lists(st.sampled_from(["x", ".", "HEAD", ""]), max_size=3))
    separators = st.sampled_from(["/", "\\", "//", "\u2215"])
    path = ""
    for part in [*before, segment, *after]:
        path += (draw(separators) if path else "") + part
    for _ in range(draw(st.integers(0, 3))):
        which = draw(st.integers(1, 2**20))
        path = "".join(
            f"%{ord(c):02x}" if ord(c) < 128 and which >> at % 20 & 1 else c
            for at, c in enumerate(path)
        )
    if draw(st.booleans()):
        path = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in path)
    return draw(st.sampled_from(["", " ", "'", "\x00"])) + path


@given(disguised(), st.sampled_from(["path", "filePath", "cwd", "paths", "target_file"]))
@example("%25252e%25252e%25252fx", "path")
def test_no_disguise_gets_through(path: str, name: str) -> None:
    """Law 11 at the gate: whatever is put around it, what means .env, .git or .. is denied."""
    assert path_danger(path) in REASONS
    assert path_danger("/w/app/" + path.lstrip("'"), "/w/app") in REASONS
    for value in (path, [path], {"name": path}, [{"file": path}], {"a": {"n": [path]}}, {path: 1}):
        assert verdict({name: value}).kind == "deny"


@given(st.text(st.characters(categories=("L", "N"), max_codepoint=0x2000), min_size=1))
def test_plain_names_stay_allowed(name: str) -> None:
    """The gate is no wall: letters and digits of any script name a file like any other."""
    if "\u00ad" not in name:
        assert path_danger(f"src/{name}/{name}.py") == ""


@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | disguised(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("path"), inner),
))  # fmt: skip
def test_what_graders_call_dangerous_the_gateway_denies(value: object) -> None:
    """One function: nothing that is dangerous for `dangerous_path` is let through by `check`."""
    arguments = {"value": value}
    answer = check("any", json.dumps(arguments), TOOLS)
    if dangerous_path(arguments) is not None:
        assert answer.kind == "deny"


@given(st.text() | disguised())
def test_a_path_is_fine_or_dangerous_for_a_known_reason(path: str) -> None:
    assert path_danger(path) in ("", *REASONS)
    assert path_danger(path, "/w") in ("", *REASONS)


# --- schemas that do harm -------------------------------------------------------------------------


def test_a_schema_that_multiplies_costs_what_it_is_long() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/d{n + 1}"}, {"$ref": f"#/d{n + 1}"}]} for n in range(25)
    }
    definitions["d25"] = {"type": "string"}
    assert misfit({"$ref": "#/d0", **definitions}, {}) is not None
    with pytest.raises(Unreadable):
        misfit({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {})


def test_a_tree_is_followed_as_deep_as_arguments_go() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["path"]}
    endings: list[tuple[dict[str, Any], str]] = [({}, "deny"), ({"path": "a"}, "ask")]
    for value, kind in endings:
        for _ in range(60):
            value = {"path": "a", "next": value}
        assert check("t", json.dumps(value), [tool("t", node)]).kind == kind
