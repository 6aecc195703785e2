"""Audit: what the model believes that is no longer so; and watching files for a session."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, SessionName
from sawlog.cli.output import note, say, visible, write_json

if TYPE_CHECKING:
    from sawlog.audit.findings import Stale
    from sawlog.audit.staleness import Belief

_WHY = {
    "changed": "it is of another version now",
    "removed": "it is gone",
    "restored": "it is again as shown, and a notice says otherwise",
    "withdrawn": "its source took it back",
    "expired": "its time is over",
    "superseded": "a newer version came",
    "overturned": "a later observation says otherwise",
    "replaced": "something newer was offered",
}


def stale(
    context: typer.Context,
    name: SessionName,
    root: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="The workspace: compare the files there, as they are now."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List what a session's packets show that is no longer so.

    Texts of files that changed or are gone, items that were withdrawn, expired or overtaken, and
    sections of the world that are others now: all that the next packet would still show, by what
    the log holds. With --root the files themselves are looked at, too: a change that nobody
    recorded is listed as seen in the workspace. Nothing is written; `sawlog watch` records changes
    as they happen.

    Labelled means that a notice in the packet tells the model already.

    Exit code 0: nothing is stale. 1: something is.

    \b
      sawlog stale fix-refund
      sawlog stale fix-refund --root ~/src/shop
    """
    from sawlog.audit.staleness import beliefs
    from sawlog.store.log import now

    log = place.auditing(context)
    session = log.read(name)
    found = beliefs(session, root=root or None, as_of=now())
    for path in found.outside:
        note(f"{path} leads out of {root} and is not looked at")
    if as_json:
        import msgspec

        write_json({"session": session.id, "name": session.name, **msgspec.to_builtins(found)})
    else:
        _print(session.name or session.id, found, root)
    raise typer.Exit(1 if found.stale else 0)


def _print(name: str, found: Belief, root: str) -> None:
    where = f", with {visible(root)} as it is now" if root else ""
    if not found.stale:
        say(f"{visible(name)}: nothing that it shows is out of date{where}")
        return
    say(f"{visible(name)}: {len(found.stale)} texts that it shows are out of date{where}\n")
    for one in found.stale:
        say(f"  {one.kind} {visible(one.name)}, shown by event {one.seq}: {_told(one)}")


def _told(one: Stale) -> str:
    told = _WHY.get(one.why, one.why)
    if one.shown and one.now:
        told += f" ({_short(one.shown)} is shown, {_short(one.now)} it is now)"
    told += ", in the workspace" if one.by == "workspace" else f", by event {one.cause}"
    return f"{told}; labelled" if one.labelled else f"{told}; not labelled yet"


def _short(version: str) -> str:
    return visible(version if len(version) <= 20 else f"{version[:12]}…")


# --- watch ----------------------------------------------------------------------------------------


def watch(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The workspace that the session's files are in.")
    ],
    session: Annotated[
        str,
        typer.Option(metavar="S", help="The session that is told; - is the newest."),
    ] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Look once, record what changed, and end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch a workspace and record in a session's log when a file that it shows changes.

    Only files that the session's packets show are told of: each change is one event, which any
    process may append while another drives the session. The next packet labels what it outdates.
    What changed before is found first. Ends with Ctrl-C; with --once after the first look. Watching
    needs the extra `watch`; --once does not.

    With --json one line is printed for each change.

    \b
      sawlog watch ~/src/shop --session fix-refund
      sawlog watch . --session - --once
    """
    from sawlog.audit.watching import Watcher
    from sawlog.store.errors import ConfigError

    if not session:
        raise ConfigError("say which session is told: --session NAME, or --session - (the newest)")
    log = place.changing(context)
    watcher = Watcher(log, session, path)
    seen: set[str] = set()

    def tell(changed: tuple[str, ...]) -> None:
        for one in watcher.look(changed):
            _tell(one.path, one.state, one.version, as_json)
        for outside in sorted(set(watcher.outside) - seen):
            seen.add(outside)
            note(f"{outside} leads out of {path} and is not looked at")

    if once:
        tell(("",))
        return
    from sawlog.workspace.comparing import watch as follow

    note(f"watching {path} for {watcher.name}; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):  # that is how it ends
        follow(path, tell, threading.Event())


def _tell(path: object, state: str, version: str, as_json: bool) -> None:
    import json
    import sys

    if as_json:
        say(json.dumps({"path": path, "state": state, "version": version}))
    else:
        digest = f" sha256:{version[:16]}…" if version else ""
        say(f"{visible(str(path))} {state}{digest}")
    sys.stdout.flush()
