"""The pytest plugin: `sawlog_log`, `sawlog_replay` and `--sawlog-update`.

pytest imports this in every run of who has sawlog installed, so it imports nothing that a test did
not ask for.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog
    from sawlog.testing.files import Replays

_UPDATE = "--sawlog-update"
_TOLD = "sawlog"
_FAILED = pytest.StashKey[bool]()


class _Nothing(BaseException):
    """What nobody raises."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("sawlog", "tests of agents against recorded sessions")
    group.addoption(
        _UPDATE,
        action="store_true",
        help="let the clients of sawlog_replay ask their real providers, record what is said, and "
        "write the files anew; a changed prompt is accepted",
    )


@pytest.fixture
def sawlog_log(tmp_path: Path) -> Iterator[AgentLog]:
    """An open log in a store of its own, which is closed behind the test."""
    from sawlog.agentlog import open as open_log

    with open_log(str(tmp_path / "sawlog.db")) as log:
        yield log


@pytest.fixture
def sawlog_replay(request: pytest.FixtureRequest) -> Iterator[Replays]:
    """`sawlog_replay("fixtures/x.jsonl")`: that recording answers what the test asks of models.

    The file is looked for beside the test's own. It holds from the call to the end of the test, or
    of the `with` block that the call heads; `ignore=["user"]` names members of a request that may
    differ. The test fails at the first request that says something else than the recorded one, at
    one too many, and where requests are left.
    """
    from sawlog.testing.files import Replays

    node: pytest.Item = request.node
    replays = Replays(request.path.parent, update=bool(request.config.getoption(_UPDATE)))
    yield replays
    try:
        replays.close(failed=node.stash.get(_FAILED, False))
    finally:
        node.user_properties += [(_TOLD, line) for line in replays.told]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remembers whether the test passed, without which its recording is not kept.

    Of a failed replay it shows where the program asked, and not what HTTP clients did with it.
    """
    failures = sys.modules.get("sawlog.testing.failures")
    kind: type[BaseException] = getattr(failures, "ReplayFailed", _Nothing)
    error: BaseException | None = None if call.excinfo is None else call.excinfo.value
    if isinstance(error, kind):
        from sawlog.testing.tracing import without_libraries

        without_libraries(error)
        excinfo: Any = pytest.ExceptionInfo
        call.excinfo = excinfo.from_exception(error)
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = not report.passed
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says which files were written."""
    reports: list[Any] = [one for some in terminalreporter.stats.values() for one in some]
    lines = [
        str(line)
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, line in report.user_properties
        if name == _TOLD
    ]
    if lines:
        terminalreporter.section("sawlog")
        for line in dict.fromkeys(lines):
            terminalreporter.write_line(line)
