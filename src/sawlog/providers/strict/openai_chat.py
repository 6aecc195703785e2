"""OpenAI's Chat Completions: what it refuses of a request."""

from __future__ import annotations

from collections.abc import Mapping

from sawlog.providers.strict import chat, gemini, openai
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.refusal import Refusal, invalid

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_FIELDS = {
    "system": {"content", "name"},
    "developer": {"content", "name"},
    "user": {"content", "name"},
    "assistant": {"content", "name", "tool_calls", "refusal", "audio", "function_call"}
    | {"annotations"},  # part of each reply, so clients send it back
    "tool": {"content", "tool_call_id"},
    "function": {"content", "name"},
}
_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
    "function": (),
}
_ID_LENGTH = 40
_NO_SYSTEM = ("o1-mini", "o1-preview")  # these take neither a system nor a developer message


def check(body: bytes, headers: Mapping[str, str] | None, key: bytes | None) -> None:
    """Raises Refusal if OpenAI (or Gemini, for a model that signs its calls) would refuse this
    request. With a `key` such calls must be signed with it; headers do not matter here."""
    request = openai.read_request(body)
    model = openai.check_model(request)
    openai.check_stream(request)
    if request.get("stream_options") is not None and not request.get("stream"):
        raise invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    openai.check_tools(request, nested=True)
    items = as_list(openai.required(request, "messages"))
    if items is None:
        raise openai.wrong_type("messages", "an array of objects", request["messages"])
    if not items:
        raise openai.empty_array("messages")
    messages = [_message(index, item, model) for index, item in enumerate(items)]
    chat.check_pairs(messages, _pairing)
    if gemini.signs_calls(model):
        gemini.check_signatures(messages, key)


def _message(index: int, item: object, model: str) -> JsonObject:
    where = f"messages[{index}]"
    message = as_object(item)
    if message is None:
        raise openai.wrong_type(where, "an object", item)
    role = str(openai.required(message, "role", where))
    if role not in _ROLES:
        raise openai.wrong_value(f"{where}.role", role, _ROLES)
    if role in ("system", "developer") and model.startswith(_NO_SYSTEM):
        raise invalid(
            f"Unsupported value: '{where}.role' does not support '{role}' with this model.",
            f"{where}.role",
            "unsupported_value",
        )
    for field in sorted(message.keys() - _FIELDS[role] - {"role"}):
        raise openai.unknown(f"{where}.{field}")
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and chat.is_name(name)):
        raise openai.wrong_pattern(f"{where}.name", chat.NAME_PATTERN)
    if role == "assistant" and "tool_calls" in message:
        _check_calls(where, message, model)
    if role == "tool":
        openai.string(message, "tool_call_id", where)
    _check_content(index, where, role, message)
    return message


def _check_content(index: int, where: str, role: str, message: JsonObject) -> None:
    content = message.get("content")
    if content is None:
        stands_alone = any(message.get(name) for name in ("tool_calls", "refusal", "function_call"))
        if not (role == "assistant" and (stands_alone or message.get("audio"))):
            raise invalid(
                "Invalid value for 'content': expected a string, got null.",
                f"messages.[{index}].content",
            )
        return
    if isinstance(content, str):
        return
    parts = as_list(content)
    if parts is None:
        raise openai.wrong_type(f"{where}.content", "one of a string or array of objects", content)
    if not parts:
        raise openai.empty_array(f"{where}.content")
    for number, item in enumerate(parts):
        place = f"{where}.content[{number}]"
        part = as_object(item)
        if part is None:
            raise openai.wrong_type(place, "an object", item)
        kind = openai.required(part, "type", place)
        if kind not in _PARTS[role]:
            raise openai.wrong_value(f"{place}.type", kind, _PARTS[role])
        if kind in ("text", "refusal"):
            openai.string(part, str(kind), place)
        if kind == "image_url":
            image = as_object(openai.required(part, "image_url", place))
            if image is None:
                raise openai.wrong_type(f"{place}.image_url", "an object", part["image_url"])
            url = openai.string(image, "url", f"{place}.image_url")
            openai.check_image(f"{place}.image_url.url", url)


def _check_calls(where: str, message: JsonObject, model: str) -> None:
    extra = {"extra_content"} if gemini.signs_calls(model) else set[str]()
    calls = as_list(message["tool_calls"])
    if calls is None:
        raise openai.wrong_type(f"{where}.tool_calls", "an array of objects", message["tool_calls"])
    if not calls:
        raise openai.empty_array(f"{where}.tool_calls")
    ids: set[str] = set()
    for number, (item, call) in enumerate(zip(calls, chat.calls_of(message), strict=True)):
        place = f"{where}.tool_calls[{number}]"
        fields = as_object(item)
        if fields is None:
            raise openai.wrong_type(place, "an object", item)
        id = openai.string(fields, "id", place)
        openai.check_length(f"{place}.id", id, _ID_LENGTH)
        if id in ids:
            raise invalid(
                f"Invalid parameter: Duplicate value for 'id' of '{id}' in {where}.tool_calls.",
                f"{place}.id",
            )
        ids.add(id)
        if openai.required(fields, "type", place) not in ("function", "custom"):
            raise openai.wrong_value(f"{place}.type", call.kind, ("function", "custom"))
        kind = str(call.kind)
        for name in sorted(fields.keys() - {"id", "type", kind} - extra):
            raise openai.unknown(f"{place}.{name}")
        if as_object(openai.required(fields, kind, place)) is None:
            raise openai.wrong_type(f"{place}.{kind}", "an object", fields[kind])
        argument = "arguments" if kind == "function" else "input"
        name = openai.string(call.function, "name", f"{place}.{kind}")
        openai.check_name(f"{place}.{kind}.name", name)
        openai.string(call.function, argument, f"{place}.{kind}")
        for name in sorted(call.function.keys() - {"name", argument}):
            raise openai.unknown(f"{place}.{kind}.{name}")


def _pairing(fault: chat.Fault) -> Refusal:
    index, id = fault.at, fault.ids[0]
    if fault.kind == "missing":
        return invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(fault.ids),
            f"messages.[{index}].role",
        )
    if fault.kind == "role":
        return invalid(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            f"messages.[{index}].role",
        )
    if fault.kind == "twice":
        return invalid(
            f"Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in "
            f"messages[{fault.other}] and messages[{index}].",
            f"messages.[{index}].tool_call_id",
        )
    return invalid(
        f"Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous "
        "message.",
        f"messages.[{index}].tool_call_id",
    )
