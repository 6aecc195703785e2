"""Google's Agent Development Kit: the DatabaseSessionService on SQLite.

Its users write two events a step: the model's text with its calls, and all results, which carry a
change of the world.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.workload import Part, Steps

PACKAGES = ("google-adk", "aiosqlite", "greenlet")
_APP: dict[str, Any] = {"app_name": "bench", "user_id": "user", "session_id": "bench"}


class Driver:
    """One session of one application and user."""

    seeds_history = True

    async def open(self, folder: str) -> None:
        """Open the service, and the session when it is there."""
        logging.disable(logging.WARNING)
        sessions: Any = import_module("google.adk.sessions")
        self._service: Any = sessions.DatabaseSessionService(
            f"sqlite+aiosqlite:///{Path(folder) / 'store.db'}"
        )
        self._session: Any = None

    async def close(self) -> None:
        """Close it."""
        await self._service.close()

    def units(self, step: Sequence[Part]) -> list[Any]:
        """The step's events."""
        events: Any = import_module("google.adk.events")
        types: Any = import_module("google.genai.types")
        said: list[Any] = []
        asked: list[Any] = []
        done: list[Any] = []
        changed: dict[str, Any] = {}
        for part in step:
            match part["kind"]:
                case "user":
                    said.append(types.Part(text=part["text"]))
                case "assistant":
                    asked.append(types.Part(text=part["text"]))
                case "tool_call":
                    call = types.FunctionCall(
                        id=part["call_id"], name=part["name"], args=json.loads(part["args"])
                    )
                    asked.append(types.Part(function_call=call))
                case "tool_result":
                    result = types.FunctionResponse(
                        id=part["call_id"], name=part["name"], response={"result": part["text"]}
                    )
                    done.append(types.Part(function_response=result))
                case _:
                    changed = {"world": part["value"]}
        made: list[Any] = []
        for author, role, parts in (("user", "user", said), ("bench", "model", asked)):
            if parts:
                content = types.Content(role=role, parts=parts)
                made.append(events.Event(author=author, invocation_id="i", content=content))
        if done:
            actions = events.EventActions(state_delta=changed)
            content = types.Content(role="user", parts=done)
            made.append(
                events.Event(author="bench", invocation_id="i", content=content, actions=actions)
            )
        return made

    async def append(self, unit: Any) -> None:
        """One event."""
        unit.timestamp = time.time()
        await self._service.append_event(await self._got(), unit)

    async def batch(self, units: list[Any]) -> None:
        """It has no batch: one event after the other."""
        for unit in units:
            await self.append(unit)

    async def seed(self, steps: Steps) -> None:
        """One event after the other."""
        for step in steps:
            await self.batch(self.units(step))

    async def load(self) -> object:
        """The session with all its events, as contents for the model."""
        self._session = await self._service.get_session(**_APP)
        return self._contents()

    async def rebuild(self) -> object:
        """The contents of the events that are in memory."""
        await self._got()
        return self._contents()

    async def _got(self) -> Any:
        if self._session is None:
            self._session = await self._service.get_session(**_APP)
        if self._session is None:
            self._session = await self._service.create_session(**_APP)
        return self._session

    def _contents(self) -> Any:
        flows: Any = import_module("google.adk.flows.llm_flows.contents")
        return flows._get_contents(None, self._session.events, "bench")
