"""Recording of programs in any language: a proxy in front of models, and a command behind it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import place
from sawlog.cli.options import Json, Wait
from sawlog.cli.output import counted, note, say
from sawlog.cli.quick import whole_number

if TYPE_CHECKING:
    import asyncio

    from sawlog.agentlog import AgentLog
    from sawlog.proxy.keeping import Tally
    from sawlog.proxy.server import Proxy

_LARGEST_PORT = 65_535

SessionOption = Annotated[
    str,
    typer.Option(metavar="NAME", show_default=False, help="The session of the first conversation."),
]
AnthropicOption = Annotated[
    str, typer.Option(metavar="URL", show_default=False, help="Where Anthropic's API is.")
]
OpenaiOption = Annotated[
    str,
    typer.Option(metavar="URL", show_default=False, help="Where OpenAI's API is, with its /v1."),
]
DeepseekOption = Annotated[
    str, typer.Option(metavar="URL", show_default=False, help="Where DeepSeek's API is.")
]
NoStrict = Annotated[
    bool,
    typer.Option("--no-strict", help="Send what cannot be recorded, and mark the gap."),
]


def proxy(
    context: typer.Context,
    session: SessionOption = "",
    port: Annotated[str, typer.Option(metavar="N", help="Where to listen; 0: a free port.")] = "0",
    listen: Annotated[
        str, typer.Option(metavar="HOST", help="Listen there, and not for this machine alone.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A further name that clients call the proxy by."),
    ] = None,
    anthropic: AnthropicOption = "",
    openai: OpenaiOption = "",
    deepseek: DeepseekOption = "",
    no_strict: NoStrict = False,
    wait: Wait = "0",
    as_json: Json = False,
) -> None:
    """Listen for requests to models, pass each on as it is, and record what was said.

    A program in any language is recorded when its base URL is that of the proxy. The lines that are
    printed set it for the usual clients. Requests go on to the providers, or to where --anthropic,
    --openai and --deepseek say, and to no other host; keys pass through and are nowhere kept.

    Each conversation has a session of its own: the first is --session (proxy-DATE-TIME when not
    given), the next NAME/2 and so on. A client names another with the header x-sawlog-session.
    A request is in the log before it leaves; one that cannot be recorded is answered with status
    503 and does not leave, but with --no-strict.

    Ends with Ctrl-C, and then says what was recorded. Needs the extra `proxy`.

    \b
      sawlog proxy --session nightly --port 8399
      sawlog proxy --openai http://127.0.0.1:11434/v1
    """
    from sawlog.proxy import check_installed

    check_installed()
    from sawlog.proxy.upstreams import upstreams, variables

    number, seconds = whole_number("--port", port), whole_number("--wait", wait)
    _check_port(number)
    given = {"anthropic": anthropic, "openai": openai, "deepseek": deepseek}
    known = upstreams(given)
    options: dict[str, Any] = {
        "known": known,
        "host": listen,
        "port": number,
        "names": name or [],
        "strict": not no_strict,
    }

    async def listening(one: Proxy) -> int:
        told_to_end = _told_to_end()
        if as_json:
            places = {each.provider.name: each.origin + each.path for each in known}
            told = {"url": one.url, "session": one.tally.first, "upstreams": places}
            say(json.dumps({**told, "variables": variables(one.url)}))
        else:
            for key, value in variables(one.url).items():
                say(f"export {key}={value}")
        sys.stdout.flush()
        note(f"listening on {one.url}, recording into {one.tally.first}; Ctrl-C ends it")
        if listen not in ("127.0.0.1", "::1", "localhost"):
            note(
                f"warning: whoever reaches {listen} can send requests through this proxy, and "
                "read nothing of the log; keys cross the network as plain text"
            )
        await told_to_end.wait()
        return 0

    _told(
        context,
        _recording(place.writing(context), session, "proxy", options, seconds, listening)[1],
        as_json,
    )


def run(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND [ARGS]...", help="What to run.")
    ],
    session: SessionOption = "",
    anthropic: AnthropicOption = "",
    openai: OpenaiOption = "",
    deepseek: DeepseekOption = "",
    no_strict: NoStrict = False,
    wait: Wait = "0",
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say what was recorded.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say what was recorded as JSON, on stderr.")
    ] = False,
) -> None:
    """Run a command and record what it says to models.

    A proxy listens for it on a free port of this machine; ANTHROPIC_BASE_URL, OPENAI_BASE_URL,
    OPENAI_API_BASE, DEEPSEEK_BASE_URL and their like lead there. One that is set already says where
    requests go on to. What the command reads and writes is untouched, signals reach it, and its
    exit status is that of this command (128 + n when signal n ended it, 127 when there is no such
    command). At its end one line on stderr says what was recorded.

    A client that is told its base URL in another way is not seen: `sawlog proxy` tells what to set.
    See there for sessions and --no-strict. Needs the extra `proxy`.

    \b
      sawlog run -- python agent.py
      sawlog run --session nightly -- npx my-agent --fast
    """
    from sawlog.proxy import check_installed

    check_installed()
    from sawlog.proxy import running
    from sawlog.proxy.upstreams import from_environment, upstreams

    given = {"anthropic": anthropic, "openai": openai, "deepseek": deepseek}
    known = upstreams(from_environment(os.environ, given))

    async def behind(one: Proxy) -> int:
        return await running.run(command, running.environment(os.environ, one.url))

    options: dict[str, Any] = {"known": known, "strict": not no_strict}
    seconds = whole_number("--wait", wait)
    log = place.writing(context)
    try:
        status, tally = _recording(log, session, "run", options, seconds, behind)
    except FileNotFoundError as error:
        raise typer.Exit(_not_run(command, "there is no such command", running.NOT_FOUND)) from (
            error
        )
    except PermissionError as error:
        raise typer.Exit(_not_run(command, "it may not be run", running.NOT_RUN)) from error
    if not quiet:
        _told(context, tally, as_json)
    raise typer.Exit(status)


def _recording(
    log: AgentLog,
    session: str,
    kind: str,
    options: dict[str, Any],
    wait: int,
    work: Callable[[Proxy], Awaitable[int]],
) -> tuple[int, Tally]:
    """Do some work while the proxy listens; gives what that gives, and what was recorded."""
    import asyncio
    from datetime import UTC, datetime

    from sawlog.proxy.keeping import check_name
    from sawlog.proxy.server import Proxy

    first = session or f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    check_name(first)

    async def doing() -> tuple[int, Tally]:
        made = Proxy(log, first=first, say=note, **options)
        async with made:
            if session:
                await made.open_first(wait)
            given = await work(made)
        return given, made.tally

    return asyncio.run(doing())


def _told_to_end() -> asyncio.Event:
    """What SIGINT and SIGTERM set from here on."""
    import asyncio
    import signal

    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    return told


def _told(context: typer.Context, tally: Tally, as_json: bool) -> None:
    """Say on stderr what was recorded."""
    if as_json:
        import msgspec

        print(json.dumps(msgspec.to_builtins(tally)), file=sys.stderr)
        return
    if not tally.recorded:
        rest = f"; {counted(tally.passed, 'request')} passed on without a record"
        note(f"nothing was recorded{rest if tally.passed else ''}")
        return
    others = tally.sessions - 1
    beside = f" and {counted(others, 'session')} beside it" if others else ""
    broke = f", {tally.broke:,} of them broken off," if tally.broke else ""
    note(
        f"recorded {counted(tally.recorded, 'request')}{broke} in {tally.first}{beside}: "
        f"{place.command(context, f'show {tally.first}')}"
    )


def _not_run(command: list[str], why: str, status: int) -> int:
    note(f"{command[0]}: {why}")
    return status


def _check_port(number: int) -> None:
    from sawlog.store.errors import ConfigError

    if number > _LARGEST_PORT:
        raise ConfigError(f"--port {number}: {_LARGEST_PORT} is the last one there is")
