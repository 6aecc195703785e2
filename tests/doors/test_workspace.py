"""Files of the workspace: looked at, compared with what was believed, watched (CASES 45, 47)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.store.errors import ConfigError, OutsideRoot
from sawlog.store.events.world import FileChanged
from sawlog.workspace import gitversion
from sawlog.workspace.comparing import changes, concerned, git_version, look, watch
from tests.fresh import PEAK


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with something beside it that is none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    return root


@contextlib.contextmanager
def without_rights(folder: Path) -> Generator[None]:
    """Nothing below the folder may be read, whoever runs the tests."""
    folder.chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if me == 0:
            os.seteuid(0)
        folder.chmod(0o755)


# --- look ----------------------------------------------------------------------------------------


@given(data=st.binary(max_size=3000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_version_is_the_digest_of_the_content(root: Path, data: bytes) -> None:
    (root / "f").write_bytes(data)
    sight = look("f", root)
    assert (sight.state, sight.version) == ("present", digest(data))
    assert look(root / "f") == sight


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b" ", b"\xe2\x80\xae.py", b"-rf", b"~"])
def test_odd_names_are_names(root: Path, name: bytes) -> None:
    path = os.fsencode(root) + b"/" + name
    Path(os.fsdecode(path)).write_bytes(b"x")
    assert look(os.fsdecode(name), root).version == digest(b"x")


@pytest.mark.parametrize("name", ["no", "no/such", "f/below", "a\0b", "\ud800", "dangling"])
def test_what_has_no_file_is_absent(root: Path, name: str) -> None:
    (root / "f").write_text("")
    (root / "dangling").symlink_to("no")
    assert look(name, root).state == "absent"
    assert look(root / name).state == "absent"


@pytest.mark.timeout(120)
def test_what_is_no_file_is_unreadable_and_never_blocks(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    (root / "loop").symlink_to("loop")
    (root / "to-fifo").symlink_to("fifo")
    for name in ("fifo", "folder", "loop", "to-fifo", ".", "x" * 300):
        sight = look(name, root)
        assert (sight.state, sight.version) == ("unreadable", "")
        assert sight.reason
    assert look("/dev/zero").state == "unreadable"
    assert look("/dev/tty").state in ("unreadable", "absent")


def test_a_file_that_may_not_be_read_is_unreadable_and_not_absent(root: Path) -> None:
    (root / "f").write_text("x")
    with without_rights(root):
        assert look(root / "f").reason == "EACCES"
        assert look(root / "f").state == "unreadable"
        assert look(root / "no").state == "unreadable"
    assert look(root / "f").state == "present"


@pytest.mark.parametrize(
    "name", ["../outside/secret", "link/secret", "file", "..", "a/../../outside/secret", "link/no"]
)
def test_a_path_or_a_link_that_leads_out_is_refused_by_name(root: Path, name: str) -> None:
    (root / "link").symlink_to("../outside")
    (root / "file").symlink_to("../outside/secret")
    (root / "a").mkdir()
    with pytest.raises(OutsideRoot, match="leads out of") as caught:
        look(name, root)
    assert caught.value.path == name
    with pytest.raises(OutsideRoot):
        look(root.parent / "root2", root)


def test_links_inside_are_followed(root: Path) -> None:
    (root / "pkg").mkdir()
    (root / "pkg" / "f").write_text("x")
    (root / "link").symlink_to("pkg")
    (root / "abs").symlink_to(root / "pkg" / "f")
    (root.parent / "alias").symlink_to("root")
    for name in ("link/f", "abs", "link/../pkg/f"):
        assert look(name, root).version == digest(b"x")
        assert look(name, root.parent / "alias").version == digest(b"x")


def test_a_link_moved_between_the_asking_and_the_opening_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is asked for again when the file is open, and must be the same file."""
    (root / "d").mkdir()
    (root / "d" / "secret").write_text("mine")
    really = os.open

    def swapped(path: str, flags: int) -> int:
        (root / "d").rename(root / "old")
        (root / "d").symlink_to("../outside")
        return really(path, flags)

    monkeypatch.setattr("sawlog.workspace.files.os.open", swapped)
    with pytest.raises(OutsideRoot):
        look("d/secret", root)


def test_a_file_that_never_keeps_still_is_unreadable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "log"
    path.write_bytes(b"x" * 100)
    really, reads = os.read, 0

    def growing(file: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        with path.open("ab") as more:
            more.write(b"y")
        return really(file, size)

    monkeypatch.setattr("sawlog.workspace.files.os.read", growing)
    assert look("log", root).state == "unreadable"
    assert reads <= 6
    monkeypatch.undo()
    assert look("log", root).state == "present"


def test_a_file_that_keeps_still_after_all_is_read_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "log"
    path.write_bytes(b"x" * 100)
    really, reads = os.read, 0

    def once(file: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 1:
            path.write_bytes(b"z" * 70)
        return really(file, size)

    monkeypatch.setattr("sawlog.workspace.files.os.read", once)
    assert look("log", root).version == digest(b"z" * 70)


def test_a_huge_file_is_read_in_little_memory(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(400 << 20)
    code = f"""{PEAK}
import sys
from sawlog.workspace.comparing import look
before = peak()
assert look(sys.argv[1]).state == "present"
print(peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(huge)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 8 << 10


# --- changes -------------------------------------------------------------------------------------


def test_only_what_is_no_longer_as_believed_is_told(root: Path) -> None:
    for name in ("same", "changed", "came", "blocked"):
        (root / name).write_text("1")
    one, two = digest(b"1"), digest(b"2")
    (root / "changed").write_text("2")
    (root / "blocked").unlink()
    os.mkfifo(root / "blocked")
    (root / "locked").mkdir()
    believed = {
        "same": (one, "present"),
        "changed": (one, "present"),
        "gone": (one, "present"),
        "came": ("", "absent"),
        "never": ("", "absent"),
        "blocked": (one, "present"),
        "locked": ("", "unreadable"),
        str(root / "same"): (two, "present"),
    }
    assert changes(believed, root) == [
        FileChanged(path=str(root / "same"), version=one, state="present"),
        FileChanged(path="blocked", state="unreadable"),
        FileChanged(path="came", version=one, state="present"),
        FileChanged(path="changed", version=two, state="present"),
        FileChanged(path="gone", state="absent"),
    ]


def test_change_and_change_back_is_no_change(root: Path) -> None:
    (root / "f").write_text("1")
    believed = {"f": (digest(b"1"), "present")}
    (root / "f").write_text("2")
    assert len(changes(believed, root)) == 1
    (root / "f").write_text("1")
    os.utime(root / "f", (1, 1))
    assert changes(believed, root) == []


def test_a_version_that_is_no_digest_is_not_compared_but_the_state_is(root: Path) -> None:
    (root / "f").write_text("1")
    assert changes({"f": ("", "present"), "g": ("a1b2c3", "present")}, root) == [
        FileChanged(path="g", state="absent")
    ]


def test_what_leads_out_is_refused_and_does_not_hide_the_others(root: Path) -> None:
    (root / "link").symlink_to("../outside/secret")
    believed = {"a": ("", "present"), "link": ("", "absent"), "../x": ("", "present")}
    with pytest.raises(OutsideRoot):
        changes(believed, root)
    refused: list[OutsideRoot] = []
    assert changes(believed, root, refused=refused) == [FileChanged(path="a", state="absent")]
    assert [error.path for error in refused] == ["../x", "link"]


def test_a_root_that_is_not_there_makes_no_file_absent(root: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        changes({"f": ("", "present")}, root / "unmounted")


@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.tuples(st.sampled_from((b"", b"1", b"2", None)), st.sampled_from((b"1", b"2", None))),
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_changes_tells_makes_the_belief_true(
    root: Path, world: dict[str, tuple[bytes | None, bytes | None]]
) -> None:
    believed: dict[str, tuple[str, str]] = {}
    for name in "abcde":
        (root / name).unlink(missing_ok=True)
    for name, (real, thought) in world.items():
        if real is not None:
            (root / name).write_bytes(real)
        believed[name] = ("", "absent") if thought is None else (digest(thought), "present")
    found = changes(believed, root)
    assert {str(one.path) for one in found} == {n for n, (a, b) in world.items() if a != b}
    believed.update((str(one.path), (one.version, one.state)) for one in found)
    assert changes(believed, root) == []


# --- git -----------------------------------------------------------------------------------------


class Repository:
    """A git repository with one commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")
        (root / "a.txt").write_text("1\n")
        self.commit()

    def git(self, *arguments: str) -> str:
        """Run git as its author would."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        return subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments],
            cwd=self.root,
            env={**environment, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self) -> None:
        """Commit all that there is."""
        self.git("add", "-A")
        self.git("commit", "-q", "--no-verify", "-m", "m")

    @property
    def head(self) -> str:
        """The commit."""
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(root: Path) -> Repository:
    """A repository in the workspace."""
    return Repository(root)


def told(root: Path) -> tuple[str, bool]:
    """What git says: commit and dirty."""
    found = git_version(root)
    assert found is not None and found.state == "present", found
    return found.commit, found.dirty


def test_a_clean_commit_a_change_and_a_new_file(repository: Repository) -> None:
    root = repository.root
    assert told(root) == (repository.head, False)
    (root / "a.txt").write_text("2\n")
    assert told(root) == (repository.head, True)
    (root / "a.txt").write_text("1\n")
    os.utime(root / "a.txt", (1, 1))  # touched, not changed
    assert told(root) == (repository.head, False)
    (root / "new").write_text("")
    assert told(root) == (repository.head, True)
    (root / ".gitignore").write_text("new\n.gitignore\n")
    assert told(root) == (repository.head, False)
    repository.git("rm", "-q", "--cached", "a.txt")
    assert told(root) == (repository.head, True)


def test_only_what_is_in_the_folder_makes_it_dirty(repository: Repository) -> None:
    root = repository.root
    (root / "sub").mkdir()
    (root / "sub" / "b").write_text("")
    repository.commit()
    (root / "a.txt").write_text("other")
    assert told(root / "sub") == (repository.head, False)
    assert told(root) == (repository.head, True)


def test_before_the_first_commit(root: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    assert told(root) == ("", False)
    (root / "a").write_text("")
    assert told(root) == ("", True)


def test_no_repository_and_no_git_are_none(
    root: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.fspath(root))
    assert git_version(root) is None
    # Nor is a program run that stands in the repository, called by a relative name.
    (root / "git").write_text("#!/bin/sh\ntouch ran\n")
    (root / "git").chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", ".")
    assert git_version(root) is None
    assert not (root / "ran").exists()
    with pytest.raises(ConfigError):
        git_version(root / "no")


def test_outside_of_a_repository_there_is_no_version(tmp_path: Path) -> None:
    if any((above / ".git").exists() for above in tmp_path.parents):
        pytest.skip("the folder for temporary files is in a repository itself")
    assert git_version(tmp_path) is None


def test_nothing_of_the_repository_is_run_and_nothing_of_it_changes(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Monitors, hooks, filters and a user's settings are all set to leave a trace."""
    root, trace = repository.root, tmp_path / "trace"
    run = f"sh -c 'echo ran >> {trace}; cat'"
    (root / ".gitattributes").write_text("*.txt filter=bad\n*.dat filter=worse\n")
    (root / "b.dat").write_text("1\n")
    repository.commit()
    for name, value in (
        ("core.fsmonitor", f"sh -c 'echo ran >> {trace}'"),
        ("filter.bad.clean", run),
        ("filter.bad.required", "true"),
        ("filter.worse.process", run),
        ("filter.worse.required", "true"),
        ("filter.odd=name.clean", run),
        ("core.sshCommand", run),
        ("status.submoduleSummary", "true"),
    ):
        repository.git("config", name, value)
    for hook in ("post-index-change", "pre-commit", "post-checkout"):
        (root / ".git" / "hooks").mkdir(exist_ok=True)
        (root / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\necho ran >> {trace}\n")
        (root / ".git" / "hooks" / hook).chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[core]\n\tfsmonitor = echo ran >> {trace}\n[broken")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_TRACE", str(trace))
    # Their times fit no more, so git must read both.
    os.utime(root / "a.txt", (1, 1))
    os.utime(root / "b.dat", (1, 1))
    before = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
    found = git_version(root)
    assert found is not None and found.state == "present" and not found.dirty
    assert not trace.exists()
    assert before == {
        path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()
    }
    # The trap is real: git with the repository's own settings runs into it.
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_TRACE")
    with contextlib.suppress(subprocess.CalledProcessError):
        repository.git("status")
    assert trace.exists()


def test_a_submodule_is_not_asked_by_its_own_settings(
    repository: Repository, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    inner = tmp_path / "inner"
    inner.mkdir()
    other = Repository(inner)
    allowed = ("-c", "protocol.file.allow=always")
    repository.git(*allowed, "submodule", "add", "-q", str(inner), "sub")
    repository.commit()
    sub = Repository.__new__(Repository)
    sub.root = repository.root / "sub"
    sub.git("config", "core.fsmonitor", f"sh -c 'echo ran >> {trace}'")
    assert told(repository.root) == (repository.head, False)
    assert not trace.exists()
    assert other.head


def test_a_broken_repository_is_unreadable_and_says_why(repository: Repository) -> None:
    (repository.root / ".git" / "HEAD").write_text("nonsense")
    found = git_version(repository.root)
    assert found is not None
    assert (found.state, found.commit) == ("unreadable", "")
    assert "not a git repository" in found.reason


@pytest.mark.timeout(300)
def test_a_git_that_never_answers_is_ended(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nsleep 200 & wait\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    monkeypatch.setattr(gitversion, "SECONDS", 0.3)
    start = time.monotonic()
    found = git_version(repository.root)
    assert found is not None and found.state == "unreadable"
    assert time.monotonic() - start < 100


def test_an_answer_without_end_is_not_read_to_its_end(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud = tmp_path / "bin"
    loud.mkdir()
    (loud / "git").write_text(
        "#!/bin/sh\ncase \"$*\" in *config*) printf 'sawlog.heard\\0'; exit;; esac\n"
        "printf '# branch.oid 0123\\0'\nyes noise >&2 &\nyes '? x' | tr '\\n' '\\0'\n"
    )
    (loud / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{loud}:{os.environ['PATH']}")
    assert told(repository.root) == ("0123", True)


# --- watch ---------------------------------------------------------------------------------------


class Watch:
    """A watch in a thread, and what it told."""

    def __init__(self, root: Path) -> None:
        self.told: queue.Queue[tuple[str, ...]] = queue.Queue()
        self.stop = threading.Event()
        self._thread = threading.Thread(target=watch, args=(root, self.told.put, self.stop))

    def __enter__(self) -> Watch:
        self._thread.start()
        assert self.told.get(timeout=20) == ("",)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def after(self, doing: Callable[[], object], wanted: str) -> set[str]:
        """All that is told from an action on until the wanted path is among it."""
        doing()
        found: set[str] = set()
        while wanted not in found:
            found.update(self.told.get(timeout=20))
        return found


def test_a_watch_tells_what_changed_and_changes_finds_it(root: Path) -> None:
    (root / "pkg").mkdir()
    (root / "pkg" / "a.py").write_text("1")
    (root / "pkg" / "b.py").write_text("1")
    believed = {f"pkg/{name}": (digest(b"1"), "present") for name in ("a.py", "b.py")}
    with Watch(root) as seen:
        paths = seen.after(lambda: (root / "pkg" / "a.py").write_text("2"), "pkg/a.py")
        assert concerned(believed, paths, root) == {"pkg/a.py": believed["pkg/a.py"]}
        [change] = changes(concerned(believed, paths, root), root)
        assert (change.path, change.version) == ("pkg/a.py", digest(b"2"))
        # A folder that goes away whole is told alone; what it held is concerned.
        paths = seen.after(lambda: (root / "pkg").rename(root.parent / "gone"), "pkg")
        assert [one.state for one in changes(concerned(believed, paths, root), root)] == [
            "absent",
            "absent",
        ]
        paths = seen.after(lambda: (root.parent / "gone").rename(root / "pkg"), "pkg")
        seen.after(lambda: (root / "pkg" / "b.py").unlink(), "pkg/b.py")


def test_a_watch_tells_nothing_of_what_stands_outside(root: Path) -> None:
    (root / "out").symlink_to("../outside")
    (root / "self").symlink_to(".")
    (root / "f").symlink_to("pkg/x")
    (root / "pkg").mkdir()
    (root / "link").symlink_to("pkg")
    with Watch(root) as seen:
        (root.parent / "outside" / "secret").write_text("2")
        paths = seen.after(lambda: (root / "pkg" / "x").write_text("1"), "pkg/x")
        assert all(not path.startswith(("out", "..", "/")) for path in paths)
        # Whoever believes in it by way of a link is concerned as well.
        believed = {"link/x": ("", "present"), "f": ("", "present"), "y": ("", "present")}
        assert set(concerned(believed, {"pkg/x"}, root)) == {"link/x", "f"}

        def turned() -> None:
            (root / "f").unlink()
            (root / "f").symlink_to("../outside/secret")

        paths = seen.after(turned, "f")
        assert all(not path.startswith(("out", "..", "/")) for path in paths)
        assert set(concerned(believed, {"f"}, root)) == {"f"}


def test_a_name_that_is_no_utf_8_does_not_end_the_watch(root: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(root) + b"/\xff"))
    with Watch(root) as seen:
        # What was missed meanwhile may be anything.
        assert "" in seen.after(lambda: odd.write_text("1"), "")
        seen.after(lambda: (root / "plain").write_text("1"), "plain")


def test_concerned_takes_a_path_for_all_below_it(root: Path) -> None:
    believed = {path: ("", "present") for path in ("a", "a/b", "a/b/c", "ab", "./a/d", "../x")}
    assert set(concerned(believed, {"a"}, root)) == {"a", "a/b", "a/b/c", "./a/d"}
    assert set(concerned(believed, {"a/b"}, root)) == {"a/b", "a/b/c"}
    assert concerned(believed, {""}, root) == believed
    assert concerned(believed, (), root) == {}


def test_a_root_that_is_not_there_cannot_be_watched(root: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        watch(root / "no", lambda paths: None, threading.Event())


def test_an_error_of_the_listener_ends_the_watch(root: Path) -> None:
    def broken(paths: tuple[str, ...]) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        watch(root, broken, threading.Event())


def test_without_the_extra_the_error_names_it_and_looking_works() -> None:
    code = """
import sys, threading
sys.modules["watchfiles"] = None
from sawlog.store.errors import ConfigError
from sawlog.workspace.comparing import look, watch
assert look("/no/such").state == "absent"
try:
    watch(".", print, threading.Event())
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'sawlog[watch]'" in done.stdout
