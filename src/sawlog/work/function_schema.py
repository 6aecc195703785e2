"""What a function takes: the JSON schema of its parameters, and arguments made to fit it.

pydantic does both, and is loaded only when the first function is declared.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin, get_type_hints

from sawlog.store.errors import ConfigError, InvalidArguments

if TYPE_CHECKING:
    from pydantic import BaseModel

_FIRST = ("type", "properties", "required", "additionalProperties")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "dependentSchemas")
_VALUES = ("default", "const", "enum", "examples")


class Arguments:
    """The parameters of one function.

    Raises ConfigError when type hints cannot be read, when one has no JSON schema, or when a
    parameter cannot be given by name.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        target = _target(function)
        self._name = _name_of(function)
        self._said = repr(self._name or function)
        self.description = _first_paragraph(target)
        self._fields: dict[str, tuple[str, bool]] = {}
        self._more = False
        self._model = self._made(function, target)

    @property
    def name(self) -> str | None:
        """The function's own name; None when it has none."""
        return self._name

    def schema(self, tool: str) -> dict[str, Any]:
        """The JSON schema of the parameters as one object, without titles."""
        from pydantic.errors import PydanticInvalidForJsonSchema
        from pydantic.json_schema import GenerateJsonSchema

        class Quiet(GenerateJsonSchema):
            # A default that JSON cannot say is no part of the schema, and no reason to warn.
            ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        try:
            made = self._model.model_json_schema(by_alias=True, schema_generator=Quiet)
        except PydanticInvalidForJsonSchema as error:
            raise ConfigError(
                f"a parameter of the tool {tool!r} has no JSON schema: {error}"
            ) from (error)
        plain = _without_titles(made)
        return {key: plain[key] for key in (*_FIRST, *plain) if key in plain}

    def read(self, tool: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as the function wants them. Raises InvalidArguments, naming each misfit."""
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(dict(values))
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            )
            raise InvalidArguments(f"the arguments of {tool} do not fit: {wrong}") from None
        found = {
            name: getattr(model, field)
            for field, (name, has_default) in self._fields.items()
            if field in model.model_fields_set or not has_default
        }
        return {**found, **(model.model_extra or {})}

    def _made(self, function: Callable[..., Any], target: Callable[..., Any]) -> type[BaseModel]:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError
        from pydantic.fields import FieldInfo

        fields: dict[str, Any] = {}
        hints = self._hints(target)
        for number, one in enumerate(self._parameters(function)):
            if one.kind is one.VAR_KEYWORD:
                self._more = True
            if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
                continue
            if one.kind is one.POSITIONAL_ONLY:
                raise ConfigError(
                    f"the tool {self._said} takes {one.name!r} by position only; arguments of a "
                    "call come by name"
                )
            hint = hints.get(one.name, Any)
            base, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            # The model's own names are numbers: a parameter may have any name, `schema` or `_x`.
            # Its alias comes first, so that one that the caller gave wins.
            own: Any = Annotated[base, Field(alias=one.name), *notes]
            field = f"p{number}"
            fields[field] = (own, ... if one.default is one.empty else _ordered(one.default))
            given = one.default is not one.empty and not isinstance(one.default, FieldInfo)
            self._fields[field] = (one.name, given)
        config = ConfigDict(
            extra="allow" if self._more else "forbid", arbitrary_types_allowed=False
        )
        try:
            return create_model("Arguments", __config__=config, **fields)
        except PydanticUserError as error:
            raise ConfigError(
                f"a parameter of the tool {self._said} has a type without a JSON schema: {error}"
            ) from error

    def _parameters(self, function: Callable[..., Any]) -> list[inspect.Parameter]:
        try:
            return list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the signature of {self._said} cannot be read: {error}") from error

    def _hints(self, target: Callable[..., Any]) -> dict[str, Any]:
        try:
            return get_type_hints(target, include_extras=True)
        except Exception as error:  # a hint is any expression, and may raise anything
            raise ConfigError(
                f"the type hints of the tool {self._said} cannot be read ({error}); name only what "
                "its module defines or imports at run time"
            ) from error


def _ordered(default: object) -> object:
    """A default for the schema to show; the function has its own. A set has no order."""
    if isinstance(default, set | frozenset):
        return sorted(cast("set[object]", default), key=repr)
    return default


def _target(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that holds hints and docstring: inside a partial, of a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _name_of(function: Callable[..., Any]) -> str | None:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else None


def _first_paragraph(target: Callable[..., Any]) -> str | None:
    text = inspect.getdoc(target)
    if not text:
        return None
    return " ".join(line.strip() for line in text.split("\n\n")[0].split("\n")).strip() or None


def _without_titles(schema: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key in _SCHEMAS_BY_NAME:
            out[key] = {name: _cleaned(inner) for name, inner in value.items()}
        else:
            out[key] = value if key in _VALUES else _cleaned(value)
    return out


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return _without_titles(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, list):
        return [_cleaned(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
