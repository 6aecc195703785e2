"""`sawlog profiles`: what the release knows of model families, to see and to copy."""

from __future__ import annotations

from sawlog.builder.profiledoc import profile_from_toml
from sawlog.builder.profiles import PROFILES, profile_for
from tests.cli.command import Done, one_sentence, sawlog


def refused(done: Done) -> str:
    """What a refused run says, with the exit code of a wrong use."""
    assert done.code == 2
    return one_sentence(done)


def test_it_lists_every_profile_without_a_store() -> None:
    done = sawlog("--store", "/no/such/store.db", "profiles")
    assert done.code == 0
    lines = done.text.splitlines()
    assert lines[0].split() == ["profile", "api", "window", "models"]
    assert [line.split()[0] for line in lines[1:]] == [one.name for one in PROFILES]
    assert "all others" in lines[1] and "not known" in lines[1]
    told = sawlog("profiles", "--json").json
    assert [one["digest"] for one in told] == [one.digest for one in PROFILES]
    assert all(one["released"] for one in told)


def test_one_is_shown_by_its_name_its_number_or_a_model() -> None:
    name = "anthropic/opus-5.5@2026-11"
    by_name = sawlog("profiles", name)
    assert by_name.code == 0
    assert by_name.text == sawlog("profiles", f"{name}@1").text
    assert by_name.text == sawlog("profiles", "claude-opus-5-5").text
    rows = dict(line.split(maxsplit=1) for line in by_name.text.splitlines())
    assert rows["window"] == "1,000,000 tokens"
    assert rows["marks"] == "anthropic-rolling, by anthropic@2"
    assert rows["image"].endswith("600 in a request")
    assert sawlog("profiles", name, "--json").json["models"] == ["claude-opus-5-5"]


def test_a_model_of_two_apis_has_two() -> None:
    done = sawlog("profiles", "gpt-6-sol")
    assert [line.split()[1] for line in done.text.splitlines() if line.startswith("profile ")] == [
        "openai-chat/gpt-6@2026-11@1",
        "openai-responses/gpt-6@2026-11@1",
    ]
    assert len(sawlog("profiles", "gpt-6-sol", "--json").json) == 2
    said = refused(sawlog("profiles", "gpt-6-sol", "--toml"))
    assert "name one of openai-chat/gpt-6@2026-11, openai-responses/gpt-6@2026-11" in said


def test_every_profile_as_toml_is_read_as_the_same_one() -> None:
    for profile in PROFILES:
        done = sawlog("profiles", str(profile.named), "--toml")
        assert done.code == 0
        assert profile_from_toml(done.text) == profile


def test_what_is_not_there_is_refused_by_name() -> None:
    said = refused(sawlog("profiles", "gpt-99"))
    assert "no profile is named 'gpt-99'" in said
    assert "say which profile" in refused(sawlog("profiles", "--toml"))
    assert profile_for("openai-chat", "gpt-99")[1] is False
