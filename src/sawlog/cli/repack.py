"""Store: pack what is old more densely."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json
from sawlog.cli.output import progress, say, write_json


def repack(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", show_default=False, help="A session; else all of the tenant's."
        ),
    ] = "",
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="Write the file anew without empty room. Writers wait meanwhile."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Pack the old events of sessions as densely as can be.

    A session packs its older events by itself while it grows, quickly. This packs them once more,
    slowly and into less room; nothing that can be read changes, and others may go on writing. The
    room becomes free for new events; with --shrink the file gives it back. Prints the size of the
    store before and after. A session that is damaged is left as it is and named; exit code 4.

    \b
      sawlog repack
      sawlog repack fix-refund --shrink
    """
    from sawlog.store.database import parse_url
    from sawlog.store.sqlitefile import wal_size

    dialect, where = parse_url(place.settings(context).url)
    log = place.changing(context)
    if dialect != "sqlite":
        if as_json:
            write_json({"before": None, "after": None})
        else:
            say("nothing to do: a PostgreSQL store has no packs")
        return
    before = os.stat(where).st_size + wal_size(where)
    with log, progress() as tell:
        log.repack(name or None, shrink=shrink, progress=tell)
    after = os.stat(where).st_size
    if as_json:
        write_json({"before": before, "after": after})
    else:
        say(f"{before:,} bytes before, {after:,} after")
