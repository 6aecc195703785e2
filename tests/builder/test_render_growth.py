"""A request grows at its end (laws 12, 13), is the same however it grew, and is never refused."""

from __future__ import annotations

import hashlib
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sawlog.builder.packet import Binding, Entry, Request
from sawlog.builder.render import Rendering
from sawlog.providers.strict import check
from tests.builder.entries import (
    APIS,
    MODEL,
    Message,
    call,
    packets,
    rendering,
    result,
    says,
    system,
    user,
)
from tests.timing import seconds

THINKING = (
    '{"max_tokens":4096}',
    '{"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":1024}}',
    '{"max_tokens":4096,"thinking":{"type":"disabled"}}',
)


def flat(pieces: list[list[Message]]) -> list[Entry]:
    """All entries of the pieces."""
    return [entry for messages in pieces for message in messages for entry in message]


def request_digest(request: Request) -> str:
    """`provider_request_digest`, from the words of the stored format."""

    def field(text: str) -> bytes:
        return len(text.encode()).to_bytes(4, "big") + text.encode()

    parts = [b"sawlog/1 request", field(request.method), field(request.path)]
    parts.append(len(request.headers).to_bytes(4, "big"))
    parts += [field(name) + field(value) for name, value in request.headers]
    return hashlib.sha256(b"".join(parts) + request.body).hexdigest()


def prefix_digest(request: Request, params: str) -> str:
    """What the next reply is bound to: all behind the model's name but the closing brackets."""
    head = f'{params[:-1]},"model":"{MODEL}"'.encode()
    assert request.body.startswith(head) and request.body.endswith(b"]}")
    return hashlib.sha256(b"sawlog/1 prefix" + request.body[len(head) : -2]).hexdigest()


@pytest.mark.parametrize("api", APIS)
@settings(max_examples=100)
@given(pieces=packets(), params=st.sampled_from(THINKING), broken=st.booleans())
def test_growing_in_pieces_is_rendering_at_once(
    api: str, pieces: list[list[Message]], params: str, broken: bool
) -> None:
    """Law 5, law 6, law 13: same bytes, a growing prefix, and a request that its provider takes."""
    prefixes: dict[int, Binding] = {}
    growing = rendering(api, params, bindings=prefixes.get)
    before: Request | None = None
    shown = 0
    for piece in pieces:
        for step in {entry.step for message in piece for entry in message if entry.step}:
            prefix = growing.request().prefix
            prefixes[step] = Binding("0" * 64 if broken else prefix, api, MODEL, "")
        for message in piece:
            growing.add(message)
            shown += len(message)
        request = growing.request()
        assert request.size == len(request.body)
        assert request.digest == request_digest(request)
        assert request.prefix == prefix_digest(request, params)
        if any(message[0].section == "history" for message in piece):
            check(api, request.body, dict(request.headers), key=None)
        if before is not None:
            kept = b"".join(before.chunks[:-1])
            assert request.body.startswith(kept)
        before = request
        assert all(-1 <= at < shown for at, _, _ in request.notes)
    assert before is not None
    at_once = rendering(api, params, bindings=prefixes.get)
    at_once.add(flat(pieces))
    whole = at_once.request()
    assert whole.body == before.body
    assert (whole.digest, whole.prefix, whole.notes) == (
        before.digest,
        before.prefix,
        before.notes,
    )


@pytest.mark.parametrize("api", APIS)
def test_asking_twice_changes_nothing(api: str) -> None:
    one = rendering(api)
    one.add([system("be brief"), user("hello"), says("hm")])
    first = one.request()
    assert first == one.request()
    one.add([user("more")])
    assert first.body != one.request().body
    assert request_digest(first) == first.digest


@pytest.mark.parametrize("api", APIS)
def test_an_old_request_stays_as_it_was(api: str) -> None:
    """Law 8: the chunks of a request are its own, also when many are joined later."""
    one = rendering(api)
    one.add([user("hello")])
    first = one.request()
    body = first.body
    for _ in range(200):
        one.add([user("and more")])
    assert first.body == body
    assert len(one.request().chunks) < 80


def _unit(number: int, text: str) -> list[Entry]:
    id = f"call_{number}"
    return [
        user(text),
        says("I look.", step=number),
        call(id, arguments='{"path":"a.py"}', step=number),
        result(id, text),
        user(text),
    ]


@pytest.mark.alone
@pytest.mark.parametrize("api", APIS)
def test_a_step_costs_what_is_new(api: str) -> None:
    """Law 12: five entries of 2 KB cost behind 5,000 of them what they cost behind 250.

    By turns, so that a machine that slows down slows both; a cost that grows with what is there
    would be 10-fold.
    """
    text = "a line of some forty characters, or so\n" * 52
    spent: dict[int, list[float]] = {50: [], 1000: []}
    growing = {units: rendering(api) for units in spent}
    for units, one in growing.items():
        one.add([system("be brief")])
        for number in range(units):
            one.add(_unit(number, text))
    for number in range(1000, 1100):
        for units, one in growing.items():
            unit = _unit(number, text)

            def step(one: Rendering = one, unit: list[Entry] = unit) -> None:
                one.add(unit)
                one.request()

            spent[units].append(seconds(step))
    assert growing[1000].request().size > 5_000_000 > growing[50].request().size
    assert statistics.median(spent[1000]) < 3 * statistics.median(spent[50])
