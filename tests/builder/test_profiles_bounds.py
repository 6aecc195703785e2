"""Bounds of media, signatures of calls: what a profile says beyond its API's base."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from sawlog.builder.packet import Binding, Entry
from sawlog.builder.profiles import PROFILES, Medium, Profile, checked, profile_for
from sawlog.builder.render import renderer_for, renderer_of, unmarked
from sawlog.store.errors import ConfigError
from sawlog.store.events.base import Named
from tests.builder.entries import (
    MODEL,
    PNG,
    bound,
    call,
    entry,
    noted,
    rendered,
    result,
    says,
    user,
)

GEMINI = profile_for("openai-chat", "gemini-3-flash-preview")[0]
SIGNED = '{"google":{"thought_signature":"CsQ="}}'


def bounded(api: str, **bounds: int) -> Profile:
    """The base profile of an API with bounds on its images."""
    base = profile_for(api, "")[0]
    media = tuple(replace(one, **bounds) if one.shape == "image" else one for one in base.media)
    return checked(replace(base, name="mine", media=media))


def image() -> Entry:
    """An image behind a user's text."""
    return entry("user/media", "sha256:" + "0" * 64, name="image/png", data=PNG, first=False)


# --- media ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses"])
def test_a_medium_above_its_bound_is_named_and_not_sent(api: str) -> None:
    entries = [user("look"), image()]
    fits = rendered(api, entries, profile=bounded(api, largest=len(PNG)))
    assert noted(fits) == []
    request = rendered(api, entries, profile=bounded(api, largest=len(PNG) - 1))
    assert noted(request) == [(1, "placeholder too_large")]
    assert b"This model cannot be shown it here" in request.body


def test_the_first_media_stay_when_there_are_too_many() -> None:
    """Law 13: what was sent does not vanish because another one came."""
    entries: list[Entry] = []
    for _ in range(3):
        entries += [user("look"), image(), says("yes")]
    request = rendered("anthropic", entries, profile=bounded("anthropic", most=2))
    assert noted(request) == [(7, "placeholder too_many"), (8, "added closing")]
    assert request.body.count(b'"type":"image"') == 2


# --- signatures -----------------------------------------------------------------------------------


def calls_of(body: bytes) -> list[object]:
    """The `extra_content` of each call of a chat request, None where it has none."""
    messages = json.loads(body)["messages"]
    return [one.get("extra_content") for said in messages for one in said.get("tool_calls", ())]


def signed(id: str) -> list[Entry]:
    """A call with its signature behind it, as a server that signs calls sends it."""
    said = bound("call.extra_content", "openai-chat", SIGNED, step=1, first=False)
    return [call(id, first=True, step=1), said]


def made_by(model: str) -> dict[int, Binding]:
    """What a reply of that model is bound to."""
    return {1: Binding("0" * 64, "openai-chat", model, "")}


def test_a_signature_goes_back_with_its_call() -> None:
    turn = [*signed("a"), call("b", step=1), result("a"), result("b")]
    bindings = made_by(MODEL).get
    request = rendered("openai-chat", [user("go"), *turn], profile=GEMINI, bindings=bindings)
    assert calls_of(request.body) == [json.loads(SIGNED), None]
    assert noted(request) == []


def test_a_first_call_without_a_signature_gets_the_placeholder() -> None:
    """As one that another model made; the others of its reply need none."""
    turn = [call("a", first=True), call("b"), result("a"), result("b")]
    request = rendered("openai-chat", [user("go"), *turn], profile=GEMINI)
    assert calls_of(request.body) == [json.loads(GEMINI.placeholder), None]
    assert noted(request) == [(1, "placeholder signature")]


def test_a_signature_of_another_model_stays_out() -> None:
    turn = [*signed("a"), result("a")]
    bindings = made_by("another-model").get
    request = rendered("openai-chat", [user("go"), *turn], profile=GEMINI, bindings=bindings)
    assert calls_of(request.body) == [json.loads(GEMINI.placeholder)]
    assert noted(request) == [(1, "placeholder signature"), (2, "left_out other_model")]


# --- renderers ------------------------------------------------------------------------------------


def test_what_a_profile_asks_for_says_which_renderer_it_gets() -> None:
    assert renderer_of(GEMINI) == Named("openai-chat", 2)
    for profile in PROFILES:
        if profile is not GEMINI:
            assert renderer_of(profile) == renderer_for(profile.api) == Named(profile.api, 1)
        marked = profile.cache != "none"
        assert marked == (profile.api == "anthropic" and bool(profile.models))
        if marked:
            assert renderer_of(profile, marks=True) == Named("anthropic", 2)
            assert unmarked(Named("anthropic", 2)) == Named("anthropic", 1)
        else:
            with pytest.raises(ConfigError, match="names no rule for cache marks"):
                renderer_of(profile, marks=True)
            assert unmarked(renderer_of(profile)) == renderer_of(profile)


CLAUDE = profile_for("anthropic", "claude-opus-5-5")[0]


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (replace(CLAUDE, cache="often"), "cache 'often' is none of none, anthropic-rolling"),
        (replace(CLAUDE, tool_changes="anywhere"), "tool_changes 'anywhere' is none of head"),
        (replace(CLAUDE, output=-1), "output -1 is less than no tokens"),
        (replace(CLAUDE, window=-1), "window -1 is less"),
        (replace(CLAUDE, needs=replace(CLAUDE.needs, text=False)), "no mark may stand on an empty"),
        (replace(GEMINI, cache="anthropic-rolling"), "are for the API anthropic"),
        (replace(GEMINI, placeholder=""), "give all three, or none"),
        (replace(GEMINI, absent="bare"), "give all three, or none"),
        (replace(GEMINI, placeholder="[]"), "the placeholder is no JSON object"),
        (replace(GEMINI, api="deepseek-chat"), "only the API openai-chat"),
        (
            replace(
                CLAUDE, media=(Medium(("image/png",), "image", ("data",), ("user",), most=-1),)
            ),
            "a bound of media is less than nothing",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(profile: Profile, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(profile)
