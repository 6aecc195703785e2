"""What the log says of effects: their states, whoever said what, in whatever order it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.effects import DONE, FAILED, NOT_DONE, TYPES, UNKNOWN, Effect, Effects, read
from sawlog.store.event import Event
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageUser, ToolFinished, ToolStarted
from sawlog.store.events.effects import EffectIntended, EffectReconciled, EffectSettled
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from sawlog.store.events.registry import type_of


def events(*payloads: Payload) -> list[Event]:
    """These payloads as a log holds them, from seq 1 on."""
    return [
        Event(at, f"{at:032x}", type_of(type(one)).name, 1, "harness", 1, 0, one, False, False)
        for at, one in enumerate(payloads, 1)
    ]


def state(*payloads: Payload, key: str = "c:mail") -> str:
    """The state of an effect after these events; empty when there is none."""
    found = read(events(*payloads)).find(key)
    return found.state if found is not None else ""


MAIL = EffectIntended("c:mail", "c")
START = ToolStarted("c", "call_1", "side_effect", "c")


def test_an_effect_is_unknown_from_its_intention_until_somebody_says_more() -> None:
    assert state() == ""
    assert state(MAIL) == UNKNOWN
    assert state(MAIL, EffectSettled("c:mail")) == DONE
    assert state(MAIL, EffectSettled("c:mail", FAILED)) == FAILED
    assert state(MAIL, EffectReconciled("c:mail", NOT_DONE)) == NOT_DONE
    assert state(MAIL, EffectSettled("c:other")) == UNKNOWN
    assert state(EffectSettled("c:mail")) == ""


def test_the_runs_own_word_counts_before_any_others_and_the_first_one_stands() -> None:
    settled, not_done = EffectSettled("c:mail"), EffectReconciled("c:mail", NOT_DONE)
    assert state(MAIL, settled, not_done) == DONE
    assert state(MAIL, not_done, settled) == DONE
    assert state(MAIL, not_done, EffectReconciled("c:mail", DONE)) == NOT_DONE
    assert state(MAIL, settled, EffectSettled("c:mail", FAILED)) == DONE
    assert state(MAIL, not_done, MAIL) == UNKNOWN


def test_a_call_is_an_effect_that_its_result_settles() -> None:
    assert state(START, key="c") == UNKNOWN
    assert state(START, ToolFinished("c"), key="c") == DONE
    assert state(START, ToolFinished("c", status="error"), key="c") == FAILED
    assert state(START, ToolFinished("c", status="interrupted"), key="c") == DONE
    assert state(START, ToolFinished("other"), key="c") == UNKNOWN
    assert state(START, EffectReconciled("c", NOT_DONE), key="c") == NOT_DONE
    # Where a start names no event, the provider's id is what there is.
    bare = ToolStarted(call_id="call_1")
    assert state(bare, key="call_1") == UNKNOWN
    assert state(bare, ToolFinished(call_id="call_1"), key="call_1") == DONE


def test_a_try_that_may_have_acted_is_not_forgotten_for_a_later_one() -> None:
    keyed = ToolStarted("c", "call_1", "idempotent", "c")
    assert read(events(START, keyed)).starts["c"].effect == "side_effect"
    assert read(events(START, ToolFinished("c"), keyed)).starts["c"].effect == "idempotent"
    assert read(events(keyed, START)).starts["c"].effect == "side_effect"


def test_a_rewind_takes_nothing_back_and_a_fork_has_none_of_its_parents() -> None:
    assert state(START, HistoryRewound(0), key="c") == UNKNOWN
    assert read(events(START, MAIL, SessionForked("00" * 16, 2, ""))) == Effects(seq=3)


def test_what_is_known_says_since_when_and_by_which_event() -> None:
    found = read(
        events(
            START,
            EffectIntended("c:mail", "c", "idempotent", "mail it"),
            EffectSettled("c:mail", "done", "id-1"),
        )
    )
    mail = Effect("c:mail", "c", "idempotent", 2, 3, 1, DONE, "mail it", "id-1")
    assert list(found.of("c")) == [mail] and list(found.of("d")) == []
    assert found.starts == {"c": Effect("c", "c", "side_effect", 1, 1, 1)}


def test_every_type_that_says_anything_is_named() -> None:
    assert {kind.name for kind in CORE} >= TYPES
    said = (START, ToolFinished("c"), MAIL, EffectSettled("c:mail"), EffectReconciled("c:mail"))
    cuts = (SessionForked("", 0, ""), HistoryRewound(0))
    assert {one.type for one in events(*said, *cuts)} == TYPES


CALLS = st.sampled_from(("c", "d"))
KEYS = st.sampled_from(("c", "d", "c:mail", "d:mail"))
CLASSES = st.sampled_from(("side_effect", "idempotent", "read_only"))
ANY = st.one_of(
    st.builds(ToolStarted, call=CALLS, effect=CLASSES, key=CALLS),
    st.builds(ToolFinished, call=CALLS, status=st.sampled_from(("ok", "error", "interrupted"))),
    st.builds(EffectIntended, KEYS, CALLS, CLASSES),
    st.builds(EffectSettled, KEYS, st.sampled_from((DONE, FAILED))),
    st.builds(EffectReconciled, KEYS, st.sampled_from((DONE, FAILED, NOT_DONE))),
    st.just(HistoryRewound(0)),
    st.just(MessageUser(())),
)


@given(st.lists(ANY, max_size=30), st.integers(0, 30))
def test_law_5_read_on_from_anywhere_is_read_from_the_first_event(
    payloads: list[Payload], cut: int
) -> None:
    log = events(*payloads)
    whole = read(log)
    assert read(log[cut:], read(log[:cut])) == whole
    named = [one for one in log if one.type in TYPES]
    assert (read(named).starts, read(named).inside) == (whole.starts, whole.inside)


@given(st.lists(ANY, max_size=30))
def test_nothing_is_known_of_what_was_never_begun_nor_done_twice(payloads: list[Payload]) -> None:
    """Each effect has its intention in the log, and the event that says its state behind it."""
    log = events(*payloads)
    found = read(log)
    for one in (*found.starts.values(), *found.inside.values()):
        begun = log[one.since - 1].content
        assert isinstance(begun, ToolStarted | EffectIntended)
        assert one.said >= one.since and (one.state == UNKNOWN) == (one.said == one.since)
