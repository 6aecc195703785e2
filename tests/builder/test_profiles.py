"""Profiles: data with a text form, checked where they come in, frozen where they are released."""

from __future__ import annotations

import hashlib
import json

import pytest
from msgspec.structs import replace

from sawlog.builder.profiles import (
    PROFILES,
    Alphabet,
    BoundKind,
    Carrier,
    Medium,
    Profile,
    checked,
    profile_for,
    profile_named,
    profile_of,
)
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named

BASE = PROFILES[0]

RELEASED = {
    "anthropic/base@1": "35a2046394256c23e35622902343e5c0751d898f62b65dd126827ec9918daa55",
    "openai-chat/base@1": "8c593eb1aec044afaf2f40cb0e82361d9c637f6b67e46d81a35d51bea2ce8687",
    "openai-responses/base@1": "74b6dbb8c2ad56ed39a2adf29f41bfae4e92a2f4162b1ceb963392b1030b5f21",
    "deepseek-chat/base@1": "1c5c6c8de2a429e9f518fe7c4b428e9a335bd70d69151a042129c5385d1316e7",
}


def test_released_profiles_are_never_changed() -> None:
    """Law 8: a changed byte is a new number."""
    assert {str(profile.named): profile.digest for profile in PROFILES} == RELEASED


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: str(profile.named))
def test_the_text_is_the_profile(profile: Profile) -> None:
    assert profile_of(profile.text) == profile
    assert profile.digest == hashlib.sha256(profile.text.encode()).hexdigest()
    assert checked(profile) is profile
    assert profile.own_digest == ""
    # Order, spaces and defaults of a text do not matter, what it says does.
    loose = json.dumps(dict(reversed(json.loads(profile.text).items())) | {"window": 0}, indent=1)
    assert profile_of(loose).text == profile.text


def test_a_callers_own_is_named_by_its_digest() -> None:
    own = replace(BASE, name="mine", models=("claude-x",), window=200_000)
    assert own.own_digest == own.digest != BASE.digest
    assert profile_for("anthropic", "claude-x", [own]) == (own, True)
    assert profile_for("anthropic", "claude-y", [own]) == (BASE, False)
    assert replace(BASE, window=1).own_digest  # a released name does not make it a released one


def test_an_unknown_model_gets_the_base_profile() -> None:
    for profile in PROFILES:
        assert profile_for(profile.api, "never-heard-of") == (profile, False)
        assert profile_named(profile.named) is profile


def test_a_callers_own_base_profile_comes_first() -> None:
    own = replace(BASE, name="mine")
    assert profile_for("anthropic", "any", [own]) == (own, False)


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(ConfigError, match="no profile for the API 'gemini'; known are anthropic"):
        profile_for("gemini", "any")
    with pytest.raises(UnknownNumber, match="anthropic/base@2"):
        profile_named(Named("anthropic/base", 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no profile"),
        ("[]", "no profile"),
        ("{}", "missing required field `name`"),
        (BASE.text.replace("first_user", "frist_user"), "unknown field `frist_user`"),
        (BASE.text.replace('"number":1', '"number":"1"'), "Expected `int`"),
        ('{"name":"\ud800"}', "no profile"),
    ],
)
def test_a_text_that_is_no_profile_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        profile_of(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "a name and a number"),
        ({"number": 0}, "a name and a number"),
        ({"path": "https://example.org/v1"}, "begins with /"),
        ({"incomplete": "hide"}, "incomplete 'hide' is none of text, drop"),
        ({"absent": "guess"}, "absent 'guess'"),
        ({"ids": Alphabet("abc", 40)}, "ids need at least"),
        ({"names": Alphabet(BASE.names.characters, 8)}, "names need at least"),
        ({"bound": (BoundKind("thinking", "luck"),)}, "to 'luck'"),
        ({"media": (Medium(("a/b",), "smell", ("data",), ("user",)),)}, "shape 'smell'"),
        ({"media": (Medium(("a/b",), "image", ("mail",), ("user",)),)}, "sources 'mail'"),
        ({"media": (Medium(("a/b",), "image", ("url",), ("moon",)),)}, "places 'moon'"),
        ({"carriers": (Carrier("user", "trusted", "pigeon", "user"),)}, "'pigeon' carries"),
        ({"carriers": (Carrier("system", "trusted", "system", "system"),)}, "before history"),
    ],
)
def test_a_value_that_means_nothing_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(replace(BASE, **change))


@pytest.mark.parametrize(
    ("authority", "trust", "to"),
    [
        ("user", "trusted", "system_message"),
        ("user", "trusted", "developer_message"),
        ("user", "untrusted", "user"),
        ("system", "untrusted", "system_message"),
        ("developer", "untrusted", "user"),
        ("tool", "trusted", "user"),
        ("none", "trusted", "user"),
        ("none", "untrusted", "developer_message"),
    ],
)
def test_no_text_rides_higher_than_it_may(authority: str, trust: str, to: str) -> None:
    """Law 10: a profile is no way around it."""
    for head, history in ((to, "framed"), ("framed", to)):
        carrier = Carrier(authority, trust, head, history)
        with pytest.raises(ConfigError, match=f"must not ride on {to}"):
            checked(replace(BASE, carriers=(carrier,)))
    checked(replace(BASE, carriers=(Carrier(authority, trust, "framed", "framed"),)))
