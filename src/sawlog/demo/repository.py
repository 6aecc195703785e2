"""The little repository that the demo's agent mends, and the tools that it has for it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from sawlog.demo import testrun

FILES = {
    "refunds.py": '''"""When an order may be refunded."""

from datetime import date, timedelta

WINDOW = timedelta(days=30)


def may_refund(ordered: date, today: date) -> bool:
    """An order may be refunded for 30 days."""
    return today - ordered > WINDOW
''',
    "test_refunds.py": """import time
import unittest
from datetime import date, timedelta

from refunds import may_refund

TODAY = date(2026, 3, 1)


class Refunds(unittest.TestCase):
    def test_an_order_of_yesterday_is_refunded(self):
        self.assertTrue(may_refund(TODAY - timedelta(days=1), TODAY))

    def test_an_old_order_is_not(self):
        self.assertFalse(may_refund(TODAY - timedelta(days=31), TODAY))

    def test_the_last_day_counts(self):
        time.sleep(1.5)  # as slow as tests of a real service
        self.assertTrue(may_refund(TODAY - timedelta(days=30), TODAY))


if __name__ == "__main__":
    unittest.main()
""",
}

_PATIENCE = 60.0


def make(folder: Path) -> None:
    """Write the repository."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def touch(folder: Path) -> str:
    """Change a file as a colleague would, and give its name."""
    file = folder / "refunds.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("for 30 days.", "for 30 days, the last one included."), "utf-8")
    return file.name


class Workshop:
    """The agent's tools over one repository. Reports of test runs lie in a folder of their own."""

    def __init__(self, repository: Path, reports: Path) -> None:
        self._repository = repository
        self._reports = reports
        self.key = ""
        """The key of the call that is run: a report is found again under it."""

    def read_file(self, path: str) -> str:
        """Read a file of the repository.

        Args:
            path: its path from the top of the repository
        """
        return self._inside(path).read_text(encoding="utf-8")

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands once in a file.

        Args:
            path: the file's path from the top of the repository
            old: the text to replace, exactly as it stands
            new: what stands there afterwards
        """
        file = self._inside(path)
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{path} holds this text {text.count(old)} times, not once")
        file.write_text(text.replace(old, new), encoding="utf-8")
        return f"{path} is edited"

    def run_tests(self) -> str:
        """Run all tests and give their report."""
        report = self.report(self.key)
        # The run has a process of its own and writes its report itself, so that it outlives an
        # agent that is killed.
        subprocess.run(
            [sys.executable, "-B", "-P", testrun.__file__, str(report)],
            cwd=self._repository,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return report.read_text(encoding="utf-8")

    def report(self, key: str) -> Path:
        """Where the run of that key leaves its report."""
        return self._reports / f"{key}.txt"

    def began(self, key: str) -> bool:
        """True when the run of that key has begun."""
        return Path(f"{self.report(key)}.running").exists()

    def late_report(self, key: str) -> str:
        """The report of a run that went on alone, once it has ended."""
        report = self.report(key)
        until = time.monotonic() + _PATIENCE
        while not report.exists():
            if time.monotonic() > until:
                raise TimeoutError(f"the test run of {key} left no report")
            time.sleep(0.02)
        return report.read_text(encoding="utf-8")

    def _inside(self, path: str) -> Path:
        file = (self._repository / path).resolve()
        if not file.is_relative_to(self._repository.resolve()):
            raise ValueError(f"{path} is not in the repository")
        return file
