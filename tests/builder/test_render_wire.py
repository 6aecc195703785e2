"""Ids, names, headers and parameters as they go over the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.packet import Header
from sawlog.builder.profiles import Alphabet, profile_for
from sawlog.builder.render import RENDERERS, renderer_for, start, wire_name
from sawlog.builder.render.wire import Ids
from sawlog.store.errors import ConfigError, UnknownNumber
from sawlog.store.events.base import Named
from tests.builder.entries import (
    APIS,
    MODEL,
    body,
    call,
    ids,
    names,
    noted,
    nothing_bound,
    rendered,
    rendering,
    result,
    tool,
    user,
)

WORD = profile_for("anthropic", "")[0].ids
TIGHT = Alphabet("0123456789abcdef", 9)


@given(st.lists(ids, max_size=12), st.sampled_from((WORD, TIGHT)))
def test_ids_are_allowed_unique_and_kept_where_they_can_be(
    given_ids: list[str], allowed: Alphabet
) -> None:
    mapper = Ids(allowed)
    wires = [mapper.wire(id) for id in given_ids]
    assert len(set(wires)) == len(wires)
    for id, wire in zip(given_ids, wires, strict=True):
        assert 0 < len(wire) <= allowed.length
        assert set(wire) <= set(allowed.characters)
        fits = 0 < len(id) <= allowed.length and set(id) <= set(allowed.characters)
        if fits and given_ids.index(id) == wires.index(wire):
            assert wire == id
    # A later id never changes what an earlier one became.
    again = Ids(allowed)
    assert [again.wire(id) for id in given_ids[:5]] == wires[:5]


def test_mapped_ids_are_golden() -> None:
    mapper = Ids(WORD)
    assert [mapper.wire(id) for id in ("call_1", "call_1", "call_1", "a|b", "\ud800")] == [
        "call_1",
        "call_e0963bd34f22c1f3e071ab69bab190f3",
        "call_10f0a5ede96baf09a392f56513b1cb62",
        "call_800d7fc63ca1cc4ae3cc16c47c5106ab",
        "call_3d50c02b78766e0388eb339b3c90434a",
    ]


@given(names, st.sampled_from((WORD, TIGHT)), st.sampled_from(("", "mcp__server")))
def test_names_are_allowed_and_kept_where_they_can_be(
    name: str, allowed: Alphabet, namespace: str
) -> None:
    wire = wire_name(name, allowed, namespace)
    assert 0 < len(wire) <= allowed.length
    assert set(wire) <= set(allowed.characters)
    whole = f"{namespace}__{name}" if namespace else name
    if 0 < len(whole) <= allowed.length and set(whole) <= set(allowed.characters):
        assert wire == whole


def test_names_that_would_fall_together_stay_apart() -> None:
    assert len({wire_name(name, WORD) for name in ("a.b", "a_b", "a:b", "a b")}) == 4


@pytest.mark.parametrize("api", APIS)
def test_a_tool_and_its_calls_have_one_name(api: str) -> None:
    entries = [tool("fs.read"), user("go"), call("c", "fs.read", first=True), result("c")]
    name = wire_name("fs.read", profile_for(api, "")[0].names)
    request = rendered(api, entries)
    assert request.body.count(f'"name":"{name}"'.encode()) == 2
    assert noted(request) == [(0, "mapped name"), (2, "mapped name")]


@pytest.mark.parametrize("api", APIS)
def test_results_follow_the_ids_of_their_calls(api: str) -> None:
    """Two calls of one id, in one message and in two, each with its own result in call order."""
    entries = [user("go")]
    for round in "12":
        entries += [
            call("same", first=True),
            call("same"),
            result("same", f"R-a{round}"),
            result("same", f"R-b{round}"),
        ]
    request = rendered(api, entries)
    text = request.body.decode()
    profile = profile_for(api, "")[0]
    wires = Ids(profile.ids)
    for shown in ("R-a1", "R-b1", "R-a2", "R-b2"):
        id = wires.wire("same")
        assert text.count(json.dumps(id)) == 2
        assert text.index(shown) > text.rindex(json.dumps(id)) > text.index(json.dumps(id))
    assert [why for _, why in noted(request)] == ["mapped id"] * 3


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "params",
    [
        '{"b":1e2,"a": [1.0,true] ,"max_tokens":1 }',
        " { } ",
        "",
        '{"ü":"\\u00fc","x":{"model":1},"max_tokens":2}',
    ],
)
def test_parameters_keep_their_text_and_order(api: str, params: str) -> None:
    if api == "anthropic" and "max_tokens" not in params:
        with pytest.raises(ConfigError, match="max_tokens=8000"):
            rendered(api, [user("go")], params)
        return
    request = rendered(api, [user("go")], params)
    inner = params.strip()[1:-1] if params.strip() else ""
    comma = "," if inner.strip() else ""
    assert request.body.startswith(("{" + inner + comma + '"model":"some-model",').encode())
    assert body(request)["model"] == MODEL


@pytest.mark.parametrize(
    ("api", "owned"),
    [
        ("anthropic", ("messages", "system", "tools", "model")),
        ("openai-chat", ("messages", "tools", "model")),
        ("openai-responses", ("input", "instructions", "tools", "model")),
        ("deepseek-chat", ("messages", "tools", "model")),
    ],
)
def test_what_the_renderer_owns_is_refused_by_name(api: str, owned: tuple[str, ...]) -> None:
    for name in owned:
        with pytest.raises(ConfigError, match=f"'{name}' is the renderer's"):
            rendering(api, json.dumps({"top_k": 1, name: []}))
    with pytest.raises(ConfigError, match="'model' is the renderer's"):
        rendering(api, '{"mod\\u0065l":"other"}')


@pytest.mark.parametrize(
    "params", ["[]", "{", '{"a":NaN}', '{"a":' + "[" * 5000 + "]" * 5000 + "}"]
)
def test_parameters_that_are_no_object_are_refused(params: str) -> None:
    with pytest.raises(ConfigError, match="no JSON object"):
        rendering("anthropic", params)


def test_halves_of_characters_in_parameters_are_mended() -> None:
    request = rendered("openai-chat", [user("go")], '{"user":"\ud800 \\udc00"}')
    assert request.body.startswith('{"user":"\ufffd \\ufffd",'.encode())
    assert noted(request) == [(-1, "repaired surrogate")]


# --- headers -------------------------------------------------------------------------------------


def test_headers_that_change_the_model_are_part_of_the_request() -> None:
    one = rendering("anthropic", headers=[("Anthropic-Beta", "b-1,b-2")])
    other = rendering("anthropic")
    assert one.request().headers == (
        ("anthropic-beta", "b-1,b-2"),
        ("anthropic-version", "2023-06-01"),
    )
    assert one.request().body == other.request().body
    assert one.request().digest != other.request().digest
    newer = rendering("anthropic", headers=[("anthropic-version", "2030-01-01")])
    assert newer.request().headers == (("anthropic-version", "2030-01-01"),)


@pytest.mark.parametrize(
    ("api", "headers", "message"),
    [
        ("anthropic", [("x-api-key", "s")], "'x-api-key' is no part"),
        ("deepseek-chat", [("openai-beta", "x")], "those are: none"),
        ("anthropic", [("anthropic-beta", "a"), ("Anthropic-Beta", "b")], "given twice"),
        ("anthropic", [("anthropic-beta", "a\r\nx: y")], "no HTTP header"),
        ("anthropic", [("anthropic-beta", "")], "no HTTP header"),
        ("anthropic", [("anthropic-beta", "\u00fc")], "no HTTP header"),
    ],
)
def test_other_headers_are_refused(api: str, headers: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rendering(api, headers=headers)


# --- what belongs together -----------------------------------------------------------------------


def test_header_profile_and_renderer_are_of_one_api() -> None:
    profile, _ = profile_for("anthropic", MODEL)
    header = Header("openai-chat", MODEL, "{}", profile.named, renderer_for("openai-chat"))
    with pytest.raises(ConfigError, match="different APIs"):
        start(header, profile, nothing_bound)
    header = Header("anthropic", MODEL, "{}", Named("mine", 2), renderer_for("anthropic"))
    with pytest.raises(ConfigError, match="names the profile mine@2, not anthropic/base@1"):
        start(header, profile, nothing_bound)
    header = Header("anthropic", MODEL, "{}", profile.named, Named("anthropic", 9))
    with pytest.raises(UnknownNumber, match="anthropic@9 is not installed"):
        start(header, profile, nothing_bound)
    with pytest.raises(ConfigError, match="no renderer for the API 'gemini'"):
        renderer_for("gemini")


def test_every_api_has_its_renderer() -> None:
    assert [renderer_for(api) for api in APIS] == [name for name in RENDERERS if name.number == 1]


def test_an_entry_that_comes_too_late_is_an_error() -> None:
    one = rendering("anthropic")
    one.add([user("go")])
    with pytest.raises(ValueError, match="came too late"):
        one.add([tool("run")])
    with pytest.raises(ValueError, match="inside a message"):
        rendering("anthropic").add([call("c")])
