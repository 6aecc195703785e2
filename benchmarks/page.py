"""Writes the figures of a results file into a page, between two marks; nothing is typed by hand.

python -m benchmarks.page benchmarks/results/NAME.json docs/performance.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.results import Line, Results, cells, read, told

BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"
_HEAD = BEGIN.split("{}")[0]


def filled(page: str, name: str, found: Results) -> str:
    """The page with the figures of that results file. Raises ValueError without its two marks."""
    before, mark, rest = page.partition(_HEAD)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the page has no place for figures: it needs `{_HEAD}` and `{END}`")
    return f"{before}{BEGIN.format(name)}\n\n{table(found)}\n{END}{after}"


def named(page: str) -> str:
    """The results file that the page's figures are of; empty when it has none yet."""
    return page.partition(_HEAD)[2].partition(" -->")[0]


def table(found: Results) -> str:
    """The lines as a table, and below it what machine it was."""
    stores = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    made: list[str] = []
    for store in dict.fromkeys(line.store for line in found.lines):
        made += [
            f"**{stores.get(store, store)}**",
            "",
            "| row | what | median | spread | target | met | sawlog / floor |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *(_row(line) for line in found.lines if line.store == store),
            "",
        ]
    facts, options = ", ".join(told(found.machine)), ", ".join(told(found.options))
    made.append(f"Measured with {options}, on a machine with {facts}.")
    made += [f"Left out: {sentence}" for sentence in found.left_out]
    return "\n".join([*made, ""])


def _row(line: Line) -> str:
    return "| " + " | ".join(cells(line)) + " |"


def main(arguments: list[str] | None = None) -> int:
    """Fill the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", type=Path, help="what `python -m benchmarks --json` wrote")
    parser.add_argument("page", type=Path, help="a Markdown file with the two marks")
    given = parser.parse_args(arguments)
    page: Path = given.page
    text = filled(page.read_text(encoding="utf-8"), given.results.name, read(given.results))
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
