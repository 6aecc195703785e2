"""Work: the request that continues a session with another provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import place
from sawlog.cli.entries import entries_json, request_json, say_entries
from sawlog.cli.options import All, Json, Raw, SessionName
from sawlog.cli.output import first_line, say, table, visible, write_bytes, write_json
from sawlog.cli.quick import whole_number

if TYPE_CHECKING:
    from sawlog.audit.handoffrequest import Handoff
    from sawlog.audit.recorded import Recorded

_LIMITS = {
    "anthropic": "max_tokens",
    "openai-chat": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "deepseek-chat": "max_tokens",
}
"""What each API calls the most tokens that a reply may take."""


def handoff(
    context: typer.Context,
    name: SessionName,
    provider: Annotated[
        str,
        typer.Option(
            metavar="P", help="anthropic, openai-chat, openai-responses or deepseek-chat."
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(metavar="M", help="The model that goes on; else the session's own of P."),
    ] = "",
    max_tokens: Annotated[
        str,
        typer.Option(
            "--max-tokens", metavar="N", help="The most tokens of the reply; anthropic demands it."
        ),
    ] = "",
    text: Annotated[
        str,
        typer.Option("--say", metavar="TEXT", help="The user's next message. It is not logged."),
    ] = "",
    window: Annotated[
        str, typer.Option(metavar="N", help="Cut the history to this window; 0: no bound.")
    ] = "",
    reserve: Annotated[
        str, typer.Option(metavar="N", help="Units of the window that are kept for the reply.")
    ] = "",
    raw: Raw = False,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Give the request that continues a session with another provider, and what that one lacks.

    The session may be any: your own, or a transcript of Codex or Claude Code that was imported. The
    request holds the history as the log has it, also behind a compaction; calls without a result
    show that they have none; what the other provider sealed, such as its thinking, stays out, and
    each such block is told with its reason. Nothing is sent, and nothing is written to the log.

    Parameters and tools that the log does not have are yours to add. Where the history ends with
    the model's own reply, there is nothing to answer: --say gives the user's next message. It
    stands in this request alone.

    \b
      sawlog handoff fix-refund --provider openai-responses --model gpt-5 --say "Go on."
      sawlog handoff - --provider anthropic --model claude-opus-4-5 --max-tokens 8000 --raw > r.json
    """
    from sawlog.store.errors import ConfigError
    from sawlog.work.apis import api_of

    if raw and as_json:
        raise ConfigError("--raw writes the bytes and --json describes them: give one of the two")
    if not provider:
        raise ConfigError("say who is to go on: --provider anthropic, openai-chat, …")
    api = api_of(provider)
    parameters: dict[str, Any] = {}
    if max_tokens:
        parameters[_LIMITS[api]] = whole_number("--max-tokens", max_tokens)
    _check_wanted(api, parameters)
    session = place.auditing(context).read(name)
    found = session.handoff(
        provider=api,
        model=model,
        say=text or None,
        window=whole_number("--window", window) if window else None,
        reserve=whole_number("--reserve", reserve) if reserve else None,
        **parameters,
    )
    if raw:
        write_bytes(*found.request.chunks)
    elif as_json:
        write_json(_as_json(session, found))
    else:
        _print(session, found, everything)


def _check_wanted(api: str, parameters: dict[str, Any]) -> None:
    """Raise ConfigError, in this command's words, for a parameter that the API demands."""
    from sawlog.audit.handoff import wanted
    from sawlog.store.errors import ConfigError

    for name, example in wanted(api):
        if name not in parameters:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"the API {api} refuses a request without {name!r}: give {option}, such as "
                f"{option} {example}"
            )


# --- for programs ---------------------------------------------------------------------------------


def _as_json(session: Recorded, found: Handoff) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "session": session.id,
        "name": session.name,
        "sees": found.sees,
        "said": found.said,
        **request_json(found),
        "summary_lost": found.summary_lost,
        "undeclared": list(found.undeclared),
        "open_calls": to_builtins(found.open_calls),
        "inbox": found.inbox,
        "counts": [
            {
                "count": count,
                "what": note.what,
                "why": note.why,
                "kind": note.kind,
                "bound": note.bound,
            }
            for count, note in found.counted
        ],
        "notes": to_builtins(found.notes),
        "dropped": [to_builtins(one) for one in found.dropped],
        "entries": entries_json(found),
        "body": found.body.decode(),
    }


# --- for people -----------------------------------------------------------------------------------


def _print(session: Recorded, found: Handoff, everything: bool) -> None:
    header, request = found.header, found.request
    say(f"hand-over of {visible(session.name or session.id)}")
    rows = [
        ("to", f"{header.api}, model {visible(header.model)}"),
        ("sees", f"events 1 to {found.sees}; nothing was written or sent"),
        ("rules", f"profile {header.profile}, renderer {header.renderer}"),
        ("request", f"{request.method} {request.path}, {request.size:,} bytes"),
        ("digest", f"sha256:{request.digest}"),
        ("content", f"{len(found.entries):,} entries, sha256:{found.semantic}"),
    ]
    if found.said is not None:
        rows.append(("said", f"{first_line(found.said, 60)} (in this request, not in the log)"))
    if found.missing:
        rows.append(("missing", ", ".join(map(visible, found.missing))))
    if found.summary_lost:
        rows.append(("summary", "that of the last compaction is not in it: what it told is lost"))
    if found.undeclared:
        rows.append(("no schema", f"{', '.join(map(visible, found.undeclared))} (called before)"))
    if found.inbox:
        rows.append(("inbox", f"{found.inbox} waiting, not in this request"))
    table(rows, indent="  ")
    say_entries(found, everything)
    if found.open_calls:
        say("\ncalls without a result")
        calls = [(visible(one.name), one.status, f"event {one.seq}") for one in found.open_calls]
        table(calls, indent="  ")
    if found.dropped:
        say(f"\nleft behind: {len(found.dropped):,} parts of the log (--json says which and why)")
    if found.counted:
        say("\nwhat this provider gets otherwise")
        table(
            [
                (f"{count:,}", visible(note.bound or note.kind or "header"), note.what, note.why)
                for count, note in found.counted
            ],
            indent="  ",
        )
