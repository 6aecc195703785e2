"""What the command writes: lines and tables for people, JSON and bytes for programs, progress."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Generator, Sequence
from typing import Any

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done and how much there is."""


def write_json(value: Any) -> None:
    """Write a value as JSON in UTF-8 to stdout, whatever the terminal's encoding."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only an escape can say it
        raw = json.dumps(value, indent=2).encode()
    write_bytes(raw + b"\n")


def write_bytes(*chunks: bytes) -> None:
    """Write exactly these bytes to stdout."""
    sys.stdout.flush()
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def say(text: str = "") -> None:
    """Write a line for people."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """Write a remark to stderr, where it is in nobody's way."""
    print(f"sawlog: {visible(text)}", file=sys.stderr)


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its word: 1 event, 2,000 events."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


# --- texts of others ------------------------------------------------------------------------------

_HIDDEN = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10)
} | {
    code: f"\\u{code:04x}"
    # What moves text about: line separators, embeddings, overrides, isolates, the byte order mark.
    for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}


def visible(text: str) -> str:
    """A text that a terminal shows as it is: what would steer the terminal stands as an escape."""
    return text.translate(_HIDDEN)


def first_line(text: str, limit: int = 200) -> str:
    """The first line of a text that holds something, cut at `limit` characters."""
    stripped = text.lstrip()
    line, more, _ = stripped.partition("\n")
    line = " ".join(line.split())
    if len(line) > limit:
        return visible(line[: limit - 1]) + "…"
    return visible(line) + (" …" if more else "")


def excerpt(text: str, lines: int, width: int = 2000) -> str:
    """The first lines of a text, and how much is left out."""
    kept = "\n".join(text.split("\n", lines)[:lines])[: lines * width]
    if len(kept) == len(text):
        return visible(text)
    return f"{visible(kept)}\n[{len(text) - len(kept):,} more characters; --all shows them]"


# --- tables ---------------------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), indent: str = "") -> None:
    """Write columns side by side; on a terminal the last one is cut at its edge.

    Cells are shown as they are: texts of others come through `visible` or `first_line` before.
    """
    shown = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not shown:
        return
    widths = [max(_width(row[at]) for row in shown) for at in range(len(shown[0]))]
    edge = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for row in shown:
        cells = [
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        line = indent + "  ".join(cells).rstrip()
        say(_cut(line, edge) if edge else line)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cut(line: str, edge: int) -> str:
    if _width(line) <= edge:
        return line
    room = edge - 1
    for at, character in enumerate(line):
        room -= _columns(character)
        if room < 0:
            return line[:at] + "…"
    return line


# --- progress -------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress() -> Generator[Progress, None, None]:
    """A bar on stderr while something long goes on; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bars:
        known: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in known:
                for task in known.values():
                    bars.remove_task(task)
                known.clear()
                known[what] = bars.add_task(first_line(what, 40), total=total)
            bars.update(known[what], completed=done, total=total)

        yield tell
