"""The sentences in which OpenAI's APIs refuse a field, and the checks that both share."""

from __future__ import annotations

from collections.abc import Sequence

from sawlog.providers.strict import chat, media
from sawlog.providers.strict.reading import (
    JsonObject,
    Malformed,
    as_list,
    as_object,
    kind_of,
    read,
)
from sawlog.providers.strict.refusal import Refusal, invalid

_NOT_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using "
    "your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was not "
    "valid JSON. If you have trouble figuring out how to fix this, please contact us through our "
    "help center at help.openai.com.)"
)


def read_request(body: bytes) -> JsonObject:
    """The request, refused if it is no JSON object."""
    try:
        request = as_object(read(body))
    except Malformed:
        request = None
    if request is None:
        raise invalid(_NOT_JSON)
    return request


def check_model(request: JsonObject) -> str:
    """The model that the request names."""
    model = request.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("you must provide a model parameter")
    return model


def check_stream(request: JsonObject) -> None:
    """Refuses a `stream` that says neither yes nor no."""
    if not isinstance(request.get("stream"), bool | None):
        raise wrong_type("stream", "a boolean", request["stream"])


def check_tools(request: JsonObject, *, nested: bool) -> None:
    """Refuses ill-formed function and custom tools; `nested` is Chat's form, where the fields of a
    tool stand under its type. Tools that OpenAI runs are passed on unread."""
    value = request.get("tools")
    if value is None:
        return
    tools = as_list(value)
    if tools is None:
        raise wrong_type("tools", "an array of objects", value)
    if nested and not tools:
        raise empty_array("tools")
    for number, item in enumerate(tools):
        where = f"tools[{number}]"
        tool = as_object(item)
        if tool is None:
            raise wrong_type(where, "an object", item)
        kind = required(tool, "type", where)
        if nested and kind not in ("function", "custom"):
            raise wrong_value(f"{where}.type", kind, ("function", "custom"))
        if kind not in ("function", "custom"):
            continue
        fields, place = tool, where
        if nested:
            place = f"{where}.{kind}"
            named = as_object(required(tool, str(kind), where))
            if named is None:
                raise wrong_type(place, "an object", tool[str(kind)])
            fields = named
        check_name(f"{place}.name", string(fields, "name", place))
        parameters = fields.get("parameters")
        if parameters is not None and as_object(parameters) is None:
            raise wrong_type(f"{place}.parameters", "an object", parameters)


def check_name(param: str, name: str) -> None:
    """Refuses the name of a function that has other characters or is too long."""
    if not chat.is_name(name):
        raise wrong_pattern(param, chat.NAME_PATTERN)
    check_length(param, name, chat.NAME_LENGTH)


def check_length(param: str, text: str, longest: int) -> None:
    """Refuses a string that is empty or above `longest` characters."""
    if not text:
        raise invalid(
            f"Invalid '{param}': empty string. Expected a string with minimum length 1, but got "
            "an empty string instead.",
            param,
            "empty_string",
        )
    if len(text) > longest:
        raise invalid(
            f"Invalid '{param}': string too long. Expected a string with maximum length {longest}, "
            f"but got a string with length {len(text)} instead.",
            param,
            "string_above_max_length",
        )


def check_image(param: str, url: str) -> None:
    """Refuses an image that is neither a URL nor a base64 data URL of a known type."""
    if url.startswith(("https://", "http://")):
        return
    example = "Expected a base64-encoded data URL with an image MIME type (e.g. "
    example += "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')"
    parts = media.data_url(url)
    if parts is None:
        expected = example if url.startswith("data:") else "Expected a valid URL"
        raise invalid(
            f"Invalid '{param}'. {expected}, but got a value with an invalid format.",
            param,
            "invalid_value",
        )
    media_type, data = parts
    if media_type not in media.IMAGE_TYPES:
        raise invalid(
            f"Invalid '{param}'. {example}, but got unsupported MIME type '{media_type}'.",
            param,
            "invalid_value",
        )
    if media.base64_bytes(data) is None:
        raise invalid(
            f"Invalid '{param}'. {example}, but got an invalid base64-encoded value.",
            param,
            "invalid_value",
        )


def required(fields: JsonObject, name: str, where: str = "") -> object:
    """The value of a field that must be there."""
    if name not in fields:
        param = f"{where}.{name}" if where else name
        raise invalid(
            f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
        )
    return fields[name]


def string(fields: JsonObject, name: str, where: str) -> str:
    """The value of a field that must be there and be a string."""
    value = required(fields, name, where)
    if not isinstance(value, str):
        raise wrong_type(f"{where}.{name}", "a string", value)
    return value


def wrong_type(param: str, expected: str, value: object) -> Refusal:
    """The refusal of a value of another type."""
    return invalid(
        f"Invalid type for '{param}': expected {expected}, but got {kind_of(value)} instead.",
        param,
        "invalid_type",
    )


def wrong_value(param: str, value: object, supported: Sequence[str]) -> Refusal:
    """The refusal of a value outside of a list."""
    names = [f"'{name}'" for name in supported]
    listed = names[0] if names else "none"
    if len(names) == 2:
        listed = " and ".join(names)
    elif len(names) > 2:
        listed = ", ".join(names[:-1]) + f", and {names[-1]}"
    return invalid(
        f"Invalid value: '{value}'. Supported values are: {listed}.", param, "invalid_value"
    )


def wrong_pattern(param: str, pattern: str) -> Refusal:
    """The refusal of a string with characters that it may not have."""
    return invalid(
        f"Invalid '{param}': string does not match pattern. Expected a string that matches the "
        f"pattern '{pattern}'.",
        param,
        "invalid_value",
    )


def empty_array(param: str) -> Refusal:
    """The refusal of an array without items."""
    return invalid(
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        param,
        "empty_array",
    )


def unknown(param: str) -> Refusal:
    """The refusal of a field that the API does not have."""
    return invalid(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
