"""The exercises of the book's chapter 5 at the doors of a session (CONTRACTS S0-82).

The twenty-fixture evaluation is a lab's: `tests/labs/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import sawlog
from sawlog.agentlog import AgentLog
from sawlog.builder.item import Authority
from sawlog.store.errors import ConfigError, Refused
from sawlog.work.session import Session
from sawlog.work.step import Step
from tests.session.agents import next_step, one, sound, talker, told

API = "openai-chat"
DAY = 86_400_000_000


def stepped(s: Session, **options: Any) -> Step:
    s.user("go on")
    step = next_step(s, API, **options)
    step.send(talker())
    return step


def item_reasons(step: Step) -> list[tuple[str, str]]:
    """Outcome and reason of each item."""
    beside = ("history", "world", "freshness", "pairing", "render")
    return [
        (one.outcome, one.reason)
        for one in step.packet.trace.verdicts
        if one.stage not in beside and one.seq
    ]


def shown(step: Step) -> list[str]:
    """The texts of items in the packet."""
    kinds = ("observation", "instruction", "task")
    return [entry.text for entry in step.packet.entries if entry.kind in kinds]


def test_one_other_character_and_the_duplicate_is_none(log: AgentLog) -> None:
    """The reason disappears, and the digest of the packet changes."""
    digests: list[str] = []
    for name, second in (("same", "assert f(1) == 2"), ("edited", "assert f(1) == 3")):
        with log.session(name) as s:
            s.offer("assert f(1) == 2", channel="repository_file", source_id="test_a.py")
            s.offer(second, channel="repository_file", source_id="test_b.py")
            step = stepped(s)
            digests.append(step.packet.semantic)
            reasons = [reason for _, reason in item_reasons(step)]
            assert ("duplicate" in reasons) == (name == "same")
            assert len(shown(step)) == (1 if name == "same" else 2)
    assert digests[0] != digests[1]


def test_a_larger_window_never_shows_less_and_never_loses_what_is_required(log: AgentLog) -> None:
    """The budget curve: at each window what is shown, or a named refusal."""
    before: set[str] = set()
    curve: list[int] = []
    for window in range(100, 2_600, 100):
        with log.session(f"w{window}", window=window) as s:
            s.task("fix it", requirements=["test"])
            s.offer(
                "required " * 100, channel="repository_file", source_id="t", required_for=["test"]
            )
            for n in range(12):
                s.offer(f"optional {n} " * (5 + 3 * n), channel="memory", source_id=f"n{n}")
            try:
                texts = set(shown(stepped(s)))
            except Refused as refused:
                assert refused.reason in ("cannot_fit", "needs_context")
                assert not before, "a smaller window had room"
                curve.append(0)
                continue
        assert any(text.startswith("required") for text in texts)
        assert before <= texts
        before = texts
        curve.append(len(texts))
    assert curve[0] == 0 and curve[-1] == 13 and len(set(curve)) > 5


def test_of_two_nested_rule_files_the_nearer_one_comes_last_and_only_in_its_folder(
    log: AgentLog, tmp_path: Path
) -> None:
    (tmp_path / "pay").mkdir()
    (tmp_path / "doc").mkdir()
    (tmp_path / "AGENTS.md").write_text("Root rule.")
    (tmp_path / "pay" / "AGENTS.md").write_text("Pay rule.")
    for folder, rules in (("pay", ["Root rule.", "Pay rule."]), ("doc", ["Root rule."])):
        with log.session(folder) as s:
            s.instructions(tmp_path, folder)
            [text] = [e.text for e in stepped(s).packet.entries if e.kind == "world"]
            found = sorted((text.find(rule), rule) for rule in ("Root rule.", "Pay rule."))
            assert [rule for at, rule in found if at >= 0] == rules


def test_rules_as_items_hold_for_their_folder(log: AgentLog) -> None:
    for target, count in (("pay/refund.py", 2), ("doc/readme.md", 1)):
        with log.session(target.partition("/")[0]) as s:
            s.task("fix it", repository="shop", path=target)
            for path, text in (("AGENTS.md", "Root rule."), ("pay/AGENTS.md", "Pay rule.")):
                s.offer(
                    text,
                    channel="repository_rule",
                    source_id=path,
                    path=path,
                    repository="shop",
                )
            step = stepped(s)
            assert len(shown(step)) == count
            assert [reason for _, reason in item_reasons(step)].count("out_of_scope") == 2 - count


def test_rules_of_organisation_team_and_user_hold_in_their_scopes_and_by_authority(
    log: AgentLog,
) -> None:
    """All three hold together; where they contradict, the one with more authority does."""
    rules = {
        "organisation_rule": ("developer", {"tenant": "north"}),
        "team_rule": ("repository", {"repository": "shop"}),
    }
    channels = sawlog.CHANNELS.extended(
        {
            name: replace(sawlog.CHANNELS["repository_rule"], authority=Authority(authority))
            for name, (authority, _) in rules.items()
        }
    )
    scopes: dict[str, dict[str, Any]] = {name: scope for name, (_, scope) in rules.items()}
    scopes["user_instruction"] = {}
    for repository, expected in (
        ("shop", ["organisation_rule", "team_rule", "user_instruction"]),
        ("docs", ["organisation_rule", "user_instruction"]),
    ):
        with log.session(repository, channels=channels) as s:
            s.task("fix it", tenant="north", repository=repository)
            for channel, scope in scopes.items():
                text = f"A rule: {channel}"
                s.offer(text, channel=channel, source_id=f"own-{channel}", **scope)
                text = f"Commits: {channel}"
                s.offer(text, channel=channel, source_id="c", canonical="commits", **scope)
            texts = shown(stepped(s))
        assert sorted(t for t in texts if t.startswith("A rule")) == [
            f"A rule: {channel}" for channel in expected
        ]
        assert [t for t in texts if t.startswith("Commits")] == ["Commits: organisation_rule"]


def test_two_tools_of_one_name_are_refused_and_two_descriptions_of_one_are_none(
    log: AgentLog,
) -> None:
    def patch(path: str) -> str:
        """Apply a patch."""
        return path

    with log.session("task") as s:
        with pytest.raises(ConfigError, match="tools 0 and 1 are both named 'patch'"):
            s.tools([patch, sawlog.tool(patch, description="Apply a patch, too.")])
        need = "tool-schema:patch"
        s.task("fix it", requirements=[need])
        for at, text in enumerate(("patch(path)", "patch(path, old, new)")):
            s.offer(
                text,
                channel="tool_schema",
                source_id="patch",
                canonical="patch",
                locator=f"server{at}",
                required_for=[need],
            )
        s.user("go on")
        with pytest.raises(Refused) as refused:
            next_step(s, API)
        assert refused.value.reason == "needs_context" and need in str(refused.value)
        step = stepped(s, allow_missing=True)
        assert item_reasons(step) == [("dropped", "conflict_lost")] * 2
        assert step.packet.missing == (need,)


def test_the_same_text_of_two_tenants_is_never_in_one_packet(log: AgentLog) -> None:
    text = "The refund limit is 40 EUR."
    bodies: list[str] = []
    for tenant in ("north", "south"):
        with log.session(tenant) as s:
            s.task("answer", tenant=tenant)
            for owner in ("north", "south"):
                s.offer(
                    f"{text} ({owner})",
                    channel="verified_fact",
                    source_id=f"limit-{owner}",
                    tenant=owner,
                )
                s.offer(text, channel="verified_fact", source_id=f"same-{owner}", tenant=owner)
            step = stepped(s)
            reasons = item_reasons(step)
            assert reasons.count(("dropped", "out_of_scope")) == 2
            assert reasons.count(("selected", "selected")) == 2
            assert text not in repr(step.packet.trace), "a trace holds no text"
            bodies.append(step.body.decode())
    assert "(south)" not in bodies[0] and "(north)" not in bodies[1]
    assert all(body.count(text) == 2 for body in bodies)


def test_another_tenants_log_is_another_log(tmp_path: Path) -> None:
    url = str(tmp_path / "agent.db")
    with sawlog.open(url, "north") as north, sawlog.open(url, "south") as south:
        with north.session("task") as s:
            s.user("NORTH")
        with south.session("task") as s:
            s.user("SOUTH")
            assert "NORTH" not in next_step(s, API).body.decode()


def test_the_key_of_a_secret_tool_is_nowhere(tmp_path: Path) -> None:
    """Neither in a packet, nor in a trace, nor in a byte of the store."""
    key = "no-real-key-5f0c9a7e21"
    with sawlog.open(str(tmp_path / "agent.db")) as log:
        with log.session("task", secrets={"vault:pay": key}) as s:
            s.offer(channel="secret_fixture", source_id="pay-key", handle="vault:pay")
            with s.tool(one(s)) as run:
                run.result(f"asked with {run.secret('vault:pay')}")
            step = stepped(s)
            assert ("dropped", "sensitive") in item_reasons(step)
            assert key not in step.body.decode() and key not in repr(step.packet.trace)
            assert ("ok", "asked with [secret:vault:pay]") in told(log)
        sound(log, "task")
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("agent.db*"))
    assert stored and key.encode() not in stored


def test_a_secret_that_nobody_gives_is_credential_unavailable(log: AgentLog) -> None:
    with log.session("task") as s:
        with s.tool(one(s)) as run:
            run.result(run.secret("vault:pay"))
        [(status, text)] = told(log)
        assert status == "error" and "credential_unavailable" in text
        assert "credential_unavailable" in stepped(s).body.decode()


def test_facts_that_contradict_each_other_are_both_shown_until_one_is_over(tmp_path: Path) -> None:
    now = 20_000 * DAY
    url = str(tmp_path / "agent.db")
    with sawlog.open(url, clock=lambda: now) as log, log.session("task") as s:
        for version, until in (("3.11", now), ("3.12", now + 10 * DAY)):
            s.offer(
                f"The runtime is Python {version}.",
                channel="verified_fact",
                source_id=f"runtime-{version}",
                canonical="runtime-python",
                valid_until=until,
            )
        first = stepped(s)
        assert item_reasons(first) == [("selected", "conflict_visible")] * 2
        assert len(shown(first)) == 2
        now += 1
        second = stepped(s)
        notices = [entry.text for entry in second.packet.entries if entry.kind == "notice"]
        assert len(notices) == 1 and "holds no longer: its time is over" in notices[0]
    with sawlog.open(url, clock=lambda: now) as log, log.session("new") as s:
        for version, until in (("3.11", now - 1), ("3.12", now)):
            s.offer(
                f"The runtime is Python {version}.",
                channel="verified_fact",
                source_id=f"runtime-{version}",
                canonical="runtime-python",
                valid_until=until,
            )
        only = stepped(s)
        assert sorted(item_reasons(only)) == [("dropped", "expired"), ("selected", "selected")]
        assert shown(only) == ["The runtime is Python 3.12."]
