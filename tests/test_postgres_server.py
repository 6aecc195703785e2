"""The server that the tests run on is a real one, keeps to itself, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from sawlog import migrations
from sawlog.store.database import SCHEMA, open_database
from sawlog.store.log import Log
from tests import postgres
from tests.postgres import PostgresServer

ROOT = Path(__file__).parent.parent


def alive(pid: int) -> bool:
    """Say whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int, directory: Path) -> None:
    """Wait until a server and its directory are gone, for 30 seconds at most."""
    deadline = time.monotonic() + 30
    while alive(pid) or directory.exists():
        assert time.monotonic() < deadline, f"process {pid} or {directory} is still there"
        time.sleep(0.05)


def test_the_server_is_postgresql_18_and_durable(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.conninfo("postgres")) as connection:
        rows = connection.execute("select name, setting from pg_settings").fetchall()
    settings: dict[str, str] = dict(rows)
    assert settings["server_version"].startswith("18.")
    assert settings["server_encoding"] == "UTF8"
    assert settings["fsync"] == settings["synchronous_commit"] == "on"


def test_the_server_listens_on_no_network(postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.conninfo("postgres")) as connection:
        row = connection.execute("select current_setting('listen_addresses')").fetchone()
    assert row == ("",)
    assert postgres_server.socket_directory.startswith("/")


def test_a_database_begins_empty_and_ends_with_its_block(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first, postgres_server.database() as second:
        assert first != second
        for url in (first, second):
            engine = sqlalchemy.create_engine(url)
            with engine.begin() as connection:
                assert sqlalchemy.inspect(connection).get_table_names() == []
                connection.execute(sqlalchemy.text("create table t (n integer)"))
            engine.dispose()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_server.conninfo(sqlalchemy.make_url(first).database or ""))


def test_a_database_goes_although_someone_is_still_connected(
    postgres_server: PostgresServer,
) -> None:
    name = postgres_server.create_database()
    connection = psycopg.connect(postgres_server.conninfo(name))
    postgres_server.drop_database(name)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1")
    connection.close()


def test_a_store_begins_without_a_session_and_is_no_copy_to_those_who_follow(
    postgres_server: PostgresServer,
) -> None:
    with postgres_server.store() as first, postgres_server.store() as second:
        epochs: list[bytes] = []
        for url in (first, second):
            assert migrations.upgrade(url) == (SCHEMA, SCHEMA)
            with open_database(url) as database:
                log = Log(database)
                assert log.sessions() == []
                log.session("s", create=True)
                epochs.append(database.epoch())
        assert len(set(epochs)) == 2 and {len(epoch) for epoch in epochs} == {16}


def test_each_new_store_url_is_of_a_store_that_does_not_exist(new_store_url: str) -> None:
    engine = sqlalchemy.create_engine(new_store_url)
    with engine.begin() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == []
        connection.execute(sqlalchemy.text("create table left_by_the_other_kind (n integer)"))
    engine.dispose()


def test_close_stops_the_server_and_removes_its_directory() -> None:
    server = PostgresServer.start()
    directory = Path(server.socket_directory)
    assert alive(server.pid) and directory.is_dir()
    server.close()
    assert not alive(server.pid)
    assert not directory.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_the_process_that_started_it(number: signal.Signals) -> None:
    code = (
        "import os\n"
        "from tests.postgres import PostgresServer\n"
        "server = PostgresServer.start()\n"
        "print(server.pid, server.socket_directory, flush=True)\n"
        f"os.kill(os.getpid(), {int(number)})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -number, done.stderr
    pid, directory = done.stdout.split()
    wait_until_gone(int(pid), Path(directory))


def test_a_fork_that_lives_on_does_not_keep_the_server() -> None:
    """A forked child holds the pipe to the keeper open, as children of multiprocessing may."""
    code = (
        "import os, time\n"
        "from tests.postgres import PostgresServer\n"
        "server = PostgresServer.start()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.close(1); os.close(2); time.sleep(60)\n"
        "print(server.pid, server.socket_directory, child, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    pid, directory, child = done.stdout.split()
    try:
        wait_until_gone(int(pid), Path(directory))
        assert alive(int(child))
    finally:
        os.kill(int(child), signal.SIGKILL)


def permissions() -> dict[Path, tuple[int, int, int]]:
    """Give mode and owner of the package's files, of all folders above them, and above the data."""
    package = postgres.package_folder()
    above = [*package.parents, Path("/tmp"), Path("/var/tmp"), Path("/var/tmp").parent]
    found: dict[Path, tuple[int, int, int]] = {}
    for path in [*above, package, *package.rglob("*")]:
        status = path.lstat()
        found[path] = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    return found


def test_no_permission_outside_the_temporary_directory_changes() -> None:
    before = permissions()
    users = Path("/etc/passwd").read_bytes()
    server = PostgresServer.start()
    owner = Path(f"/proc/{server.pid}").stat().st_uid
    server.close()
    assert permissions() == before
    assert Path("/etc/passwd").read_bytes() == users
    assert owner != 0


def test_a_missing_package_is_an_error_that_names_the_mend() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install -e '\.\[dev\]'"):
        postgres.package_folder("no_such_package")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """The directory is a file, so the keeper fails before there is a server."""
    place = tmp_path / "file"
    place.touch()
    with pytest.raises(RuntimeError, match="PostgreSQL did not start:(.|\n)*NotADirectoryError"):
        PostgresServer(place)
