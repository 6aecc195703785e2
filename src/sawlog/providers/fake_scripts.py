"""Scripts of the fake provider as JSON files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from sawlog.providers.fake_faults import At, Cut, ErrorEvent, Fault, Garbage, Stall
from sawlog.providers.fake_replies import (
    Call,
    Drop,
    Hang,
    HttpError,
    Part,
    Raw,
    Reply,
    ScriptError,
    Step,
    Streamed,
    Text,
    Thinking,
)


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    text: str | None = None
    thinking: str | None = None
    redacted: bool = False
    call: str | None = None
    arguments: str | dict[str, Any] = "{}"
    id: str | None = None
    custom: bool = False
    raw: dict[str, Any] | None = None


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str | dict[str, Any] = "{}"
    id: str | None = None
    custom: bool = False


class _Error(msgspec.Struct, forbid_unknown_fields=True):
    status: int
    message: str | None = None
    type: str | None = None
    code: str | None = None
    headers: dict[str, str] = {}
    times: int = 1


class _ErrorEvent(msgspec.Struct, forbid_unknown_fields=True):
    message: str | None = None
    type: str | None = None
    code: str | None = None
    failed: bool = False


class _Fault(msgspec.Struct, forbid_unknown_fields=True):
    events: int | None = None
    bytes: int | None = None
    call: int | None = None
    stall: float | None = None
    cut: bool = False
    error: _ErrorEvent | None = None
    garbage: str | None = None


class _Stream(msgspec.Struct, forbid_unknown_fields=True):
    faults: list[_Fault] = []
    wait: float = 0.0
    chunk: int | None = None


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    thinking: str | None = None
    calls: list[_Call] = []
    stop: str | None = None
    raw: str | None = None
    parts: list[_Part] | None = None
    model: str | None = None
    error: _Error | None = None
    hang: float | None = None
    drop: bool = False
    stream: _Stream | None = None


def read_script(path: Path) -> list[Step]:
    """The answers that a JSON file lists. Each is an object with the fields of Reply (a part has
    one of `text`, `thinking`, `call` with `arguments`, `raw`), or has `error` (the fields of
    HttpError, and how many `times` in a row), or `drop` (true). A reply may also have `hang` (the
    seconds before it; alone: before the connection drops) or `stream` (the fields of Streamed; a
    fault has one of `events`, `bytes`, `call`, and one of `stall` with seconds, `cut` with true,
    `error` with the fields of ErrorEvent, `garbage` with text). Raises ScriptError naming the
    place."""
    try:
        steps = msgspec.json.decode(path.read_bytes(), type=list[_Step])
    except OSError as error:
        raise ScriptError(f"cannot read the script {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:  # invalid JSON, or not of this form
        raise ScriptError(f"the script {path} is not a list of answers: {error}") from error
    return [step for number, read in enumerate(steps) for step in _steps(number, read)]


def _steps(number: int, step: _Step) -> list[Step]:
    if step.error is not None:
        said = step.error
        error = HttpError(said.status, said.message, said.type, None, said.code, said.headers)
        return [error] * said.times
    if step.drop:
        return [Drop()]
    silent = not (step.text or step.calls or step.thinking or step.raw or step.parts)
    if step.hang is not None:
        if step.stream is not None:
            raise ScriptError(
                f"answer {number} of the script has both `hang` and `stream`; keep one (`hang` "
                "waits before the headers, `wait` inside of `stream` behind them)"
            )
        return [Hang(step.hang, None if silent else _reply(number, step))]
    if step.stream is not None:
        faults = [_fault(number, fault) for fault in step.stream.faults]
        reply = _reply(number, step)
        return [Streamed(reply, faults, step.stream.wait, step.stream.chunk)]
    return [_reply(number, step)]


def _reply(number: int, step: _Step) -> Reply:
    parts = None if step.parts is None else [_part(number, part) for part in step.parts]
    calls = [Call(call.name, call.arguments, call.id, call.custom) for call in step.calls]
    return Reply(step.text, step.thinking, calls, step.stop, step.raw, parts, step.model)


def _fault(number: int, fault: _Fault) -> Fault:
    at = At(fault.events, fault.bytes, fault.call)
    kinds: list[Fault] = []
    if fault.stall is not None:
        kinds.append(Stall(at, fault.stall))
    if fault.cut:
        kinds.append(Cut(at))
    if fault.error is not None:
        said = fault.error
        kinds.append(ErrorEvent(at, said.message, said.type, said.code, said.failed))
    if fault.garbage is not None:
        kinds.append(Garbage(at, fault.garbage))
    places = [place for place in (fault.events, fault.bytes, fault.call) if place is not None]
    if len(kinds) != 1 or len(places) != 1:
        raise ScriptError(
            f"a fault in answer {number} of the script is not one thing at one place; give it one "
            "of stall, cut, error and garbage, and one of events, bytes and call"
        )
    return kinds[0]


def _part(number: int, part: _Part) -> Part:
    if part.text is not None:
        return Text(part.text)
    if part.thinking is not None:
        return Thinking(part.thinking, part.redacted)
    if part.call is not None:
        return Call(part.call, part.arguments, part.id, part.custom)
    if part.raw is not None:
        return Raw(part.raw)
    raise ScriptError(
        f"answer {number} of the script has an empty part; give it text, thinking, call or raw"
    )
