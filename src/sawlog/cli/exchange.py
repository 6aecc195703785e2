"""Move: sessions into the store and out of it, and the store to a newer schema."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import errors, place
from sawlog.cli.options import Json, SessionName
from sawlog.cli.output import (
    first_line,
    note,
    progress,
    say,
    table,
    visible,
    write_bytes,
    write_json,
)

if TYPE_CHECKING:
    from sawlog.agentlog import AgentLog
    from sawlog.cli.output import Progress
    from sawlog.store.directory import SessionRow
    from sawlog.store.incoming import Branch
    from sawlog.store.log import Log

# --- import ---------------------------------------------------------------------------------------


def import_(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, or folders to search.")
    ],
    format: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="auto, codex, claude-code, openai-chat, or sawlog for an export."
        ),
    ] = "auto",
    as_json: Json = False,
) -> None:
    """Read transcripts into the log: Codex rollouts, Claude Code sessions, OpenAI chat messages.

    A file belongs to the session that its own id names. The same file again adds nothing, a longer
    one only its news; a file that contradicts what is stored becomes a session of its own, and
    nothing is overwritten. What `sawlog export` wrote is read back with the same digests. In a
    folder, files of no such format are passed over.

    Added: events new in the store, with two that open a new session. The rest counts the file:
    events, steps, calls, unanswered (calls without a result), orphans (results without a call),
    opaque (sealed parts, which only their provider can read). Oddities follow, file by file.

    Exit code 0: read to the end, whatever was in it. 4: it is no such file, or has no whole record.

    \b
      sawlog import ~/.codex/sessions
      sawlog import session.jsonl --format claude-code --json
    """
    incoming = _Incoming(context, format)
    with progress() as tell:
        for path in paths:
            incoming.take(Path(path), tell)
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
        from sawlog.store.errors import Conflict, Damaged, FormatError, Leased

        try:
            if not path.exists():
                raise FormatError(f"{path}: there is no such file or folder", path=str(path))
            files = iter([path]) if self._format == "sawlog" else files_of(path, self._format)
            for file in files:
                try:
                    self._file(file, tell)
                except (FormatError, Damaged, Conflict, Leased, OSError) as error:
                    self.failures.append(error)
        except (FormatError, OSError) as error:
            self.failures.append(error)

    def _file(self, file: Path, tell: Progress) -> None:
        import msgspec

        from sawlog.importing import import_session, read_file

        if self._format == "sawlog" or (self._format == "auto" and _is_export(file)):
            self._export(file)
            return
        for session in read_file(file, self._format):
            log = self._opened().store
            done = import_session(log, session, tell)
            self._done(log, log.get(bytes.fromhex(done.session)), file, msgspec.to_builtins(done))

    def _opened(self) -> AgentLog:
        if self._log is None:
            self._log = place.writing(self._context)
        return self._log

    def _export(self, file: Path) -> None:
        from sawlog.store.errors import Conflict, Damaged, FormatError, NoSession
        from sawlog.store.exchange import lines_of, load

        try:
            branch = self._checked(file)
            log = self._opened().store
            try:
                before = log.get(branch.stems[-1].id).head
            except NoSession:
                before = 0
            with file.open("rb") as opened:
                row = load(log, lines_of(opened))
        except (FormatError, Damaged, Conflict) as error:
            # The reader of lines knows no file.
            error.args = (f"{file}: {error}", *error.args[1:])
            raise
        facts = {"session": row.id.hex(), "added": row.head - before, **_counted(log, row)}
        self._done(log, row, file, facts)

    def _done(self, log: Log, row: SessionRow, file: Path, facts: dict[str, Any]) -> None:
        facts |= {"name": row.name or "", "file": str(file), "differs_from": _other(log, row)}
        self.results.append(facts)

    def _checked(self, file: Path) -> Branch:
        """What an export holds, once all of it was found good: before any store is made."""
        from sawlog.store.events import CORE
        from sawlog.store.exchange import lines_of
        from sawlog.store.incoming import Reading

        reading = Reading(CORE)
        with file.open("rb") as opened:
            for line in lines_of(opened):
                reading.take(line)
        return reading.branch()


def _is_export(file: Path) -> bool:
    from sawlog.store.exchange import is_export

    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return is_export(opened.read(64))


def _other(log: Log, row: SessionRow) -> str:
    """The id of the session that this one's file contradicted or left, else empty."""
    from sawlog.store.event import decoded
    from sawlog.store.events.lifecycle import SessionCreated

    for stored in log.read(row, upto=1):
        content = decoded(stored, log.registry).content
        if isinstance(content, SessionCreated):
            return content.differs_from
    return ""


def _counted(log: Log, row: SessionRow) -> dict[str, Any]:
    """What an export held, counted as in a foreign file."""
    from sawlog.formats.tally import Tally
    from sawlog.store.event import decoded
    from sawlog.store.events.base import Payload

    tally = Tally([])
    steps: set[int] = set()
    for stored in log.read(row):
        steps.add(stored.step)
        content = decoded(stored, log.registry).content
        if isinstance(content, Payload):
            tally.add(content, copy=getattr(content, "copy", False))
    found = tally.counts()
    return {
        "events": row.head,
        "steps": len(steps - {0}),
        "calls": found.calls,
        "unanswered": found.unanswered,
        "orphans": found.orphans,
        "opaque": found.opaque,
        "anomalies": [],
    }


def _print_imported(results: list[dict[str, Any]]) -> None:
    names = ("added", "events", "steps", "calls", "unanswered", "orphans", "opaque")
    rows = [
        (
            first_line(row["name"] or row["session"], 120),
            *(f"{row[name]:,}" for name in names),
            first_line(row["file"], 1000),
        )
        for row in results
    ]
    if rows:
        table(rows, header=("session", *names, "file"))
    for row in results:
        file = first_line(row["file"], 1000)
        if row["added"] and row["differs_from"]:
            say(f"{file}: other records than session {row['differs_from']} holds: one of its own")
        for anomaly in row["anomalies"]:
            say(f"{file}: {first_line(anomaly)}")


# --- export, salvage ------------------------------------------------------------------------------


def export(
    context: typer.Context,
    name: SessionName,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = "",
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

    if as_json and not output:
        raise ConfigError("an export is JSON lines already; --json says what -o FILE wrote")
    log = place.reading(context)
    row = log.named(name)
    chunks = lines(log, row)
    if not output:
        for chunk in chunks:
            write_bytes(chunk)
        return
    size = _write(Path(output), chunks)
    facts = {
        "session": row.id.hex(),
        "name": row.name or "",
        "head": row.head,
        "digest": row.digest.hex(),
        "file": output,
        "bytes": size,
    }
    if as_json:
        write_json(facts)
    else:
        say(f"{row.head:,} events of {row.id.hex()} to {output}, {size:,} bytes")


def salvage(
    context: typer.Context,
    name: SessionName,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Write it here.")],
    as_json: Json = False,
) -> None:
    """Save what is whole of a damaged session, and list the rest.

    The longest good prefix, as far as chain and contents hold without a gap, is written as an
    export, which `sawlog import` reads into any store. Everything behind it is named, with what is
    wrong and whether the event itself still reads. The store stays as it is, and so do the other
    sessions in it.

    \b
      sawlog salvage fix-refund -o saved.jsonl
      sawlog --store new.db import saved.jsonl
    """
    from sawlog.store.salvage import salvage as read

    log = place.reading(context)
    found = read(log, _any_row(log, name))
    size = _write(Path(output), found.good)
    if as_json:
        import msgspec

        facts = {
            "session": found.session,
            "name": found.name,
            "last_good": found.last_good,
            "digest": found.digest.hex(),
            "file": output,
            "bytes": size,
            "rest": msgspec.to_builtins(found.rest),
        }
        write_json(facts)
        return
    say(f"events 1 to {found.last_good:,} of {found.session} to {output}, {size:,} bytes")
    if not found.rest:
        say("nothing is wrong with the session")
    for one in found.rest:
        where = f"event {one.seq}" if one.seq else "its row in the directory"
        say(f"  {where}: {visible(one.what)}{'; it reads' if one.readable and one.seq else ''}")


def _any_row(log: Log, name: str) -> SessionRow | bytes:
    """The session of that name, or of that whole id where the directory does not list it."""
    from sawlog.store.errors import NoSession

    try:
        return log.named(name)
    except NoSession:
        if len(name) == 32 and not name.strip("0123456789abcdef"):
            return bytes.fromhex(name)
        raise


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
    found = 0
    with contextlib.suppress(NoStore, OldSchema):
        # What is up to date is seen without the migrations, which are slow to load.
        with open_database(chosen.url, create=False, read_only=True) as database:
            found = database.schema
    if found != SCHEMA:
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
