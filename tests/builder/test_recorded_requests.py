"""Recorded bodies: cut anew or from where they differ, told by spans, read back byte for byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.requests.cutting import Body, cut, text_of_body
from sawlog.builder.requests.reading import Bodies, read_body
from sawlog.builder.requests.spans import LINKS, Listed, texts_of, written
from sawlog.store.event import Event
from sawlog.store.events.steps import PacketRecorded

WORDS = st.sampled_from(["a", "go on", "é", '"', "\\", "]", ",", "x" * 60, "}{", "\ud800"])


def item(text: str) -> dict[str, str]:
    """A message of the user's."""
    return {"role": "user", "content": text}


ITEMS = st.lists(WORDS.map(item), max_size=8)
APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")


@st.composite
def bodies(draw: st.DrawFn, api: str) -> str:
    """A request in odd spelling: members in any order, spaces anywhere between them."""
    items = "input" if api == "openai-responses" else "messages"
    system = "instructions" if api == "openai-responses" else "system"
    members: dict[str, Any] = {items: draw(ITEMS), "model": "m", "tools": draw(ITEMS)}
    members |= draw(st.sampled_from([{}, {system: "Be kind."}, {"n": 1e2, "stream": True}]))
    order = draw(st.permutations(sorted(members)))
    spaces = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]))
    return json.dumps({name: members[name] for name in order}, separators=spaces)


@given(st.sampled_from(APIS), st.data())
def test_a_body_read_from_where_it_differs_is_the_body_read_anew(
    api: str, data: st.DataObject
) -> None:
    before = cut(api, data.draw(bodies(api)))
    after = data.draw(bodies(api) | grown(before))
    assert cut(api, after, before) == cut(api, after)
    assert "".join(texts_of(cut(api, after, before))) == after


def grown(body: Body) -> st.SearchStrategy[str]:
    """The same text, and that with a message more wherever a list of them ends."""
    more = '{"role":"user","content":"more"}'
    ends = [one.end for one in body.pieces if body.text[one.end :].lstrip().startswith("]")]
    longer = [f"{body.text[:end]},{more}{body.text[end:]}" for end in ends]
    return st.sampled_from([body.text, *longer])


class Log:
    """The events that bodies are told by, as contents."""

    def __init__(self) -> None:
        self.events: list[PacketRecorded] = []

    def event(self, seq: int) -> Event:
        content = self.events[seq - 1]
        return Event(
            seq, f"{seq:032x}", "packet.recorded", 2, "recorder", seq, 0, content, False, False
        )

    def blob(self, digest: str) -> bytes:
        raise KeyError(digest)


@given(st.sampled_from(APIS), st.data())
def test_any_row_of_bodies_comes_out_as_it_was(api: str, data: st.DataObject) -> None:
    texts = [data.draw(bodies(api)) for _ in range(data.draw(st.integers(1, 5)))]
    # Long enough that a list has to be written whole, with bodies that repeat earlier ones.
    row = [texts[data.draw(st.integers(0, len(texts) - 1))] for _ in range(LINKS + 3)]
    log, last = Log(), None
    for seq, text in enumerate(row, 1):
        raw = text.encode()
        body = read_body(api, raw)
        assert body is not None
        last = told(log, body, seq, last)
        assert Bodies(log).body(seq) == raw
    together = Bodies(log)
    assert [text_of_body(together.body(seq)) for seq in range(1, len(row) + 1)] == row


def told(log: Log, body: Body, seq: int, last: Listed | None) -> Listed:
    """Write a body's spans as the next event."""
    spans, base, listed = written(texts_of(body), seq, last, {})
    assert listed.links <= LINKS
    log.events.append(PacketRecorded(body.api, base=base, spans=spans))
    return listed
