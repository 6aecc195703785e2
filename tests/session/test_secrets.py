"""Secrets that tools get by handle: no byte of a value is left anywhere behind a run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sawlog.agentlog import AgentLog
from sawlog.providers.fake import Call, FakeProvider, Reply
from sawlog.store.content import BoundPart, MediaPart, RawPart, TextPart
from sawlog.store.errors import CredentialUnavailable, InvalidEvent, ToolError
from sawlog.store.events.conversation import ApprovalDecided, ApprovalRequested, ToolFinished
from sawlog.store.events.effects import EffectReconciled
from sawlog.store.exchange import export
from sawlog.work.credentials import Credentials
from tests.cli.command import sawlog as command
from tests.session.agents import (
    TOOLS,
    asked,
    next_step,
    one,
    opened,
    provided,
    results,
    sound,
    told,
    types,
)
from tests.session.tasks import async_client, run, step_of
from tests.timing import growth

VALUE = "sk-\"live\"\\n/ü\U0001f511\t'9f3c' 50%"
PLAIN = "tok_5f1d9c7be2a84"


def spellings(value: str) -> list[str]:
    """The value as tools, exceptions and encoders write it."""
    once = json.dumps(value)[1:-1]
    raw = value.encode()
    return [
        value,
        once,
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(once)[1:-1],
        json.dumps(json.dumps(once)[1:-1])[1:-1],
        once.replace("/", "\\/"),
        repr(value)[1:-1],
        ascii(value)[1:-1],
        repr(raw)[2:-1],
        quote(value),
        quote(value, safe=""),
        base64.b64encode(raw).decode(),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
        quote_plus(value),
        re.sub("%..", lambda escape: escape[0].lower(), quote(value, safe="")),
        quote(quote(value, safe=""), safe=""),
        "".join(f"%{byte:02X}" for byte in raw),
        html.escape(value),
        html.escape(html.escape(value, quote=False)),
        "".join(f"&#x{ord(c):x};" if at % 2 else f"&#{ord(c):03};" for at, c in enumerate(value)),
        "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in value),
    ]


def traces(value: str) -> list[bytes]:
    """What must be found nowhere: the value, its digest, its base64."""
    raw = value.encode()
    return [
        raw,
        json.dumps(value)[1:-1].encode(),
        hashlib.sha256(raw).hexdigest().encode(),
        hashlib.sha256(raw).digest(),
        base64.b64encode(raw),
    ]


# --- what is taken out ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [VALUE, PLAIN, "\\", '"', "a\\\\b", "\x00\x1f", "日本"])
def test_every_spelling_of_a_value_is_taken_out(value: str) -> None:
    credentials = Credentials({"key": value})
    assert credentials.secret("key") == value
    for text in spellings(value):
        scrubbed = credentials.scrub(f"<{text}>, <{text}>")
        assert scrubbed == "<[secret:key]>, <[secret:key]>", text


@pytest.mark.parametrize("value", [VALUE, PLAIN, "?>?>?>", "1234", "日本", "k" * 200 + "\n/+" * 40])
@pytest.mark.parametrize("before", ["", "u", "us", "use", "user:"])
@pytest.mark.parametrize("after", ["", "\n", "\xff", ":more"])
def test_a_value_is_taken_out_of_longer_base64(value: str, before: str, after: str) -> None:
    credentials = Credentials({"key": value})
    credentials.secret("key")
    raw = (before + value + after).encode()
    wrapped = base64.encodebytes(raw * 3).decode()
    once = base64.b64encode(raw).decode()
    for text, times in (
        (once, 1),
        (base64.urlsafe_b64encode(raw).decode().rstrip("="), 1),
        (quote(once, safe=""), 1),
        (once.replace("/", "\\/"), 1),
        (wrapped, 3),
        (json.dumps(wrapped), 3),
        (json.dumps(json.dumps(wrapped.replace("\n", "\r\n    "))), 3),
    ):
        scrubbed = credentials.scrub(f"Basic {text}.")
        assert scrubbed.startswith("Basic ")
        assert scrubbed.endswith(".")
        assert scrubbed.count("[secret:key]") == times, text


@pytest.mark.parametrize("value", [VALUE, PLAIN, "日本"])
def test_a_value_is_taken_out_in_hexadecimal_digits(value: str) -> None:
    credentials = Credentials({"key": value})
    credentials.secret("key")
    raw = value.encode()
    for text in (raw.hex(), raw.hex().upper(), raw.hex(" "), raw.hex(":")):
        assert credentials.scrub(f"<{text}>") == "<[secret:key]>"


def test_what_only_looks_like_a_short_value_stays() -> None:
    credentials = Credentials({"key": "ab"})
    credentials.secret("key")
    assert credentials.scrub("6162 YWI YWJj aGFi") == "6162 [secret:key] YWJj aGFi"


@pytest.mark.parametrize("value", ["k" * 1000, "\\" * 10, "?" * 40, "&%" * 20])
def test_no_text_takes_long(value: str) -> None:
    credentials = Credentials({"key": value})
    credentials.secret("key")
    core = base64.b64encode(value.encode()).decode()

    def scrub(size: int) -> None:
        for part in ("\\", "%25", "&amp;", "/", "\\n", "k", "\r\n "):
            credentials.scrub(part * size + core)

    assert growth(scrub, 2_000) < 9


@given(st.text(min_size=1, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_value_survives(value: str, before: str, after: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in value) or value in "[secret:key]":
        return
    credentials = Credentials({"key": value})
    credentials.secret("key")
    text = credentials.scrub(f"{before}{value}{after}")
    assert value not in text or "[secret:key]" in text
    source = json.dumps({"a": f"{before}{value}{after}"})
    assert "[secret:key]" in credentials.scrub(source)


@given(st.text(alphabet='ab"\\/', max_size=40), st.text(alphabet='ab"\\/', min_size=1, max_size=4))
def test_json_stays_json_when_a_value_leaves_it(around: str, value: str) -> None:
    if value in '{"a": ""}' or value in around or value[0] == "\\" or value[-1] == "\\":
        return
    credentials = Credentials({"key": value})
    credentials.secret("key")
    source = json.dumps({"n": [7, f"-{value}-"]})
    if value in source.replace(json.dumps(value)[1:-1], ""):
        return
    assert json.loads(credentials.scrub(source)) == {"n": [7, "-[secret:key]-"]}


def test_the_longest_value_goes_first_and_what_was_not_handed_out_stays() -> None:
    credentials = Credentials({"short": "abc", "long": "abcdef", "other": "xyz"})
    for handle in ("short", "long", "long"):
        credentials.secret(handle)
    assert credentials.scrub("abcdefabc xyz") == "[secret:long][secret:short] xyz"


def test_a_handle_closes_nothing() -> None:
    credentials = Credentials(lambda handle: PLAIN)
    credentials.secret('a"]\\n<b>')
    assert credentials.scrub(json.dumps(PLAIN)) == '"[secret:a___n_b_]"'


def test_a_text_of_backslashes_costs_what_it_is_long() -> None:
    credentials = Credentials({"a": 'a"b', "b": "\\x", "c": '"/', "d": "\\\\"})
    for handle in "abc":
        credentials.secret(handle)
    text = "\\" * 200_000
    assert credentials.scrub(text + "q") == text + "q"


def test_parts_are_scrubbed_in_all_their_texts() -> None:
    credentials = Credentials({"key": PLAIN})
    credentials.secret("key")
    gone = "-[secret:key]-"
    text = f"-{PLAIN}-"
    assert credentials.scrubbed(TextPart(text)) == TextPart(gone)
    assert credentials.scrubbed(RawPart("x", text)) == RawPart("x", gone)
    assert credentials.scrubbed(BoundPart("k", "x", text, text)) == BoundPart("k", "x", gone, gone)
    assert credentials.scrubbed(MediaPart("m", url=text, file=text, name=text)) == MediaPart(
        "m", url=gone, file=gone, name=gone
    )


# --- in a run -------------------------------------------------------------------------------------


def test_a_secret_that_nobody_gives_is_an_error_result_that_names_the_handle(
    log: AgentLog,
) -> None:
    def vault(handle: str) -> Any:
        if handle == "broken":
            raise KeyError(f"what the vault holds is {PLAIN}")
        return {"empty": "", "none": None, "number": 7}.get(handle)

    handles = ["broken", "empty", "none", "number", "unknown"]
    for secrets in (vault, {"empty": ""}, None):
        with log.session("task", secrets=secrets) as s:
            calls = asked(s, *[Call("read_file", {"path": handle}) for handle in handles])
            for call, handle in zip(calls, handles, strict=True):
                with s.tool(call) as tool:
                    with pytest.raises(CredentialUnavailable) as missing:
                        tool.secret(handle)
                    assert missing.value.code == "credential_unavailable"
                    assert missing.value.handle == handle and isinstance(missing.value, ToolError)
                    assert missing.value.__cause__ is None and PLAIN not in str(missing.value)
                    tool.secret(handle)
                    raise AssertionError("it went on without")
    said = "credential_unavailable: there is no secret under the handle"
    assert told(log) == 3 * [
        ("error", f"CredentialUnavailable: {said} {handle!r}") for handle in handles
    ]


def test_a_secret_asked_for_after_the_result_is_taken_out_of_it_too(log: AgentLog) -> None:
    with log.session("task", secrets={"key": PLAIN}) as s, s.tool(one(s)) as tool:
        tool.result({"said": f"it is {PLAIN}"}, error=True)
        tool.secret("key")
    assert told(log) == [("error", '{"said":"it is [secret:key]"}')]


def test_a_preview_shows_and_stores_the_scrubbed_text(log: AgentLog) -> None:
    with log.session("task", secrets={"key": PLAIN}) as s, s.tool(one(s)) as tool:
        tool.secret("key")
        tool.result(f"{PLAIN} ".join(f"line {n}\n" for n in range(400)), limit=600)
    stored = b"".join(export(log.store, log.find("task")))
    assert PLAIN.encode() not in stored and b"[secret:key]" in stored
    sound(log, "task")


def test_what_is_no_exception_leaves_no_value_either(log: AgentLog) -> None:
    with (
        log.session("task", secrets={"key": PLAIN}) as s,
        pytest.raises(KeyboardInterrupt),
        s.tool(one(s)) as tool,
    ):
        raise KeyboardInterrupt(tool.secret("key"))
    assert told(log) == [("interrupted", "interrupted: KeyboardInterrupt: [secret:key]")]


def test_a_path_that_holds_the_value_is_scrubbed(log: AgentLog) -> None:
    with log.session("task", secrets={"key": PLAIN}) as s, s.tool(one(s)) as tool:
        tool.saw(f"https/{PLAIN}/a", version="00ff")
        tool.secret("key")
    assert [(saw.path, saw.version) for saw in results(log)[0].saw] == [
        ("https/[secret:key]/a", "00ff")
    ]


def test_threads_get_their_secrets_and_no_result_holds_any(any_log: AgentLog) -> None:
    log = any_log
    values = {str(n): f"value-{n:03}-{n * 7919:06}" for n in range(12)}
    with log.session("task", secrets=values) as s:
        calls = asked(s, *[Call("read_file", {"path": handle}) for handle in values])

        def act(call: Any) -> None:
            with s.tool(call) as tool:
                tool.result(f"got {tool.secret(call.args['path'])}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(act, calls))
    assert sorted(text for _, text in told(log)) == sorted(f"got [secret:{n}]" for n in values)


def test_a_task_gets_a_secret(log: AgentLog) -> None:
    async def work() -> None:
        async with (
            async_client("anthropic", fake) as client,
            log.asession("task", secrets={"key": PLAIN}) as s,
        ):
            await s.tools(TOOLS)
            await s.user("go")
            reply = await (await step_of(s, "anthropic")).send(client)
            for call, handle in zip(reply.tool_calls, ("key", "none"), strict=True):
                async with s.tool(call) as tool:
                    tool.result(f"got {await tool.secret(handle)}")

    with FakeProvider([Reply(calls=[Call("run_tests"), Call("run_tests")])]) as fake:
        run(work())
    [first, second] = told(log)
    assert first == ("ok", "got [secret:key]")
    assert second[0] == "error" and "'none'" in second[1]


# --- the whole of a run ---------------------------------------------------------------------------


def left_behind(directory: Path, log: AgentLog, bodies: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Everything that a run left, by name, with texts as they are and as stored."""
    for file in sorted(directory.iterdir()):
        yield file.name, file.read_bytes()
    recorded = log.read("task")
    yield "export", b"".join(export(log.store, recorded.row))
    for event in recorded.events():
        yield f"event {event.seq}", repr(event).encode()
        for part in event.content.parts if isinstance(event.content, ToolFinished) else ():
            blob = getattr(getattr(part, "text", ""), "blob", "")
            if blob:
                yield f"blob of event {event.seq}", recorded.window.blob(blob)
    for number, body in enumerate(bodies):
        yield f"sent {number}", body
    for step in recorded.steps:
        yield f"packet {step.number}", repr(step.packet).encode() + step.packet.body
        yield f"why {step.number}", repr(step.why("read")).encode()
    store = ("--store", str(log.store.database.url))
    for arguments in (
        ["show", "task"],
        ["show", "task", "--json"],
        ["show", "task@2"],
        ["packet", "task@2"],
        ["packet", "task@2", "--raw"],
        ["diff", "task@1", "task@2"],
        ["why", "task@2", "secret"],
        ["verify", "task", "--json"],
        ["ls", "--json"],
    ):
        done = command(*store, *arguments)
        assert done.code in (0, 1), (arguments, done)
        yield " ".join(arguments), done.out + done.err.encode()


@pytest.mark.parametrize("value", [VALUE, PLAIN], ids=["odd", "plain"])
def test_no_byte_of_a_secret_is_left_anywhere(
    tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool spells it in every way it can: results, errors, parts, paths, a large one."""
    caplog.set_level(logging.DEBUG)
    errors: list[str] = []
    script = [Reply(calls=[Call("read_file", {"path": str(n)}) for n in range(7)]), Reply("Done.")]
    with (
        opened(str(tmp_path / "agent.db")) as log,
        provided("openai-chat", script) as (fake, client),
    ):
        with log.session("task", secrets={"api": value}) as s:
            s.tools(TOOLS)
            s.user("go")
            s.offer(channel="secret_fixture", source_id="api", handle="api")
            calls = next_step(s, "openai-chat").send(client).tool_calls
            outcomes: list[Any] = [
                value,
                {"token": value, "nested": json.dumps({"again": value})},
                [TextPart(f"Bearer {value}"), MediaPart("image/png", url=f"https://x/?{value}")],
                value.encode() + b"\xff",
                f"{value}\n" * 3000,
                ValueError(value),
                OSError(5, f"cannot reach {value!r}", value),
            ]
            for call, outcome in zip(calls, outcomes, strict=True):
                with s.tool(call) as tool:
                    assert tool.secret("api") == value
                    tool.saw(f"a/{value}")
                    if isinstance(outcome, Exception):
                        raise outcome
                    tool.result(outcome)
            with pytest.raises(CredentialUnavailable) as missing:
                s.tool(calls[0]).secret("other")
            errors.append(repr(missing.value))
            with pytest.raises(ToolError) as twice, s.tool(calls[0]):
                raise AssertionError("it has its result")
            errors.append(repr(twice.value))
            assert next_step(s, "openai-chat").send(client).text == "Done."
            found = list(left_behind(tmp_path, log, fake.bodies()))
        found.extend(left_behind(tmp_path, log, fake.bodies()))  # after the session was closed
        sound(log, "task")
        assert types(log.read("task")).count("tool.finished") == 7
        assert [status for status, _ in told(log)] == ["ok"] * 5 + ["error"] * 2
    found.append(("errors", "\n".join(errors).encode()))
    found.append(("log records", caplog.text.encode()))
    assert any(name.endswith("-wal") for name, _ in found), "the write-ahead log was looked at"
    for name, data in found:
        for trace in traces(value):
            assert trace not in data, f"{name} holds {trace!r}"
    assert sum(data.count(b"[secret:api]") for _, data in found) > 10


def test_what_people_say_of_calls_and_effects_is_scrubbed(log: AgentLog) -> None:
    """The question and the words of a decision, who found out; also from beside the session."""
    said = f"it is {VALUE}"
    with log.session("task", gateway=None, secrets={"key": VALUE}) as s:
        first, second, third = asked(s, *[Call("run_tests", {})] * 3)
        with s.tool(first) as run:
            run.secret("key")
        approval = s.ask(second, said)
        log.decide("task", approval, allow=True, by=said, reason=said)
        log.decide("task", approval, allow=True, by=said, reason=said)
        with pytest.raises(ToolError, match="mine"), s.tool(second) as run:
            with pytest.raises(RuntimeError), run.effect("mail", what=said):
                raise RuntimeError
            with pytest.raises(RuntimeError), run.effect("post"):
                raise RuntimeError
            raise ToolError("mine")
        s.reconcile(f"{second.event_id}:post", "done", by=said, receipt=said)
        s.resolve(second, "done", by=said)
        s.tool(third).start()
        s.checks.ended(third.event_id)
        log.resume("task", secrets={"key": VALUE})  # one that was handed nothing
    contents = [event.content for event in log.read("task").events()]
    [question] = [one.question for one in contents if isinstance(one, ApprovalRequested)]
    [decided] = [one for one in contents if isinstance(one, ApprovalDecided)]
    by = [one.by for one in contents if isinstance(one, EffectReconciled)]
    assert {question, decided.by, decided.reason, *by} == {"it is [secret:key]"} and len(by) == 2
    for event in log.store.read(log.find("task")):
        assert not any(spelling.encode() in (event.payload or b"") for spelling in spellings(VALUE))
    sound(log, "task")


def test_what_is_no_text_is_named_where_it_is_said(log: AgentLog) -> None:
    with log.session("task", gateway=None) as s:
        first, second = asked(s, *[Call("run_tests", {})] * 2)
        s.tool(first).start()
        s.checks.ended(first.event_id)
        given: Any = 5
        with pytest.raises(InvalidEvent, match="question"):
            s.ask(second, given)
        with pytest.raises(InvalidEvent, match="by"):
            s.resolve(first, "done", by=given)
        with pytest.raises(InvalidEvent, match="by"):
            log.decide("task", s.ask(second), allow=True, by=given)


def test_a_secret_over_several_texts_side_by_side_is_taken_out_too(log: AgentLog) -> None:
    half = len(PLAIN) // 2
    with log.session("task", gateway=None, secrets={"key": PLAIN}) as s:
        call = one(s, "act", {})
        with s.tool(call) as tool:
            tool.secret("key")
            whole = TextPart(f"so it is {PLAIN[:half]}"), TextPart(f"{PLAIN[half:]}, you see")
            apart = TextPart(PLAIN[:3]), MediaPart("image/png", url="u"), TextPart("end")
            tool.result([*whole, *apart])
    [done] = [e.content for e in log.read("task").events() if isinstance(e.content, ToolFinished)]
    assert done.parts[0] == TextPart(f"so it is [secret:key], you see{PLAIN[:3]}")
    assert done.parts[1:] == (MediaPart("image/png", url="u"), TextPart("end"))
