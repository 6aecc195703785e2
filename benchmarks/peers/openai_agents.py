"""The OpenAI Agents SDK's SQLiteSession: items of its input list, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.workload import Part, Steps

PACKAGES = ("openai-agents",)


class Driver:
    """Its sessions know no state of the world: a change is a developer's message."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the session."""
        agents: Any = import_module("agents")
        self._session: Any = agents.SQLiteSession("bench", str(Path(folder) / "store.db"))

    async def close(self) -> None:
        """Close it."""
        self._session.close()

    def units(self, step: Sequence[Part]) -> list[dict[str, Any]]:
        """A part is an item."""
        return [_item(part) for part in step]

    async def append(self, unit: dict[str, Any]) -> None:
        """One item."""
        await self._session.add_items([unit])

    async def batch(self, units: list[dict[str, Any]]) -> None:
        """The step's items at once, as its runner adds them."""
        await self._session.add_items(units)

    async def seed(self, steps: Steps) -> None:
        """All items at once."""
        await self.batch([unit for step in steps for unit in self.units(step)])

    async def load(self) -> object:
        """All items."""
        return await self._session.get_items()

    async def rebuild(self) -> object:
        """What its runner prepares for a model's call."""
        runner: Any = import_module("agents.run_internal.session_persistence")
        return await runner.prepare_input_with_session([], self._session, None)


def _item(part: Part) -> dict[str, Any]:
    match part["kind"]:
        case "user":
            return {"role": "user", "content": part["text"]}
        case "assistant":
            text: dict[str, Any] = {"type": "output_text", "text": part["text"], "annotations": []}
            return {
                "type": "message",
                "id": f"msg_{part['step']}",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        case "tool_call":
            return {
                "type": "function_call",
                "id": f"fc_{part['call_id']}",
                "call_id": part["call_id"],
                "name": part["name"],
                "arguments": part["args"],
                "status": "completed",
            }
        case "tool_result":
            return {
                "type": "function_call_output",
                "call_id": part["call_id"],
                "output": part["text"],
            }
        case _:
            return {"role": "developer", "content": str(part["value"])}
