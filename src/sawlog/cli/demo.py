"""Learn: the demo, told as it happens, and what it proves."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sawlog.cli import place
from sawlog.cli.options import Json
from sawlog.cli.output import say, table, visible, write_json

if TYPE_CHECKING:
    from sawlog.demo.stage import Facts


def demo(context: typer.Context, as_json: Json = False) -> None:
    """See an agent killed in the middle of a tool, reopened, and every packet replayed.

    A scripted agent mends a small Python repository with real tools: it reads files, runs the
    tests, edits. Its model is a strict fake provider over HTTP on this machine; no network and no
    key are used. The agent's process is killed while the tests run, and a second one goes on. A
    file changes under it, its history is compacted, the session is forked. Then every packet is
    replayed from the log and compared with the bytes that the provider received.
    With --store the session stays in that store, to be looked at.

    \b
      sawlog demo
      sawlog --store demo.db demo && sawlog --store demo.db show -
    """
    from sawlog.agentlog import open
    from sawlog.demo.stage import play

    given = place.settings(context).store
    tell = _silent if as_json else _tell
    with tempfile.TemporaryDirectory(prefix="sawlog-demo-", ignore_cleanup_errors=True) as folder:
        url = given or str(Path(folder) / "demo.db")
        with open(url, place.settings(context).tenant) as log:
            facts = play(log, url, Path(folder) / "stage", tell)
    if as_json:
        import msgspec

        write_json(msgspec.to_builtins(facts))
    else:
        _summary(facts, given)
    raise typer.Exit(0 if facts.fine else 1)


def _tell(text: str) -> None:
    say(f"- {visible(text)}")
    sys.stdout.flush()


def _silent(text: str) -> None:
    """For --json: only the facts are written."""


def _summary(facts: Facts, store: str) -> None:
    kill = facts.kill
    say()
    say(f"What the log of {facts.steps} steps and {facts.events} events shows")
    say(f"  Step {kill.step} asked for {kill.tool}. Its start was durable before it ran, so the")
    say("  second agent knew that it had begun, and that nobody knew how it ended.")
    say(f"  Packet {facts.shown_in} showed the model this result for it, and later ones keep it:")
    say(f'    "{visible(facts.shown)}"')
    say(f"  The test run went on without its agent. Its real end came as event {facts.late_event};")
    say(f"  packet {facts.late_in} tells it once, as news that names the call.")
    say(f"  The tests now {'pass' if facts.tests_pass else 'FAIL'}.")
    stale, compact, fork = facts.stale, facts.compact, facts.fork
    say(f"  {visible(stale.path)} was changed under the agent (event {stale.event}); packet")
    say(f"  {stale.told_in} says behind the old text that it is out of date.")
    say(f"  A checkpoint of {compact.units} units (event {compact.checkpoint}) took the place of")
    say(f"  {compact.region} units of history, from packet {compact.step} on.")
    say(f"  The fork {visible(fork.name)} shares {fork.at_step} packets with it; the last of them")
    say(f"  {'has the same digest' if fork.equal else 'DIFFERS'} there.")
    say()
    say("Every packet, replayed from the log, beside what the provider received (SHA-256)")
    rows = [
        (
            visible(packet.session),
            str(packet.step),
            f"{packet.bytes:,}",
            packet.body_sha256[:16],
            packet.received_sha256[:16],
            "equal" if packet.equal else "DIFFERS",
        )
        for packet in facts.packets
    ]
    table(rows, header=("session", "step", "bytes", "replayed", "received", ""), indent="  ")
    paths = ", ".join(f"{path} {state}" for path, state in facts.verified.items())
    say()
    say(f"  {facts.equal} of {facts.received} requests equal; verify: {paths}")
    say(f"  {facts.seconds} seconds, no network, no key")
    if store:
        say(f"\nLook closer: sawlog show {facts.name}, sawlog packet {facts.name}@{facts.shown_in}")
    else:
        say("\nNothing is left of it. To look closer: sawlog --store demo.db demo")
