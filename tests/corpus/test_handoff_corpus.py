"""Every real transcript goes on with every provider."""

from __future__ import annotations

from pathlib import Path

from sawlog.agentlog import AgentLog
from sawlog.importing import import_path
from sawlog.providers.strict import APIS
from sawlog.store.errors import Refused
from tests.corpus.test_import_corpus import every_file_once
from tests.session.foreign_files import stream
from tests.session.handing import SAID, assert_accepted, handed


@every_file_once
def test_a_transcript_goes_on_with_each_provider(file: Path, log: AgentLog) -> None:
    """Accepted, pairs whole, nothing sealed in it, each block that stays out with its reason."""
    for one in import_path(log, file):
        before = stream(log, one)
        recorded = log.read(one.session)
        for api in APIS:
            found = handed(recorded, api)
            assert_accepted(found)
            calls = [entry for entry in found.entries if entry.kind == "call"]
            if "tool_schemas" in found.missing:
                assert bool(found.undeclared) == bool(calls)
        assert stream(log, one) == before


@every_file_once
def test_a_transcript_that_is_cut_to_half_goes_on_with_each_provider(
    file: Path, log: AgentLog
) -> None:
    """With a window, what stays are whole units, and it fits."""
    (one, *_) = import_path(log, file)
    recorded = log.read(one.session)
    for api in APIS:
        whole = handed(recorded, api, say=SAID)
        size = sum(len(entry.text) for entry in whole.entries) // 4
        try:
            found = handed(recorded, api, say=SAID, window=size // 2)
        except Refused as refused:
            assert (refused.reason, bool(refused.needs)) == ("cannot_fit", True)
            continue
        assert_accepted(found)
        assert any(dropped.stage == "budget" for dropped in found.dropped)
        assert len(found.entries) < len(whole.entries)
