"""What holds of every hand-over, read out of the bytes of its request."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from sawlog.audit.handoffrequest import Handoff
from sawlog.audit.recorded import Recorded
from sawlog.providers.strict import check
from sawlog.providers.strict.reading import as_list, as_object
from sawlog.store.errors import Refused

SAID = "Go on, please."
_SEALS = ("signature", "data", "encrypted_content")


def handed(recorded: Recorded, api: str, **options: Any) -> Handoff:
    """The session handed over; where it ends with the model's reply, with a message of the user."""
    asked: dict[str, Any] = {"provider": api, "model": "some-model", **options}
    if api == "anthropic":
        asked.setdefault("max_tokens", 1000)
    try:
        found = recorded.handoff(**asked)
    except Refused as refused:
        if refused.reason != "nothing_to_send" or "say" in options:
            raise
        assert refused.needs == ("input",) and "--say" in str(refused)
        return recorded.handoff(**asked, say=SAID)
    assert found.said == options.get("say")
    return found


def assert_accepted(found: Handoff, *, ours: bool = False) -> None:
    """The provider takes it: pairs are whole, and what another one sealed is not in it.

    `ours`: what this API itself sealed may be in it, and is its own.
    """
    api = found.header.api
    headers = dict(found.request.headers)
    check(api, found.body, headers, key=None)
    check(api, found.body, headers)  # a seal that is not the fake's own would be refused
    asked, answered = pairs(found)
    assert answered == asked and max(asked.values(), default=1) == 1
    as_text = {note.entry for note in found.notes if (note.what, note.kind) == ("as_text", "call")}
    calls = [at for at, entry in enumerate(found.entries) if entry.kind == "call"]
    assert asked.total() == len(calls) - len(as_text)
    gone = {note.entry for note in found.left_out}
    assert all(note.why for note in found.notes)
    for at, entry in enumerate(found.entries):
        if entry.part == "bound" and not (ours and entry.api == api and at not in gone):
            assert at in gone, (entry.bound, "went, or went without a word")
            for seal in seals(entry.text):
                assert seal not in found.body.decode()
        if entry.part == "raw" and entry.api != api and entry.role == "assistant":
            assert at in gone


def pairs(found: Handoff) -> tuple[Counter[str], Counter[str]]:
    """The ids of the calls and of the results in a request's body, as its API writes them."""
    body: dict[str, Any] = json.loads(found.body)
    asked: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for item in body["input"] if found.header.api == "openai-responses" else body["messages"]:
        kind = str(item.get("type", ""))
        if kind in ("function_call", "custom_tool_call"):
            asked[item["call_id"]] += 1
        elif kind in ("function_call_output", "custom_tool_call_output"):
            answered[item["call_id"]] += 1
        for call in item.get("tool_calls") or ():
            asked[call["id"]] += 1
        if item.get("role") == "tool":
            answered[item["tool_call_id"]] += 1
        for each in as_list(item.get("content")) or []:
            block = as_object(each) or {}
            if block["type"] == "tool_use":
                asked[str(block["id"])] += 1
            elif block["type"] == "tool_result":
                answered[str(block["tool_use_id"])] += 1
    return asked, answered


def seals(source: str) -> list[str]:
    """What a provider sealed in a bound block, where that is long enough to be known again."""
    block = as_object(json.loads(source)) or {}
    found = [block.get(name) for name in _SEALS]
    return [seal for seal in found if isinstance(seal, str) and len(seal) > 40]
