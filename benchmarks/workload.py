"""The session that everything is measured on: a coding agent of N steps, made of a seed alone.

A step is a list of parts: a user message at each 20th, one text of the assistant, one or two tool
calls, a result for each, a change of the world at each 5th. Results are log-normal in size, half
of them above 1.5 KB, one in a hundred above 60 KB. The same seed gives the same bytes for ever:
figures of different years compare. In the variant `repeat` each result's text occurs 20 times.
"""

from __future__ import annotations

import json
import math
import random
from functools import cache
from itertools import accumulate, cycle
from typing import Any

Part = dict[str, Any]
"""`kind` and `step`, then `text`, `call_id`, `name`, `args` or `value` by kind."""
Steps = list[list[Part]]

BASE, REPEAT = "base", "repeat"
FULL = 5000
"""Steps of the base session; a shorter one is its beginning, so that sizes compare."""

_SEED = 20261129
_MEDIAN = 1500.0
_SIGMA = math.log(60_000.0 / _MEDIAN) / 2.3263478740408408  # the normal distribution's 99th percent
_SMALLEST, _LARGEST = 20, 400_000
_TIMES = 20
_TOOLS = ("read_file", "run_command", "edit_file", "search")
_PERMISSIONS = ("read", "write", "exec")
_ARGUMENT_BYTES = 200

_SYLLABLES = (
    "ka lo mi ter ex con str par ser buf node list map key val err log ses tok run get set add del "
    "open read file path line test data step call"
).split()
_LINES = (
    "    def {a}_{b}(self, {c}: int = {n}) -> {d}:",
    "        self.{a} = {b}.{c}({d}, {e}={n})",
    "src/{a}/{b}.py:{n}: {c} = {d}['{e}']",
    "        if {a} is not None and {b}.{c} > {n}:",
    "2026-11-29 12:{minute:02d}:{second:02d},{milli:03d} INFO {a}.{b}: {c} {d}={n}",
    '            return {a}({b}, {c}), "{d} {e}"  # {n}',
)


class _Writer:
    """Lines that look like code and logs, and compress about as well."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._words = [self._word() for _ in range(4000)]
        # A few words are common and most are rare, as in any text.
        weights = [1.0 / (rank + 1) ** 0.9 for rank in range(len(self._words))]
        self._weights = list(accumulate(weights))

    def text(self, size: int) -> str:
        """Exactly that many characters."""
        lines: list[str] = []
        have = 0
        while have < size:
            line = self._line()
            lines.append(line)
            have += len(line) + 1
        return "\n".join(lines)[:size]

    def result(self) -> str:
        """A text of the size that tool results have."""
        size = int(self._chance.lognormvariate(math.log(_MEDIAN), _SIGMA))
        return self.text(max(_SMALLEST, min(_LARGEST, size)))

    def _word(self) -> str:
        chance = self._chance
        halves = range(chance.randint(1, 2))
        return "_".join(
            "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(1, 3))) for _ in halves
        )

    def _line(self) -> str:
        a, b, c, d, e = self._chance.choices(self._words, cum_weights=self._weights, k=5)
        line = _LINES[self._chance.randrange(len(_LINES))]
        n = self._chance.randrange(10_000)
        return line.format(
            a=a, b=b, c=c, d=d, e=e, n=n, minute=n % 60, second=n * 7 % 60, milli=n % 1000
        )


def session(steps: int, variant: str = BASE) -> Steps:
    """A session of that many steps; of the base variant a longer one begins with a shorter one.

    Raises ValueError for a variant that there is not.
    """
    if variant not in (BASE, REPEAT):
        raise ValueError(f"there is no variant {variant!r} of the workload: use {BASE} or {REPEAT}")
    chance = random.Random(f"{_SEED}-{variant}")
    writer = _Writer(chance)
    again = None
    if variant == REPEAT:
        again = cycle([writer.result() for _ in range(max(1, steps * 3 // 2 // _TIMES))])
    made: Steps = []
    for step in range(steps):
        parts: list[Part] = []
        if step % 20 == 0:
            parts.append({"kind": "user", "step": step, "text": writer.text(200)})
        parts.append({"kind": "assistant", "step": step, "text": writer.text(300)})
        calls = [_call(step, nth, chance, writer) for nth in range(chance.randint(1, 2))]
        parts += calls
        for call in calls:
            text = writer.result() if again is None else next(again)
            result = {"call_id": call["call_id"], "name": call["name"], "text": text}
            parts.append({"kind": "tool_result", "step": step, **result})
        if step % 5 == 4:
            parts.append(_change(step, chance))
        made.append(parts)
    return made


@cache
def _whole(variant: str, steps: int) -> Steps:
    return session(steps, variant)


def load(steps: int, variant: str = BASE) -> Steps:
    """The same, made once in a process. Its parts are shared: nobody may change them."""
    if variant != BASE:
        return _whole(variant, steps)
    # Most runs want some thousand steps in the end; a short one should not wait for these.
    whole = next(size for size in (100, FULL, steps) if size >= steps)
    return _whole(variant, whole)[:steps]


def json_bytes(steps: Steps) -> int:
    """The bytes of all parts as JSON, which sizes on disk are compared with."""
    return sum(len(json.dumps(part)) for step in steps for part in step)


def _call(step: int, nth: int, chance: random.Random, writer: _Writer) -> Part:
    arguments = {"path": f"src/mod_{chance.randrange(200)}.py", "command": ""}
    room = _ARGUMENT_BYTES - len(json.dumps(arguments))
    # Without quotes and line ends the JSON is as long as the text.
    arguments["command"] = writer.text(300).replace("\n", " ").replace('"', "'")[:room]
    name = _TOOLS[chance.randrange(len(_TOOLS))]
    return {
        "kind": "tool_call",
        "step": step,
        "call_id": f"call_{step}_{nth}",
        "name": name,
        "args": json.dumps(arguments),
    }


def _change(step: int, chance: random.Random) -> Part:
    value = {
        "cwd": f"/repo/pkg_{chance.randrange(30)}",
        "permissions": list(_PERMISSIONS[: 1 + step % 3]),
        "file": f"src/mod_{chance.randrange(200)}.py",
        "file_version": step,
    }
    return {"kind": "state", "step": step, "text": "", "value": value}
