"""Profile documents: a profile that a user wrote, as TOML, and a profile written as one.

The fields are those of `Profile`, under the names that its JSON text has; a field that is left out
has its default. What is read is checked, and an error names the field and the mend.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

import msgspec

from sawlog.builder.demands import Alphabet, BoundKind, Carrier, Medium, Needs
from sawlog.builder.profiles import Profile, checked
from sawlog.store.errors import ConfigError

_COPY = "`sawlog profiles NAME --toml` writes one that can be copied and changed"
_STRUCTS: dict[str, type[msgspec.Struct]] = {
    "": Profile,
    "carriers": Carrier,
    "ids": Alphabet,
    "names": Alphabet,
    "media": Medium,
    "bound": BoundKind,
    "needs": Needs,
}
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<at>.*)`)?$", re.DOTALL)
_MISSING = re.compile("missing required field `(.*)`")
_UNKNOWN = re.compile("unknown field `(.*)`")


def profile_from_toml(text: str) -> Profile:
    """The profile of a TOML document. Raises ConfigError, naming the field and the mend."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"this is no TOML: {error}; {_COPY}") from error
    try:
        profile = msgspec.convert(document, type=Profile)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(f"this is no profile: {_mended(str(error))}") from error
    return checked(_plain(profile))


def _plain(profile: Profile) -> Profile:
    """The profile whose defaults are the defaults themselves, so that its text leaves them out."""
    changes = {
        field.name: field.default
        for field in msgspec.structs.fields(Profile)
        if getattr(profile, field.name) == field.default
    }
    return msgspec.structs.replace(profile, **changes)


def _mended(message: str) -> str:
    """What does not fit, where, and what to do about it."""
    found = _PLACE.match(message)
    assert found is not None  # every text fits
    what, at = found["what"], (found["at"] or "").removeprefix(".")
    struct = _STRUCTS.get(re.sub(r"\[.*", "", at), Profile)
    within = f"{at}." if at else ""
    missing, unknown = _MISSING.search(what), _UNKNOWN.search(what)
    if missing is not None:
        return f"{within}{missing[1]} is missing: give it; {_COPY}"
    if unknown is not None:
        known = ", ".join(struct.__struct_fields__)
        return f"{within}{unknown[1]} is no field of a profile: use one of {known}"
    return f"{at or 'the document'}: {what}: write it as `sawlog profiles NAME --toml` has it"


# --- writing -------------------------------------------------------------------------------------


def toml_of(profile: Profile) -> str:
    """The profile as a TOML document that `profile_from_toml` gives it back from.

    Every value that is not its default is there, the plain ones first.
    """
    whole = cast("dict[str, Any]", msgspec.to_builtins(profile))
    plain: list[str] = []
    tables: list[str] = []
    for name, value in whole.items():
        if name in ("ids", "names", "needs"):
            tables += ("", f"[{name}]", *_lines(value))
        elif name in ("carriers", "media", "bound"):
            for one in cast("list[dict[str, Any]]", value):
                tables += ("", f"[[{name}]]", *_lines(one))
        else:
            plain.append(f"{name} = {_value(value)}")
    return "\n".join((*plain, *tables)) + "\n"


def _lines(table: dict[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in table.items()]


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return _quoted(value)
        case _:
            inner = ", ".join(map(_value, cast("list[object]", value)))
            return f"[{inner}]"


def _quoted(text: str) -> str:
    """A TOML basic string: as JSON writes it, but for DEL, which TOML wants escaped, too."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
