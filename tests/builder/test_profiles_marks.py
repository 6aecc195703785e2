"""Cache marks: where they stand, what they leave as it is, and that they roll on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sawlog.builder.packet import Binding, Entry, Header, Request
from sawlog.builder.profiles import profile_for
from sawlog.builder.render import start
from sawlog.builder.render.marks import LOOK_BACK, MARK, MOST
from sawlog.providers.strict import check
from sawlog.store.errors import ConfigError
from sawlog.store.events.base import Named
from tests.builder.entries import (
    MODEL,
    PARAMS,
    Message,
    bound,
    call,
    entry,
    nothing_bound,
    packets,
    rendered,
    rendering,
    result,
    says,
    system,
    tool,
    user,
)
from tests.builder.test_render_growth import flat, request_digest

CLAUDE = profile_for("anthropic", "claude-opus-5-5")[0]
THOUGHT = '{"type":"thinking","thinking":"hm","signature":"c2ln"}'


def marked(entries: list[Entry], params: str = PARAMS) -> Request:
    """The request of these entries, with marks."""
    return rendered("anthropic", entries, params, profile=CLAUDE, marks=True)


def places(request: Request) -> list[tuple[str, int]]:
    """Where the marks stand: on a section, or (`block`, which block of all messages from 1)."""
    value: dict[str, Any] = json.loads(request.body)
    found = [(name, 0) for name in ("tools", "system") for one in value.get(name, ())
             if "cache_control" in one]  # fmt: skip
    blocks = [block for message in value["messages"] for block in message["content"]]
    for at, block in enumerate(blocks, 1):
        if "cache_control" in block:
            found.append(("block", at))
    return found


@settings(max_examples=120)
@given(pieces=packets(), broken=st.booleans())
def test_marks_change_nothing_but_that_they_are_there(
    pieces: list[list[Message]], broken: bool
) -> None:
    """Laws 5 and 13: grown in pieces or made at once the bytes are the same, and without its marks
    the body, like the prefix that thinking is bound to, is the one of the plain renderer."""
    prefixes: dict[int, Binding] = {}
    grown = rendering("anthropic", profile=CLAUDE, bindings=prefixes.get, marks=True)
    plain = rendering("anthropic", profile=CLAUDE, bindings=prefixes.get)
    shown: list[Entry] = []
    for piece in pieces:
        for step in {one.step for message in piece for one in message if one.step}:
            prefix = plain.request().prefix
            assert grown.request().prefix == prefix
            prefixes[step] = Binding("0" * 64 if broken else prefix, "anthropic", MODEL, "")
        for message in piece:
            grown.add(message)
            plain.add(message)
            shown += message
        request, without = grown.request(), plain.request()
        at_once = rendering("anthropic", profile=CLAUDE, bindings=prefixes.get, marks=True)
        at_once.add(shown)
        assert at_once.request().body == request.body
        assert request.body.replace(MARK, b"") == without.body
        assert (request.prefix, request.notes) == (without.prefix, without.notes)
        assert request.size == len(request.body)
        assert request.digest == request_digest(request)
        assert request.body.count(MARK) <= MOST
        if any(one.section == "history" for one in shown):
            # The signatures of random packets are nobody's, so there is no key to check them with.
            check("anthropic", request.body, headers=dict(request.headers), key=None)
    assert shown == flat(pieces)


def test_marks_stand_behind_the_head_and_on_the_newest_blocks() -> None:
    entries = [system("be kind"), tool("run"), user("go")]
    assert places(marked(entries)) == [("system", 0), ("block", 1)]
    assert places(marked([tool("a"), tool("b"), user("go")])) == [("tools", 0), ("block", 1)]
    value = json.loads(marked([tool("a"), tool("b"), user("go")]).body)
    assert ["cache_control" in one for one in value["tools"]] == [False, True]
    assert places(marked([user("go")])) == [("block", 1)]


def test_marks_are_never_further_apart_than_the_provider_looks_back() -> None:
    entries = [system("be kind"), user("go")]
    for step in range(1, 41):
        entries += [says("so", step=step), call(f"c{step}", step=step), result(f"c{step}")]
    blocks = 1 + 3 * 40
    assert places(marked(entries)) == [
        ("system", 0),
        ("block", blocks - 2 * LOOK_BACK),
        ("block", blocks - LOOK_BACK),
        ("block", blocks),
    ]


def test_a_checkpoint_keeps_its_mark() -> None:
    said = replace(user("done so far"), section="checkpoint", kind="checkpoint", authority="none")
    entries = [system("be kind"), said]
    one = rendering("anthropic", profile=CLAUDE, marks=True)
    one.add(entries)
    for turn in range(60):
        more = [user(f"turn {turn}"), says("so")]
        one.add(more)
        entries += more
        assert one.request().body == marked(entries).body
        assert ("block", 1) in places(one.request())
    # The message that closes the request is the tail's, and has no mark.
    assert places(one.request())[1:] == [("block", 1), ("block", 101), ("block", 121)]


def test_what_is_not_of_our_making_has_no_mark() -> None:
    """Thinking goes back as received; the mark stands on the block before it."""
    bindings = {1: Binding(rendered("anthropic", [user("go")], profile=CLAUDE).prefix,
                           "anthropic", MODEL, "")}  # fmt: skip
    one = rendering("anthropic", profile=CLAUDE, bindings=bindings.get, marks=True)
    one.add([user("go")])
    one.add([bound("thinking", "anthropic", THOUGHT, step=1), call("a", first=False, step=1)])
    request = one.request()
    assert THOUGHT.encode() in request.body
    assert places(request) == [("block", 1), ("block", 3)]


@pytest.mark.parametrize(
    ("entries", "params", "what"),
    [
        ([user("go")], '{"max_tokens":9,"cache_control":{"type":"ephemeral"}}', "the parameters"),
        ([tool("a", cache_control={}), user("go")], PARAMS, "the tool 'a'"),
        (
            [
                entry(
                    "user/raw",
                    '{"type":"search_result","cache_control":{"type":"ephemeral"}}',
                    api="anthropic",
                )
            ],
            PARAMS,
            "a part of the history",
        ),
    ],
)
def test_marks_of_the_callers_own_are_refused_by_name(
    entries: list[Entry], params: str, what: str
) -> None:
    with pytest.raises(ConfigError, match=f"{what} has a cache_control of its own"):
        marked(entries, params)


def test_a_profile_without_a_rule_is_refused() -> None:
    base = profile_for("anthropic", "")[0]
    header = Header("anthropic", MODEL, PARAMS, base.named, Named("anthropic", 2))
    with pytest.raises(ConfigError, match="names no rule for cache marks"):
        start(header, base, nothing_bound)


def test_the_digest_is_over_the_marks() -> None:
    """What was sent is what the digest says, marks and all."""
    entries = [user("go")]
    with_marks = marked(entries)
    without = rendered("anthropic", entries, profile=CLAUDE)
    assert with_marks.digest != without.digest
    assert hashlib.sha256(with_marks.body).digest() != hashlib.sha256(without.body).digest()
