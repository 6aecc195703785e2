"""Profiles: what one model family of one API demands and allows, as data.

A profile is named and numbered; a released one is never changed, another rule is a new number
beside it. A caller's own goes whole into the log, as `text`, and is named there by `digest`.
An unknown model gets its API's base profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from sawlog.builder.demands import Alphabet, BoundKind, Carrier, Data, Medium, Needs
from sawlog.builder.families import FAMILIES, Family
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named

__all__ = [
    "PROFILES",
    "Alphabet",
    "BoundKind",
    "Carrier",
    "Medium",
    "Needs",
    "Profile",
    "checked",
    "profile_for",
    "profile_named",
    "profile_of",
]


class Profile(Data, frozen=True, omit_defaults=True, kw_only=True):
    """What one model family demands and allows.

    `models` are those that it is made for (none: a base profile). `window` is in tokens (0: not
    known). `headers` change what the model does and are part of the request's digest. `ids` and
    `names` say what call ids and tool names are made of; others are mapped. `incomplete`: what
    becomes of a call whose arguments never ended (`text` or `drop`). `absent`: what becomes of a
    call whose bound partner stays out (`bare`; `text`: call and result as text; `placeholder`: the
    JSON object of that name stands for the partner). `wrapper`: an argument source that is no JSON
    object goes out as an object with this one member, the source as a string. `custom`: the API has
    free-form calls of its own. `output` is the longest reply in tokens (0: not known). `cache` is
    the rule by which a step that asks for cache marks sets them: `none`, or `anthropic-rolling` (at
    most four: behind tools and system text, the last checkpoint, and the newest blocks, never
    further apart than the 20 blocks that the provider looks back). `tool_changes`: where a change
    of the tools on offer shows (`head`: their list in front of the history is another one).
    """

    name: str
    number: int
    api: str
    path: str
    models: tuple[str, ...] = ()
    window: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    carriers: tuple[Carrier, ...]
    ids: Alphabet
    names: Alphabet
    media: tuple[Medium, ...] = ()
    bound: tuple[BoundKind, ...] = ()
    needs: Needs = Needs()
    incomplete: str = "text"
    absent: str = "bare"
    wrapper: str = "raw"
    custom: bool = False
    output: int = 0
    cache: str = "none"
    tool_changes: str = "head"
    placeholder: str = ""

    @property
    def named(self) -> Named:
        """Name and number."""
        return Named(self.name, self.number)

    @property
    def text(self) -> str:
        """The canonical JSON text: fields in declared order, defaults left out, no spaces."""
        return msgspec.json.encode(self).decode()

    @property
    def digest(self) -> str:
        """The hex SHA-256 of the canonical text."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    @property
    def own_digest(self) -> str:
        """The digest of a caller's own profile; empty for one that comes with this release."""
        return "" if self in PROFILES else self.digest


# --- reading and checking ------------------------------------------------------------------------

_TO = ("framed", "user", "developer_message", "system_message", "system")  # rising
_HIGHEST = {"system": "system", "developer": "system", "user": "user"}
_CHOICES: dict[str, tuple[str, ...]] = {
    "shape": ("image", "document"),
    "sources": ("data", "url", "file"),
    "places": ("user", "result"),
    "to": ("prefix", "provider", "none"),
    "incomplete": ("text", "drop"),
    "absent": ("bare", "text", "placeholder"),
    "cache": ("none", "anthropic-rolling"),
    "tool_changes": ("head",),
}


def profile_of(text: str) -> Profile:
    """The profile that a JSON text says. Raises ConfigError, naming what does not fit."""
    try:
        profile = msgspec.json.decode(text.encode(), type=Profile)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ConfigError(f"this is no profile: {error}") from error
    return checked(profile)


def checked(profile: Profile) -> Profile:
    """The profile itself. Raises ConfigError when a value means nothing or breaks a law."""

    def one_of(field: str, *values: str) -> None:
        for value in values:
            if value not in _CHOICES[field]:
                raise ConfigError(
                    f"profile {profile.named}: {field} {value!r} is none of "
                    + ", ".join(_CHOICES[field])
                )

    if not profile.name or profile.number < 1:
        raise ConfigError("a profile has a name and a number from 1 on")
    if not profile.path.startswith("/"):
        raise ConfigError(f"profile {profile.named}: the path begins with /, without host")
    one_of("incomplete", profile.incomplete)
    one_of("absent", profile.absent)
    one_of("cache", profile.cache)
    one_of("tool_changes", profile.tool_changes)
    for what, units in (("window", profile.window), ("output", profile.output)):
        if units < 0:
            raise ConfigError(f"profile {profile.named}: {what} {units} is less than no tokens")
    _check_signature(profile)
    if profile.cache != "none" and (profile.api != "anthropic" or not profile.needs.text):
        raise ConfigError(
            f"profile {profile.named}: the cache marks {profile.cache} are for the API anthropic "
            "with needs.text, for no mark may stand on an empty text: set cache to none"
        )
    for medium in profile.media:
        one_of("shape", medium.shape)
        one_of("sources", *medium.sources)
        one_of("places", *medium.places)
        if medium.largest < 0 or medium.most < 0:
            raise ConfigError(
                f"profile {profile.named}: a bound of media is less than nothing: give largest and "
                "most from 1 on, or 0 for none"
            )
    for bound in profile.bound:
        one_of("to", bound.to)
    for what, alphabet in (("ids", profile.ids), ("names", profile.names)):
        # Mapped ids are made of hexadecimal digits, and few of them would meet by chance.
        if alphabet.length < 9 or not set("0123456789abcdef") <= set(alphabet.characters):
            raise ConfigError(
                f"profile {profile.named}: {what} need at least the characters 0-9 and a-f and "
                "a length of 9"
            )
    for carrier in profile.carriers:
        highest = _HIGHEST.get(carrier.authority, "framed")
        if carrier.trust != "trusted":
            highest = "framed"
        for to in (carrier.head, carrier.history):
            if to not in _TO:
                raise ConfigError(f"profile {profile.named}: {to!r} carries nothing")
            if _TO.index(to) > _TO.index(highest):
                raise ConfigError(
                    f"profile {profile.named}: {carrier.trust} text of authority "
                    f"{carrier.authority} must not ride on {to}"
                )
        if carrier.history == "system":
            raise ConfigError(f"profile {profile.named}: the system field stands before history")
    return profile


def _check_signature(profile: Profile) -> None:
    wanted = profile.absent == "placeholder"
    if profile.needs.first_signature != wanted or bool(profile.placeholder) != wanted:
        raise ConfigError(
            f"profile {profile.named}: needs.first_signature, absent = placeholder and a "
            "placeholder go together: give all three, or none"
        )
    if not wanted:
        return
    if profile.api != "openai-chat":
        raise ConfigError(
            f"profile {profile.named}: only the API openai-chat has calls with a first signature: "
            "drop needs.first_signature"
        )
    try:
        msgspec.json.decode(profile.placeholder, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"profile {profile.named}: the placeholder is no JSON object: give it as text, such as "
            '{"google":{"thought_signature":"…"}}'
        ) from error


# --- lookup --------------------------------------------------------------------------------------


def profile_for(api: str, model: str, more: Iterable[Profile] = ()) -> tuple[Profile, bool]:
    """The profile of a model, and whether it is made for that model.

    `more` are the caller's own, looked at first. An unknown model gets the API's base profile and
    False. Raises ConfigError for an unknown API.
    """
    base: Profile | None = None
    for profile in (*more, *PROFILES):
        if profile.api != api:
            continue
        if model in profile.models:
            return profile, True
        if base is None and not profile.models:
            base = profile
    if base is None:
        known = ", ".join(dict.fromkeys(profile.api for profile in PROFILES))
        raise ConfigError(f"there is no profile for the API {api!r}; known are {known}")
    return base, False


def profile_named(name: Named) -> Profile:
    """The released profile of that name and number. Raises UnknownNumber."""
    for profile in PROFILES:
        if profile.named == name:
            return profile
    raise UnknownNumber(f"the profile {name} does not come with this release of sawlog")


# --- the base profiles ---------------------------------------------------------------------------

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_WORD = _LETTERS + "_-"
_PRINTABLE = _LETTERS + "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PDF = ("application/pdf",)
_ANY = ("data", "url", "file")
_BOTH = ("user", "result")
_WEB = ("https://", "http://")
_USER = Carrier("user", "trusted", "user", "user")

_ANTHROPIC = Profile(
    name="anthropic/base",
    number=1,
    api="anthropic",
    path="/v1/messages",
    headers=(("anthropic-version", "2023-06-01"),),
    carriers=(
        Carrier("system", "trusted", "system", "framed"),
        Carrier("developer", "trusted", "system", "framed"),
        _USER,
    ),
    ids=Alphabet(_WORD, 64),
    names=Alphabet(_WORD, 128),
    media=(Medium(_IMAGES, "image", _ANY, _BOTH), Medium(_PDF, "document", _ANY, _BOTH)),
    bound=(
        BoundKind("thinking", "prefix"),
        BoundKind("redacted_thinking", "prefix"),
        BoundKind("compaction", "provider"),
    ),
    needs=Needs(first_user=True, last_user=True, text=True, thinking_first=True),
)

_OPENAI_CHAT = Profile(
    name="openai-chat/base",
    number=1,
    api="openai-chat",
    path="/v1/chat/completions",
    carriers=(
        Carrier("system", "trusted", "system_message", "system_message"),
        Carrier("developer", "trusted", "developer_message", "developer_message"),
        _USER,
    ),
    # Servers that follow this API give ids of their own forms, and some want them back as given.
    ids=Alphabet(_PRINTABLE, 40),
    names=Alphabet(_WORD, 64),
    media=(
        Medium(_IMAGES, "image", ("data", "url"), ("user",), _WEB),
        Medium(_PDF, "document", ("data", "file"), ("user",)),
    ),
)

_OPENAI_RESPONSES = Profile(
    name="openai-responses/base",
    number=1,
    api="openai-responses",
    path="/v1/responses",
    carriers=(
        Carrier("system", "trusted", "system", "system_message"),
        Carrier("developer", "trusted", "developer_message", "developer_message"),
        _USER,
    ),
    ids=Alphabet(_WORD, 64),
    names=Alphabet(_WORD, 64),
    media=(
        Medium(_IMAGES, "image", _ANY, _BOTH, _WEB),
        Medium(_PDF, "document", _ANY, _BOTH, _WEB),
    ),
    bound=(BoundKind("reasoning", "provider"), BoundKind("compaction", "provider")),
    needs=Needs(reasoning_item=True),
    custom=True,
)

_DEEPSEEK_CHAT = Profile(
    name="deepseek-chat/base",
    number=1,
    api="deepseek-chat",
    path="/chat/completions",
    carriers=(
        Carrier("system", "trusted", "system_message", "system_message"),
        Carrier("developer", "trusted", "system_message", "system_message"),
        _USER,
    ),
    ids=Alphabet(_PRINTABLE, 64),
    names=Alphabet(_WORD, 64),
    bound=(BoundKind("reasoning_content", "provider"),),
    needs=Needs(string_content=True, whole_turns=True, reasoning_content=True),
)

_BASES = (_ANTHROPIC, _OPENAI_CHAT, _OPENAI_RESPONSES, _DEEPSEEK_CHAT)


def _of_family(family: Family) -> Profile:
    """The profile of a family: its API's base, with what the family says otherwise."""
    base = next(base for base in _BASES if base.api == family.api)
    bounds = {bound.shape: bound for bound in family.media}
    media = tuple(
        replace(medium, largest=bounds[medium.shape].largest, most=bounds[medium.shape].most)
        if medium.shape in bounds
        else medium
        for medium in base.media
    )
    # A struct that is its default stays that very object: only so is it left out of the text.
    needs = replace(base.needs, first_signature=True) if family.placeholder else base.needs
    return replace(
        base,
        name=family.name,
        path=family.path or base.path,
        models=family.models,
        window=family.window,
        media=media,
        bound=family.bound or base.bound,
        needs=needs,
        absent="placeholder" if family.placeholder else base.absent,
        output=family.output,
        cache=family.cache,
        placeholder=family.placeholder,
    )


PROFILES: tuple[Profile, ...] = (*_BASES, *map(_of_family, FAMILIES))
"""The profiles of this release; none is ever taken out or changed."""
