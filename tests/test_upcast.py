"""Types of third parties, versions that are read as newer ones, types that nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.audit.recorded import Recorded
from sawlog.builder.packet import Entry
from sawlog.store.content import TextPart
from sawlog.store.database import open_database
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import InvalidEvent, Refused
from sawlog.store.events import CORE
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.registry import Registry, Unknown, event
from sawlog.store.log import Log
from sawlog.store.text import Text, TextObject
from tests.session.agents import next_step, opened, talker


@event("acme.ticket", 1, open=True)
class Ticket(Payload, frozen=True):
    """What a third party records: a ticket that the task came from."""

    number: int
    title: Text = ""
    labels: tuple[str, ...] = ()


@event("acme.reading", 1, upcast=lambda old: Reading2(celsius=old.degrees, place=old.where))
class Reading1(Payload, frozen=True):
    """As it was: no unit, another name."""

    degrees: int
    where: Text = ""


@event("acme.reading", 2, upcast=lambda old: Reading3(**msgspec.structs.asdict(old), sensor="?"))
class Reading2(Payload, frozen=True):
    """With the unit said."""

    celsius: int
    place: Text = ""


@event("acme.reading", 3)
class Reading3(Payload, frozen=True):
    """With the sensor."""

    celsius: int
    place: Text = ""
    sensor: str = ""


# A type of sawlog's own as an older and a newer release might know it.


@event("message.user", 1, shown=True, upcast=lambda old: UserNow(parts=(TextPart(old.words),)))
class UserThen(Payload, frozen=True):
    """An earlier form of the user's message: words alone."""

    words: Text


@event("message.user", 2, shown=True)
class UserNow(MessageUser, frozen=True):
    """A later form: with a mood, which old ones do not have."""

    mood: str = "unknown"


THEN_AND_NOW = Registry(
    [*(kind.struct for kind in CORE if kind.struct is not MessageUser), UserThen, UserNow]
)


def with_types(url: str, registry: Registry) -> AgentLog:
    """A log that knows other types than the core's."""
    opened(url).close()
    return AgentLog(Log(open_database(url), registry=registry))


def contents(recorded: Recorded, kind: str) -> list[Any]:
    """The contents of a type."""
    return [e.content for e in recorded.events() if e.type == kind]


# --- a type of a third party ----------------------------------------------------------------------


def test_a_registered_type_goes_into_the_store_and_comes_out(store_url: str) -> None:
    long = "long " * 2000
    given = [
        Ticket(7, "short", labels=("a", "b")),
        Ticket(8, long),
        Ticket(9, "half \ud83d of one"),
    ]
    opened(store_url).close()
    with sawlog.open(store_url, types=[Ticket]) as log:
        with log.session("task") as s:
            for ticket in given:
                s.append(ticket, source="hook:tickets")
            assert s.append(given[0], key="k") == s.append(given[0], key="k")
            s.user("go")
            body = next_step(s, "openai-chat").body
        recorded = log.read("task")
        found = contents(recorded, "acme.ticket")
        assert [one.number for one in found] == [7, 8, 9, 7]
        assert found[0] == given[0]
        assert isinstance(found[1].title, TextObject)
        assert recorded.window.blob(found[1].title.blob) == long.encode()
        assert recorded.verify().sound
    assert b"short" not in body and b"long long" not in body  # it is not for the model


def test_a_type_that_was_not_registered_cannot_be_appended(tmp_path: Path) -> None:
    with opened(str(tmp_path / "s.db")) as log, log.session("task") as s:
        with pytest.raises(InvalidEvent, match="acme.ticket version 1 is not registered"):
            s.append(Ticket(1))

        class Undeclared(Payload, frozen=True):
            """Without @event."""

        with pytest.raises(InvalidEvent, match="is no event type"):
            s.append(Undeclared())


def test_what_a_registry_cannot_hold_is_refused_when_it_is_made() -> None:
    @event("acme.ticket", 1)
    class Another(Payload, frozen=True):
        """The same name and version."""

    @event("acme.shown", 1, shown=True)
    class Shown(Payload, frozen=True):
        """A type that claims to stand in packets."""

    @event("acme.ticket", 3)
    class Ticket3(Payload, frozen=True):
        """Without a second."""

    @event("acme.ticket", 2)
    class Ticket2(Payload, frozen=True):
        """That nothing leads to."""

    known = CORE.extended([Ticket])
    with pytest.raises(InvalidEvent, match="acme.ticket version 1 is already Ticket"):
        known.extended([Another])
    with pytest.raises(InvalidEvent, match="acme.shown cannot stand in a packet"):
        known.extended([Shown])
    with pytest.raises(InvalidEvent, match="has versions 1 and 3, none between"):
        known.extended([Ticket3])
    with pytest.raises(InvalidEvent, match="version 1 has no upcast to 2"):
        known.extended([Ticket2])
    assert known.extended([Ticket]).find("acme.ticket", 1) == known.find("acme.ticket", 1)


# --- versions -------------------------------------------------------------------------------------


def test_an_old_version_is_read_as_the_newest_and_stays_as_it_was_stored(store_url: str) -> None:
    opened(store_url).close()
    with sawlog.open(store_url, types=[Reading1]) as log, log.session("task") as s:
        s.append(Reading1(21, "kitchen"))
        assert contents(log.read("task"), "acme.reading") == [Reading1(21, "kitchen")]
    with sawlog.open(store_url, types=[Reading1, Reading2, Reading3]) as log:
        with log.session("task") as s:
            s.append(Reading3(5, "cellar", "s-7"))
            s.append(Reading2(9, "attic"))  # whoever still writes the old one
        recorded = log.read("task")
        assert contents(recorded, "acme.reading") == [
            Reading3(21, "kitchen", "?"),
            Reading3(5, "cellar", "s-7"),
            Reading3(9, "attic", "?"),
        ]
        stored = [e for e in log.store.read(recorded.row) if e.type == "acme.reading"]
        assert [(e.version, e.payload) for e in stored] == [
            (1, b'{"degrees":21,"where":"kitchen"}'),
            (3, b'{"celsius":5,"place":"cellar","sensor":"s-7"}'),
            (2, b'{"celsius":9,"place":"attic"}'),
        ]
        assert recorded.verify().sound


def test_an_upcast_that_gives_something_else_is_named(tmp_path: Path) -> None:
    @event("acme.wrong", 1, upcast=lambda old: Ticket(1))
    class Wrong1(Payload, frozen=True):
        """Whose upcast is wrong."""

    @event("acme.wrong", 2)
    class Wrong2(Payload, frozen=True):
        """That it should give."""

    registry = CORE.extended([Wrong1, Wrong2, Ticket])
    with pytest.raises(InvalidEvent, match="gave Ticket and no Wrong2"):
        registry.newest(Wrong1())


def test_packets_of_an_old_version_keep_their_digests_under_a_newer_one(store_url: str) -> None:
    """A session goes on under a release that knows `message.user` in another form."""
    with with_types(store_url, THEN_AND_NOW) as log, log.session("task") as s:
        for words in ("first", "second " * 900):
            s.append(UserThen(words), source="user")
            next_step(s, "openai-chat").send(talker())
        before = [(step.packet.semantic, step.packet.body) for step in log.read("task").steps]
        s.append(UserNow((TextPart("third"),), mood="glad"), source="user")
        step = next_step(s, "openai-chat")
        assert [e.text for e in step.packet.entries if e.kind == "user"] == [
            "first",
            "second " * 900,
            "third",
        ]
        step.send(talker())
    with with_types(store_url, THEN_AND_NOW) as log:
        recorded = log.read("task")
        report = recorded.verify()
        assert report.sound and report.steps == 3, report
        after = [(step.packet.semantic, step.packet.body) for step in recorded.steps]
        assert after[:2] == before
        stored = [e for e in log.store.read(recorded.row) if e.type == "message.user"]
        assert [e.version for e in stored] == [1, 1, 2]


def test_the_same_words_give_the_same_packet_in_either_version(tmp_path: Path) -> None:
    bodies: list[bytes] = []
    for name, message in (
        ("then", UserThen("the same")),
        ("now", UserNow((TextPart("the same"),))),
    ):
        with with_types(str(tmp_path / f"{name}.db"), THEN_AND_NOW) as log:
            with log.session("task") as s:
                s.append(message, source="user")
                bodies.append(next_step(s, "openai-chat").body)
    assert bodies[0] == bodies[1]


# --- types that nobody knows: case 29 -------------------------------------------------------------


def recorded_elsewhere(url: str, ignorable: bool) -> list[bytes]:
    """A session written by a release that knows acme.ticket: a step, a ticket, a step."""
    opened(url).close()
    with sawlog.open(url, types=[Ticket]) as log, log.session("task") as s:
        s.user("first")
        next_step(s, "openai-chat").send(talker())
        s.append(Ticket(7, "unknown elsewhere"), ignorable=ignorable)
        s.user("second")
        next_step(s, "openai-chat").send(talker())
        return [step.packet.body for step in log.read("task").steps]


def test_case_29_an_unknown_type_blocks_by_name_from_there_on(store_url: str) -> None:
    bodies = recorded_elsewhere(store_url, ignorable=False)
    with opened(store_url) as log:
        recorded = log.read("task")
        assert contents(recorded, "acme.ticket") == [Unknown("acme.ticket", 1, False)]
        report = recorded.verify()
        name = "is of type acme.ticket version 1, which is not known here"
        assert name in report.blocked and report.chain == "ok"
        assert recorded.steps[1].packet.body == bodies[0]  # earlier steps replay
        assert recorded.steps[1].verify()
        with log.session("task") as s, pytest.raises(Refused, match=name) as refused:
            s.user("third")
            next_step(s, "openai-chat")
        assert refused.value.reason == "blocked"
    with sawlog.open(store_url, types=[Ticket]) as log:  # known again: nothing was lost
        report = log.read("task").verify()
        assert report.sound and not report.blocked and report.steps == 2
        with log.session("task") as s:
            assert next_step(s, "openai-chat").number == 3


def test_case_29_an_ignorable_unknown_type_changes_nothing(store_url: str) -> None:
    bodies = recorded_elsewhere(store_url, ignorable=True)
    with opened(store_url) as log:
        report = log.read("task").verify()
        assert report.sound and not report.blocked
        assert [step.packet.body for step in log.read("task").steps] == bodies
        with log.session("task") as s:
            s.user("third")
            shown = next_step(s, "openai-chat").packet.entries
        assert _texts(shown) == ["first", "ok", "second", "ok", "third"]
    with sawlog.open(store_url, types=[Ticket]) as log:
        assert log.read("task").verify().sound


def _texts(entries: Any) -> list[str]:
    return [entry.text for entry in entries if isinstance(entry, Entry)]


def test_a_newer_version_of_a_known_type_blocks_like_an_unknown_one(tmp_path: Path) -> None:
    """A store that a newer release wrote to: what it means is not guessed from the older form."""
    url = str(tmp_path / "s.db")
    with with_types(url, THEN_AND_NOW) as log, log.session("task") as s:
        s.append(UserThen("old"), source="user")
        s.append(UserNow((TextPart("new"),), mood="glad"), source="user")
    core = Registry([*(k.struct for k in CORE if k.struct is not MessageUser), UserThen])
    with with_types(url, core) as log, log.session("task") as s:
        assert "message.user version 2, which is not known here" in s.state.blocked


def test_a_session_may_be_appended_to_while_it_is_blocked(tmp_path: Path) -> None:
    """The log takes what is new; only packets are refused until the type is known."""
    url = str(tmp_path / "s.db")
    recorded_elsewhere(url, ignorable=False)
    with opened(url) as log:
        head = log.find("task").head
        log.store.append(
            log.find("task"),
            [NewEvent(payload=MessageUser((TextPart("third"),)), source="user")],
        )
        assert log.find("task").head == head + 1
