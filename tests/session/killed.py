"""The agent that `test_kill_run` kills: a loop with tools that acknowledges each durable write."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection

import sawlog
from sawlog.work import driver


def read(path: str) -> str:
    """Read a file."""
    return path * 2000


class Model:
    """Answers a body with text and up to two calls, by a counter."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0

    def __call__(self, body: bytes) -> bytes:
        n = self.asked = self.asked + 1
        calls = [
            {
                "id": f"call_{self.name}_{n}_{k}",
                "type": "function",
                "function": {"name": "read", "arguments": json.dumps({"path": f"f{n}-{k}"})},
            }
            for k in range(n % 3)
        ]
        message: dict[str, object] = {"role": "assistant", "content": f"step {n}"}
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        reply = {"id": "r", "object": "chat.completion", "created": 0, "model": "m"}
        return json.dumps({**reply, "choices": [choice]}).encode()


def run(store: str, name: str, acknowledge: Connection) -> None:
    """Work until killed; each message is the head after a write that returned."""
    # The lease of the one that was killed before ends any moment.
    driver._LOOK_AGAIN = 0.005  # pyright: ignore[reportPrivateUsage]
    log = sawlog.open(store)
    model = Model(name)
    with log.session("run", ttl=0.03, wait=20, window=20_000) as s:

        def done() -> None:
            acknowledge.send(s.state.seq)

        s.tools([read])
        while True:
            s.user("go on")
            done()
            step = s.step("openai-chat", model="m")
            done()
            reply = step.send(model)
            done()
            for call in reply.tool_calls:
                with s.tool(call) as tool:
                    done()
                    tool.result(call.run())
                done()
