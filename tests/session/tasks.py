"""What the tests of the async face share: a loop with an end, clients, steps, calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any

import anthropic
import openai

from sawlog.providers.fake import FakeProvider
from sawlog.work.aio import AsyncSession
from sawlog.work.aiostep import AsyncStep
from sawlog.work.call import Call as Asked
from tests.session.agents import TOOLS, params


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run to its end, within a minute."""
    asyncio.run(asyncio.wait_for(work, 60))


def async_client(api: str, fake: FakeProvider) -> Any:
    """The official async client of an API."""
    if api == "anthropic":
        return anthropic.AsyncAnthropic(api_key="test", base_url=fake.base_url(api))
    return openai.AsyncOpenAI(api_key="test", base_url=fake.base_url(api))


async def step_of(s: AsyncSession, api: str = "openai-chat", **options: Any) -> AsyncStep:
    """The session's next step."""
    return await s.step(api, model="test-model", **params(api), **options)


async def begun(s: AsyncSession, api: str = "openai-chat") -> AsyncStep:
    """A step over one message."""
    await s.user("hello")
    return await step_of(s, api)


async def calls_of(
    s: AsyncSession, count: int, tools: Sequence[Any] = TOOLS[:1]
) -> tuple[Asked, ...]:
    """A step whose reply asks for so many calls, of these tools in turn."""
    await s.tools(tools)
    names = [tool.__name__ for tool in tools]
    await s.user("go")
    asked = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": names[n % len(names)], "arguments": json.dumps({"path": str(n)})},
        }
        for n in range(count)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": asked}
    body = {"id": "r", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    return (await (await step_of(s)).answer(body)).tool_calls
