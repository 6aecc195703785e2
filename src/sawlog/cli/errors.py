"""How errors end: one clear sentence with the mend on stderr, and an exit code by its kind.

1 is never an error: it says that a check found something.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys

USAGE = 2
CONFLICT = 3
DAMAGED = 4
INTERRUPTED = 130
BROKEN_PIPE = 141
"""What a shell shows of a program that a closed pipe ended."""

_CODES = {
    "Conflict": CONFLICT,
    "Leased": CONFLICT,
    "Fenced": CONFLICT,
    "Busy": CONFLICT,
    "OutcomeUnknown": CONFLICT,
    "Damaged": DAMAGED,
    "FormatError": DAMAGED,
}
"""Exit codes by class of the tree, its subclasses included; all other classes are USAGE."""

_EXTRAS = {
    "psycopg": "postgresql",
    "psycopg_binary": "postgresql",
    "httpx": "providers",
    "h11": "proxy",
}


def code_of(error: Exception) -> int:
    """The exit code of an error of the tree."""
    return next(
        (_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), USAGE
    )


def told(error: BaseException, *, as_json: bool) -> int:
    """Tell an error and give the exit code; one that nobody expects is raised on."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED
    if _is_broken_pipe(error) or _is_broken_pipe(error.__context__):
        # Nobody reads any more. Python would complain once more when it flushes at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    found = sentence(error)
    if found is None:
        raise error
    kind, message, code = found
    if as_json:
        from sawlog.cli.output import write_json

        write_json({"error": {"kind": kind, "message": message}})
    from sawlog.cli.output import visible

    print(f"sawlog: {visible(message)}", file=sys.stderr)
    return code


def _is_broken_pipe(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def sentence(error: BaseException) -> tuple[str, str, int] | None:
    """The kind, the sentence and the exit code of an expected error; None for any other."""
    from sawlog.store.errors import SawlogError

    if isinstance(error, SawlogError):
        return type(error).__name__, _mended(error), code_of(error)
    usage = getattr(error, "format_message", None)
    if usage is not None:  # typer's own words about the command line
        return "Usage", _usage(error, str(usage())), USAGE
    if isinstance(error, ModuleNotFoundError):
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            return None
        return (
            "MissingExtra",
            f"this needs {error.name}, which is not installed: pip install 'sawlog[{extra}]'",
            USAGE,
        )
    if isinstance(error, OSError):
        return type(error).__name__, _system(error), USAGE
    return None


def _mended(error: BaseException) -> str:
    """The error's words; with what can be done about a damaged session, where they do not say."""
    from sawlog.store.errors import Damaged

    message = str(error)
    # The parts of a session know no command.
    if type(error) is Damaged and message.startswith("event ") and "`" not in message:
        message += "; `sawlog verify` says what is damaged, `sawlog salvage` saves the rest"
    return message


def _usage(error: BaseException, message: str) -> str:
    message = message.strip().rstrip(".")
    if "--store" in message or "--tenant" in message:
        message += "; --store and --tenant stand before the command: sawlog --store URL ls"
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "sawlog"
    return f"{message}. `{path} --help` shows how it is meant"


def _system(error: OSError) -> str:
    name = error.filename if isinstance(error.filename, str) else ""
    what = f"{name}: " if name else ""
    match error.errno:
        case errno.ENOENT:
            return f"{what}there is no such file or folder"
        case errno.EACCES | errno.EPERM:
            return f"{what}you may not read or write it: check its permissions"
        case errno.EISDIR:
            return f"{what}it is a folder, and a file is needed here"
        case errno.ENOTDIR:
            return f"{what}a part of this path is a file, not a folder"
        case errno.ENOSPC:
            return f"{what}no room is left on the medium: make room and try again"
        case errno.EEXIST:
            return f"{what}it is there already: choose another name, or remove it first"
        case errno.EROFS:
            return f"{what}the medium cannot be written"
        case _:
            return f"{what}{error.strerror or error}"
