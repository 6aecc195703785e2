"""The verbs and their options as one program, and the one place where its errors end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer

from sawlog.cli import errors
from sawlog.cli.place import Settings
from sawlog.cli.quick import QuickCommand, QuickGroup

_HELP = """The log of what the model saw: look into recorded agent sessions.

\b
  sawlog demo                          see it work, offline
  sawlog import ~/.codex/sessions      read transcripts into the log
  sawlog ls                            what is there
  sawlog show -                        the newest session
  sawlog packet -@3                    what the model saw at step 3

A session is named by its name, its id, the beginning of its id, or - for the newest one; a step by
SESSION@STEP. The store is an SQLite file (by default in your user data directory) or a PostgreSQL
database. Every command takes --json. Exit codes: 0 fine, 1 a check found something, 2 usage or
configuration, 3 conflict or lease, 4 damaged data.
"""

_VERBS: dict[str, tuple[str, str, str]] = {
    "demo": ("demo", "demo", "See an agent killed, reopened and every packet replayed."),
    "import": ("exchange", "import_", "Read transcripts into the log."),
    "ls": ("show", "ls", "List the sessions of the store."),
    "show": ("show", "show", "Show a session's conversation, or a step of it."),
    "packet": ("packet", "packet", "Show what the model saw at a step."),
    "why": ("why", "why", "Say why a text or an item was or was not seen at a step."),
    "diff": ("audit", "diff", "Show what two packets differ in."),
    "what-if": ("what_if", "what_if", "List the steps that would differ under other rules."),
    "cache": ("cache", "cache", "Show what each request keeps of the one before it."),
    "stale": ("stale", "stale", "List what a session shows that is no longer so."),
    "recover": ("recover", "recover", "Say what a run left open; end what was cut."),
    "approve": ("decide", "approve", "Allow a call that waits for approval."),
    "deny": ("decide", "deny", "Deny a call that waits for approval."),
    "resolve": ("decide", "resolve", "Say what came of a call whose outcome nobody recorded."),
    "compact": ("compact", "compact", "Put a checkpoint in the place of older history."),
    "checkpoints": ("compact", "checkpoints", "List what stands in the place of older history."),
    "fork": ("branches", "fork", "Go another way from a step, beside the session."),
    "rewind": ("branches", "rewind", "Take a session's history back to a step."),
    "tree": ("branches", "tree", "Show a session's forks, children and rewinds."),
    "handoff": ("handoff", "handoff", "Give the request that another provider continues with."),
    "verify": ("audit", "verify", "Replay every step, check chain and contents."),
    "export": ("exchange", "export", "Write a session as JSON lines."),
    "salvage": ("exchange", "salvage", "Save what is whole of a damaged session."),
    "case": ("case", "case", "Write a step as a case that policies are compared on."),
    "watch": ("stale", "watch", "Record when files that a session shows change."),
    "run": ("proxy", "run", "Run a command and record what it says to models."),
    "proxy": ("proxy", "proxy", "Pass requests to models on, and record what was said."),
    "profiles": ("profiles", "profiles", "List what model families demand and allow, or show one."),
    "migrate": ("exchange", "migrate", "Make or upgrade the tables of a store."),
    "repack": ("repack", "repack", "Pack the old events of sessions more densely."),
    "doctor": ("doctor", "doctor", "Look the store and the installation over."),
    "eval": ("evaluate", "app", "Run a published lab, compare policies."),
}
"""What there is: verb -> the module, what in it runs, and a line of help."""

_BEFORE = ("--store", "--tenant")
"""Options in front of the verb that take a value."""


def _version(wanted: bool) -> None:
    if wanted:
        import sawlog

        print(f"sawlog {sawlog.__version__}")
        raise typer.Exit()


def _options(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            show_default=False,
            help="The store: a file (agent.db), sqlite:///FILE or postgresql+psycopg://…; "
            "else that of SAWLOG_STORE, else the file in your user data directory.",
        ),
    ] = "",
    tenant: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Whose sessions: the tenant's name; else that of SAWLOG_TENANT, else default.",
        ),
    ] = "",
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    given = os.environ.get
    context.obj = Settings(
        store or given("SAWLOG_STORE", ""), tenant or given("SAWLOG_TENANT", "") or "default"
    )


def _program(verbs: Iterable[str]) -> typer.Typer:
    app = typer.Typer(
        cls=QuickGroup,
        help=_HELP,
        add_completion=False,
        pretty_exceptions_enable=False,
        # Plain help: drawing it with rich would cost more than all else that it needs.
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for verb in verbs:
        module, name, short = _VERBS[verb]
        found = getattr(import_module(f"sawlog.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=verb, short_help=short)
        else:
            app.command(verb, cls=QuickCommand, short_help=short)(found)
    return app


def _meant(arguments: Sequence[str]) -> Iterable[str]:
    """The verb that is called, alone: to make the others takes as long as what most of them do.

    All of them where none is named, or something else stands there: they are then told of.
    """
    left = iter(arguments)
    for text in left:
        if text in _BEFORE:
            next(left, None)
        elif not text.startswith(tuple(f"{option}=" for option in _BEFORE)):
            return (text,) if text in _VERBS else _VERBS
    return _VERBS


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; every expected error becomes one sentence."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What stands behind -- is another command's.
    end = given.index("--") if "--" in given else len(given)
    own, others = given[:end], given[end:]
    # The newest session's step would pass for an option: @3 alone says the same.
    given = [text[1:] if text.startswith("-@") else text for text in own] + others
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Texts of others are shown whatever the terminal can write.
            stream.reconfigure(errors="backslashreplace")
    try:
        app = _program(_meant(given))
        code = app(given or ["--help"], prog_name="sawlog", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BaseException as error:
        return errors.told(error, as_json="--json" in own)
