"""One run of a repository's tests: `python testrun.py REPORT` in its folder.

Beside the report, which appears whole when the run ends, REPORT.running says that it has begun.
"""

from __future__ import annotations

import io
import sys
import unittest
from pathlib import Path


def main(report: Path) -> None:
    """Run the tests of the working directory and leave the report."""
    Path(f"{report}.running").touch()
    out = io.StringIO()
    tests = unittest.defaultTestLoader.discover(".", top_level_dir=".")
    unittest.TextTestRunner(out, verbosity=2).run(tests)
    part = Path(f"{report}.part")
    part.write_text(out.getvalue(), encoding="utf-8")
    part.replace(report)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
