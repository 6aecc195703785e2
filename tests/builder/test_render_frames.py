"""What text rides on, and the frame around text that its place says nothing of (law 10)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.packet import Entry
from sawlog.builder.profiles import Carrier, profile_for
from sawlog.builder.render.frames import framed, guarded
from sawlog.providers.strict import check
from tests.builder.entries import (
    APIS,
    ODD_TEXTS,
    body,
    call,
    entry,
    noted,
    rendered,
    result,
    says,
    system,
    texts,
    user,
)

hostile = st.one_of(
    texts,
    st.lists(
        st.sampled_from(
            ("<", "/", " ", "sawlog", "SawLog", ":", "late", ">", "&lt;", '"', "\n", "trust=")
        ),
        max_size=12,
    ).map("".join),
)
_TAG = re.compile(r"<[ \t\r\n/]*sawlog[ \t\r\n]*:", re.IGNORECASE)


@given(st.sampled_from(("late", "observation", "withheld")), hostile, hostile)
def test_no_text_of_others_closes_or_opens_a_frame(tag: str, text: str, name: str) -> None:
    shown = framed(tag, text, trusted=False, name=name)
    first, _, rest = shown.partition("\n")
    inner, _, last = rest.rpartition("\n")
    assert re.fullmatch(f'<sawlog:{tag}( name="[^"<>]+")? trust="untrusted">', first)
    assert last == f"</sawlog:{tag}>"
    assert not set("<>") & set(inner)
    # Nothing is lost: the escapes turn back into the text.
    assert inner.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


@given(hostile)
def test_trusted_text_keeps_its_marks_but_for_sawlogs_own(text: str) -> None:
    shown = framed("notice", text, trusted=True)
    inner = shown.removeprefix("<sawlog:notice>\n").removesuffix("\n</sawlog:notice>")
    assert not _TAG.search(inner)
    assert inner.replace("&lt;", "<") == text.replace("&lt;", "<")
    if not _TAG.search(text):
        assert inner == text
        assert guarded(text) is text


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["notice", "late", "observation", "developer"])
def test_only_the_harness_makes_frames(api: str, kind: str) -> None:
    """Whatever others say, there are as many frames as entries that are framed."""
    others = [
        entry(role, text, name=text)
        for text in ODD_TEXTS
        for role in ("user", "late", "observation")
    ]
    request = rendered(api, [user("go"), *others, entry(kind, "told")])
    check(api, request.body)
    on_user_message = kind != "developer" or api == "anthropic"
    frames = 2 * len(ODD_TEXTS) + on_user_message
    assert len(_TAG.findall(request.body.decode())) == 2 * frames
    assert sum(why == "escaped own_tag" for _, why in noted(request)) == 2


def _where(api: str, entry: Entry, *before: Entry) -> tuple[object, object]:
    """Role and content of the last message of a request."""
    value = body(rendered(api, [*before, entry]))
    messages = value["input" if api == "openai-responses" else "messages"]
    content: Any = messages[-1]["content"]
    if api in ("anthropic", "openai-responses"):
        (block,) = content
        content = block["text"]
    return messages[-1]["role"], content


@pytest.mark.parametrize(
    ("api", "kind", "role", "text"),
    [
        ("anthropic", "user", "user", "x"),
        ("anthropic", "system", "user", "<sawlog:system>\nx\n</sawlog:system>"),
        ("anthropic", "developer", "user", "<sawlog:developer>\nx\n</sawlog:developer>"),
        ("anthropic", "notice", "user", "<sawlog:notice>\nx\n</sawlog:notice>"),
        ("openai-chat", "system", "system", "x"),
        ("openai-chat", "developer", "developer", "x"),
        ("openai-chat", "notice", "user", "<sawlog:notice>\nx\n</sawlog:notice>"),
        ("openai-responses", "system", "system", "x"),
        ("openai-responses", "developer", "developer", "x"),
        ("deepseek-chat", "system", "system", "x"),
        ("deepseek-chat", "developer", "system", "x"),
    ],
)
def test_text_of_each_standing_has_its_carrier(api: str, kind: str, role: str, text: str) -> None:
    assert _where(api, entry(kind, "x"), user("go")) == (role, text)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("kind", ["system", "developer", "user"])
def test_text_that_is_not_trusted_rides_low_and_claims_nothing(api: str, kind: str) -> None:
    tag = "user" if kind == "user" else "text"
    expected = f'<sawlog:{tag} trust="untrusted">\n&lt;b&gt;\n</sawlog:{tag}>'
    one = entry(kind, "<b>", authority="none", trust="untrusted")
    assert _where(api, one, user("go")) == ("user", expected)
    # Nor from the header, whatever authority it claims.
    one = replace(system("<b>", kind), authority="system", trust="untrusted")
    assert _where(api, one) == ("user", expected)


def test_the_header_stands_where_the_api_has_a_place_for_it() -> None:
    header = [system("one"), system("two"), system("three", "developer"), user("go")]
    anthropic = body(rendered("anthropic", header))
    assert anthropic["system"] == [
        {"type": "text", "text": text} for text in ("one", "two", "three")
    ]
    responses = body(rendered("openai-responses", header))
    assert responses["instructions"] == "one\n\ntwo"
    assert [item["role"] for item in responses["input"]] == ["developer", "user"]
    chat = body(rendered("openai-chat", header))
    assert [one["role"] for one in chat["messages"]] == ["system", "system", "developer", "user"]


def test_a_newer_model_may_take_system_messages_in_place() -> None:
    base = profile_for("anthropic", "")[0]
    carriers = (Carrier("system", "trusted", "system", "system_message"), *base.carriers[2:])
    profile = replace(base, name="anthropic/newer", models=("claude-opus-5",), carriers=carriers)
    entries = [user("go"), entry("system", "be quick"), says("ok"), user("more")]
    request = rendered("anthropic", entries, profile=profile, model="claude-opus-5")
    check("anthropic", request.body)
    assert b'{"role":"system","content":[{"type":"text","text":"be quick"}]}' in request.body


@pytest.mark.parametrize("api", APIS)
def test_a_result_without_its_call_is_text_of_others(api: str) -> None:
    external = entry("result", "</sawlog:result>", name="ci", call_id="job-7")
    request = rendered(api, [user("go"), external])
    check(api, request.body)
    assert b"&lt;/sawlog:result&gt;" in request.body
    assert noted(request) == [(1, "as_text no_call")]


@pytest.mark.parametrize("api", APIS)
def test_a_result_answers_only_calls_of_the_reply_before_it(api: str) -> None:
    entries = [
        user("go"),
        call("c1", first=True),
        result("c1", "one"),
        says("done"),
        result("c1", "again"),
        entry("result", "erased", call_id=""),
    ]
    request = rendered(api, entries)
    check(api, request.body)
    assert noted(request)[:2] == [(4, "as_text no_call"), (5, "as_text no_call")]


@pytest.mark.parametrize("api", APIS)
def test_an_unanswered_call_takes_no_result_of_a_later_reply(api: str) -> None:
    """The builder never leaves one unanswered; if it did, no other's result would be taken."""
    entries = [user("go"), call("c1", first=True), call("c2", first=True), result("c2", "two")]
    nameless = entry("result", "erased", call_id="")
    assert noted(rendered(api, [*entries, nameless]))[-1] == (4, "as_text no_call")


@pytest.mark.parametrize("api", APIS)
def test_a_result_apart_from_its_call_stands_beside_it_where_it_has_to(api: str) -> None:
    """The pairing `codex` leaves results where they arrived; Responses takes them there."""
    entries = [user("go"), call("c1", first=True), user("and?"), result("c1", "one")]
    request = rendered(api, entries)
    check(api, request.body)
    apart = api == "openai-responses"
    assert noted(request) == ([] if apart else [(3, "moved beside_call")])
    assert (request.body.index(b"and?") < request.body.index(b'"one"')) == apart


@pytest.mark.parametrize("api", APIS)
def test_a_reply_that_a_result_cuts_in_two_is_one_message_where_it_has_to(api: str) -> None:
    cut = entry("result", "aborted", status="unknown", trust="trusted", call_id="c1", step=1)
    entries = [
        user("go"), call("c1", first=True, step=1), cut, call("c2", first=True, step=1),
        result("c2", "two"),
    ]  # fmt: skip
    request = rendered(api, entries)
    check(api, request.body)
    assert noted(request) == ([] if api == "openai-responses" else [(2, "moved beside_call")])
    whole = rendered(api, [*entries[:2], replace(entries[3], first=False), cut, entries[4]])
    assert (whole.body == request.body) == (api != "openai-responses")


@pytest.mark.parametrize("api", APIS)
def test_what_is_withheld_is_never_sent(api: str) -> None:
    """A block of a reply stays out; elsewhere the reader is told that something is missing."""
    entries = [
        user("go"),
        entry("user/withheld", "a known <secret>", name="image", first=False),
        entry("assistant/withheld", "a known secret", name="thinking"),
        says("so", first=False),
        user("more"),
    ]
    request = rendered(api, entries)
    check(api, request.body)
    assert request.body.count(b"secret") == 1 and b"&lt;secret&gt;" in request.body
    assert noted(request) == [(1, "placeholder withheld"), (2, "left_out withheld")]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("incomplete", ["text", "drop"])
def test_a_call_that_never_ended_is_text_or_nothing(api: str, incomplete: str) -> None:
    """CASES 14: it was no call; its text stays in the message, or the profile leaves it out."""
    profile = replace(profile_for(api, "")[0], name="mine", incomplete=incomplete)
    cut = entry("assistant/incomplete", '{"path": "a', name="read", first=False)
    request = rendered(api, [user("go"), says("I read."), cut, user("stop")], profile=profile)
    check(api, request.body)
    shown = b"sawlog:incomplete-call name=" in request.body
    assert shown == (incomplete == "text")
    what = "as_text" if incomplete == "text" else "left_out"
    assert noted(request) == [(2, f"{what} incomplete")]
    assert b"tool" not in request.body and b"function_call" not in request.body


@pytest.mark.parametrize("api", APIS)
def test_arguments_that_are_no_json_stay_what_they_are(api: str) -> None:
    """CASES 16: byte for byte where the API has a string, else in the one documented object."""
    broken = '{"path": "ü\t'
    entries = [
        user("go"),
        call("call_1", arguments=broken, first=True),
        result("call_1", "bad arguments", status="error"),
    ]
    request = rendered(api, entries)
    check(api, request.body)
    text = '"{\\"path\\": \\"ü\\t"'
    if api == "anthropic":
        assert f'"input":{{"raw":{text}}}'.encode() in request.body
        assert noted(request) == [(1, "wrapped arguments")]
    else:
        assert f'"arguments":{text}'.encode() in request.body
        assert not request.notes
