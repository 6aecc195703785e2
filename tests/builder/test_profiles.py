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

# fmt: off
RELEASED = {
    "anthropic/base@1": "35a2046394256c23e35622902343e5c0751d898f62b65dd126827ec9918daa55",
    "openai-chat/base@1": "8c593eb1aec044afaf2f40cb0e82361d9c637f6b67e46d81a35d51bea2ce8687",
    "openai-responses/base@1": "74b6dbb8c2ad56ed39a2adf29f41bfae4e92a2f4162b1ceb963392b1030b5f21",
    "deepseek-chat/base@1": "1c5c6c8de2a429e9f518fe7c4b428e9a335bd70d69151a042129c5385d1316e7",
    "anthropic/fable-5.2@2026-11@1":
        "4dd35d8f3f17ba291968eeb3b72beae593dcca8eb24dadf6125130889b660c41",
    "anthropic/fable-5.1@2026-11@1":
        "fab911baa0ea6370a4c60f972eebb9e3acec9a1713d57922969819d3f5a7d06c",
    "anthropic/opus-5.5@2026-11@1":
        "ecfd12b071004d1f423f7b9838e97245b33d60db43aa92ce94f4bddb8742a18a",
    "anthropic/sonnet-5.5@2026-11@1":
        "8437b051950bb9d83db23d5055f679ae7d67a273c4a95270e076d4144edb55da",
    "anthropic/haiku-5.5@2026-11@1":
        "aeef57fe771c6763c62104b9ae4e86fbd8d88283f553fb86e54f723ffe9bbe47",
    "anthropic/claude-5@2026-11@1":
        "313737c775b1ac4f594a9a2302b97109ef2f289cf421a31701655be711276885",
    "anthropic/opus-4.6@2026-11@1":
        "904aca7160a7e28bb546fea887ef302b8d8b65decdff1c93cc5e70b425645c4c",
    "anthropic/sonnet-4.6@2026-11@1":
        "37217b4443e7ceba5232e0af8c22382891637a21bba803a6dcf983e2a3ab388f",
    "anthropic/claude-4.5@2026-11@1":
        "088b77a36c48805eee7bb96213e28d48fbfd7b9d3d72f849726b0c0f7ab21130",
    "openai-chat/gpt-6@2026-11@1":
        "e5db2e1ae00747ba4e00b0913a7e355599d7651a6c7549738997b210a7f12bb2",
    "openai-responses/gpt-6@2026-11@1":
        "bdc6ab8f68cf6b115820988a008f57aab297b4a435368e283fb97d664e6b80d1",
    "openai-chat/gpt-5.6@2026-11@1":
        "24e8309844c67735402f45a370d261187845a6c03aaf2601e18d57e72b9592d4",
    "openai-responses/gpt-5.6@2026-11@1":
        "9e35ada7795f13b824f1ee25cbd5c8192dff72b87c4f1748aacc87f807fc243c",
    "openai-chat/gpt-5.4@2026-11@1":
        "1cc8757348111b1b0238015e3e0d6dd1ab86113f1b49f4c3e8b771b61fa9a5de",
    "openai-responses/gpt-5.4@2026-11@1":
        "e781d2cddf68c893d6e5c0c760eae43d1cf80ceed9c0e6518c9fe54ea5b16129",
    "openai-chat/gpt-5.4-mini@2026-11@1":
        "67b90b00d49dda204b3789d04498759032379c35d4d792c401702b48152c10b7",
    "openai-responses/gpt-5.4-mini@2026-11@1":
        "7b19bfcb932d2b39b9c0739ddef96735567a1d03b481eb5b3acbdd15ed23ace8",
    "openai-chat/gpt-5@2026-11@1":
        "2587b397438ee59863f51b9a4c2914e9f9da4fb4e6b391911793cb188b360e8b",
    "openai-responses/gpt-5@2026-11@1":
        "aa8b5e8ba8595bb7e4c50e4ef32c7be76cb0e5b86e4b252ab384a729dde29b84",
    "openai-chat/gpt-4.1@2026-11@1":
        "398be4a09db378ffeb95573a0f6ff988319694126469fdbf8249f5474bc47ea7",
    "openai-responses/gpt-4.1@2026-11@1":
        "f22b9c5b55c6189eda5b55153734586a3e8e5a3d0c24820e7d0bcbd5870d8595",
    "openai-chat/gpt-4o@2026-11@1":
        "0c6a5a6eb0462f74d457026f3108ddd83b931511ee54801404a52720e624fc38",
    "openai-responses/gpt-4o@2026-11@1":
        "3fc5f0002a5968f73d95e47dcb6c2ef0043ab6012091c93eadc4f81482c4d119",
    "deepseek-chat/v4@2026-11@1":
        "c8c978c03b39488f8d01d0bbeb122998b74f0cec94a8e4da5f8ed1b4781e2cf0",
    "google/gemini-3@2026-11@1": "4578cb0dacbf17e39f6a4428c8d6c9c573398c029760a3d57d92e36eaa036a1d",
}
# fmt: on


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
    loose = json.dumps(
        dict(reversed(json.loads(profile.text).items())) | {"custom": profile.custom}, indent=1
    )
    assert profile_of(loose).text == profile.text


def test_a_callers_own_is_named_by_its_digest() -> None:
    own = replace(BASE, name="mine", models=("claude-x",), window=200_000)
    assert own.own_digest == own.digest != BASE.digest
    assert profile_for("anthropic", "claude-x", [own]) == (own, True)
    assert profile_for("anthropic", "claude-y", [own]) == (BASE, False)
    assert replace(BASE, window=1).own_digest  # a released name does not make it a released one


def test_an_unknown_model_gets_the_base_profile() -> None:
    for profile in PROFILES:
        assert profile_named(profile.named) is profile
        if not profile.models:
            assert profile_for(profile.api, "never-heard-of") == (profile, False)
            assert profile_for(profile.api, "test-model") == (profile, False)


def test_each_model_has_one_profile_of_its_own() -> None:
    """The first one that names a model wins, so no second one may name it for the same API."""
    named: dict[tuple[str, str], Profile] = {}
    for profile in PROFILES:
        for model in profile.models:
            assert named.setdefault((profile.api, model), profile) is profile
            assert profile_for(profile.api, model) == (profile, True)
    assert len({profile.named for profile in PROFILES}) == len(PROFILES)


def test_a_name_with_a_date_is_told_from_its_number() -> None:
    """The number stands behind the last @, and no name ends like one without it."""
    named = profile_for("anthropic", "claude-opus-5-5")[0].named
    assert str(named) == "anthropic/opus-5.5@2026-11@1"
    name, _, number = str(named).rpartition("@")
    assert Named(name, int(number)) == named


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
