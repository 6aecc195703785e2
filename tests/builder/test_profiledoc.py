"""Profiles that a user wrote: read from TOML, written as TOML, refused with the mend."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sawlog.builder.profiledoc import profile_from_toml, toml_of
from sawlog.builder.profiles import PROFILES, Profile, profile_of
from sawlog.store.errors import ConfigError

TEXT = toml_of(replace(PROFILES[0], name="mine", models=("my-model",), window=32_000))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: str(profile.named))
def test_what_is_written_is_read_as_the_same(profile: Profile) -> None:
    found = profile_from_toml(toml_of(profile))
    assert found == profile
    assert (found.text, found.digest) == (profile.text, profile.digest)


def test_odd_texts_survive() -> None:
    odd = replace(PROFILES[0], name='a "b"\\\n\x00\x7f\u2028größer', headers=(("x", "y\tz"),))
    assert profile_from_toml(toml_of(odd)) == odd


def test_a_default_that_is_written_out_is_the_default() -> None:
    """The same profile has one text and one digest, however much of it was written."""
    full = 'wrapper = "raw"\nincomplete = "text"\nabsent = "bare"\ncustom = false\noutput = 0\n'
    assert profile_from_toml(full + TEXT).digest == profile_from_toml(TEXT).digest
    assert profile_of(profile_from_toml(full + TEXT).text) == profile_from_toml(TEXT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "this is no TOML: .*sawlog profiles NAME --toml"),
        ("", "name is missing: give it"),
        (TEXT.replace('name = "mine"\n', ""), "name is missing: give it"),
        (TEXT.replace("window", "widnow"), "widnow is no field of a profile: use one of .*window"),
        (
            TEXT.replace("first_user", "frist_user"),
            "needs.frist_user is no field of a profile: use one of first_user, last_user",
        ),
        (TEXT.replace("window = 32000", 'window = "32k"'), "window: Expected `int`, got `str`"),
        (TEXT.replace("number = 1", "number = 0"), "a name and a number from 1 on"),
        (
            TEXT.replace('shape = "image"', 'shape = "sound"'),
            "shape 'sound' is none of image, document",
        ),
        (
            TEXT.replace('shape = "image"\n', ""),
            r"media\[0\]\.shape is missing",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_the_mend(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        profile_from_toml(text)
