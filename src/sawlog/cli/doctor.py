"""Look: the health of the store and of the installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from sawlog.cli import errors, place
from sawlog.cli.options import Json
from sawlog.cli.output import note, say, table, visible, write_json

if TYPE_CHECKING:
    from sawlog.store.health import Health

_LIBRARIES = ("sqlalchemy", "alembic", "msgspec", "pydantic", "typer", "rich", "zstandard")
_EXTRAS = {"httpx": "providers", "psycopg": "postgresql", "watchfiles": "watch"}

_SLOW_SECONDS = 60
_LARGE_WAL = 64 << 20


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Look the store and the installation over, and name what needs a hand.

    Names the kind of the store, its schema, its sizes, who drives which session, and on PostgreSQL
    the open transactions that hold a follower back; then the versions of what sawlog stands on and
    the extras that are not installed. It reads no events: `sawlog verify --all` does. Exit code 1:
    something needs a hand.

    \b
      sawlog doctor
    """
    url = place.settings(context).url
    facts: dict[str, Any] = {"versions": _versions(), "missing_extras": _missing()}
    found: Health | None = None
    code = 0
    try:
        found = _health(context)
    except Exception as error:
        told = errors.sentence(error)
        if told is None:
            raise
        kind, message, code = told
        facts["store"] = {"error": {"kind": kind, "message": message}}
        if not as_json:
            _print_versions(facts)
            raise
        note(message)
    if found is not None:
        import msgspec

        advice = _advice(found)
        facts = {"store": {"url": shown_url(url), **msgspec.to_builtins(found)}, **facts}
        facts["advice"] = advice
        code = 1 if advice else 0
    if as_json:
        write_json(facts)
    elif found is not None:
        _print_store(shown_url(url), found)
        say()
        _print_versions(facts)
        for line in facts["advice"]:
            say(f"! {line}")
    raise typer.Exit(code)


def _health(context: typer.Context) -> Health:
    from sawlog.store.health import health
    from sawlog.store.log import now

    log = place.reading(context)
    return health(log.database, log.tenant, now)


def shown_url(url: str) -> str:
    """The store without a password that stands in its URL."""
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    if not separator or not at:
        return visible(url)
    return visible(f"{scheme}://{login.partition(':')[0]}@{host}")


def _advice(found: Health) -> list[str]:
    out: list[str] = []
    for one in found.held:
        if one.seconds >= _SLOW_SECONDS:
            who = f"process {one.process}" if one.process else "a prepared transaction"
            out.append(
                f"{who} ({visible(one.application) or 'unnamed'}, {one.state}) has been writing "
                f"for {one.seconds:,} s: followers wait for it; end it, or see what it does"
            )
    if found.wal >= _LARGE_WAL:
        out.append(
            f"the WAL holds {_size(found.wal)}: a reader keeps it from being moved into the "
            "database; close readers that stay open"
        )
    return out


def _versions() -> dict[str, str]:
    import platform
    import sqlite3
    from importlib import metadata

    found = {
        "sawlog": metadata.version("sawlog"),
        "python": platform.python_version(),
        "platform": sys.platform,
        "sqlite": sqlite3.sqlite_version,
    }
    for name in (*_LIBRARIES, *_EXTRAS):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra, or a library that a newer Python brings itself
    return found


def _missing() -> list[str]:
    from importlib.util import find_spec

    return sorted(extra for module, extra in _EXTRAS.items() if find_spec(module) is None)


def _print_store(url: str, found: Health) -> None:
    rows = [
        ("store", url),
        ("kind", f"{found.dialect} {found.server}, schema {found.schema}, epoch {found.epoch}"),
        ("size", _size(found.size) + (f", and {_size(found.wal)} of WAL" if found.wal else "")),
        ("sessions", f"{found.sessions:,} with {found.events:,} events"),
    ]
    if found.packed:
        rows.append(("packed", f"{found.packed:,} events"))
    rows += [("driven", f"{one.session} by {visible(one.owner)}") for one in found.leases]
    rows += [
        ("writer", f"process {one.process} {visible(one.application)}, {one.seconds} s")
        for one in found.held
    ]
    if found.held:
        rows.append(("waiting", f"{found.waiting:,} events that followers do not see yet"))
    table(rows)


def _print_versions(facts: dict[str, Any]) -> None:
    versions: dict[str, str] = facts["versions"]
    table(list(versions.items()))
    for extra in facts["missing_extras"]:
        say(f"not installed: {extra} (pip install 'sawlog[{extra}]')")


def _size(size: int) -> str:
    value, unit = float(size), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size:,} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"
