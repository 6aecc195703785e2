"""DeepSeek's Chat Completions: what it refuses of a request.

It reads JSON with serde, so its sentences about fields are serde's, here without the line and
column that follow them. In thinking mode, which is on unless the request turns it off, every
assistant message with calls must bring its `reasoning_content` back, if only an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping

from sawlog.providers.strict import chat
from sawlog.providers.strict.reading import (
    JsonObject,
    Malformed,
    as_list,
    as_object,
    kind_of,
    read,
)
from sawlog.providers.strict.refusal import Refusal

_ROLES = ("system", "user", "assistant", "tool", "latest_reminder")
_SURROGATES = {
    "no_low": "unexpected end of hex escape",
    "bad_low": "lone leading surrogate in hex escape",
    "no_high": "lone leading surrogate in hex escape",
}


def check(body: bytes, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Raises Refusal if DeepSeek would refuse this request. Headers and key do not matter here."""
    try:
        request = as_object(read(body))
    except Malformed as error:
        reason = _SURROGATES.get(error.surrogate, error.reason)
        raise _invalid(
            f"Failed to parse the request body as JSON: {reason} at line {error.line} column "
            f"{error.column}"
        ) from None
    if request is None:
        raise _undeserializable("invalid type: expected a map")
    if not isinstance(_required(request, "model"), str) or not request["model"]:
        raise _undeserializable("model: expected a string")
    if not isinstance(request.get("stream"), bool | None):
        kind = _serde(request["stream"])
        raise _undeserializable(f"stream: invalid type: {kind}, expected a boolean")
    if request.get("stream_options") is not None and not request.get("stream"):
        raise _invalid("stream_options should be set along with stream = true")
    _check_tools(request.get("tools"))
    items = as_list(_required(request, "messages"))
    if items is None:
        raise _undeserializable(f"messages: invalid type: {_serde(request['messages'])}")
    if not items:
        raise _invalid("Empty input messages")
    messages = [_message(index, item) for index, item in enumerate(items)]
    chat.check_pairs(messages, _pairing)
    _check_split_turns(messages)
    if (as_object(request.get("thinking")) or {}).get("type") != "disabled":
        _check_reasoning(messages)


def _message(index: int, item: object) -> JsonObject:
    where = f"messages[{index}]"
    message = as_object(item)
    if message is None:
        raise _undeserializable(f"{where}: invalid type: {_serde(item)}, expected a map")
    role = _required(message, "role", where)
    if role not in _ROLES:
        expected = ", ".join(f"`{name}`" for name in _ROLES)
        raise _undeserializable(
            f"{where}.role: unknown variant `{role}`, expected one of {expected}"
        )
    for name in ("name", "reasoning_content"):
        if not isinstance(message.get(name, ""), str | None):
            kind = _serde(message[name])
            raise _undeserializable(f"{where}.{name}: invalid type: {kind}, expected a string")
    if role == "assistant" and message.get("tool_calls") is not None:
        _check_calls(where, message)
    if role == "tool":
        _string(message, "tool_call_id", where)
    _check_content(where, str(role), message)
    return message


def _check_content(where: str, role: str, message: JsonObject) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role != "assistant":
            raise _undeserializable(f"{where}: missing field `content`")
        if not message.get("tool_calls"):
            raise _invalid(
                f"Invalid assistant message: content or tool_calls must be set ({where})"
            )
        return
    parts = as_list(content)
    if parts is None:
        raise _undeserializable(f"{where}: invalid type: {_serde(content)}, expected a string")
    for part in parts:
        fields = as_object(part) or {}
        kind = _required(fields, "type", where)
        if kind != "text":
            raise _undeserializable(f"{where}: unknown variant `{kind}`, expected `text`")
        _string(fields, "text", where)


def _check_calls(where: str, message: JsonObject) -> None:
    calls = as_list(message["tool_calls"])
    if calls is None:
        kind = _serde(message["tool_calls"])
        raise _undeserializable(f"{where}.tool_calls: invalid type: {kind}, expected a sequence")
    if not calls:
        raise _invalid(
            f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead."
        )
    ids: set[str] = set()
    for number, (item, call) in enumerate(zip(calls, chat.calls_of(message), strict=True)):
        place = f"{where}.tool_calls[{number}]"
        id = _string(as_object(item) or {}, "id", place)
        if id in ids:
            raise _invalid(f"Duplicate tool call id `{id}` in {where}")
        ids.add(id)
        if call.kind != "function":
            raise _undeserializable(
                f"{place}.type: unknown variant `{call.kind}`, expected `function`"
            )
        _check_name(f"{place}.function", call.function)
        _string(call.function, "arguments", f"{place}.function")


def _check_tools(value: object) -> None:
    if value is None:
        return
    tools = as_list(value)
    if tools is None:
        raise _undeserializable(f"tools: invalid type: {_serde(value)}, expected a sequence")
    for number, item in enumerate(tools):
        tool = as_object(item) or {}
        if tool.get("type") != "function":
            raise _undeserializable(
                f"tools[{number}].type: unknown variant `{tool.get('type')}`, expected `function`"
            )
        _check_name(f"tools[{number}].function", as_object(tool.get("function")) or {})


def _check_name(where: str, fields: JsonObject) -> None:
    name = _string(fields, "name", where)
    if not chat.is_name(name) or len(name) > chat.NAME_LENGTH:
        raise _invalid(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that "
            f"matches the pattern '{chat.NAME_PATTERN}' with at most {chat.NAME_LENGTH} characters."
        )


def _check_split_turns(messages: list[JsonObject]) -> None:
    """A reply with text and calls must come back as one message. Its text as a message of its own
    is refused: here before the calls; between or behind them it parts a call from its result."""
    for index in range(1, len(messages)):
        before, message = messages[index - 1], messages[index]
        both = before["role"] == "assistant" == message["role"]
        if both and message.get("tool_calls") and not message.get("content"):
            raise _pairing(chat.Fault("role", index + 1, index, ()))


def _check_reasoning(messages: list[JsonObject]) -> None:
    for message in messages:
        if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            raise _invalid(
                "The `reasoning_content` in the thinking mode must be passed back to the API."
            )


def _pairing(fault: chat.Fault) -> Refusal:
    if fault.kind == "missing":
        return _invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. (insufficient tool messages following tool_calls message)"
        )
    if fault.kind == "twice":
        return _invalid(f"Duplicate value for 'tool_call_id' of '{fault.ids[0]}' in message")
    return _invalid(
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
    )


def _required(fields: JsonObject, name: str, where: str = "") -> object:
    if name not in fields:
        place = f"{where}: " if where else ""
        raise _undeserializable(f"{place}missing field `{name}`")
    return fields[name]


def _string(fields: JsonObject, name: str, where: str) -> str:
    value = _required(fields, name, where)
    if not isinstance(value, str):
        raise _undeserializable(f"{where}.{name}: invalid type: {_serde(value)}, expected a string")
    return value


def _serde(value: object) -> str:
    """The name that serde gives to a value's type."""
    names = {"an object": "map", "an array": "sequence", "a string": "string", "null": "null"}
    return names.get(kind_of(value), kind_of(value).partition(" ")[2])


def _undeserializable(reason: str) -> Refusal:
    return _invalid(f"Failed to deserialize the JSON body into the target type: {reason}")


def _invalid(message: str) -> Refusal:
    return Refusal(400, "invalid_request_error", message, None, "invalid_request_error")
