"""Profiles: what one model family of one API demands and allows, as data.

A profile is named and numbered; a released one is never changed, another rule is a new number
beside it. A caller's own goes whole into the log, as `text`, and is named there by `digest`.
An unknown model gets its API's base profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member that is misspelt is refused, not passed over."""


class Alphabet(_Data, frozen=True, omit_defaults=True):
    """What an id or a name may be made of: its characters, and how many at most."""

    characters: str
    length: int


class Carrier(_Data, frozen=True, omit_defaults=True):
    """Where text of one standing goes: `head` before the first message, `history` behind it.

    `system` is the API's field for system text, `system_message` and `developer_message` are
    messages in place, `user` is a user message, `framed` the same in a frame that says what it is.
    A standing that no carrier names goes in a frame.
    """

    authority: str
    trust: str
    head: str
    history: str


class Medium(_Data, frozen=True, omit_defaults=True):
    """Media that the model takes.

    `types` are media types, `shape` is `image` or `document`, `sources` are what it may come from
    (`data`, `url`, `file`), `places` where it may stand (`user`, `result`), `schemes` how a URL
    begins.
    """

    types: tuple[str, ...]
    shape: str
    sources: tuple[str, ...]
    places: tuple[str, ...]
    schemes: tuple[str, ...] = ("https://",)


class BoundKind(_Data, frozen=True, omit_defaults=True):
    """Bound items that are sent, and what they are bound to.

    `prefix`: API, model, account and all that was rendered before their message. `provider`: API,
    model and account. `none`: the API alone.
    """

    kind: str
    to: str


class Needs(_Data, frozen=True, omit_defaults=True):
    """What a request must be like, or it is refused."""

    first_user: bool = False
    """The first message is the user's."""
    last_user: bool = False
    """The last message is not the assistant's, but for a paused reply."""
    text: bool = False
    """No text is empty or white space alone."""
    string_content: bool = False
    """The content of every message is one string, never parts."""
    whole_turns: bool = False
    """A message with calls and no text does not follow another message of the assistant."""
    reasoning_content: bool = False
    """While the model thinks, each message with calls has `reasoning_content`, if only empty."""
    reasoning_item: bool = False
    """A reasoning item is followed by the item that it was made for."""
    thinking_first: bool = False
    """With thinking switched on by hand, a turn with calls opens with thinking."""


class Profile(_Data, frozen=True, omit_defaults=True, kw_only=True):
    """What one model family demands and allows.

    `models` are those that it is made for (none: a base profile). `window` is in tokens (0: not
    known). `headers` change what the model does and are part of the request's digest. `ids` and
    `names` say what call ids and tool names are made of; others are mapped. `incomplete`: what
    becomes of a call whose arguments never ended (`text` or `drop`). `absent`: what becomes of a
    call whose bound partner stays out (`bare`, or `text`: call and result as text). `wrapper`: an
    argument source that is no JSON object goes out as an object with this one member, the source as
    a string. `custom`: the API has free-form calls of its own.
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
    "absent": ("bare", "text"),
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
    for medium in profile.media:
        one_of("shape", medium.shape)
        one_of("sources", *medium.sources)
        one_of("places", *medium.places)
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

PROFILES: tuple[Profile, ...] = (_ANTHROPIC, _OPENAI_CHAT, _OPENAI_RESPONSES, _DEEPSEEK_CHAT)
"""The profiles of this release; none is ever taken out or changed."""
