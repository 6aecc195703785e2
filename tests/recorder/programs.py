"""Programs to be recorded: loops over the official clients as people write them, and a script."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from sawlog.providers.fake import Call, Reply, Streamed

APIS = ("anthropic", "openai-chat", "openai-responses", "deepseek-chat")

WORDS = (
    "the order of what was seen is kept and nothing is written twice where a file has changed its "
    "text is old and says so before the next step is built from what the log holds alone since "
    "refunds above the limit wait for a person while smaller ones go through at once"
).split()


def prose(chance: random.Random, count: int) -> str:
    """So many words."""
    return " ".join(chance.choice(WORDS) for _ in range(count))


def script(seed: int = 1, *, stream: bool = False) -> Callable[[str, Any, int], Any]:
    """Replies to what is asked: a call to a message of the user's, an answer to a result."""

    def reply(api: str, request: Any, number: int) -> Any:
        chance = random.Random(f"{seed} {number}")
        last = (request.get("messages") or request.get("input"))[-1]
        thinking = prose(chance, 12) if api in ("openai-responses", "deepseek-chat") else None
        if answers(last):
            found = Reply(prose(chance, 40), thinking)
        else:
            arguments = {"path": prose(chance, 3).replace(" ", "/")}
            found = Reply(prose(chance, 8), thinking, [Call("read_file", arguments)])
        return Streamed(found, chunk=50) if stream else found

    return reply


def answers(message: Any) -> bool:
    """True of a tool's result, in whichever API."""
    if message.get("role") == "tool" or message.get("type") == "function_call_output":
        return True
    content: Any = message.get("content")
    first: Any = content[0] if content and not isinstance(content, str) else {}
    return bool(first.get("type") == "tool_result")


def chat_tools() -> list[dict[str, Any]]:
    """A tool in the form of Chat Completions."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return [
        {
            "type": "function",
            "function": {"name": "read_file", "description": "Read a file.", "parameters": schema},
        }
    ]


class Program:
    """A conversation of one client that goes on turn by turn; `ask` makes one request."""

    def __init__(
        self, api: str, client: Any, seed: int = 7, *, stream: bool = False, words: int = 120
    ) -> None:
        self.words = words
        self.api = api
        self.client = client
        self.stream = stream
        self.chance = random.Random(seed)
        self.messages: list[Any] = []
        if api in ("openai-chat", "deepseek-chat"):
            self.messages.append({"role": "system", "content": "You fix bugs. Read first."})

    def turn(self) -> None:
        """A question, the reading of a file, the answer: two requests."""
        self.says(prose(self.chance, 30))
        for _ in range(2):
            for call_id, _ in self.take(self.ask()):
                self.result(call_id, prose(self.chance, self.words))

    def says(self, text: str) -> None:
        """The user says something."""
        self.messages.append({"role": "user", "content": text})

    def result(self, call_id: str, text: str) -> None:
        """A tool gives its result."""
        if self.api == "anthropic":
            block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
            self.messages.append({"role": "user", "content": [block]})
        elif self.api == "openai-responses":
            self.messages.append(
                {"type": "function_call_output", "call_id": call_id, "output": text}
            )
        else:
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})

    def request(self) -> tuple[Any, dict[str, Any]]:
        """The method of the client to call, and what with."""
        if self.api == "anthropic":
            tool = chat_tools()[0]["function"]
            tools = [{**tool, "input_schema": tool["parameters"]}]
            del tools[0]["parameters"]
            system = "You fix bugs. Read first."
            return self.client.messages.create, {
                "model": "test-model", "max_tokens": 900, "system": system, "tools": tools,
                "messages": self.messages,
            }  # fmt: skip
        if self.api == "openai-responses":
            tool = {"type": "function", **chat_tools()[0]["function"]}
            return self.client.responses.create, {
                "model": "test-model", "instructions": "You fix bugs.", "tools": [tool],
                "input": self.messages, "store": False, "include": ["reasoning.encrypted_content"],
            }  # fmt: skip
        return self.client.chat.completions.create, {
            "model": "test-model", "messages": self.messages, "tools": chat_tools(),
        }  # fmt: skip

    def ask(self) -> Any:
        """One request; gives the client's own reply."""
        create, given = self.request()
        if not self.stream:
            return create(**given)
        return whole(self.api, list(create(**given, stream=True)))

    async def aask(self) -> Any:
        """The same with a client whose calls are awaited."""
        create, given = self.request()
        if not self.stream:
            return await create(**given)
        return whole(self.api, [event async for event in await create(**given, stream=True)])

    def take(self, reply: Any) -> list[tuple[str, str]]:
        """Keep a reply as people do, for the next request; gives its calls (id, arguments)."""
        if self.api == "anthropic":
            self.messages.append({"role": "assistant", "content": reply.content})
            blocks = (block for block in reply.content if block.type == "tool_use")
            return [(block.id, json.dumps(block.input)) for block in blocks]
        if self.api == "openai-responses":
            self.messages += reply.output
            items = (item for item in reply.output if item.type == "function_call")
            return [(item.call_id, item.arguments) for item in items]
        message: Any = reply.choices[0].message
        asked: list[Any] = message.tool_calls or []
        if self.stream:
            # Streams are put together by hand as a rule, and so is the message.
            calls: list[dict[str, Any]] = [call.to_dict() for call in asked]
            kept = {"role": "assistant", "content": message.content}
            thought = getattr(message, "reasoning_content", None)
            self.messages.append(
                kept
                | ({"tool_calls": [_call(one) for one in calls]} if calls else {})
                | ({"reasoning_content": thought} if thought else {})
            )
        else:
            self.messages.append(message)
        return [(call.id, call.function.arguments) for call in asked]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    return {"id": call["id"], "type": "function", "function": function}


def whole(api: str, events: list[Any]) -> Any:
    """The reply that a stream amounts to, put together by the client's own helpers."""
    if api == "anthropic":
        from anthropic.lib.streaming._messages import accumulate_event

        snapshot: Any = None
        bufs: dict[int, Any] = {}
        for event in events:
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=bufs)
        return snapshot
    if api == "openai-responses":
        return next(event.response for event in events if event.type == "response.completed")
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state: Any = ChatCompletionStreamState()
    for event in events:
        state.handle_chunk(event)
    return state.get_final_completion()
