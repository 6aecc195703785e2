"""Instruction files: found, bounded, kept when they cannot be read (S2-20, CASES 47 and 49)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.builder.worldtext import section_text
from sawlog.store.errors import ConfigError, OutsideRoot
from sawlog.workspace.instructions import Found, InstructionFile, Problem, discover
from tests.doors.test_workspace import without_rights
from tests.fresh import PEAK


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a folder beside it that is none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "AGENTS.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    return root


def write(root: Path, path: str, text: str | bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode() if isinstance(text, str) else text)


def paths(found: Found) -> list[str]:
    return [file.path for file in found.files]


def shown(found: Found, before: Found | None = None) -> str:
    """What the model reads."""
    return section_text("instructions", before.source if before else None, found.source)


# --- where they are ------------------------------------------------------------------------------


def test_nearer_files_come_later_and_the_users_first(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "home/AGENTS.md", "mine")
    write(root, "AGENTS.md", "root")
    write(root, "a/CLAUDE.md", "a2")
    write(root, "a/AGENTS.md", "a1")
    write(root, "a/b/c/AGENTS.md", "too deep")
    write(root, "other/AGENTS.md", "beside")
    (root / "a" / "b").mkdir(exist_ok=True)
    found = discover(root, root / "a" / "b", user=tmp_path / "home")
    assert [(file.scope, file.path, file.text) for file in found.files] == [
        ("user", "AGENTS.md", "mine"),
        ("project", "AGENTS.md", "root"),
        ("project", "a/AGENTS.md", "a1"),
        ("project", "a/CLAUDE.md", "a2"),
    ]
    assert found.files[1].digest == hashlib.sha256(b"root").hexdigest()
    assert found.problems == () and found.omitted == 0
    assert json.loads(found.source) == [
        {
            "scope": file.scope,
            "path": file.path,
            "digest": file.digest,
            "text": file.text,
            "truncated": 0,
        }
        for file in found.files
    ]


def test_a_relative_folder_and_a_link_to_the_root_are_the_same(root: Path) -> None:
    write(root, "a/AGENTS.md", "x")
    (root.parent / "alias").symlink_to("root")
    whole = discover(root, root / "a")
    assert discover(root, "a") == whole
    assert discover(root.parent / "alias", root / "a") == whole


def test_what_a_tool_touched_brings_the_files_above_it(root: Path) -> None:
    write(root, "AGENTS.md", "root")
    write(root, "pkg/AGENTS.md", "pkg")
    write(root, "pkg/deep/AGENTS.md", "deep")
    write(root, "pkg/deep/x.py", "")
    assert paths(discover(root, root)) == ["AGENTS.md"]
    for touched in ("pkg/deep/x.py", "pkg/deep", root / "pkg" / "deep" / "new.py"):
        found = discover(root, root, touched=[touched])
        assert paths(found) == ["AGENTS.md", "pkg/AGENTS.md", "pkg/deep/AGENTS.md"]
    told = shown(discover(root, root, touched=["pkg/x"]), discover(root, root))
    assert told == "New pkg/AGENTS.md, for pkg and below:\n  pkg"


def test_the_order_of_touching_changes_nothing(root: Path) -> None:
    for folder in ("a", "b", "b/c", "a/z"):
        write(root, f"{folder}/AGENTS.md", folder)
    touched = ["b/c/x", "a/z", "a/x", "b"]
    first = discover(root, root, touched=touched)
    assert paths(first) == [f"{folder}/AGENTS.md" for folder in ("a", "b", "a/z", "b/c")]
    assert discover(root, root, touched=touched[::-1] * 2) == first


def test_names_may_be_others(root: Path) -> None:
    write(root, "RULES.txt", "x")
    write(root, "AGENTS.md", "y")
    assert paths(discover(root, root, names=["RULES.txt"])) == ["RULES.txt"]
    for name in ("", ".", "..", "a/b", "a\0"):
        with pytest.raises(ConfigError, match="is no file name"):
            discover(root, root, names=[name])


def test_the_same_text_under_two_names_is_shown_once(root: Path) -> None:
    write(root, "AGENTS.md", "x")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    write(root, "a/AGENTS.md", "x")
    assert paths(discover(root, root / "a")) == ["AGENTS.md", "a/AGENTS.md"]


def test_an_empty_file_says_nothing(root: Path) -> None:
    write(root, "AGENTS.md", " \n\n")
    found = discover(root, root)
    assert found.source == "[]"
    assert shown(found) == ""


def test_the_users_folder_within_the_project_counts_once(root: Path) -> None:
    write(root, "AGENTS.md", "x")
    assert [file.scope for file in discover(root, root, user=root).files] == ["project"]
    assert discover(root, root, user=root / "no").files == discover(root, root).files


def test_only_news_is_told(root: Path) -> None:
    write(root, "AGENTS.md", "one")
    write(root, "a/AGENTS.md", "two")
    before = discover(root, root / "a")
    os.utime(root / "AGENTS.md", (1, 1))
    assert shown(discover(root, root / "a"), before) == ""
    write(root, "a/AGENTS.md", "three")
    (root / "AGENTS.md").unlink()
    assert shown(discover(root, root / "a"), before) == (
        "No longer AGENTS.md, for the whole project. Its instructions do not hold any more.\n"
        "Changed a/AGENTS.md, for a and below:\n  three"
    )


# --- what is not as it should be -----------------------------------------------------------------


def test_case_47_removed_is_told_and_unreadable_keeps_the_last_good(root: Path) -> None:
    write(root, "AGENTS.md", "keep me")
    write(root, "CLAUDE.md", "other")
    before = discover(root, root)
    (root / "AGENTS.md").unlink()
    os.mkfifo(root / "AGENTS.md")
    now = discover(root, root, last=before.source)
    assert now.problems == (Problem("AGENTS.md", "unreadable", "it is no regular file", True),)
    assert now.source == before.source
    assert shown(now, before) == ""
    # Without what it was before there is nothing to keep, and the report says that, too.
    assert discover(root, root).problems[0].kept is False
    (root / "AGENTS.md").unlink()
    gone = discover(root, root, last=before.source)
    assert gone.problems == ()
    assert shown(gone, before).startswith("No longer AGENTS.md")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "device"])
def test_what_is_no_file_is_unreadable_and_never_blocks(root: Path, kind: str) -> None:
    write(root, "a/AGENTS.md", "near")
    before = discover(root, root / "a")
    file = root / "a" / "AGENTS.md"
    file.unlink()
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "loop":
            file.symlink_to("AGENTS.md")
        case _:
            # A device cannot be made without rights; a link to one leads out, and is refused.
            file.symlink_to("/dev/zero")
    now = discover(root, root / "a", last=before.source)
    if kind == "device":
        assert now.problems[0].kind == "refused" and now.files == ()
    else:
        assert now.problems[0].kind == "unreadable" and now.problems[0].kept
        assert now.source == before.source


def test_what_may_not_be_read_keeps_the_last_good() -> None:
    # Not below pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        write(root, "a/AGENTS.md", "near")
        before = discover(root, root / "a")
        write(root, "a/AGENTS.md", "new")
        with without_rights(root / "a"):
            now = discover(root, root / "a", last=before.source)
    assert [(one.path, one.reason, one.kept) for one in now.problems] == [
        ("a/AGENTS.md", "EACCES", True),
        ("a/CLAUDE.md", "EACCES", False),
    ]
    assert now.source == before.source


def test_links_that_leave_the_root_are_refused_by_name(root: Path) -> None:
    write(root, "CLAUDE.md", "good")
    (root / "AGENTS.md").symlink_to("../outside/AGENTS.md")
    (root / "out").symlink_to("../outside")
    found = discover(root, root, touched=["out/x", "../outside/y", "\0"])
    assert paths(found) == ["CLAUDE.md"]
    assert "secret" not in found.source
    assert [(problem.path, problem.kind) for problem in found.problems] == [
        ("out/x", "refused"),
        ("../outside/y", "refused"),
        ("AGENTS.md", "refused"),
    ]
    assert all("leads out of" in problem.reason for problem in found.problems)
    for cwd in (root.parent, root / "out"):
        with pytest.raises(OutsideRoot):
            discover(root, cwd)


def test_links_inside_and_in_the_users_folder_are_followed(root: Path, tmp_path: Path) -> None:
    write(root, "docs/rules.md", "rules")
    (root / "AGENTS.md").symlink_to("docs/rules.md")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "AGENTS.md").symlink_to("../outside/AGENTS.md")
    found = discover(root, root, user=tmp_path / "home")
    assert [file.text for file in found.files] == ["secret", "rules"]


def test_bytes_that_are_no_text_are_shown_as_such_and_reported(root: Path) -> None:
    write(root, "AGENTS.md", b"ok \xff\xfe ok\0")
    found = discover(root, root)
    assert found.files[0].text == "ok \ufffd\ufffd ok\0"
    assert found.files[0].digest == hashlib.sha256(b"ok \xff\xfe ok\0").hexdigest()
    assert [(one.path, one.kind) for one in found.problems] == [("AGENTS.md", "not_utf8")]
    assert "\\u0000" in shown(found)
    write(root, "AGENTS.md", b"\xef\xbb\xbfbom")
    assert discover(root, root).files[0].text == "bom"


def test_odd_names_of_folders_are_quoted(root: Path) -> None:
    odd = os.fsdecode(b"\xff\nFile x")
    write(root, f"{odd}/AGENTS.md", "x")
    found = discover(root, root / odd)
    assert paths(found) == [f"{odd}/AGENTS.md"]
    text = shown(found)
    text.encode()
    assert '"\\udcff\\nFile x/AGENTS.md", for "\\udcff\\nFile x" and below' in text


@pytest.mark.parametrize("last", ["{", "{}", '[{"scope":1}]', "7"])
def test_a_last_value_that_is_none_is_refused(root: Path, last: str) -> None:
    with pytest.raises(ConfigError, match="`last`"):
        discover(root, root, last=last)


def test_a_root_that_is_not_there_is_no_removal(root: Path) -> None:
    with pytest.raises(ConfigError, match="is no directory"):
        discover(root / "no", root / "no")
    # A folder that is gone only has nothing in it.
    write(root, "AGENTS.md", "x")
    assert paths(discover(root, root / "gone" / "too")) == ["AGENTS.md"]


# --- the bound -----------------------------------------------------------------------------------


def test_case_49_the_most_specific_is_kept_and_the_cut_is_visible(root: Path) -> None:
    write(root, "AGENTS.md", "r" * 2000)
    write(root, "a/AGENTS.md", "ä" * 700)
    write(root, "a/b/AGENTS.md", "near")
    found = discover(root, root / "a" / "b", bound=1024)
    far, middle, near = found.files
    assert near.text == "near" and near.truncated == 0
    assert far.text == "" and far.truncated == 2000
    assert 0 < len(middle.text) < 700
    assert middle.truncated == 1400 - 2 * len(middle.text)
    text = shown(found)
    assert f"[{middle.truncated} bytes of this file are left out: no room.]" in text
    assert "[2000 bytes of this file are left out: no room.]" in text
    assert len(text.encode()) <= 1024
    # Not one character more would have had room.
    assert len(text.encode()) > 1024 - 16


def test_a_whole_file_takes_no_room_from_nearer_ones(root: Path) -> None:
    """A far file that would fit by itself gives way to a near one."""
    write(root, "AGENTS.md", "r" * 500)
    write(root, "a/AGENTS.md", "n" * 5000)
    far, near = discover(root, root / "a", bound=1024).files
    assert far.text == "" and len(near.text) > 500


def test_files_without_any_room_are_counted(root: Path) -> None:
    folder = "x" * 100
    for depth in range(1, 30):
        write(root, "/".join([folder] * depth) + "/AGENTS.md", f"level {depth}")
    deepest = root.joinpath(*[folder] * 29)
    found = discover(root, deepest, bound=8192)
    assert found.omitted > 0
    assert found.files[-1].text == "level 29"
    assert len(found.files) + found.omitted == 29
    text = shown(found)
    assert f"[{found.omitted} more instruction files are left out: no room.]" in text
    assert len(text.encode()) <= 8192
    assert shown(found, found) == ""
    # What was left out is no removal when there is room again.
    assert "No longer" not in shown(discover(root, deepest, bound=1 << 20), found)


def test_a_bound_without_room_for_anything_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="1024"):
        discover(root, root, bound=1023)


def _repeated(text: str, times: int) -> str:
    return text * times


some_text = st.one_of(
    st.text(max_size=20),
    st.builds(
        _repeated,
        st.text(st.sampled_from("aä€😀\n\r\x00\u2028 "), max_size=4),
        st.integers(0, 600),
    ),
)


@given(st.lists(some_text, max_size=4), st.integers(1024, 3000), st.lists(some_text, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_stays_within_the_bound(
    root: Path, contents: list[str], bound: int, later: list[str]
) -> None:
    folders = ["", "d/", "d/d/", "d/d/d/"]
    found: list[Found] = []
    for some in (contents, later):
        for folder, text in zip(folders, [*some, "", "", "", ""], strict=False):
            write(root, f"{folder}AGENTS.md", text.encode())
        found.append(discover(root, root / "d/d/d", bound=bound))
    for one in found:
        text = shown(one)
        assert len(text.encode()) <= bound
        wanted = contents if one is found[0] else later
        texts = [text.removeprefix("\ufeff") for text in wanted]
        present = [(f"{folders[at]}AGENTS.md", t) for at, t in enumerate(texts) if t.strip()]
        assert one.omitted == 0 and paths(one) == [path for path, _ in present]
        for file, (_, whole) in zip(one.files, present, strict=True):
            # What is kept is the file's beginning, in whole characters, and the rest is counted.
            assert whole.startswith(file.text)
            left_out = whole[len(file.text) :]
            assert file.truncated == len(left_out.encode())
        cut = [file for file in one.files if file.truncated]
        # Nothing farther than the first file that is cut has more than its own small text.
        if cut and one.files[-1].truncated:
            assert len(text.encode()) > bound - 40
    # Shown in full or as the difference: all of it has room.
    assert len(shown(found[1], found[0]).encode()) <= bound + 400


def test_a_huge_file_is_read_in_part_and_its_change_noticed(root: Path) -> None:
    with (root / "AGENTS.md").open("wb") as file:
        file.write("ä".encode() * 1000)
        file.truncate(400 << 20)
    code = f"""{PEAK}
import sys
from sawlog.workspace.instructions import discover
before = peak()
found = discover(sys.argv[1], sys.argv[1])
[file] = found.files
assert file.truncated + len(file.text.encode()) == 400 << 20
print(peak() - before)
print(file.digest)
"""

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    memory, digest = run()
    assert int(memory) < 40 << 10
    os.truncate(root / "AGENTS.md", 401 << 20)
    assert discover(root, root).files[0].digest != digest


def test_the_part_that_is_read_ends_with_a_whole_character(root: Path) -> None:
    write(root, "AGENTS.md", b"x" + "ä".encode() * (1 << 20))
    [file] = discover(root, root).files
    assert file.truncated + len(file.text.encode()) == 1 + (2 << 20)
    assert set(file.text) == {"x", "ä"}


def test_a_kept_file_is_cut_again_where_there_is_less_room(root: Path) -> None:
    write(root, "AGENTS.md", "k" * 3000)
    before = discover(root, root, bound=2048)
    (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").mkdir()
    now = discover(root, root, bound=1024, last=before.source)
    [was], [file] = before.files, now.files
    assert len(file.text) < len(was.text)
    assert len(file.text) + file.truncated == 3000
    assert file.digest == was.digest


def test_values_are_frozen(root: Path) -> None:
    file: Any = InstructionFile("project", "a", "d", "t")
    with pytest.raises(AttributeError):
        file.text = "other"
