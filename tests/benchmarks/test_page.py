"""The figures of the page are those of the results file that it names, and so are its plots."""

from __future__ import annotations

import re

import pytest

from benchmarks import page
from benchmarks.children import ROOT
from benchmarks.plots import FIGURES
from benchmarks.results import Line, Results, read

PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"


def test_the_page_holds_the_figures_of_its_results_file() -> None:
    text = PAGE.read_text(encoding="utf-8")
    name = page.named(text)
    if name:
        assert page.filled(text, name, read(RESULTS / name)) == text
    else:
        assert "No run is on record here yet." in text


def test_the_page_shows_the_plots_that_there_are() -> None:
    shown = re.findall(r"!\[[^]]+\]\(performance/(\w+)\.svg\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(FIGURES)
    there = [path.stem for path in (PAGE.parent / "performance").iterdir()]
    assert sorted(there) == sorted(FIGURES)


def test_filling_replaces_what_was_there() -> None:
    line = Line(row="8", what="bytes", values=[0.4], target=0.5, ours=[4.0], floor=[10.0])
    found = Results(machine={"cores": 2}, options={"rounds": 1}, lines=[line])
    once = page.filled(f"# Top\n<!-- figures:  -->\nold\n{page.END}\nend\n", "a.json", found)
    assert "| 8 | bytes | 0.4 |  | <= 0.5 | yes | 4 / 10  |" in once
    assert "old" not in once and once.startswith("# Top\n") and once.endswith(f"{page.END}\nend\n")
    assert page.named(once) == "a.json" and page.filled(once, "a.json", found) == once


def test_a_page_without_marks_is_refused() -> None:
    found = Results(machine={}, options={}, lines=[])
    with pytest.raises(ValueError, match="has no place for figures"):
        page.filled("# Top\n", "a.json", found)
