"""What one append costs, and one of many events: one transaction each, and a bound on the rest."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sawlog.store.content import TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import MessageUser
from tests.guard.coding_agent import opened
from tests.guard.counting import Counts, counting
from tests.guard.holding import Bound, at_most, at_most_times, total

ONE = (
    Bound("commits", 1, "an append is one transaction"),
    Bound("statements", 3.1, "to begin, to move the head, to insert; now and then the WAL moves"),
    Bound("put", 2, "the head and the event"),
    Bound("rows", 0.1, "what this handle wrote it knows; SQLite says how far it moved the WAL"),
    Bound("effort", 2, "a row goes into three B-trees"),
    Bound("hashes", 2, "the commitment to the payload, and the link of the chain"),
    Bound("encodes", 1, "the payload"),
    Bound("packs", 1, "the payload"),
    Bound("written", 600, "the payload, and the header's 200 bytes"),
)

MANY = 50

BATCH = (
    Bound("commits", 1, "a batch is one transaction"),
    Bound("statements", 3, "the events go in by one statement"),
    Bound("put", MANY + 1, "the head and the events"),
    Bound("rows", 0, "what this handle wrote it knows"),
    Bound("hashes", 2 * MANY, "two an event"),
    Bound("encodes", MANY, "one an event"),
)

BEFORE = 120
"""Events that are there before, so that the handle has prepared its statements."""


def message(number: int) -> NewEvent:
    """A message of some 300 bytes."""
    text = f"message {number} says that " + " ".join(f"word{n}" for n in range(number, number + 35))
    return NewEvent(payload=MessageUser((TextPart(text),)), source="user")


class Appended(NamedTuple):
    """What each append of one event cost, and then one of many."""

    ones: list[Counts]
    batch: Counts


def appended(url: str, before: int) -> Appended:
    """Append to a session of so many events, by a handle that wrote them."""
    with counting() as meter, opened(url) as log:
        row = log.store.session("s", create=True)
        for number in range(before):
            log.store.append(row, [message(number)])
        ones: list[Counts] = []
        for number in range(MANY):
            meter.spent()
            log.store.append(row, [message(number)])
            ones.append(meter.spent())
        log.store.append(row, [message(number) for number in range(MANY)])
        return Appended(ones, meter.spent())


def check_appends(found: Appended) -> None:
    """One event is one transaction of three statements, and so are many."""
    at_most(total(found.ones), ONE, per=MANY)
    at_most(found.batch, BATCH)


def test_an_append_is_one_transaction_of_three_statements(tmp_path: Path) -> None:
    found = appended(str(tmp_path / "a.db"), BEFORE)
    check_appends(found)
    for spent in found.ones:
        assert spent["commits"] == 1


def test_an_append_costs_the_same_in_a_long_session(tmp_path: Path) -> None:
    """Behind 120 events and behind 960: nothing is looked for that grows."""
    short, long = (appended(str(tmp_path / f"{n}.db"), n) for n in (BEFORE, 8 * BEFORE))
    check_appends(long)
    kinds = [bound.kind for bound in ONE]
    slack = {"statements": 2.0, "rows": 2.0}
    at_most_times(total(short.ones), total(long.ones), kinds, 1.05, slack)
    at_most_times(short.batch, long.batch, kinds, 1.05, slack)
