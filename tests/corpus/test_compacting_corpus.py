"""Every real transcript, compacted at its borders and gone on with as its file says.

A border takes a fifth of a second in a long transcript, and what there is to find lies in the kinds
of borders and not in their number: `make test-long` tries all, the ordinary suite some of each.
"""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import settings

from sawlog.agentlog import AgentLog
from sawlog.agentlog import open as open_log
from sawlog.importing import import_path, read_file
from tests.corpus.compacting import Done, Fork, Transcript
from tests.corpus.files import FORMATS, WHY_NOT, files, params

MANY, SOME = 16, 14
"""Borders of a transcript above which so many of them are tried, one of each stretch of it."""

HOURS = 4 * 3600
"""Seconds that all borders and steps of a transcript may take."""


def is_long() -> bool:
    """True under `make test-long`: all borders are tried, and all steps behind each are checked."""
    return settings.get_current_profile_name() == "long"


def chosen(borders: list[int], name: str) -> list[int]:
    """The borders that are tried: all, or the first, the last and others all along between.

    Which one of a stretch is tried hangs on the transcript's name.
    """
    if is_long() or len(borders) <= MANY:
        return borders
    chance = random.Random(name)
    between = borders[1:-1]
    ends = [len(between) * n // (SOME - 2) for n in range(SOME - 1)]
    some = [between[chance.randrange(start, end)] for start, end in pairwise(ends)]
    return [borders[0], *some, borders[-1]]


def transcripts(log: AgentLog, file: Path) -> list[Transcript]:
    """The sessions of a file, imported."""
    foreign = read_file(file)
    return [
        Transcript(log, one.session, each.api)
        for one, each in zip(import_path(log, file), foreign, strict=True)
    ]


@pytest.mark.long
@pytest.mark.timeout(HOURS)
@pytest.mark.parametrize("file", params(*FORMATS))
def test_a_transcript_is_compacted_anywhere_and_goes_on(file: Path, tmp_path: Path) -> None:
    with open_log(f"sqlite:///{tmp_path / 'store.db'}") as log:
        for transcript in transcripts(log, file):
            borders = chosen(transcript.borders, file.name)
            assert_most_gave_way([run(log, transcript, border) for border in borders])


def run(log: AgentLog, transcript: Transcript, border: int) -> Done:
    """The transcript compacted at a border, and what follows."""
    return Fork(log, transcript, transcript.place(border), every=is_long()).run()


def assert_most_gave_way(done: list[Done]) -> None:
    """Only a history that is short, or all the user's, is not compacted; see `Fork`."""
    refused = [one.refused for one in done if one.refused]
    assert set(refused) <= {"nothing_to_cut", "no_progress"}
    assert len(refused) <= max(6, len(done) // 10)
    for one in done:
        assert one.refused or one.packets or one.without


@pytest.mark.long
@pytest.mark.timeout(HOURS)
@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name in FORMATS for part in range(1 if name == "openai-chat" else 2)],
)
def test_one_border_in_ten_on_postgresql(name: str, part: int, postgres_url: str) -> None:
    if not files(name):
        pytest.skip(WHY_NOT)
    packets = 0
    with open_log(postgres_url) as log:
        for file in files(name)[part::2] if name != "openai-chat" else files(name):
            for transcript in transcripts(log, file):
                borders = chosen(transcript.borders, file.name)
                for border in borders[random.Random(file.name).randrange(10) :: 10]:
                    packets += run(log, transcript, border).packets
    assert packets
