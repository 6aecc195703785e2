"""The demo's agent: the loop of the README, in a process that can be killed.

`python -m sawlog.demo.agent PART SESSION PROVIDER REPOSITORY REPORTS`; the store and the tenant are
in SAWLOG_STORE and SAWLOG_TENANT. PART is `task`, `later` (files have changed meanwhile, and the
history is compacted) or `fork`. Run again, it goes on where the log says.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from sawlog.agentlog import open as open_log
from sawlog.demo import script
from sawlog.demo.repository import Workshop
from sawlog.work.call import Call
from sawlog.work.session import Session
from sawlog.work.step import Step
from sawlog.work.tools import tool

TTL = 1.0
"""Seconds that the lease of a dead agent holds others off."""

_WAIT = 30.0


def main(part: str, session: str, provider: str, repository: Path, reports: Path) -> None:
    """Play one part of the agent's life."""
    workshop = Workshop(repository, reports)
    log = open_log(os.environ["SAWLOG_STORE"], os.environ["SAWLOG_TENANT"])
    with log:
        if part == "fork":
            name = f"{session}-fork"
            with log.fork(session, step=script.FORKED_AT, name=name, ttl=TTL, wait=_WAIT) as s:
                begin(s, workshop)
                s.user(script.OTHERWISE)
                answer(s, workshop, provider)
            return
        with log.session(session, ttl=TTL, wait=_WAIT) as s:
            begin(s, workshop)
            if part == "task":
                s.user(script.TASK, key="task")
                answer(s, workshop, provider)
            else:
                s.workspace(repository)
                s.user(script.LATER, key="later")
                answer(s, workshop, provider)
                s.compact()
                s.user(script.AFTERWARDS, key="afterwards")
                answer(s, workshop, provider)


def begin(s: Session, workshop: Workshop) -> None:
    """Say what every part says first; what stands in the log already appends nothing."""
    s.system(script.SYSTEM)
    s.tools(
        [
            tool(workshop.read_file, effect="read_only"),
            tool(workshop.edit_file),
            tool(workshop.run_tests, effect="read_only"),
        ]
    )


def answer(s: Session, workshop: Workshop, provider: str) -> None:
    """Work until the model asks for nothing more."""
    while True:
        step = s.step(script.API, model=script.MODEL, **script.PARAMETERS)
        cut_off = s.open_calls()
        reply = step.send(partial(post, provider, step))
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            work(s, workshop, call)
        for call in cut_off:
            if workshop.began(call.event_id):
                # The model was told that nobody knows. The run has gone on alone since.
                late = s.tool(call)
                late.result(workshop.late_report(call.event_id))
                late.finish()


def work(s: Session, workshop: Workshop, call: Call) -> None:
    """Run one call: its start is in the log before it acts, its result after."""
    with s.tool(call) as run:
        workshop.key = run.key
        result = call.run()
        run.result(result)
        if call.name == "read_file":
            version = hashlib.sha256(result.encode()).hexdigest()
            run.saw(str(call.args["path"]), version=version)


def post(provider: str, step: Step, body: bytes) -> bytes:
    """Send a request's bytes with the standard library alone. Raises OSError for a refusal."""
    connection = http.client.HTTPConnection(urlsplit(provider).netloc, timeout=60)
    try:
        headers = {**step.headers, "content-type": "application/json", "x-api-key": "demo"}
        connection.request(step.method, step.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise OSError(f"the provider answered {response.status}: {answer.decode()}")
    return answer


if __name__ == "__main__":
    part, session, provider, repository, reports = sys.argv[1:]
    main(part, session, provider, Path(repository), Path(reports))
