"""What a run found: a line for each figure, printed beside its target, and kept as JSON.

A figure is a ratio to a floor of the same round wherever there is one; of several rounds the median
counts and the spread is shown. Times in ms, seconds or per second say what machine it was.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

FORMAT = 1
"""Number of the layout of a results file."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure: `values` are those of the rounds, in `unit`, where `x` is a ratio.

    `ours` and `floor` are what the ratio was made of, in `measure`. `target` binds the median, from
    below when `at_least`; None: for information. `size` is in steps, or in events where `what` says
    so; `window` is False where packets were not bounded.
    """

    row: str
    what: str
    store: str = "sqlite"
    size: int = 0
    window: bool = True
    values: list[float]
    unit: str = "x"
    target: float | None = None
    at_least: bool = False
    ours: list[float] = []
    floor: list[float] = []
    measure: str = ""
    note: str = ""

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """True when the target is met; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `left_out` says in a sentence each what was not measured, and why."""

    format: int = FORMAT
    machine: dict[str, str | float]
    options: dict[str, str | float]
    lines: list[Line]
    left_out: list[str] = []
    seconds: float = 0.0


def ratio(
    row: str,
    what: str,
    ours: Sequence[float],
    floor: Sequence[float],
    measure: str,
    *,
    target: float | None = None,
    at_least: bool = False,
    store: str = "sqlite",
    size: int = 0,
    window: bool = True,
    note: str = "",
) -> Line:
    """The line of a ratio, made round by round of what was measured in the same round."""
    return Line(
        row=row,
        what=what,
        store=store,
        size=size,
        window=window,
        values=[a / b for a, b in zip(ours, floor, strict=True)],
        target=target,
        at_least=at_least,
        ours=list(ours),
        floor=list(floor),
        measure=measure,
        note=note,
    )


def write(results: Results, path: Path) -> None:
    """Write a results file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(results)), indent=1) + b"\n")


def read(path: Path) -> Results:
    """Read one. Raises ValueError, naming the file, for anything else."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Results)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} is no results file of `python -m benchmarks`: {error}") from error
    if found.format != FORMAT:
        raise ValueError(f"{path} has layout {found.format}, and this reads {FORMAT}: measure anew")
    return found


def show(results: Results) -> None:
    """Print the whole table."""
    # Not at the top: writer processes read this file, too, and print nothing.
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, width=None if Console().is_terminal else 150)
    for title, lines in _parts(results.lines):
        table = Table(title=title, title_justify="left", pad_edge=False, box=None)
        for name in ("row", "what", "median", "spread", "target", "met", "ours / floor"):
            right = name in ("median", "spread", "target")
            table.add_column(name, justify="right" if right else "left")
        for line in lines:
            table.add_row(*cells(line))
        console.print(table)
        console.print()
    for sentence in results.left_out:
        console.print(f"left out: {sentence}")
    bound = [line for line in results.lines if line.met is not None]
    if bound:
        console.print(f"{sum(line.met or False for line in bound)} of {len(bound)} targets met")
    console.print(f"{results.seconds:,.0f} s; " + ", ".join(told(results.machine)))


def _parts(lines: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    titles = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    for store in dict.fromkeys(line.store for line in lines):
        yield titles.get(store, store), [line for line in lines if line.store == store]


def cells(line: Line) -> tuple[str, ...]:
    """Row, what, median, spread, target, met, and what the ratio was made of, as texts."""
    spread = f"{_figure(min(line.values))}-{_figure(max(line.values))}"
    target = ""
    if line.target is not None:
        target = f"{'>=' if line.at_least else '<='} {_figure(line.target)}"
    met = {True: "yes", False: "NO", None: ""}[line.met]
    what = f"{line.what}{'' if line.window else ', no window'}"
    if line.size:
        what += f", N={line.size:,}"
    unit = "" if line.unit == "x" else f" {line.unit}"
    made_of = ""
    if line.ours and line.floor:
        ours, floor = statistics.median(line.ours), statistics.median(line.floor)
        made_of = f"{_figure(ours)} / {_figure(floor)} {line.measure}"
    if line.note:
        made_of = f"{made_of}; {line.note}" if made_of else line.note
    shown = spread if len(line.values) > 1 else ""
    return line.row, what, _figure(line.value) + unit, shown, target, met, made_of


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def told(facts: dict[str, str | float]) -> list[str]:
    """Each name with its value, numbers without a fraction that says nothing."""
    return [
        f"{name} {value if isinstance(value, str) else format(value, 'g')}"
        for name, value in facts.items()
    ]


def _rounded(results: Results) -> Results:
    """Five digits: more would be noise, and makes the files long."""

    def five(values: list[float]) -> list[float]:
        return [float(f"{value:.5g}") for value in values]

    lines = [
        msgspec.structs.replace(
            line, values=five(line.values), ours=five(line.ours), floor=five(line.floor)
        )
        for line in results.lines
    ]
    return msgspec.structs.replace(results, lines=lines, seconds=round(results.seconds, 1))
