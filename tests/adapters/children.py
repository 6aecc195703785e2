"""Programs of a framework in a process of their own, which may be killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import sawlog
from sawlog.providers.fake import Drop, FakeProvider, Reply, Step
from sawlog.providers.strict.reading import JsonObject

ROOT = Path(__file__).parents[2]


class Child:
    """A program that a fake provider plays the model for.

    `answers` are one for each request; where None stands the program is killed instead, with the
    request received and not answered.
    """

    def __init__(self, code: str, *arguments: str, answers: list[Step | None]) -> None:
        self._answers = answers
        self._process: subprocess.Popen[str] | None = None
        with FakeProvider(self._answer) as fake:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                env={**os.environ, **_pointing_at(fake)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                cwd=ROOT,
            )
            self.out, self.err = self._process.communicate(timeout=120)
            self.bodies = fake.bodies()
        self.killed = self._process.returncode == -signal.SIGKILL
        assert self.killed or not self._process.returncode, self.err
        assert len(self.bodies) == len(answers), self.err

    def _answer(self, api: str, request: JsonObject, number: int) -> Step:
        answer = self._answers[number]
        if answer is not None:
            return answer
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        return Drop()


def _pointing_at(fake: FakeProvider) -> Mapping[str, str]:
    return {
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": fake.base_url("openai-chat"),
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }


def sound(store: Path, name: str) -> sawlog.Recorded:
    """The session, verified by every path; its log is closed, what was read of it is at hand."""
    with sawlog.open(str(store)) as log:
        report = log.read(name).verify()
        assert report.sound and not report.differences, report
    return sawlog.open(str(store), read_only=True).read(name)


def done(text: str) -> Reply:
    """A reply of text alone."""
    return Reply(text)
