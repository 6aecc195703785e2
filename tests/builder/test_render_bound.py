"""Bound items: sent exactly while their binding holds, else left out with a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sawlog.builder.packet import Binding, Entry, Request
from sawlog.builder.profiles import BoundKind, profile_for
from sawlog.builder.render import Rendering
from sawlog.providers.strict import FAKE_KEY, check
from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.signing import PrefixDigest, Sealed, reasoning_id, seal, sign_thinking
from tests.builder.entries import (
    MODEL,
    PARAMS,
    body,
    bound,
    call,
    entry,
    noted,
    rendered,
    rendering,
    result,
    says,
    system,
    tool,
    user,
)

BY_HAND = '{"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024}}'


def thinking(request: Request, text: str, before: list[JsonObject] | None = None) -> str:
    """A thinking block that the fake provider signs for the reply to this request."""
    value = body(request)
    prefix = PrefixDigest(value)
    for message in as_list(value["messages"]) or []:
        prefix.add_message(as_object(message) or {})
    signature = sign_thinking(FAKE_KEY, "thinking", prefix.before(list(before or ())), text)
    block = {"type": "thinking", "thinking": text, "signature": signature}
    return json.dumps(block, ensure_ascii=False)


class Loop:
    """An agent's loop on one API: what it did so far, and what each reply was bound to."""

    def __init__(self, api: str, params: str = PARAMS, account: str | None = None) -> None:
        self.api = api
        self.entries: list[Entry] = [system("be brief"), tool("run"), user("go")]
        self.bindings: dict[int, Binding] = {}
        self.rendering = self.started(params, account=account)
        self.rendering.add(self.entries)

    def started(self, params: str = PARAMS, **more: object) -> Rendering:
        """An empty rendering that knows the bindings of this loop."""
        return rendering(self.api, params, bindings=self.bindings.get, **more)  # type: ignore[arg-type]

    def reply(self, *parts: Entry) -> Request:
        """Add a reply to the request that stands, with results; gives the request before it."""
        step = len(self.bindings) + 1
        request = self.rendering.request()
        self.bindings[step] = Binding(request.prefix, self.api, MODEL, "org-1")
        added = [replace(part, first=at == 0, step=step) for at, part in enumerate(parts)]
        added += [result(part.call_id, f"result {step}") for part in added if part.role == "call"]
        self.entries += added
        self.rendering.add(added)
        return request

    def think(self, number: int) -> None:
        """A reply that thinks, says something and calls."""
        source = thinking(self.rendering.request(), f"thought {number}")
        self.reply(bound("thinking", "anthropic", source), says("I try."), call(f"toolu_{number}"))


def thoughts(request: Request) -> int:
    """How many thinking blocks a request holds; it must be one that Anthropic takes."""
    check("anthropic", request.body)
    return request.body.count(b'"type": "thinking"')


def test_thinking_goes_back_as_received_while_nothing_before_it_changed() -> None:
    loop = Loop("anthropic")
    for number in range(1, 5):
        loop.think(number)
    request = loop.rendering.request()
    assert thoughts(request) == 4
    assert all(one.text.encode() in request.body for one in loop.entries if one.part == "bound")
    assert not request.notes


def test_thinking_between_calls_keeps_its_place() -> None:
    loop = Loop("anthropic")
    request = loop.rendering.request()
    first = thinking(request, "one")
    before: list[JsonObject] = [
        json.loads(first),
        {"type": "text", "text": "so"},
        {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}},
    ]
    second = thinking(request, "two", before)
    loop.reply(
        bound("thinking", "anthropic", first),
        says("so"),
        call("toolu_1"),
        bound("thinking", "anthropic", second),
        call("toolu_2"),
    )
    assert thoughts(loop.rendering.request()) == 2


CHANGES: dict[str, Callable[[list[Entry]], list[Entry]]] = {
    "system": lambda entries: [system("be long"), *entries[1:]],
    "tools": lambda entries: [entries[0], tool("run"), tool("more"), *entries[2:]],
    "message": lambda entries: [*entries[:2], user("stop"), *entries[3:]],
    "cut": lambda entries: [*entries[:2], user("(cut)"), *entries[7:]],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("params", [PARAMS, BY_HAND])
def test_a_changed_prefix_leaves_the_thinking_out(change: str, params: str) -> None:
    """Case 64: never a call whose required block is gone."""
    loop = Loop("anthropic", params)
    for number in range(1, 4):
        loop.think(number)
    again = loop.started(params)
    again.add(CHANGES[change](loop.entries))
    request = again.request()
    assert thoughts(request) == 0
    left = [why for _, what, why in request.notes if what == "left_out"]
    assert set(left) == {"binding_broken"}
    # Thinking that is switched on by hand must open a turn that calls: then no call stays one.
    assert (b'"tool_use"' in request.body) == (params == PARAMS)
    assert request.body.count(b"result 3") == 1


def test_only_the_reply_that_opens_a_turn_must_think() -> None:
    """Thinking switched on by hand: what follows results belongs to the turn before them."""
    loop = Loop("anthropic", BY_HAND)
    loop.think(1)
    loop.reply(says("on"), call("toolu_2"))
    loop.rendering.add([user("more")])
    loop.think(3)
    loop.reply(call("toolu_4"))
    request = loop.rendering.request()
    assert thoughts(request) == 2
    assert request.body.count(b'"tool_use"') == 4
    assert not request.notes
    # A turn that does not open with thinking keeps its pairs, as text.
    loop.rendering.add([user("more")])
    loop.reply(call("toolu_5"))
    request = loop.rendering.request()
    assert thoughts(request) == 2
    assert request.body.count(b'"tool_use"') == 4
    assert [what for _, what, why in request.notes if why == "partner_absent"] == ["as_text"]


def test_what_an_edit_breaks_is_what_comes_after_it() -> None:
    loop = Loop("anthropic")
    for number in range(1, 4):
        loop.think(number)
    entries = list(loop.entries)
    at = next(n for n, one in enumerate(entries) if one.text == "result 2")
    entries[at] = result("toolu_2", "edited")
    again = loop.started()
    again.add(entries)
    assert thoughts(again.request()) == 2


def test_what_is_changed_in_a_message_breaks_the_thinking_behind_it() -> None:
    loop = Loop("anthropic")
    request = loop.rendering.request()
    second = thinking(request, "two", [{"type": "text", "text": " "}])
    loop.reply(says(" "), bound("thinking", "anthropic", second), says("so"))
    request = loop.rendering.request()
    assert thoughts(request) == 0
    assert noted(request)[:2] == [(3, "left_out empty"), (4, "left_out binding_broken")]


def test_a_closing_message_is_part_of_what_a_reply_is_bound_to() -> None:
    """It was sent with that request alone, so what was thought on it does not come back."""
    loop = Loop("anthropic")
    loop.reply(says("done"))
    request = loop.rendering.request()
    assert (request.notes[-1]) == (3, "added", "closing")
    loop.think(2)
    assert thoughts(loop.rendering.request()) == 0


def test_the_model_that_may_read_it_gets_it_back() -> None:
    loop = Loop("anthropic")
    loop.think(1)
    for model, expected in (("another", 0), (MODEL, 1)):
        again = loop.started(model=model)
        again.add(loop.entries)
        request = again.request()
        assert thoughts(request) == expected
        assert noted(request) == ([] if expected else [(3, "left_out other_model")])


def test_another_provider_never_gets_it() -> None:
    loop = Loop("anthropic")
    loop.think(1)
    for api in ("openai-chat", "openai-responses", "deepseek-chat"):
        request = rendered(api, loop.entries, bindings=loop.bindings.get)
        check(api, request.body)
        assert (3, "left_out other_provider") in noted(request)
        assert b"thought 1" not in request.body


@pytest.mark.parametrize(
    ("binding", "why"),
    [
        (None, "binding_unknown"),
        (Binding("", "anthropic", MODEL, ""), "binding_unknown"),
        (Binding("0" * 64, "anthropic", MODEL, ""), "binding_broken"),
        (Binding("0" * 64, "deepseek-chat", MODEL, ""), "other_provider"),
    ],
)
def test_a_binding_that_does_not_hold_is_named(binding: Binding | None, why: str) -> None:
    thought = bound("thinking", "anthropic", '{"type":"thinking","thinking":"","signature":"s"}')
    request = rendered(
        "anthropic", [user("go"), thought, says("so", first=False)], bindings={0: binding}.get
    )
    assert noted(request)[0] == (1, f"left_out {why}")


@pytest.mark.parametrize(("account", "expected"), [(None, 1), ("org-1", 1), ("org-2", 0), ("", 0)])
def test_accounts_must_be_the_same_where_the_caller_names_one(
    account: str | None, expected: int
) -> None:
    loop = Loop("anthropic", account=account)
    loop.think(1)
    request = loop.rendering.request()
    assert thoughts(request) == expected
    assert noted(request) == ([] if expected else [(3, "left_out other_account")])


@pytest.mark.parametrize(
    ("kind", "source", "why"),
    [
        ("thinking", '{"type":"thinking","thinking":"half"}', "unsigned"),
        ("thinking", '{"type":"thinking","thinking":"half","signature":""}', "unsigned"),
        ("redacted_thinking", '{"type":"redacted_thinking"}', "unsigned"),
        ("thinking", '{"type":"text","text":"x","signature":"s"}', "not_json"),
        ("thinking", "REDACTED", "not_json"),
        ("reasoning", '{"type":"reasoning"}', "not_sent"),
    ],
)
def test_a_block_that_is_not_whole_stays_out(kind: str, source: str, why: str) -> None:
    loop = Loop("anthropic")
    loop.reply(bound(kind, "anthropic", source), says("so"))
    assert noted(loop.rendering.request())[0] == (3, f"left_out {why}")


def test_thinking_that_is_switched_off_is_not_sent() -> None:
    loop = Loop("anthropic", '{"max_tokens":4096,"thinking":{"type":"disabled"}}')
    loop.think(1)
    request = loop.rendering.request()
    assert thoughts(request) == 0
    assert noted(request) == [(3, "left_out thinking_off")]


def test_a_message_does_not_end_with_thinking() -> None:
    loop = Loop("anthropic")
    loop.reply(bound("thinking", "anthropic", thinking(loop.rendering.request(), "only")))
    request = loop.rendering.request()
    assert thoughts(request) == 1
    assert noted(request)[0] == (3, "placeholder empty")


def test_calls_of_a_profile_that_wants_their_partner_are_shown_as_text() -> None:
    profile = replace(profile_for("anthropic", "")[0], name="mine", absent="text")
    thought = bound("thinking", "anthropic", '{"type":"thinking","thinking":"","signature":"s"}')
    entries = [user("go"), thought, call("toolu_1", arguments="<x>"), result("toolu_1", "</y>")]
    request = rendered("anthropic", entries, profile=profile)
    check("anthropic", request.body)
    assert b"tool_use" not in request.body
    assert b"&lt;x&gt;" in request.body and b"&lt;/y&gt;" in request.body
    assert (2, "as_text partner_absent") in noted(request)


def test_a_provider_that_binds_to_nothing_takes_any_of_its_own() -> None:
    base = profile_for("openai-chat", "")[0]
    profile = replace(base, name="mine", bound=(BoundKind("reasoning_content", "none"),))
    thought = bound("reasoning_content", "openai-chat", '"because \\u00fc"', readable="because ü")
    entries = [user("go"), thought, says("so", first=False)]
    message = rendered("openai-chat", entries, profile=profile).body.partition(b'"messages":')[2]
    assert b'"content":"so","reasoning_content":"because \\u00fc"}' in message


# --- DeepSeek, Responses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "readable", "expected"),
    [
        ('"as\\u0020received"', "as received", '"as\\u0020received"'),
        ('{"reasoning_content":"x"}', "read", '"read"'),
    ],
)
def test_deepseek_gets_its_reasoning_back(source: str, readable: str, expected: str) -> None:
    loop = Loop("deepseek-chat")
    thought = bound("reasoning_content", "deepseek-chat", source, readable=readable)
    loop.reply(thought, says("so"), call("call_1"))
    request = loop.rendering.request()
    check("deepseek-chat", request.body)
    assert f'"content":"so","reasoning_content":{expected},"tool_calls"'.encode() in request.body


def test_deepseek_gets_an_empty_one_where_the_binding_is_gone() -> None:
    loop = Loop("deepseek-chat")
    loop.reply(bound("reasoning_content", "deepseek-chat", '"hm"'), call("call_1"))
    again = loop.started(model="another")
    again.add(loop.entries)
    request = again.request()
    check("deepseek-chat", request.body)
    assert b'"reasoning_content":""' in request.body
    assert noted(request) == [(3, "left_out other_model")]


def test_deepseek_gets_none_when_it_does_not_think() -> None:
    loop = Loop("deepseek-chat", '{"thinking":{"type":"disabled"}}')
    loop.reply(bound("reasoning_content", "deepseek-chat", '"hm"'), call("call_1"))
    request = loop.rendering.request()
    check("deepseek-chat", request.body)
    assert b"reasoning_content" not in request.body


def reasoning(follower: str, call_id: str = "", *, named: bool = True) -> Entry:
    """A reasoning item that the fake provider sealed in front of such an item."""
    id = reasoning_id(FAKE_KEY, follower + call_id)
    sealed = seal(FAKE_KEY, Sealed(id, follower, "fc_1" if call_id else "msg_1", call_id))
    item: dict[str, object] = {"id": id} if named else {}
    item |= {"type": "reasoning", "summary": [], "encrypted_content": sealed}
    return bound("reasoning", "openai-responses", json.dumps(item))


def test_reasoning_goes_back_in_front_of_its_call() -> None:
    loop = Loop("openai-responses")
    first = reasoning("function_call", "call_1")
    loop.reply(first, call("call_1"), call("call_2"))
    loop.reply(reasoning("custom_tool_call", "call_3"), call("call_3", call_kind="text"))
    request = loop.rendering.request()
    check("openai-responses", request.body)
    assert first.text.encode() in request.body
    assert not request.notes


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([reasoning("message"), says("done")], "no_partner"),
        ([reasoning("function_call", "call_1")], "no_partner"),
        ([reasoning("function_call", "i" * 70), call("i" * 70)], "no_partner"),
        ([reasoning("tool_search_call", "c"), call("c", call_kind="search")], "no_partner"),
        ([bound("reasoning", "openai-responses", '{"type":"reasoning","id":"rs_1"}')], "reference"),
    ],
)
def test_reasoning_whose_item_does_not_follow_stays_out(parts: list[Entry], why: str) -> None:
    loop = Loop("openai-responses")
    loop.reply(*parts)
    loop.rendering.add([user("more")])
    request = loop.rendering.request()
    check("openai-responses", request.body)
    assert (3, f"left_out {why}") in noted(request)


def test_reasoning_without_an_id_may_stand_before_a_message() -> None:
    loop = Loop("openai-responses")
    loop.reply(reasoning("message", named=False), says("done"))
    loop.rendering.add([user("more")])
    request = loop.rendering.request()
    check("openai-responses", request.body)
    assert b"encrypted_content" in request.body


def test_an_item_that_the_provider_ran_goes_with_its_reasoning() -> None:
    search = '{"type":"web_search_call","id":"ws_1","status":"completed"}'
    raw = entry("assistant/raw", search, api="openai-responses")
    for known in (True, False):
        loop = Loop("openai-responses")
        loop.reply(reasoning("web_search_call", named=False), raw, says("found"))
        again = loop.started(model=MODEL if known else "another")
        again.add([*loop.entries, user("more")])
        request = again.request()
        assert (search.encode() in request.body) == known
        assert ((4, "left_out partner_absent") in noted(request)) == (not known)


def test_a_compaction_of_the_provider_heads_the_messages() -> None:
    source = '{"type":"compaction","content":"what was"}'
    entries = [bound("compaction", "anthropic", source, step=1), user("go on")]
    bindings = {1: Binding("1" * 64, "anthropic", MODEL, "")}
    request = rendered("anthropic", entries, bindings=bindings.get)
    check("anthropic", request.body)
    assert not request.notes
    assert b'"messages":[{"role":"assistant","content":[' + source.encode() in request.body
