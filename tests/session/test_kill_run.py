"""A run killed with SIGKILL at 200 random points: what was acknowledged is there, and whole."""

from __future__ import annotations

import random
import time
from pathlib import Path

import sawlog
from sawlog.audit.reconstructing import sending_for
from sawlog.builder.build import Cache, build
from sawlog.builder.draft import Refusal
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold_all
from sawlog.builder.state import State
from sawlog.providers.strict import check
from tests.forking import CONTEXT
from tests.session import killed

KILLS = 200


def test_a_run_killed_at_200_random_points_is_a_clean_prefix(tmp_path: Path) -> None:
    """Nothing acknowledged is lost, the log is whole, and the next packet is valid."""
    store = str(tmp_path / "run.db")
    chance = random.Random(20)
    acknowledged = 0
    for kill in range(KILLS):
        ours, theirs = CONTEXT.Pipe(duplex=False)
        child = CONTEXT.Process(target=killed.run, args=(store, str(kill), theirs))
        child.start()
        theirs.close()
        acknowledged = max(acknowledged, ours.recv())
        time.sleep(chance.random() * 0.012)
        child.kill()
        try:
            while True:
                acknowledged = max(acknowledged, ours.recv())
        except EOFError:
            pass  # all that was acknowledged before the kill has been read
        ours.close()
        child.join()
        child.close()
        if kill % 20 == 0:
            _check(store, acknowledged)
    _check(store, acknowledged, whole=True)


def _check(store: str, acknowledged: int, *, whole: bool = False) -> None:
    with sawlog.open(store, read_only=True) as log:
        recorded = log.read("run")
        assert recorded.row.head >= acknowledged
        if whole:
            report = recorded.verify()
            assert report.sound, report
        state = fold_all(State(), recorded.events())
        under = sending_for("openai-chat", "m")
        built = build(state, Rules(window=20_000), under, 0, recorded.window, Cache())
        if isinstance(built, Refusal):
            assert built.reason == "nothing_to_send"
        else:
            check("openai-chat", built.request.body, dict(built.request.headers))
