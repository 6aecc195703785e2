"""The gateway: may a call that a model asked for run? It answers and runs nothing.

`ActionGateway` is the published lab's (S0-53, S0-54), exact, with its gaps: `.env.local`, `../x`
and `sub/.env` pass it. `check` is for real sessions; what it calls a dangerous path is what
`sawlog.builder.paths` says, and graders ask the same function.

The ids of calls are the harness's (S0-52): what a model writes as one is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from sawlog.builder.effects import READ_ONLY
from sawlog.builder.item import json_digest
from sawlog.builder.pathnames import paths_of
from sawlog.builder.paths import path_danger
from sawlog.builder.schemas import Misfit, Unreadable, misfit
from sawlog.store import text as texts
from sawlog.store.errors import ToolError
from sawlog.store.events.world import Tool

ALLOW, DENY, ASK = "allow", "deny", "ask"


class GatewayVerdict(msgspec.Struct, frozen=True):
    """`kind` is allow, deny or ask; `path` is the dangerous path as the model wrote it, if any."""

    kind: str
    reason: str
    path: str = ""


class Proposal(msgspec.Struct, frozen=True):
    """A tool and its arguments, as a model proposes them."""

    name: str
    arguments: Mapping[str, Any]


class Decision(msgspec.Struct, frozen=True):
    """What a model decided: `kind` is tool, answer, needs_context or refuse."""

    kind: str
    message: str = ""
    tool: Proposal | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A proposal with the harness's ids: a retry changes `call_id` and keeps `action_id`."""

    action_id: str
    call_id: str
    name: str
    arguments: Mapping[str, Any]


def proposal_of(decision: Decision) -> Proposal:
    """The tool that a decision asks for. Raises ToolError when it asks for none."""
    if decision.kind != "tool" or decision.tool is None:
        raise ToolError(
            f"tool_decision_required: a decision of kind {decision.kind!r} asks for no tool"
        )
    return decision.tool


class ToolCallFactory(msgspec.Struct, frozen=True):
    """Makes the calls of one run, and their ids."""

    run_id: str

    def call(self, decision: Decision, ordinal: int) -> ToolCall:
        """The call of a decision, the `ordinal`-th of the run.

        Raises ToolError when the decision asks for no tool.
        """
        proposal = proposal_of(decision)
        arguments = {
            key: value
            for key, value in proposal.arguments.items()
            if key not in ("call_id", "action_id")
        }
        action = {"name": proposal.name, "arguments": arguments}
        call = {"run_id": self.run_id, "ordinal": ordinal, "action": action}
        return ToolCall(
            "action-" + json_digest(action)[:20],
            "call-" + json_digest(call)[:20],
            proposal.name,
            arguments,
        )


# --- the lab's ------------------------------------------------------------------------------------

_LAB_TOOLS = {"read_file": ("path",), "apply_patch": ("new", "old", "path"), "run_tests": ()}
_LAB_PROTECTED = (".env", ".git")
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


class ActionGateway:
    """The lab's gateway: three tools, two protected names, and only as a path's first segment."""

    def evaluate(self, decision: Decision) -> GatewayVerdict:
        """The lab's answer to a decision. Raises ToolError when it asks for no tool."""
        proposal = proposal_of(decision)
        if proposal.name not in _LAB_TOOLS:
            return GatewayVerdict(DENY, "unknown_tool")
        if any(name not in proposal.arguments for name in _LAB_TOOLS[proposal.name]):
            return GatewayVerdict(DENY, "missing_required_arguments")
        path = proposal.arguments.get("path", "")
        # Folding ASCII is enough: no other character has a lower case that occurs in these names.
        first = str(path).replace("\\", "/").partition("/")[0].translate(_FOLD)
        if first in _LAB_PROTECTED:
            return GatewayVerdict(DENY, "protected_path", str(path))
        if proposal.name == "apply_patch":
            return GatewayVerdict(ASK, "side_effect_requires_approval")
        return GatewayVerdict(ALLOW, "policy_allows")


# --- the strict one -------------------------------------------------------------------------------

_DEEPEST = 64  # nested values that are read of arguments


def check(name: str, arguments_json: str, tools: Iterable[Tool], root: str = "") -> GatewayVerdict:
    """May this call run? Deny, else ask for whatever is not declared `read_only`, else allow.

    `tools` are those that the model was offered, `arguments_json` is the call's source as received
    (blank: no arguments). `root` is the absolute folder that absolute paths may lead into.

    Denied, in this order: `unknown_tool`; `invalid_arguments` (no JSON object, a key twice, nested
    deeper than 64, a value of a type that the schema does not have); `missing_required_arguments`;
    `unreadable_schema`; then any reason of `sawlog.builder.paths` for a path, at any depth, that
    `sawlog.builder.pathnames` finds among the arguments. Free-form calls (`custom`
    tools) are always asked for: nobody knows the paths in them, as nobody does in a shell command.
    """
    tool = next((tool for tool in tools if _plain(tool.name) == name), None)
    if tool is None:
        return GatewayVerdict(DENY, "unknown_tool")
    source = _object(_plain(tool.source) or "")
    if source is None:
        return GatewayVerdict(DENY, "unreadable_schema")
    if source.get("type") == "custom" and "parameters" not in source:
        return GatewayVerdict(ASK, "free_form_arguments")
    arguments = _object(arguments_json if arguments_json.strip(" \t\r\n") else "{}")
    if arguments is None:
        return GatewayVerdict(DENY, "invalid_arguments")
    try:
        found = misfit(source.get("parameters", True), arguments)
    except Unreadable:
        return GatewayVerdict(DENY, "unreadable_schema")
    if found is Misfit.TYPE:
        return GatewayVerdict(DENY, "invalid_arguments")
    if found is Misfit.MISSING:
        return GatewayVerdict(DENY, "missing_required_arguments")
    danger = dangerous_path(arguments, root)
    if danger is not None:
        return GatewayVerdict(DENY, *danger)
    if tool.effect != READ_ONLY:
        return GatewayVerdict(ASK, "side_effect_requires_approval")
    return GatewayVerdict(ALLOW, "policy_allows")


def check_undeclared(
    arguments_json: str, root: str = "", *, free_form: bool = False
) -> GatewayVerdict:
    """The same for a call of a tool that nobody declared: only its paths can be checked.

    Such a call is asked for like any side effect, whatever it is; `free_form` says that its input
    is no JSON. An array, as some tools of providers get it, is read like an object's member.
    """
    if free_form:
        return GatewayVerdict(ASK, "free_form_arguments")
    source = arguments_json.strip(" \t\r\n") or "{}"
    arguments = _object(source if source[0] != "[" else f'{{"elements":{source}}}')
    if arguments is None:
        return GatewayVerdict(DENY, "invalid_arguments")
    danger = dangerous_path(arguments, root)
    if danger is not None:
        return GatewayVerdict(DENY, *danger)
    return GatewayVerdict(ASK, "side_effect_requires_approval")


def dangerous_path(arguments: Mapping[str, Any], root: str = "") -> tuple[str, str] | None:
    """Why, and which: the first dangerous path among the arguments of a call; None when all are
    well."""
    for path in paths_of(arguments):
        reason = path_danger(path, root)
        if reason:
            return reason, path
    return None


def _plain(text: texts.Text) -> str | None:
    """A text whose bytes are at hand; a tool's name and schema are never so large that they lie in
    a blob."""
    try:
        return texts.plain(text, {})
    except texts.BlobMissing:
        return None


def _object(source: str) -> dict[str, Any] | None:
    """The JSON object that a text is, if it can be read in one way only and is not too deep."""
    try:
        value = json.loads(source, object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    return members if _depth_is_fine(members) else None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice: two readers would take two values")
    return members


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def _depth_is_fine(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
