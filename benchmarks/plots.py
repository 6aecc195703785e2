"""Draws the figures of `docs/performance.md` from a results file: the same file, the same bytes.

    python -m benchmarks.plots benchmarks/results/NAME.json docs/performance

Needs matplotlib, which comes with the extra `bench`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.results import Line, Results, read

Points = list[tuple[float, float]]
"""Steps of the session, and ms or what the axis says."""

_BARE = {"Date": None, "Creator": None}
_OURS, _FLOOR, _AIM = "#1f5f8b", "#b5651d", "#888888"


def main(arguments: list[str] | None = None) -> int:
    """Write an SVG for each figure; says which ones the file has no lines for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", type=Path, help="what `python -m benchmarks --json` wrote")
    parser.add_argument("folder", type=Path, help="where the figures go")
    given = parser.parse_args(arguments)
    try:
        pyplot = _pyplot()
    except ModuleNotFoundError:
        print("plots need matplotlib: pip install 'sawlog[bench]'", file=sys.stderr)
        return 2
    found = read(given.results)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
        if draw(found, axes):
            # Without these and with a fixed salt for ids nothing changes from run to run.
            figure.savefig(given.folder / f"{name}.svg", format="svg", metadata=_BARE)
        else:
            print(f"{name}: the file has no lines for it", file=sys.stderr)
        pyplot.close(figure)
    return 0


def steps(found: Results, axes: Any) -> bool:
    """What a step and its packet cost, by the steps before it, and what a floor's rebuild does."""
    whole = _points(found, "3", "whole step")
    ready = _points(found, "5", "next packet, warm")
    rebuild = _points(found, "5", "next packet, warm", of_floor=True)
    return _drawn(
        axes,
        "A step, and its packet",
        "ms",
        [
            ("whole recorded step", _OURS, "o-", whole),
            ("its packet, ready to send", _OURS, "s--", ready),
            ("messages rebuilt from a bare table", _FLOOR, "o-", rebuild),
        ],
    )


def reading(found: Results, axes: Any) -> bool:
    """Resume and one step's replay, by the steps of the session."""
    return _drawn(
        axes,
        "Resume, and the packet of step N/2",
        "ms",
        [
            ("resume", _OURS, "o-", _points(found, "6", "resume")),
            ("packet of step N/2, checked", _OURS, "s--", _points(found, "7", "packet of step")),
            ("bare table: resume", _FLOOR, "o-", _points(found, "6", "resume", of_floor=True)),
            (
                "bare table: messages of step N/2",
                _FLOOR,
                "s--",
                _points(found, "7", "packet of step", of_floor=True),
            ),
        ],
    )


def verifying(found: Results, axes: Any) -> bool:
    """Verify of a whole session, by its steps."""
    line = [(n, ms / 1e3) for n, ms in _points(found, "10", "verify by every path")]
    even: Points = [(n, line[-1][1] * n / line[-1][0]) for n, _ in line] if line else []
    return _drawn(
        axes,
        "Verify of a whole session by every path",
        "s",
        [
            ("verify", _OURS, "o-", line),
            ("in proportion to the steps", _AIM, ":", even),
        ],
    )


def storing(found: Results, axes: Any) -> bool:
    """Bytes on disk against the session as JSON."""
    bars = [line for line in found.lines if line.row in ("8", "9")]
    if not bars:
        return False
    labels = [line.what for line in bars]
    axes.barh(labels, [line.value for line in bars], color=_OURS, height=0.5)
    for at, line in enumerate(bars):
        if line.target is not None:
            axes.plot([line.target] * 2, [at - 0.35, at + 0.35], color=_AIM, linestyle=":")
    axes.axvline(1.0, color=_FLOOR)
    axes.set_title("Bytes on disk, with all packets")
    axes.set_xlabel("of the session as JSON (line); dots: the target")
    axes.invert_yaxis()
    return True


FIGURES: dict[str, Callable[[Results, Any], bool]] = {
    "steps": steps,
    "reading": reading,
    "verifying": verifying,
    "storing": storing,
}
"""Name of a figure's file, and what draws it; False when there is nothing to draw."""


def _pyplot() -> Any:
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "sawlog",
            "svg.fonttype": "none",  # text stays text: small files, and found by a search
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return import_module("matplotlib.pyplot")


def _points(found: Results, row: str, what: str, *, of_floor: bool = False) -> Points:
    """The medians of a row's lines by size: sessions in SQLite, with a window."""

    def wanted(line: Line) -> bool:
        return (line.row, line.store, line.window) == (row, "sqlite", True) and (
            line.size > 0 and line.what.startswith(what)
        )

    lines = [line for line in found.lines if wanted(line)]
    by_size: dict[int, Sequence[float]] = {
        line.size: line.floor if of_floor else line.ours for line in lines
    }
    return [(n, statistics.median(by_size[n])) for n in sorted(by_size)]


def _drawn(axes: Any, title: str, unit: str, lines: Sequence[tuple[str, str, str, Points]]) -> bool:
    if not any(points for _, _, _, points in lines):
        return False
    for label, color, style, points in lines:
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, style, color=color, label=label, markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("steps of the session")
    axes.set_ylabel(unit)
    axes.set_title(title)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    return True


if __name__ == "__main__":
    sys.exit(main())
