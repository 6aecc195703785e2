"""What verify and export of a long session hold in memory does not grow with its length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import sawlog
from sawlog.store.content import TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.events.conversation import MessageAssistant, ToolFinished, ToolRequested
from sawlog.store.events.steps import StepCompleted
from sawlog.work.session import Session
from tests.fresh import PEAK
from tests.session.agents import talker

WINDOW = 20_000
"""Units, about 80 KB: much less than a session holds."""
SHORT, LONG, WHOLE = 12_000, 30_000, 100_000
MORE = 12
"""MiB that so many more events may take; all their texts are three times that."""
BOUND = 200
"""MiB that nothing takes, however long the session is."""

TASKS = {
    "verify": "assert log.read('long').verify().sound",
    "export": "for line in export(log.store, log.read('long').row): assert line",
}


def grow(folder: Path, events: int) -> str:
    """A store with a session of so many events; its texts are all different. Gives its place."""
    place = str(folder / f"{events}.db")
    with sawlog.open(place) as log, log.session("long", window=WINDOW) as s:
        while s.state.seq < events:
            s.user(f"after event {s.state.seq}")
            s.step("openai-chat", model="m").send(talker("ok"))
            _steps(s, 50)
    return place


def _steps(s: Session, count: int) -> None:
    """Steps without a packet, all in one append; now and then a text is long enough for a blob."""
    source, first = "provider:openai-chat", s.state.step + 1
    made: list[NewEvent] = []
    for step in range(first, first + count):
        call = f"call_{step}"
        text = f"line of step {step}\n" * (400 if step % 10 == 0 else 120)
        done = ToolFinished(call_id=call, name="tool", parts=(TextPart(text),))
        for payload in (
            MessageAssistant((TextPart(text[:1500]),)),
            ToolRequested(call, "tool", '{"n":1}'),
            StepCompleted(),
            done,
        ):
            made.append(s.new(payload, source, step=step))
    s.record(made)


def peak(place: str, task: str) -> float:
    """MiB that a process of its own takes at most for a task."""
    code = (
        f"import sys, sawlog\nfrom sawlog.store.exchange import export\n{PEAK}\n"
        f"with sawlog.open(sys.argv[1], read_only=True) as log:\n    {task}\nprint(peak())"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, place], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / 1024


def commanded(place: str, *words: str) -> float:
    """MiB that the command takes at most."""
    code = (
        f"import sys\nfrom sawlog.cli import main\n{PEAK}\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code, end\n"
        "print(peak(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--store", place, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.splitlines()[-1]) / 1024


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A short session and a long one."""
    folder = tmp_path_factory.mktemp("large")
    return grow(folder, SHORT), grow(folder, LONG)


def test_a_longer_session_takes_no_more_memory(places: tuple[str, str]) -> None:
    short, long = places
    for name, task in TASKS.items():
        less, more = peak(short, task), peak(long, task)
        print(f"{name}: {less:.0f} MiB at {SHORT:,} events, {more:.0f} at {LONG:,}")
        assert more <= less + MORE, name
        assert more < BOUND, name


def test_keeping_all_events_would_be_seen(places: tuple[str, str]) -> None:
    """The bound can fail: whoever keeps what it reads takes more."""
    short, long = places
    task = "kept = list(log.read('long').events())"
    assert peak(long, task) > peak(short, task) + MORE


@pytest.mark.long
def test_100_000_events_are_checked_and_written_out_in_bounded_memory(tmp_path: Path) -> None:
    """By the library and by the command."""
    if settings.get_current_profile_name() != "long":
        pytest.skip("a shorter session is tried above; make test-long tries this one")
    place = grow(tmp_path, WHOLE)
    for name, task in TASKS.items():
        assert peak(place, task) < BOUND, name
    for words in (("verify", "long"), ("export", "long")):
        assert commanded(place, *words) < BOUND, words
