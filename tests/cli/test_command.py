"""The command as a whole: help, names of stores and steps, exit codes, what it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sawlog.cli.errors import BROKEN_PIPE, code_of
from sawlog.cli.place import default_store, split_step
from sawlog.store import errors
from tests.cli import written
from tests.cli.command import one_sentence, sawlog, spawned
from tests.fresh import imported_modules

VERBS = (
    "demo", "import", "ls", "show", "packet", "why", "diff", "what-if", "cache", "stale",
    "recover", "approve", "deny", "resolve", "compact", "checkpoints", "fork", "rewind",
    "tree", "handoff", "verify", "export", "salvage", "case", "watch", "run", "proxy",
    "profiles", "migrate", "repack", "doctor", "eval",
)  # fmt: skip


def test_help_names_every_verb() -> None:
    done = sawlog("--help")
    assert done.code == 0
    listed = [line.split()[0] for line in done.text.split("Commands:")[1].splitlines() if line]
    assert tuple(listed) == VERBS


def test_without_a_verb_it_gives_help() -> None:
    assert sawlog().out == sawlog("--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_verb_teaches_by_example(verb: str) -> None:
    """Each takes --json, says what it does, and shows a call of itself."""
    done = sawlog(verb, "--help")
    assert done.code == 0
    assert "--json" in done.text
    examples = [line for line in done.text.splitlines() if line.startswith("    sawlog ")]
    assert any(f" {verb}" in line for line in examples), done.text


def test_the_version_is_the_package_s() -> None:
    from importlib.metadata import version

    assert sawlog("--version").text == f"sawlog {version('sawlog')}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("show",),
        ("ls", "--nonsense"),
        ("packet", "no-step"),
        ("packet", "name@x"),
        ("packet", "name@-1"),
        ("packet", "name@1", "--raw", "--json"),
        ("packet", "name@1", "--model", "m"),
        ("verify",),
        ("verify", "name", "--all"),
        ("handoff", "name"),
        ("handoff", "name", "--provider", "nobody"),
        ("handoff", "name", "--provider", "anthropic", "--model", "m"),
        ("handoff", "name", "--provider", "openai", "--model", "m", "--raw", "--json"),
        ("verify", "name", "--anchor", "zz"),
        ("why", "name@1", ""),
        ("import", "x", "--format", "nonsense"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: tuple[str, ...], file_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text("{}\n")
    done = sawlog("--store", file_store, *arguments)
    assert done.code == 2
    assert done.out == b"" or done.json["error"]
    one_sentence(done)


def test_a_store_option_behind_the_verb_is_shown_its_place() -> None:
    done = sawlog("ls", "--store", "x.db")
    assert done.code == 2
    assert "before the command" in one_sentence(done)


@pytest.mark.parametrize("name", ["-@2", "@2", f"{written.NAME}@2"])
def test_the_newest_session_s_step_is_named_by_a_dash(name: str, file_store: str) -> None:
    assert sawlog("--store", file_store, "packet", name, "--json").json["step"] == 2


def test_a_session_is_named_by_name_id_or_unique_prefix(file_store: str) -> None:
    id = sawlog("--store", file_store, "ls", "--json").json[0]["id"]
    for name in (written.NAME, id, id[:6], "-"):
        assert sawlog("--store", file_store, "show", name, "--json").json["session"]["id"] == id
    assert "2 sessions" not in one_sentence(sawlog("--store", file_store, "show", "nothing"))


def test_an_ambiguous_prefix_is_refused(file_store: str) -> None:
    from sawlog.agentlog import open as open_log

    with open_log(file_store) as log, log.session("another") as s:
        s.user("hello")
    ids = [row["id"] for row in sawlog("--store", file_store, "ls", "--json").json]
    shared = os.path.commonprefix(ids)
    done = sawlog("--store", file_store, "show", shared)
    assert done.code == 2
    assert "2 sessions" in one_sentence(done)


def test_a_step_s_name_is_split_at_its_last_at() -> None:
    assert split_step("me@home@12") == ("me@home", 12)
    assert split_step("@3") == ("-", 3)
    for text in ("x", "x@", "x@1.5", "x@\N{ARABIC-INDIC DIGIT ONE}", "x@" + "9" * 30):
        with pytest.raises(errors.ConfigError):
            split_step(text)


# --- the store ------------------------------------------------------------------------------------


def test_store_and_tenant_come_from_the_environment(
    file_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAWLOG_STORE", file_store)
    assert [row["name"] for row in sawlog("ls", "--json").json] == [written.NAME]
    monkeypatch.setenv("SAWLOG_TENANT", "somebody-else")
    assert sawlog("ls", "--json").json == []
    assert sawlog("--tenant", "default", "ls", "--json").json != []


def test_sessions_of_another_tenant_are_not_there(file_store: str) -> None:
    """Foreign and missing give the same answer."""
    id = sawlog("--store", file_store, "ls", "--json").json[0]["id"]
    foreign = sawlog("--store", file_store, "--tenant", "x", "show", id)
    missing = sawlog("--store", file_store, "show", "0" * 32)
    assert foreign.code == missing.code == 2
    assert foreign.err.replace(id, "") == missing.err.replace("0" * 32, "")


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have other folders")
def test_the_default_store_lies_in_the_user_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_store() == tmp_path / ".local/share/sawlog/sawlog.db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_store() == tmp_path / ".local/share/sawlog/sawlog.db"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_store() == tmp_path / "data/sawlog/sawlog.db"


def test_an_import_makes_the_default_store_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}]')
    assert sawlog("ls").code == 2
    assert not (tmp_path / "data").exists()
    assert sawlog("import", chat).code == 0
    assert len(sawlog("ls", "--json").json) == 1
    assert (tmp_path / "data/sawlog/sawlog.db").is_file()


LOOKS = (
    ("ls",),
    ("show", "-"),
    ("packet", "-@1"),
    ("why", "-@1", "text"),
    ("diff", "-@1", "-@2"),
    ("verify", "--all"),
    ("export", "-"),
    ("salvage", "-", "-o", "saved.jsonl"),
    ("doctor",),
)


@pytest.mark.parametrize("arguments", LOOKS, ids=lambda arguments: arguments[0])
def test_looking_never_makes_a_store(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = sawlog("--store", "none.db", *arguments)
    assert done.code == 2
    assert "there is no store at" in one_sentence(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["random", "foreign", "folder", "text"])
@pytest.mark.parametrize(
    "arguments", [*LOOKS, ("import", "chat.json"), ("migrate",), ("demo",)], ids=lambda a: a[0]
)
def test_what_is_no_store_is_one_sentence_and_stays_as_it_is(
    kind: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random file, a foreign SQLite database, a folder, a text: refused, and not touched."""
    monkeypatch.chdir(tmp_path)
    Path("chat.json").write_text('[{"role": "user", "content": "hello"}]')
    bad = tmp_path / "bad.db"
    match kind:
        case "random":
            bad.write_bytes(os.urandom(5000))
        case "foreign":
            import sqlite3

            connection = sqlite3.connect(bad)
            connection.execute("CREATE TABLE theirs (x)")
            connection.commit()
            connection.close()
        case "folder":
            bad.mkdir()
        case _:
            bad.write_text("not a database")
    before = _files(tmp_path)
    done = sawlog("--store", bad, *arguments)
    assert done.code == 2
    one_sentence(done)
    assert _files(tmp_path) == before


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    "url", ["mysql://x", "sqlite://relative.db", "postgresql://nobody@127.0.0.1:1/none"]
)
def test_a_url_that_leads_nowhere_is_one_sentence(url: str) -> None:
    for arguments in (("ls",), ("migrate",), ("verify", "--all", "--json")):
        done = sawlog("--store", url, *arguments)
        assert done.code == 2
        one_sentence(done)


# --- errors ---------------------------------------------------------------------------------------


def test_every_error_of_the_tree_has_its_exit_code() -> None:
    """3 for conflict and lease, 4 for damage and files that do not read, 2 for all others."""

    def tree(kind: type[errors.SawlogError]) -> list[type[errors.SawlogError]]:
        return [kind, *(each for below in kind.__subclasses__() for each in tree(below))]

    codes = {kind.__name__: code_of(kind.__new__(kind)) for kind in tree(errors.SawlogError)}
    assert {name for name, code in codes.items() if code == 3} == {
        "Busy",
        "Conflict",
        "Fenced",
        "Leased",
        "OutcomeUnknown",
        "StalePlan",
    }
    assert {name for name, code in codes.items() if code == 4} == {
        "Away",
        "Damaged",
        "FormatError",
        "TooLarge",
        "UnknownFormat",
    }
    assert set(codes.values()) == {2, 3, 4}


def test_an_error_is_json_where_json_was_asked_for(file_store: str) -> None:
    done = sawlog("--store", file_store, "packet", "-@99", "--json")
    assert done.code == 2
    assert done.json["error"]["kind"] == "NoStep"
    assert done.json["error"]["message"] in one_sentence(done)


def test_what_nobody_expects_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of sawlog's own keeps its traceback."""

    def broken(context: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("sawlog.cli.place.reading", broken)
    with pytest.raises(ZeroDivisionError):
        sawlog("ls")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_may_not_be_read_is_one_sentence(tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text("[]")
    chat.chmod(0)
    done = sawlog("--store", tmp_path / "x.db", "import", chat)
    assert done.code == 2
    assert "permissions" in one_sentence(done)


def test_a_missing_extra_is_named(file_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(context: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

    monkeypatch.setattr("sawlog.cli.place.reading", absent)
    done = sawlog("--store", "postgresql://x/y", "ls")
    assert done.code == 2
    assert "pip install 'sawlog[postgresql]'" in one_sentence(done)


def test_a_reader_that_leaves_ends_it_quietly(file_store: str) -> None:
    """`sawlog export - | head`: no traceback, no complaint."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "sawlog", "--store", file_store, "export", "-"],
        stdout=writing,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: os.close(reading),
    )
    os.close(writing)
    os.close(reading)
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == BROKEN_PIPE


def test_a_busy_session_is_exit_code_3(file_store: str, tmp_path: Path) -> None:
    """The demo drives no session of its own name twice; an import of a leased one is refused."""
    from sawlog.agentlog import open as open_log

    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}]')
    assert sawlog("--store", file_store, "import", chat).code == 0
    name = sawlog("--store", file_store, "ls", "--json").json[-1]["name"]
    chat.write_text('[{"role": "user", "content": "hello"}, {"role": "user", "content": "on"}]')
    with open_log(file_store) as log, log.session(name, owner="the other one"):
        done = sawlog("--store", file_store, "import", chat)
    assert done.code == 3
    assert "the other one" in one_sentence(done)
    assert sawlog("--store", file_store, "import", chat).code == 0


# --- terminals ------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_progress_is_drawn_on_a_terminal_and_nowhere_else(file_store: str) -> None:
    """On stderr, so that what goes to a pipe is the same."""
    arguments = [sys.executable, "-m", "sawlog", "--store", file_store, "verify", "--all", "--json"]
    ours, theirs = os.openpty()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            drawn += os.read(ours, 65536)
        except OSError:
            break  # the other end is closed
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert written.NAME.encode() in drawn
    plain = subprocess.run(arguments, capture_output=True)
    assert (plain.stdout, plain.stderr) == (out, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_table_fits_the_terminal_and_is_whole_in_a_pipe(file_store: str) -> None:
    arguments = [sys.executable, "-m", "sawlog", "--store", file_store, "show", "-"]
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "60"}
    process = subprocess.Popen(arguments, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break  # the other end is closed
    process.wait(timeout=60)
    os.close(ours)
    lines = shown.decode().splitlines()
    assert max(map(len, lines[:-1])) <= 60  # the last line is a sentence
    assert any(line.endswith("…") for line in lines)
    piped = subprocess.run(arguments, capture_output=True, encoding="utf-8").stdout
    assert max(map(len, piped.splitlines())) > 200


# --- what it loads and changes --------------------------------------------------------------------

COMMANDS = (
    *(arguments for arguments in LOOKS if arguments[0] not in ("salvage",)),
    ("migrate",),
    ("import", "chat.json"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_no_command_on_a_current_store_loads_alembic(
    arguments: tuple[str, ...], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chat.json").write_text('[{"role": "user", "content": "hello"}]')
    loaded = imported_modules(
        "import sys\nfrom sawlog.cli import main\n"
        f"assert main({['--store', store, *arguments]!r}) == 0"
    )
    assert "sawlog.store.log" in loaded or arguments == ("migrate",)
    assert "alembic" not in loaded


@pytest.mark.parametrize("arguments", [("ls",), ("show", "-"), ("export", "-")])
def test_plain_looks_load_neither_builder_nor_sqlalchemy_nor_rich(
    arguments: tuple[str, ...], file_store: str
) -> None:
    loaded = imported_modules(
        f"from sawlog.cli import main\nassert main({['--store', file_store, *arguments]!r}) == 0"
    )
    assert not {"sawlog.builder.build", "sqlalchemy", "rich", "pydantic"} & loaded


def test_looking_changes_no_byte_of_the_store(file_store: str) -> None:
    """Database and WAL stay as they are; SQLite itself may make an index of an empty WAL."""
    before = Path(file_store).read_bytes()
    for arguments in LOOKS:
        if arguments[0] != "salvage":
            assert sawlog("--store", file_store, *arguments).code == 0
    assert Path(file_store).read_bytes() == before
    wal = Path(f"{file_store}-wal")
    assert not wal.exists() or wal.stat().st_size == 0


def test_it_runs_as_a_module_and_as_a_script(file_store: str) -> None:
    done = spawned("ls", "--json", SAWLOG_STORE=file_store)
    assert (done.code, done.err) == (0, "")
    assert done.json[0]["name"] == written.NAME
    script = Path(sys.executable).with_name("sawlog")
    if not script.exists():
        pytest.skip("sawlog is not installed beside this interpreter")
    out = subprocess.run([script, "--store", file_store, "ls", "--json"], capture_output=True)
    assert out.stdout == done.out
