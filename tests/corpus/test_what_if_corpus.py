"""Every real transcript under half its budget, and every break of its prefix with a cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from sawlog.agentlog import AgentLog
from sawlog.audit.otherwise import Other
from sawlog.audit.whatif import compared
from sawlog.builder.build import Built
from sawlog.importing import import_path
from sawlog.providers.strict import check
from tests.corpus.test_import_corpus import BEGUN_BEFORE, every_file_once

STRICT = 4
"""One packet in so many goes to the strict checker, and each behind a cut; all in the long run."""


@pytest.mark.long
@every_file_once
def test_under_half_the_budget_every_packet_is_taken(file: Path, log: AgentLog) -> None:
    """It completes, the API takes each packet, what fell out has a name."""
    every = settings.get_current_profile_name() == "long"
    for one in import_path(log, file):
        recorded = log.read(one.session)
        as_is = recorded.what_if()
        assert as_is.differing == ()
        assert as_is.steps == one.steps - BEGUN_BEFORE.get(file.stem, 0)
        half = as_is.largest // 2
        differing = shown = 0
        for number, step in enumerate(compared(recorded, Other(policy="default", budget=half))):
            made = step.pair.other
            differing += step.differs is not None
            if isinstance(made, Built):
                assert sum(units for _, units in made.counts) <= half
                # What a checker leaves out grows into what it reads, where nothing is cut.
                if every or number % STRICT == 0 or len(made.entries) <= shown:
                    check(made.header.api, made.request.body, dict(made.request.headers), key=None)
                shown = len(made.entries)
                assert step.differs is None or all(each.reason for each in step.differs.fell_out)
                assert step.differs is None or step.differs.out_units > 0
            else:
                assert (made.reason, bool(made.needs)) == ("cannot_fit", True)
        assert differing


@every_file_once
def test_every_break_of_the_prefix_has_a_cause(file: Path, log: AgentLog) -> None:
    """What is not kept of a packet is named by what the log says happened."""
    for one in import_path(log, file):
        found = log.read(one.session).stability()
        assert len(found.steps) == max(0, one.steps - BEGUN_BEFORE.get(file.stem, 0) - 1)
        for step in found.steps:
            assert "unnamed" not in step.causes
            assert bool(step.causes) == (
                step.kept_entries < step.entries or step.kept < step.size - 8
            )
