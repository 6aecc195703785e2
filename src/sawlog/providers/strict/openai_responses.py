"""OpenAI's Responses: what it refuses of a request that sends its whole history.

The checker knows no stored response, so every reference to one is refused as no longer there.
"""

from __future__ import annotations

from collections.abc import Mapping

from sawlog.providers.strict import openai
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import Refusal, invalid
from sawlog.providers.strict.responses_reasoning import check_reasoning

_ROLES = ("assistant", "system", "developer", "user")
_TO_MODEL = ("input_text", "input_image", "input_file", "input_audio")
_BY_MODEL = ("output_text", "refusal")
_ID_LENGTH = 64
# Calls that the client runs, what they are called in errors, and the items that answer them.
_CALLS = {
    "function_call": "function call",
    "custom_tool_call": "custom tool call",
    "computer_call": "computer call",
    "local_shell_call": "local shell call",
    "shell_call": "shell call",
    "apply_patch_call": "apply patch call",
}
_OUTPUTS = {f"{call}_output": call for call in _CALLS}
_SHELL_BY_FUNCTION = ("local_shell_call", "function_call_output")  # is also a pair
_PREFIXES = {  # how the id of an item begins
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "compaction": "cmp",
}
_CALLER = {"namespace", "caller", "async"}
_FIELDS = {  # items that are missing here are passed on unread
    "message": {"id", "role", "content", "status", "phase"},
    "function_call": {"id", "call_id", "name", "arguments", "status"} | _CALLER,
    "function_call_output": {"id", "call_id", "output", "status", "name", "namespace", "caller"},
    "custom_tool_call": {"id", "call_id", "name", "input", "status"} | _CALLER,
    "custom_tool_call_output": {"id", "call_id", "output", "status", "caller"},
    "reasoning": {"id", "summary", "content", "encrypted_content", "status"},
    "compaction": {"id", "encrypted_content"},
}
_OTHERS = (
    ("additional_tools", "apply_patch_call", "apply_patch_call_output", "code_interpreter_call")
    + ("compaction_trigger", "computer_call", "computer_call_output", "configuration_update")
    + ("file_search_call", "image_generation_call", "item_reference", "local_shell_call")
    + ("local_shell_call_output", "mcp_approval_request", "mcp_approval_response", "mcp_call")
    + ("mcp_list_tools", "program", "program_output", "shell_call", "shell_call_output")
    + ("tool_search_call", "tool_search_output", "web_search_call")
)
_TYPES = tuple(sorted((*_FIELDS, *_OTHERS)))


_OF_A_COMPACTION = {"model", "input", "instructions", "previous_response_id", "service_tier"} | {
    "image", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
}  # fmt: skip


def check(body: bytes, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Raises Refusal if OpenAI would refuse this request. With a `key`, reasoning must be sealed
    with it; headers do not matter here."""
    request = openai.read_request(body)
    openai.check_model(request)
    openai.check_stream(request)
    openai.check_tools(request, nested=False)
    for index, item in enumerate(as_list(request.get("context_management")) or []):
        kind = (as_object(item) or {}).get("type")
        if kind != "compaction":
            raise openai.wrong_value(f"context_management[{index}].type", kind, ("compaction",))
    _check_input(request, key)


def check_compaction(body: bytes, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Raises Refusal if OpenAI would refuse to compact this: the same history, and no parameter
    that is of a reply."""
    request = openai.read_request(body)
    openai.check_model(request)
    for name in sorted(request.keys() - _OF_A_COMPACTION):
        raise openai.unknown(name)
    _check_input(request, key)


def _check_input(request: JsonObject, key: bytes | None) -> None:
    previous = request.get("previous_response_id")
    if previous is not None:
        raise invalid(
            f"Previous response with id '{previous}' not found.",
            "previous_response_id",
            "previous_response_not_found",
        )
    value = openai.required(request, "input")
    if isinstance(value, str):
        return
    items = as_list(value)
    if items is None:
        raise openai.wrong_type("input", "one of a string or array of objects", value)
    if not items:
        raise openai.empty_array("input")
    history = [_item(f"input[{index}]", item) for index, item in enumerate(items)]
    _check_ids(history)
    _check_pairs(history)
    _check_approvals(history)
    check_reasoning(history, key)


def _item(where: str, value: object) -> JsonObject:
    item = as_object(value)
    if item is None:
        raise openai.wrong_type(where, "an object", value)
    kind = str(item.get("type", "message" if "role" in item else ""))
    if kind not in _TYPES:
        raise openai.wrong_value(f"{where}.type" if kind else where, kind, _TYPES)
    for name in sorted(item.keys() - _FIELDS.get(kind, item.keys()) - {"type"}):
        raise openai.unknown(f"{where}.{name}")
    id = item.get("id")
    if kind in _PREFIXES and id is not None:
        prefix = _PREFIXES[kind]
        if not isinstance(id, str) or not id.startswith(prefix):
            raise invalid(
                f"Invalid '{where}.id': '{id}'. Expected an ID that begins with '{prefix}'.",
                f"{where}.id",
                "invalid_value",
            )
        openai.check_length(f"{where}.id", id, _ID_LENGTH)
    if kind == "item_reference":
        raise _not_stored(item)
    if kind in _CALLS or (kind in _OUTPUTS and kind != "local_shell_call_output"):
        call_id = openai.string(item, "call_id", where)
        openai.check_length(f"{where}.call_id", call_id, _ID_LENGTH)
    match kind:
        case "message":
            _check_message(where, item)
        case "function_call" | "custom_tool_call":
            openai.check_name(f"{where}.name", openai.string(item, "name", where))
            openai.string(item, "arguments" if kind == "function_call" else "input", where)
        case "function_call_output" | "custom_tool_call_output":
            _check_output(where, item)
        case "reasoning":
            if as_list(openai.required(item, "summary", where)) is None:
                raise openai.wrong_type(f"{where}.summary", "an array of objects", item["summary"])
            if item.get("encrypted_content") is None:
                raise _not_stored(item)
            openai.string(item, "encrypted_content", where)
        case "compaction":
            openai.string(item, "encrypted_content", where)
        case _:
            pass
    return {**item, "type": kind}


def _not_stored(item: JsonObject) -> Refusal:
    return Refusal(
        404,
        "invalid_request_error",
        f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set "
        "to false. Try again with `store` set to true, or remove this item from your input.",
        "input",
    )


def _check_message(where: str, item: JsonObject) -> None:
    role = openai.required(item, "role", where)
    if role not in _ROLES:
        raise openai.wrong_value(f"{where}.role", role, _ROLES)
    content = openai.required(item, "content", where)
    if isinstance(content, str):
        return
    _check_parts(f"{where}.content", content, _BY_MODEL if role == "assistant" else _TO_MODEL)


def _check_output(where: str, item: JsonObject) -> None:
    output = openai.required(item, "output", where)
    if not isinstance(output, str):
        _check_parts(f"{where}.output", output, _TO_MODEL[:3])


def _check_parts(where: str, value: object, allowed: tuple[str, ...]) -> None:
    parts = as_list(value)
    if parts is None:
        raise openai.wrong_type(where, "one of a string or array of objects", value)
    for number, item in enumerate(parts):
        place = f"{where}[{number}]"
        part = as_object(item)
        if part is None:
            raise openai.wrong_type(place, "an object", item)
        kind = openai.required(part, "type", place)
        if kind not in allowed:
            raise openai.wrong_value(place, kind, allowed)
        if kind in ("input_text", "output_text"):
            openai.string(part, "text", place)
        if kind == "refusal":
            openai.string(part, "refusal", place)
        if kind == "input_image":
            url, file = part.get("image_url"), part.get("file_id")
            if url is None and not (isinstance(file, str) and file):
                raise invalid(
                    f"Missing required parameter: '{place}.image_url'.",
                    f"{place}.image_url",
                    "missing_required_parameter",
                )
            if url is not None:
                openai.check_image(f"{place}.image_url", openai.string(part, "image_url", place))


def _check_ids(history: list[JsonObject]) -> None:
    seen: set[object] = set()
    for item in history:
        if item["type"] in _OUTPUTS:  # some name the call in this field
            continue
        id = item.get("id")
        if id is not None and id in seen:
            raise invalid(
                f"Duplicate item found with id {id}. Remove duplicate items from your input and "
                "try again.",
                "input",
            )
        seen.add(id)


def _check_pairs(history: list[JsonObject]) -> None:
    """Every call has one output of its kind somewhere behind it, and every output its call."""
    calls: dict[str, str] = {}  # call id: type
    answered: set[str] = set()
    for item in history:
        kind = str(item["type"])
        id = str(item.get("call_id") or item.get("id"))
        if kind in _CALLS:
            if id in calls:
                raise invalid(f"Duplicate 'call_id': {id}", "input")
            calls[id] = kind
        elif kind in _OUTPUTS:
            call = calls.get(id)
            if call != _OUTPUTS[kind] and (call, kind) != _SHELL_BY_FUNCTION:
                raise invalid(
                    f"No tool call found for {_CALLS[_OUTPUTS[kind]]} output with call_id {id}.",
                    "input",
                )
            if id in answered:
                raise invalid(
                    f"Duplicate {kind} for call_id '{id}'. Each {call} must have exactly one "
                    f"matching {kind}",
                    "input",
                )
            answered.add(id)
    for id, call in calls.items():
        if id not in answered:
            raise invalid(f"No tool output found for {_CALLS[call]} {id}.", "input")


def _check_approvals(history: list[JsonObject]) -> None:
    """An approval answers a request before it, once."""
    open_requests: set[object] = set()
    for item in history:
        if item["type"] == "mcp_approval_request":
            open_requests.add(item.get("id"))
        elif item["type"] == "mcp_approval_response":
            id = item.get("approval_request_id")
            if id not in open_requests:
                raise invalid(f"No approval request found with id {id}.", "input")
            open_requests.discard(id)
