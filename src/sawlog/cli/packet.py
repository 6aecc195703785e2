"""Audit: a step's packet, as it was sent or as another provider would get it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sawlog.cli import place
from sawlog.cli.entries import entries_json, request_json, say_entries
from sawlog.cli.options import All, Json, Raw, Zones
from sawlog.cli.output import counted, say, table, visible, write_bytes, write_json
from sawlog.cli.sent import SENT
from sawlog.cli.zones import say_zones, zones_json

if TYPE_CHECKING:
    from sawlog.audit.recorded import Recorded
    from sawlog.audit.steppacket import StepPacket


def packet(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="SESSION@STEP", help="A step, such as -@3; with --call only the session."
        ),
    ],
    provider: Annotated[
        str,
        typer.Option(
            metavar="P",
            help="Show it as anthropic, openai-chat, openai-responses or deepseek-chat gets it.",
        ),
    ] = "",
    model: Annotated[str, typer.Option(help="The model to render for, with --provider.")] = "",
    raw: Raw = False,
    call: Annotated[
        str, typer.Option(metavar="ID", help="Find the step that asked for this tool call.")
    ] = "",
    zones: Zones = False,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Show what the model saw at a step: the packet that its decision was made on.

    A packet that sawlog built is replayed from the log and comes out byte for byte as it was sent.
    One that another program built was recorded: its bytes come out again, and its entries are what
    they say, each with the event that holds the same text. A step of an imported transcript is
    reconstructed: the packet says so, and names what the model saw and the file does not hold.

    `sent` says how far what was sent is what the model saw: exact, edited, held, rewritten,
    unconfirmed, external.

    \b
      sawlog packet fix-refund@4                        its entries, section by section
      sawlog packet fix-refund@4 --raw > request.json   exactly the bytes that were sent
      sawlog packet - --call toolu_01A                  the packet behind a tool call
      sawlog packet fix-refund@4 --zones                and what each zone of it takes
      sawlog packet -@4 --provider openai-chat --raw    the same packet for another provider
    """
    from sawlog.store.errors import ConfigError

    if raw and as_json:
        raise ConfigError("--raw writes the bytes and --json describes them: give one of the two")
    if model and not provider:
        raise ConfigError("--model goes with --provider: name the provider, too")
    if raw and zones:
        raise ConfigError("--raw writes the bytes alone: leave --zones out")
    log = place.auditing(context)
    if call:
        session = log.read(name)
        step = session.step_of_call(call)
    else:
        text, step = place.split_step(name)
        session = log.read(text)
    found = session.packet(step)
    uses = session.steps[step].zones() if zones else None
    if provider:
        found = _for_provider(session, step, found, provider, model)
    if raw:
        write_bytes(*found.request.chunks)
    elif as_json:
        told = _as_json(session, step, found)
        write_json(told if uses is None else told | {"zones": zones_json(uses)})
    else:
        _print(session, step, found, everything)
        if uses is not None:
            say_zones(uses)


def _for_provider(
    session: Recorded, step: int, found: StepPacket, provider: str, model: str
) -> StepPacket:
    from sawlog.audit.rerender import rendered
    from sawlog.work.apis import api_of

    api = api_of(provider)
    if api == found.header.api and model in ("", found.header.model):
        return found
    return rendered(session, step, api, model or found.header.model)


def _as_json(session: Recorded, step: int, found: StepPacket) -> dict[str, Any]:
    return {
        "session": session.id,
        "name": session.name,
        "step": step,
        "origin": found.origin,
        "sent": None if found.origin == "rendered" else session.steps[step].sent or None,
        "built_at": found.built_at or None,
        "sees": found.sees,
        **request_json(found),
        "notes": [
            {"entry": entry, "what": what, "why": why} for entry, what, why in found.request.notes
        ],
        "entries": entries_json(found),
    }


_ORIGINS = {
    "built": "as it was built before it was sent",
    "recorded": "as another program built it: its bytes were recorded before they were sent",
    "reconstructed": "reconstructed: the transcript shows the step and not its request",
    "rendered": "as it would be for another provider: it was never sent like this",
}


def _print(session: Recorded, step: int, found: StepPacket, everything: bool) -> None:
    header = found.header
    say(f"step {step} of {visible(session.name or session.id)}")
    content = counted(len(found.entries), "entry", "entries")
    rows = [
        ("packet", _ORIGINS[found.origin]),
        ("sees", f"events 1 to {found.sees}"),
        ("for", f"{header.api}, model {visible(header.model) or 'not named'}"),
        ("request", f"{found.request.size:,} bytes, sha256:{found.request.digest}"),
        ("content", f"{content}, sha256:{found.semantic}" if found.semantic else content),
    ]
    if found.origin in ("built", "recorded"):
        rows.insert(1, ("sent", SENT[session.steps[step].sent]))
    if found.origin != "recorded":
        rows.insert(-2, ("rules", f"profile {header.profile}, renderer {header.renderer}"))
    if found.missing:
        name = "missing" if found.origin == "built" else "absent"
        rows.append((name, ", ".join(map(visible, found.missing))))
    table(rows, indent="  ")
    say_entries(found, everything)
    if found.request.notes:
        say("\nwhat this provider gets otherwise")
        for number, what, why in found.request.notes:
            say(f"{number:>5}  {visible(what)}: {visible(why)}")
