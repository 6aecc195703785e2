"""What a session is told of its surroundings: instruction files, environment, workspace, reads."""

from __future__ import annotations

import hashlib
import os
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call
from sawlog.store.errors import ConfigError, OutsideRoot, ToolError
from sawlog.store.events.world import FileChanged, Saw, WorldChanged
from sawlog.work.seeing import read
from sawlog.work.session import Session
from sawlog.workspace import instructions
from sawlog.workspace.files import Beginning, beginning
from tests.session.agents import asked, next_step, one, results, sound, talker, told, types

API = "openai-chat"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace."""
    root = tmp_path / "root"
    root.mkdir()
    return root


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8", newline="")


def unreadable(path: Path) -> None:
    """Something in the place of a file that has no content to read."""
    path.unlink()
    path.mkdir()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def news(s: Session) -> list[tuple[str, str]]:
    """Kind and text of what the next packet adds, calls and results left out; the step is ended."""
    before = len(s.state.sent)
    s.user("go on")
    step = next_step(s, API)
    step.send(talker())
    fresh = list(step.packet.entries)[before:]
    return [(e.kind, e.text) for e in fresh if e.kind in ("world", "goal", "notice", "observation")]


def heads(log: AgentLog) -> int:
    return log.find("task").head


def test_a_path_that_a_model_wrote_is_followed_as_far_as_it_is_there(root: Path) -> None:
    """However deep it says that a file lies, it costs what is there, and 100 folders at most."""
    there = "d/" * 120
    (root / there).mkdir(parents=True)
    (root / "d/AGENTS.md").write_text("near", encoding="utf-8")
    (root / ("d/" * instructions.DEEPEST) / "AGENTS.md").write_text("far", encoding="utf-8")
    (root / ("d/" * instructions.DEEPEST) / "d/AGENTS.md").write_text("farther", encoding="utf-8")
    (root / "a file").write_text("", encoding="utf-8")
    absent = [f"{n}/" + "x/" * 2000 + "f" for n in range(10)]
    paths = [there, "d/" * 1500 + "f", "d/" * 10**6, "a file/x/y", "n" * 300 + "/x/y", *absent]
    looked: list[str] = []

    def counted(path: str, most: int, root: str | None) -> Beginning:
        looked.append(path)
        return beginning(path, most, root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sawlog.workspace.instructions.beginning", counted)
        found = instructions.discover(root, root, touched=paths)
    assert [file.text for file in found.files] == ["near", "far"]
    assert len(looked) == 2 * (instructions.DEEPEST + 1)


def test_a_folder_that_cannot_be_looked_at_is_no_removal(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    found = instructions.discover(root, root, touched=["loop/below/file"])
    assert [one.kind for one in found.problems] == ["unreadable"] * 4


# --- instruction files ---------------------------------------------------------------------------


def test_instruction_files_are_told_once_then_by_what_changed_and_went(
    log: AgentLog, root: Path
) -> None:
    write(root, "AGENTS.md", "Use tabs.")
    write(root, "pkg/AGENTS.md", "Use spaces here.")
    with log.session("task") as s:
        found = s.instructions(root, root / "pkg")
        assert [file.path for file in found.files] == ["AGENTS.md", "pkg/AGENTS.md"]
        [(kind, text)] = news(s)
        assert kind == "world"
        assert text.index("Use tabs.") < text.index("Use spaces here.")
        head = heads(log)
        s.instructions(root, "pkg")
        assert heads(log) == head, "equal digests append nothing"
        write(root, "AGENTS.md", "Use two spaces.")
        s.instructions(root, "pkg")
        assert news(s) == [
            ("world", "Changed AGENTS.md, for the whole project:\n  Use two spaces.")
        ]
        (root / "AGENTS.md").unlink()
        (root / "pkg" / "AGENTS.md").unlink()
        s.instructions(root, "pkg")
        [(_, text)] = news(s)
        assert "No longer AGENTS.md" in text and "No longer pkg/AGENTS.md" in text
        head = heads(log)
        s.instructions(root, "pkg")
        assert heads(log) == head
    sound(log, "task")


def test_rules_of_organisation_team_and_user_are_three_scopes(
    log: AgentLog, root: Path, tmp_path: Path
) -> None:
    for place in ("organisation", "team", "user", "root"):
        write(tmp_path, f"{place}/AGENTS.md", f"A rule of the {place}.")
    above = {"organisation": tmp_path / "organisation", "team": tmp_path / "team"}
    with log.session("task") as s:
        s.instructions(root, above=above, user=tmp_path / "user")
        [(_, text)] = news(s)
        heads_of = [line for line in text.split("\n") if line.startswith("File ")]
        assert heads_of == [
            "File AGENTS.md, for organisation:",
            "File AGENTS.md, for team:",
            "File AGENTS.md, for all projects:",
            "File AGENTS.md, for the whole project:",
        ]
        write(tmp_path, "team/AGENTS.md", "Another rule of the team.")
        s.instructions(root, above=above, user=tmp_path / "user")
        changed = "Changed AGENTS.md, for team:\n  Another rule of the team."
        assert news(s) == [("world", changed)]
        for scope in ("user", "project", "omitted", "", "The Team"):
            with pytest.raises(ConfigError, match="cannot be a scope"):
                s.instructions(root, above={scope: tmp_path})


def test_no_instruction_files_are_no_section(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        s.user("hello")
        head = heads(log)
        assert s.instructions(root).files == ()
        assert heads(log) == head


def test_a_file_that_a_tool_saw_brings_the_instructions_above_it(log: AgentLog, root: Path) -> None:
    write(root, "AGENTS.md", "root rule")
    write(root, "deep/er/AGENTS.md", "deep rule")
    write(root, "deep/er/x.py", "x = 1\n")
    with log.session("task") as s:
        assert [f.path for f in s.instructions(root).files] == ["AGENTS.md"]
        with s.tool(one(s)) as run:
            run.result(run.read("deep/er/x.py", root=root))
        assert [f.path for f in s.instructions(root).files] == ["AGENTS.md", "deep/er/AGENTS.md"]
        assert ("world", "New deep/er/AGENTS.md, for deep/er and below:\n  deep rule") in news(s)
        s.file_changed("/elsewhere/b.py", "1")  # of no concern to this root
        assert s.instructions(root).problems == ()


def test_an_unreadable_instruction_file_keeps_what_it_said(log: AgentLog, root: Path) -> None:
    write(root, "AGENTS.md", "Use tabs.")
    with log.session("task") as s:
        s.instructions(root)
        news(s)
        head = heads(log)
        unreadable(root / "AGENTS.md")
        found = s.instructions(root)
        assert [(p.kind, p.kept) for p in found.problems] == [("unreadable", True)]
        assert heads(log) == head


def test_the_bound_is_over_all_files_and_says_what_it_left_out(log: AgentLog, root: Path) -> None:
    write(root, "AGENTS.md", "far " * 1000)
    write(root, "a/AGENTS.md", "near " * 150)
    with log.session("task") as s:
        s.instructions(root, "a", limit=1500)
        [(_, text)] = news(s)
        assert len(text.encode()) <= 1500
        assert "near " * 150 in text + " " and "bytes of this file are left out: no room." in text


def test_instructions_go_on_after_another_process_told_them(log: AgentLog, root: Path) -> None:
    write(root, "AGENTS.md", "Use tabs.")
    with log.session("task") as s:
        s.instructions(root)
        news(s)
    head = heads(log)
    with log.session("task") as s:
        s.instructions(root)
    assert heads(log) == head


# --- the environment -----------------------------------------------------------------------------


def test_the_environment_is_told_in_full_then_as_differences(log: AgentLog) -> None:
    with log.session("task") as s:
        s.environment(
            cwd=Path("/repo"),
            platform="linux",
            permissions={"filesystem": "read", "approved": ["ls"]},
            mode="plan",
        )
        assert [text for _, text in news(s)] == [
            "Working directory: /repo",
            "Mode: plan",
            "Permissions:\n- filesystem: read\n- approved: ls",
            "Platform: linux",
        ]
        s.environment(cwd="/repo", permissions={"filesystem": "read", "approved": ["ls", "make"]})
        assert [text for _, text in news(s)] == ["Newly approved: make"]
        s.environment(mode="edit")
        assert [text for _, text in news(s)] == ["Mode: edit (was plan)"]
        head = heads(log)
        s.environment(cwd="/repo", mode="edit")
        assert heads(log) == head
        s.world(mode=None)
        assert [text for _, text in news(s)] == ["Mode: none any more."]
    sound(log, "task")


def test_time_is_told_only_when_given_and_with_its_zone(log: AgentLog) -> None:
    noon = datetime(2026, 3, 29, 12, 0, 5, 7, tzinfo=UTC)
    with log.session("task") as s:
        s.environment(cwd="/repo")
        assert len(news(s)) == 1
        s.environment(time=noon)
        assert news(s) == [("world", "Time: 2026-03-29 12:00:05+00:00 (UTC)")]
        s.environment(time=noon + timedelta(hours=1))
        assert news(s) == [("world", "Time: 2026-03-29 13:00:05+00:00")]
        east = timezone(timedelta(hours=2), "UTC+2")
        s.environment(time=noon.astimezone(east))
        assert news(s) == [("world", "Time: 2026-03-29 14:00:05+02:00 (UTC+2; was UTC)")]
        with pytest.raises(ConfigError, match="a time needs its zone"):
            s.environment(time=datetime(2026, 1, 1))


def repository(root: Path) -> str:
    """Make the root a repository of one commit; gives the commit."""
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x", "--allow-empty"]):
        subprocess.run(["git", *arguments], cwd=root, env=env, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_git_is_asked_when_a_folder_is_given(log: AgentLog, root: Path, tmp_path: Path) -> None:
    commit = repository(root)
    with log.session("task") as s:
        s.environment(git=tmp_path)  # in no repository
        s.environment(git=root)
        assert news(s) == [("world", f'git: {{"commit":"{commit}","dirty":false}}')]
        write(root, "new.py", "")
        s.environment(git=root)
        assert news(s) == [("world", 'git, changed (null: removed): {"dirty":true}')]


# --- the workspace -------------------------------------------------------------------------------


def reads(s: Session, root: Path, *paths: str) -> None:
    """Calls that read files."""
    for path in paths:
        with s.tool(one(s)) as run:
            run.result(run.read(path, root=root))


def changed(log: AgentLog) -> list[FileChanged]:
    return [e.content for e in log.read("task").events() if isinstance(e.content, FileChanged)]


def test_a_changed_file_is_one_batch_and_one_notice(log: AgentLog, root: Path) -> None:
    for path in ("a.py", "b.py", "c.py"):
        write(root, path, f"# {path}\n")
    with log.session("task") as s:
        reads(s, root, "a.py", "b.py", "c.py")
        news(s)
        assert s.workspace(root).changed == ()
        write(root, "a.py", "# other\n")
        (root / "b.py").unlink()
        found = s.workspace(root)
        assert [(c.path, c.version, c.state) for c in found.changed] == [
            ("a.py", digest("# other\n"), "present"),
            ("b.py", "", "absent"),
        ]
        texts = [text for kind, text in news(s) if kind == "notice"]
        assert len(texts) == 2
        assert 'The file "a.py" changed' in texts[0] and 'The file "b.py" is gone' in texts[1]
        head = heads(log)
        assert s.workspace(root).changed == ()
        assert heads(log) == head
        write(root, "a.py", "# a.py\n")
        write(root, "b.py", "# b.py\n")
        assert len(s.workspace(root).changed) == 2
        texts = [text for kind, text in news(s) if kind == "notice"]
        assert len(texts) == 2 and all("again" in text for text in texts)
    assert len(changed(log)) == 4
    recorded = sound(log, "task")
    assert all(event.source == "watch" for event in recorded.events() if event.type[:5] == "file.")


def test_the_commit_is_recorded_where_git_holds_the_root(log: AgentLog, root: Path) -> None:
    write(root, "a.py", "1")
    commit = repository(root)
    with log.session("task") as s:
        reads(s, root, "a.py")
        write(root, "a.py", "2")
        assert [one.commit for one in s.workspace(root).changed] == [commit]


def test_unreadable_is_no_change_and_is_noted_once(log: AgentLog, root: Path) -> None:
    write(root, "a.py", "1")
    with log.session("task") as s:
        reads(s, root, "a.py")
        news(s)
        unreadable(root / "a.py")
        found = s.workspace(root)
        assert (found.changed, found.unreadable) == ((), ("a.py",))
        head = heads(log)
        s.workspace(root)
        assert heads(log) == head
        assert not [one for one in news(s) if one[0] == "notice"]
        (root / "a.py").rmdir()
        write(root, "a.py", "1")
        assert s.workspace(root).changed == ()
    assert [one.state for one in changed(log)] == ["unreadable"]


def test_paths_outside_the_root_are_named_and_left_alone(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        s.file_changed("../outside.py", "1")
        s.file_changed("/etc/hostname", "1")
        found = s.workspace(root)
        assert set(found.outside) == {"../outside.py", "/etc/hostname"}
        assert found.changed == ()


def test_an_item_of_a_file_is_no_candidate_once_the_file_changed(log: AgentLog, root: Path) -> None:
    """Also before any packet showed it."""
    write(root, "notes.md", "old")
    with log.session("task") as s:
        s.offer(
            "The notes say old.",
            channel="repository_file",
            source_id="notes.md",
            saw=[Saw("notes.md", version=digest("old"))],
        )
        assert s.workspace(root).changed == ()
        write(root, "notes.md", "new")
        assert [one.path for one in s.workspace(root).changed] == ["notes.md"]
        assert s.workspace(root).changed == ()
        assert not [text for _, text in news(s) if "The notes say old." in text]


# --- what tools saw ------------------------------------------------------------------------------


def seen(log: AgentLog) -> list[Saw]:
    return [one for result in results(log) for one in result.saw]


def test_saw_computes_the_version(log: AgentLog, root: Path) -> None:
    write(root, "pkg/a.py", "text")
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.saw("pkg/../pkg/a.py", root=root)
            run.saw(str(root / "pkg" / "a.py"), root=root, range="1-3")
            run.saw("pkg/a.py", content="text")
            run.saw("gone.py", root=root)
            run.saw("as-it-is", version="v1")
    assert seen(log) == [
        Saw("pkg/a.py", version=digest("text")),
        Saw("pkg/a.py", range="1-3", version=digest("text")),
        Saw("pkg/a.py", version=digest("text")),
        Saw("gone.py"),
        Saw("as-it-is", version="v1"),
    ]


def test_two_versions_at_once_are_the_callers_mistake(log: AgentLog) -> None:
    with log.session("task") as s, pytest.raises(ToolError, match="not both"):
        with s.tool(one(s)) as run:
            run.saw("a.py", version="v", content="text")


def test_what_leads_out_of_the_root_is_an_error_result(log: AgentLog, root: Path) -> None:
    write(root.parent, "secret", "s3cret")
    (root / "link").symlink_to(root.parent / "secret")
    with log.session("task") as s:
        for path in ("../secret", "link"):
            with s.tool(one(s)) as run:
                run.result(run.read(path, root=root))
        with s.tool(one(s)) as run:
            run.saw("link", root=root)
    assert all(status == "error" and "OutsideRoot" in text for status, text in told(log))
    assert "s3cret" not in str(told(log)) and seen(log) == []
    with pytest.raises(OutsideRoot):
        read("../secret", root)


def test_read_gives_lines_and_the_version_of_the_whole_file(log: AgentLog, root: Path) -> None:
    text = "".join(f"line {n} é\n" for n in range(1, 401))
    write(root, "a.py", text)
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            assert run.read("a.py", root=root) == text
            assert (
                run.read("a.py", root=root, start=10, end=12) == "line 10 é\nline 11 é\nline 12 é\n"
            )
            assert run.read("a.py", root=root, start=399) == "line 399 é\nline 400 é\n"
            cut = run.read("a.py", root=root, start=2, most=23)
            assert (
                cut == "line 2 é\nline 3 é\nl\n[4286 bytes are left out here: read on from line 4]"
            )
            for arguments in ({"start": 0}, {"start": 5, "end": 4}, {"start": 402}):
                with pytest.raises(sawlog.SawlogError, match="line"):
                    run.read("a.py", root=root, **arguments)
            with pytest.raises(sawlog.SawlogError, match="there is no file 'b.py'"):
                run.read("b.py", root=root)
            with pytest.raises(ToolError, match="0 bytes have no room"):
                run.read("a.py", root=root, most=0)
    version = digest(text)
    ranges = ["", "10-12", "399-400", "2-4"]
    assert seen(log) == [Saw("a.py", range=r, version=version) for r in ranges]


def test_read_never_splits_a_character_and_shows_what_is_no_text(log: AgentLog, root: Path) -> None:
    write(root, "one-line", "€" * 100)
    (root / "binary").write_bytes(b"a\xff\xfeb")
    write(root, "empty", "")
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            assert run.read("one-line", root=root, most=10) == (
                "€€€\n[291 bytes are left out here]"
            )
            assert run.read("binary", root=root) == "a\ufffd\ufffdb"
            assert run.read("empty", root=root) == ""


def test_a_read_of_a_changed_file_is_no_notice_for_itself(log: AgentLog, root: Path) -> None:
    """Read, change, read anew: the newest text holds, and a comparison finds nothing."""
    write(root, "a.py", "1\n")
    with log.session("task") as s:
        reads(s, root, "a.py")
        write(root, "a.py", "2\n")
        reads(s, root, "a.py")
        assert s.workspace(root).changed == ()
    assert "file.changed" not in types(log.read("task"))


def test_world_sections_of_one_call_are_one_event(log: AgentLog, root: Path) -> None:
    with log.session("task") as s:
        s.environment(cwd=root, platform="linux", mode="plan", terminal={"tmux": "0"})
    [event] = [e for e in log.read("task").events() if isinstance(e.content, WorldChanged)]
    assert isinstance(event.content, WorldChanged)
    assert [one.name for one in event.content.sections] == ["cwd", "platform", "mode", "terminal"]


def test_calls_in_one_reply_read_together(log: AgentLog, root: Path) -> None:
    write(root, "a.py", "1\n")
    with log.session("task") as s:
        for call in asked(s, Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"})):
            with s.tool(call) as run:
                run.result(run.read("a.py", root=root))
        assert s.workspace(root).changed == ()
