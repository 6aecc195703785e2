"""The async face tells a session of the world by the same code as the sync one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sawlog.agentlog import AgentLog
from sawlog.builder.channels import CHANNELS, Channel
from sawlog.builder.item import Authority, Kind, Retention, Sensitivity, Trust
from sawlog.store.events.items import ItemOffered
from sawlog.work.aio import AsyncChildSession, AsyncSession, AsyncToolRun
from sawlog.work.isolating import Isolating
from sawlog.work.session import ChildSession
from sawlog.work.toolrun import ToolRun
from tests.session.agents import sound, talker, types
from tests.session.tasks import calls_of, run, step_of

LONG = "line\n" * 2_000 + "Error: no order\n" + "line\n" * 2_000
FACTS = Channel(
    Kind.FACT, Authority.NONE, Trust.TRUSTED_SOURCE, Retention.NORMAL, Sensitivity.INTERNAL
)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_whatever_a_session_is_told_an_async_one_is_told() -> None:
    assert public(Isolating) - {"channels", "loading"} <= public(AsyncSession)
    assert public(ChildSession) - public(Isolating) >= {"hand_over", "handed_over"}
    assert {"hand_over", "handed_over"} <= public(AsyncChildSession)
    assert public(ToolRun) - {"start", "finish", "failed"} <= public(AsyncToolRun)


def test_an_async_session_is_told_of_its_surroundings(log: AgentLog, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "a.py").write_text("x = 1\n")

    async def work() -> None:
        async with log.asession("task") as s:
            await s.task("fix the refund")
            await s.environment(cwd=tmp_path, mode="plan")
            found = await s.instructions(tmp_path)
            assert [file.path for file in found.files] == ["AGENTS.md"]
            [call] = await calls_of(s, 1)
            async with s.tool(call) as tool:
                text = await tool.read("a.py", root=tmp_path)
                tool.saw("b.py", content="y = 2\n")
                tool.result(text)
            (tmp_path / "a.py").write_text("x = 2\n")
            compared = await s.workspace(tmp_path)
            assert [(one.path, one.state) for one in compared.changed] == [
                ("a.py", "present"),
                ("b.py", "absent"),
            ]
            await s.phase("edit")
            await s.world(mode=None)
            await s.inject("Look at b.py, too.", id="i1")
            assert len(await s.pending()) == 1
            step = await step_of(s)
            texts = [entry.text for entry in step.sync.packet.entries]
            await step.answer(talker()(b""))
        assert any("Use tabs." in text for text in texts)
        assert any('The file "a.py" changed' in text for text in texts)
        assert "Look at b.py, too." in texts

    run(work())
    sound(log, "task")


def test_a_child_of_an_async_session_hands_over(log: AgentLog) -> None:
    locator = f"sha256:{hashlib.sha256(LONG.encode()).hexdigest()}"

    async def work() -> None:
        async with log.asession("task", channels=CHANNELS.extended({"facts": FACTS})) as s:
            async with s.child("look", "Find the error.") as child:
                [call] = await calls_of(child, 1)
                async with child.tool(call) as tool:
                    tool.result(LONG, limit=2048, as_="error")
                read = child.read_output.function
                assert read is not None and "Error: no order" in read(locator, pattern="Error")
                assert await child.stored(locator) == LONG
                assert not await child.handed_over()
                await child.hand_over("no order", [locator])
                assert await child.handed_over()
            page = await s.offer("The price is 12.", channel="web_content", source_id="page")
            await s.extract(page, {"price": 12}, channel="facts")
            await s.refer("task/look")
            await s.withdraw("web_content", "page")
            await s.user("go on")
            await (await step_of(s)).answer(talker()(b""))

    run(work())
    events = list(sound(log, "task").events())
    items = {e.source: e.content for e in events if isinstance(e.content, ItemOffered)}
    assert set(items) == {"handover", "web_content", "facts", "session_reference"}
    assert json.loads(str(items["handover"].parts[0].text))["evidence"] == [locator]  # type: ignore[union-attr]
    assert types(log.read("task")).count("item.withdrawn") == 2
    sound(log, "task/look")
