"""What a model family demands, piece by piece: the parts that a profile is made of."""

from __future__ import annotations

import msgspec


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member that is misspelt is refused, not passed over."""


class Alphabet(Data, frozen=True, omit_defaults=True):
    """What an id or a name may be made of: its characters, and how many at most."""

    characters: str
    length: int


class Carrier(Data, frozen=True, omit_defaults=True):
    """Where text of one standing goes: `head` before the first message, `history` behind it.

    `system` is the API's field for system text, `system_message` and `developer_message` are
    messages in place, `user` is a user message, `framed` the same in a frame that says what it is.
    A standing that no carrier names goes in a frame.
    """

    authority: str
    trust: str
    head: str
    history: str


class Medium(Data, frozen=True, omit_defaults=True):
    """Media that the model takes.

    `types` are media types, `shape` is `image` or `document`, `sources` are what it may come from
    (`data`, `url`, `file`), `places` where it may stand (`user`, `result`), `schemes` how a URL
    begins. `largest` is the most bytes of one that is sent as data, `most` how many one request may
    show (0: no bound is known). One above a bound is not shown: a text stands for it.
    """

    types: tuple[str, ...]
    shape: str
    sources: tuple[str, ...]
    places: tuple[str, ...]
    schemes: tuple[str, ...] = ("https://",)
    largest: int = 0
    most: int = 0


class BoundKind(Data, frozen=True, omit_defaults=True):
    """Bound items that are sent, and what they are bound to.

    `prefix`: API, model, account and all that was rendered before their message. `provider`: API,
    model and account. `none`: the API alone.
    """

    kind: str
    to: str


class Needs(Data, frozen=True, omit_defaults=True):
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
    first_signature: bool = False
    """The first call of a reply has its thought signature, or the profile's `placeholder`."""
