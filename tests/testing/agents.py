"""Agents of two turns, one for each API: they ask, run a tool, send back what they were told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic
import openai

Agent = Callable[..., list[Any]]

MODEL = "claude-opus-5-5"


def chat(url: str, *, ask: str = "Is a.py well?", stream: bool = False, **more: Any) -> list[Any]:
    """Two turns through Chat Completions; gives what the model said in each."""
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ask},
    ]
    said: list[Any] = []
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", **more) as opened:
        client: Any = opened
        for _ in range(2):
            asked: Any = {"model": "gpt-x", "messages": messages, "tools": [tool]}
            if stream:
                message: Any = streamed_chat(client, asked)
            else:
                reply = client.chat.completions.create(**asked)
                message = reply.choices[0].message.to_dict()
            said.append(message)
            messages.append(message)
            for call in message.get("tool_calls") or list[Any]():
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "x = 1"})
    return said


def streamed_chat(client: Any, asked: Any) -> Any:
    with client.chat.completions.stream(**asked) as events:
        final = events.get_final_completion()
    message = final.choices[0].message
    found: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        found["tool_calls"] = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.function.name, "arguments": one.function.arguments},
            }
            for one in message.tool_calls
        ]
    return found


def messages(
    url: str, *, ask: str = "Is a.py well?", stream: bool = False, **more: Any
) -> list[Any]:
    """The same through the Messages API."""
    tool: Any = {"name": "read", "input_schema": {"type": "object"}}
    history: list[Any] = [{"role": "user", "content": ask}]
    said: list[Any] = []
    with anthropic.Anthropic(api_key="k", base_url=url, **more) as opened:
        client: Any = opened
        for _ in range(2):
            asked: Any = {"model": MODEL, "max_tokens": 2048, "messages": history}
            asked |= {"tools": [tool], "thinking": {"type": "enabled", "budget_tokens": 1024}}
            if stream:
                with client.messages.stream(**asked) as events:
                    reply = events.get_final_message()
            else:
                reply = client.messages.create(**asked)
            content = [one.to_dict() for one in reply.content]
            said.append(content)
            history.append({"role": "assistant", "content": content})
            results = [
                {"type": "tool_result", "tool_use_id": one.id, "content": "x = 1"}
                for one in reply.content
                if one.type == "tool_use"
            ]
            history.append({"role": "user", "content": results or "Thanks."})
    return said


def responses(
    url: str, *, ask: str = "Is a.py well?", stream: bool = False, **more: Any
) -> list[Any]:
    """The same through Responses, the output going back as it came."""
    tool: Any = {
        "type": "function",
        "name": "read",
        "parameters": {"type": "object"},
        "strict": False,
    }
    history: list[Any] = [{"role": "user", "content": ask}]
    said: list[Any] = []
    with openai.OpenAI(api_key="k", base_url=f"{url}/v1", **more) as opened:
        client: Any = opened
        for _ in range(2):
            asked: Any = {"model": "gpt-x", "instructions": "Be brief.", "input": history}
            asked |= {"tools": [tool], "store": False, "include": ["reasoning.encrypted_content"]}
            if stream:
                with client.responses.stream(**asked) as events:
                    reply: Any = events.get_final_response()
            else:
                reply = client.responses.create(**asked)
            output: list[Any] = [one.to_dict() for one in reply.output]
            for one in output:
                one.pop("parsed_arguments", None)
                for part in one.get("content") or list[Any]():
                    part.pop("parsed", None)
            said.append(output)
            history += output
            for one in output:
                if one["type"] == "function_call":
                    result = {"type": "function_call_output", "call_id": one["call_id"]}
                    history.append({**result, "output": "x = 1"})
    return said


AGENTS = {"chat": chat, "messages": messages, "responses": responses}
