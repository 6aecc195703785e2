"""Move: sessions into the store and out of it, and the store to a newer schema."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import errors, place
from sawlog.cli.output import first_line, note, progress, say, table, write_bytes, write_json
from sawlog.cli.show import Json, SessionName

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog
    from sawlog.cli.output import Progress

# --- import ---------------------------------------------------------------------------------------


def import_(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files, or folders to search.")
    ],
    format: Annotated[
        str,
        typer.Option(help="auto, codex, claude-code, openai-chat, or sawlog for an export."),
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Read transcripts into the log: Codex rollouts, Claude Code sessions, OpenAI chat messages.

    A file belongs to the session that its own id names. The same file again adds nothing, a longer
    one only its news; a file that contradicts what is stored becomes a session of its own, and
    nothing is overwritten. What `sawlog export` wrote is read back with the same digests.

    Exit code 0: read to the end, whatever was in it (oddities are listed as anomalies). 4: it is no
    such file, or has no whole record.

    \b
      sawlog import ~/.codex/sessions
      sawlog import session.jsonl --format claude-code --json
    """
    incoming = _Incoming(context, format)
    with progress() as tell:
        for path in paths:
            incoming.take(path, tell)
    if len(incoming.failures) == 1 and not incoming.results:
        raise incoming.failures[0]
    if as_json:
        write_json(incoming.results)
    else:
        _print_imported(incoming.results)
    code = 0
    for failure in incoming.failures:
        told = errors.sentence(failure)
        assert told is not None
        note(told[1])
        code = max(code, told[2])
    raise typer.Exit(code)


class _Incoming:
    """An import under way. The store is opened, and made, only for the first file that reads."""

    def __init__(self, context: typer.Context, format: str) -> None:
        self.results: list[dict[str, Any]] = []
        self.failures: list[Exception] = []
        self._context = context
        self._format = format
        self._log: AgentLog | None = None

    def take(self, path: Path, tell: Progress) -> None:
        """Import a file, or what a folder holds. A file that does not read keeps no other back."""
        from sawlog.importing import files_of
        from sawlog.store.errors import FormatError

        try:
            if not path.exists():
                raise FormatError(f"{path}: there is no such file or folder", path=str(path))
            if self._format == "sawlog":
                self._file(path, tell)
                return
            for file in files_of(path, self._format):
                try:
                    self._file(file, tell)
                except (FormatError, OSError) as error:
                    self.failures.append(error)
        except (FormatError, OSError) as error:
            self.failures.append(error)

    def _file(self, file: Path, tell: Progress) -> None:
        import msgspec

        from sawlog.importing import import_session, read_file

        if self._format == "sawlog" or (self._format == "auto" and is_export(file)):
            self.results.append(self._export(file))
            return
        for session in read_file(file, self._format):
            done = import_session(self._opened().store, session, tell)
            self.results.append(msgspec.to_builtins(done))

    def _opened(self) -> AgentLog:
        if self._log is None:
            self._log = place.writing(self._context)
        return self._log

    def _export(self, file: Path) -> dict[str, Any]:
        raise NotImplementedError


_EXPORT = b'{"sawlog":'


def is_export(file: Path) -> bool:
    """True when a file begins like an export of sawlog's."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(_EXPORT)) == _EXPORT


def _print_imported(results: list[dict[str, Any]]) -> None:
    names = ("added", "events", "steps", "calls", "unanswered", "orphans", "opaque")
    rows = [(row["session"], *(f"{row[name]:,}" for name in names)) for row in results]
    if rows:
        table(rows, header=("session", *names))
    for row in results:
        for anomaly in row["anomalies"]:
            say(f"{row['session']}: {first_line(anomaly)}")


# --- export, salvage ------------------------------------------------------------------------------

Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write.")]


def export(
    context: typer.Context,
    name: SessionName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a session as JSON lines: its events with their digests, its contents, its head.

    `sawlog import` reads it into any store, SQLite or PostgreSQL, with the same digests. With -o,
    --json says what was written.

    \b
      sawlog export fix-refund > fix-refund.jsonl
      sawlog export - -o newest.jsonl
    """
    from sawlog.store.errors import ConfigError
    from sawlog.store.exchange import export as lines

    if as_json and output is None:
        raise ConfigError("an export is JSON lines already; --json says what -o FILE wrote")
    log = place.reading(context)
    row = place.session_row(log, name)
    chunks = lines(log, row)
    if output is None:
        for chunk in chunks:
            write_bytes(chunk)
        return
    size = _write(output, chunks)
    facts = {
        "session": row.id.hex(),
        "name": row.name or "",
        "head": row.head,
        "digest": row.digest.hex(),
        "file": str(output),
        "bytes": size,
    }
    if as_json:
        write_json(facts)
    else:
        say(f"{row.head:,} events of {row.id.hex()} to {output}, {size:,} bytes")


def _write(path: Path, chunks: Iterable[bytes]) -> int:
    """Write a file whole or not at all; gives its size."""
    size = 0
    with _replaced(path) as part, part.open("xb") as file:
        for chunk in chunks:
            size += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return size


@contextlib.contextmanager
def _replaced(path: Path) -> Generator[Path, None, None]:
    if path.is_dir():
        raise IsADirectoryError(21, "is a folder", str(path))
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# --- migrate --------------------------------------------------------------------------------------


def salvage(context: typer.Context) -> None:
    """Salvage."""


def migrate(context: typer.Context, as_json: Json = False) -> None:
    """Make the tables of a store, or bring them to this release's schema.

    A PostgreSQL store needs this before its first use and after an upgrade of sawlog; an SQLite
    store does it by itself when it is opened to be written. It runs in one transaction: when it
    is cut off, the schema is the old one.

    \b
      sawlog --store postgresql+psycopg://me@host/agents migrate
    """
    from sawlog.store.database import SCHEMA, open_database
    from sawlog.store.errors import NoStore, OldSchema

    chosen = place.settings(context)
    before, after = SCHEMA, SCHEMA
    try:
        # What is up to date is seen without the migrations, which are slow to load.
        open_database(chosen.url, create=False, read_only=True).close()
    except (NoStore, OldSchema):
        from sawlog.migrations import upgrade

        if not chosen.store:
            place.default_store().parent.mkdir(parents=True, exist_ok=True)
        before, after = upgrade(chosen.url)
    if as_json:
        write_json({"before": before, "after": after})
    elif before == after:
        say(f"nothing to do: the store has schema {after}, the one that this sawlog uses")
    else:
        say(f"schema {before} to {after}" if before else f"made, with schema {after}")
