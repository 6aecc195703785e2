"""Look: the profiles of model families, to see, to choose, to copy and change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli.options import Json
from sawlog.cli.output import say, table, visible, write_json

if TYPE_CHECKING:
    from sawlog.builder.profiles import Profile

_AS_TOML = typer.Option("--toml", help="Print it as TOML, to be copied and changed.")
_NAME = typer.Argument(metavar="[NAME]", help="A profile, NAME or NAME@NUMBER, or a model's name.")


def profiles(
    name: Annotated[str, _NAME] = "",
    toml: Annotated[bool, _AS_TOML] = False,
    as_json: Json = False,
) -> None:
    """List the profiles that come with this release, or show one.

    A profile says what one model family of one API demands and allows. A model that none names gets
    its API's base profile, and the packet says so. With --toml one is written as the file that
    `profile="mine.toml"` reads: give it a name of your own.

    \b
      sawlog profiles
      sawlog profiles claude-opus-5-5
      sawlog profiles anthropic/opus-5.5@2026-11 --toml > mine.toml
    """
    from sawlog.builder.profiles import PROFILES

    if not name and not toml:
        _list(PROFILES, as_json)
        return
    found = _named(name, PROFILES)
    if toml:
        from sawlog.builder.profiledoc import toml_of

        if len(found) > 1:
            raise _ambiguous(name, found)
        say(toml_of(found[0]).removesuffix("\n"))
    elif as_json:
        write_json([_as_json(one) for one in found] if len(found) > 1 else _as_json(found[0]))
    else:
        for at, one in enumerate(found):
            if at:
                say()
            _show(one)


def _named(name: str, known: tuple[Profile, ...]) -> list[Profile]:
    """The profiles of that name, or that name this model. Raises ConfigError when there is none."""
    from sawlog.store.errors import ConfigError, quoted

    if not name:
        raise ConfigError("say which profile: `sawlog profiles` lists them, --toml writes one")
    found = [one for one in known if name in (one.name, str(one.named))]
    if len(found) > 1:  # a name alone is the newest number
        found = [max(found, key=lambda one: one.number)]
    found = found or [one for one in known if name in one.models]
    if not found:
        raise ConfigError(
            f"no profile is named {quoted(name)}, and none names such a model: `sawlog profiles` "
            "lists them; another model gets its API's base profile"
        )
    return found


def _ambiguous(name: str, found: list[Profile]) -> Exception:
    from sawlog.store.errors import ConfigError, quoted

    listed = ", ".join(one.name for one in found)
    return ConfigError(f"{quoted(name)} has a profile for each of its APIs: name one of {listed}")


def _list(known: tuple[Profile, ...], as_json: bool) -> None:
    if as_json:
        write_json([_as_json(one) for one in known])
        return
    rows = [
        (one.name, one.api, _tokens(one.window), ", ".join(one.models) or "all others")
        for one in known
    ]
    table(rows, ("profile", "api", "window", "models"))


def _as_json(profile: Profile) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(profile)
    return {**told, "digest": profile.digest, "released": not profile.own_digest}


def _show(profile: Profile) -> None:
    from sawlog.builder.render import renderer_of

    marks = profile.cache != "none"
    rows = [
        ("profile", str(profile.named)),
        ("digest", profile.digest),
        ("api", f"{profile.api}, {profile.path}"),
        ("models", ", ".join(profile.models) or "all that no other profile names"),
        ("window", _tokens(profile.window)),
        ("reply", _tokens(profile.output)),
        ("renderer", str(renderer_of(profile))),
        ("marks", f"{profile.cache}, by {renderer_of(profile, marks=True)}" if marks else "none"),
        ("bound", ", ".join(f"{one.kind} to {one.to}" for one in profile.bound) or "nothing"),
    ]
    for one in profile.media:
        bounds = [f"{one.largest:,} bytes each"] if one.largest else []
        bounds += [f"{one.most:,} in a request"] if one.most else []
        rows.append((one.shape, ", ".join((*one.types, *bounds))))
    for carrier in profile.carriers:
        where = f"{carrier.head} in front, {carrier.history} in the history"
        rows.append((carrier.authority, where))
    needs = [one for one in profile.needs.__struct_fields__ if getattr(profile.needs, one)]
    rows.append(("needs", ", ".join(needs) or "nothing"))
    table([(left, visible(right)) for left, right in rows])


def _tokens(units: int) -> str:
    return f"{units:,} tokens" if units else "not known"
