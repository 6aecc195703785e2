"""Every real transcript imports, verifies by every path and renders for every API."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import settings

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.audit.findings import Report
from sawlog.audit.reconstructing import reconstruct, sending_for
from sawlog.audit.recorded import Recorded
from sawlog.builder.build import Built, Cache
from sawlog.builder.draft import Refusal
from sawlog.builder.projector import fold
from sawlog.builder.state import State
from sawlog.importing import Imported, import_path
from sawlog.providers.strict import APIS, check
from sawlog.store.events.base import Payload
from sawlog.store.events.lifecycle import SessionCreated
from tests.corpus.files import counted, lines, named, params

PATHS = {"stored": "absent", "cold": "ok", "incremental": "ok", "snapshot": "ok"}

BEGUN_BEFORE = {"06-v2.1.14-orphan-result": 1, "28-v2.1.14-orphan+compaction-slice": 1}
"""Slices that begin with a reply: what it answered is not in the file, so it has no packet."""

FILES = params("codex", "claude-code", "openai-chat")
every_file = pytest.mark.parametrize("file", FILES)

ON_POSTGRESQL = 6
"""One in so many files is read from PostgreSQL, too, where a test is about what becomes of events
once they are read. That either store gives the same events is held of every file here."""

every_file_once = pytest.mark.parametrize(
    ("store_url", "file"),
    [
        pytest.param(kind, *one.values, marks=one.marks, id=f"{kind}-{one.id}")
        for kind, some in (("sqlite", FILES), ("postgresql", FILES[::ON_POSTGRESQL]))
        for one in some
    ],
    indirect=["store_url"],
)


@every_file
def test_a_file_is_imported_and_verified(file: Path, log: AgentLog) -> None:
    found = import_path(log, file)
    main = found[0]
    assert (main.steps, main.calls, main.unanswered, main.orphans) == counted(file)
    assert len(found) == (4 if file.name.startswith("15-spotter") else 1)
    for one in found:
        # The session's own first two events are of no record.
        assert one.added == one.events + 2
        report = verified(log, one)
        assert report.events == one.events + 2
        assert report.steps == one.steps
    assert_every_record(log.read(main.session), file)

    again = import_path(log, file)
    assert [one.session for one in again] == [one.session for one in found]
    assert [one.added for one in again] == [0] * len(found)


def verified(log: AgentLog, one: Imported) -> Report:
    """The report on an imported session, in which nothing differs."""
    report = log.read(one.session).verify()
    assert report.sound, (report.chain, [str(difference) for difference in report.differences])
    assert (report.paths, report.blocked) == (PATHS, "")
    return report


def assert_every_record(recorded: Recorded, file: Path) -> None:
    """Each record of the file is an event or more, in order, with its bytes' digest."""
    digests: dict[int, str] = {}
    for event in recorded.events(2):
        assert isinstance(event.content, Payload) and event.content.record is not None
        digests[event.content.record.position] = event.content.record.digest
    assert list(digests) == list(range(len(digests)))
    if file.suffix == ".jsonl":
        expected = [hashlib.sha256(line.encode()).hexdigest() for line in lines(file)]
        assert list(digests.values()) == expected


# --- the strict checkers -------------------------------------------------------------------------


FIRST = 12
"""Packets of a session that every checker reads. Behind them the checkers take turns, but for the
last one: what a checker leaves out grows into what it reads three steps later. All of them read all
in `make test-long`."""


@pytest.mark.long
@every_file
def test_every_packet_is_taken_by_every_provider(file: Path, tmp_path: Path) -> None:
    with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
        for one in import_path(log, file):
            assert checked(log.read(one.session)) == one.steps - BEGUN_BEFORE.get(file.stem, 0)


def checked(recorded: Recorded) -> int:
    """How many steps have a packet, each of which is built in every rendering and is taken."""
    every = settings.get_current_profile_name() == "long"
    state = State()
    caches = {api: Cache() for api in APIS}
    as_of = count = 0
    last = len(recorded.steps)
    for event in recorded.events():
        recorded.window.hold((event,))
        if event.step > state.step:
            packets = [packet(recorded, state, api, as_of, caches[api]) for api in APIS]
            all_read = every or state.step < FIRST or event.step == last
            turn = APIS[event.step % len(APIS)]
            for built in filter(None, packets):
                if all_read or built.header.api == turn:
                    body, headers = built.request.body, dict(built.request.headers)
                    check(built.header.api, body, headers, key=None)
            count += None not in packets
            assert None not in packets or all(one.flag == "no_call" for one in state.news)
        state = fold(state, event)
        as_of = max(as_of, event.occurred_at)
    return count


def packet(recorded: Recorded, state: State, api: str, as_of: int, cache: Cache) -> Built | None:
    """The packet of the state for a model of that API; None where nothing is to be sent."""
    sending = sending_for(api, "unknown")
    built = reconstruct(state, None, sending, as_of, recorded.window, cache)
    if isinstance(built, Refusal):
        assert built.reason == "nothing_to_send", built
        return None
    return built


# --- several files of one session ---------------------------------------------------------------


def test_a_grown_file_adds_its_news(log: AgentLog) -> None:
    a, b, c = (named("claude-code", f"31-growth-{letter}") for letter in "abc")
    first, second, third = (import_path(log, file)[0] for file in (a, b, c))
    assert first.session == second.session == third.session
    assert second.added == second.events - first.events > 0
    assert third.added == third.events - second.events > 0
    for file in (a, b, c):
        assert import_path(log, file)[0].added == 0
    assert verified(log, third).steps == third.steps


def test_a_record_that_differs_makes_a_session_of_its_own(log: AgentLog) -> None:
    one, other = named("codex", "17-"), named("codex", "18-")
    first, second = import_path(log, one)[0], import_path(log, other)[0]
    assert first.session != second.session
    pairs = enumerate(zip(lines(one), lines(other), strict=False))
    differs_at = next(at for at, (old, new) in pairs if old != new)
    created = opening(log, second)
    assert (created.differs_from, created.differs_at) == (first.session, differs_at)
    assert created.source_id == opening(log, first).source_id
    assert (opening(log, first).differs_from, opening(log, first).differs_at) == ("", -1)
    assert [import_path(log, file)[0].session for file in (one, other)] == [
        first.session,
        second.session,
    ]


def test_a_later_slice_is_a_session_of_its_own(log: AgentLog) -> None:
    one, other = named("claude-code", "06-"), named("claude-code", "28-")
    first, second = import_path(log, one)[0], import_path(log, other)[0]
    assert first.session != second.session
    assert opening(log, first).source_id == opening(log, second).source_id
    assert opening(log, second).differs_from == ""


def test_a_folder_is_searched(log: AgentLog) -> None:
    folder = named("openai-chat", "oh-fncall").parent
    found = import_path(log, folder)
    assert len(found) == len(list(folder.glob("*.json")))
    for one in found:
        verified(log, one)


def opening(log: AgentLog, one: Imported) -> SessionCreated:
    """The first event of an imported session."""
    (event,) = log.read(one.session).events(0, 1)
    assert isinstance(event.content, SessionCreated)
    return event.content
