"""Commands whose parameters are texts and flags, taken as they stand.

Typer hands each value to pydantic, whose loading alone takes longer than most of what the command
does. A text needs no conversion, so it is passed on here; all else goes typer's way.
"""

from __future__ import annotations

from typing import Any, cast

from typer.core import TyperCommand, TyperGroup


def whole_number(option: str, text: str) -> int:
    """The number that an option's text says. Raises ConfigError when it says none."""
    from sawlog.store.errors import ConfigError

    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ConfigError(f"{option} {text}: give a whole number, such as {option} 100")
    return int(text)


class _Quick:
    """What both have in common: their parameters, and --help, take texts as they stand."""

    params: list[Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            _quicken(parameter)

    def get_help_option(self, ctx: Any) -> Any:
        """Give the option --help."""
        return _quicken(super().get_help_option(ctx))  # type: ignore[misc]


class QuickCommand(_Quick, TyperCommand):
    """A verb."""


class QuickGroup(_Quick, TyperGroup):
    """The program itself."""


def _quicken(parameter: Any) -> Any:
    """The parameter, which takes a text, or nothing, as it stands."""
    if parameter is None:
        return None
    slow = parameter.process_value

    def process(context: Any, value: Any) -> Any:
        if value is None and not parameter.required:
            return None  # not given; the callbacks of --help and --version would do nothing
        if isinstance(value, str) and parameter.callback is None:
            return value
        if isinstance(value, tuple) and value:
            return list(cast("tuple[object, ...]", value))
        return slow(context, value)

    parameter.process_value = process
    return parameter
