"""Prints the digests of every packet of exported sessions, from the files alone, purely.

`python packet_digests.py FILE…` needs sawlog's values and builder, and so msgspec, and nothing
else: no database. For each packet it prints what the manifest gives back and what is built afresh
from all events before it; a line that differs says so. The last line of a session is its state's
digest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sawlog.builder.build import Built, Cache, Sending, bindings_of, build
from sawlog.builder.contents import Held, text_of
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import Profile, profile_named, profile_of
from sawlog.builder.projector import fold
from sawlog.builder.replay import replayed, sent_under
from sawlog.builder.snapshot import state_digest
from sawlog.builder.state import State
from sawlog.store.event import Event, decoded
from sawlog.store.events import CORE
from sawlog.store.events.steps import PacketBuilt, PolicySet
from sawlog.store.exported import BLOB, EVENT, content_of, event_of


def lines_of(file: Path) -> list[str]:
    """A line for each packet of a session, and one for its state."""
    held = Held({})
    state = State()
    out: list[str] = []
    for line in file.read_bytes().splitlines(keepends=True):
        if line.startswith(BLOB):
            content = content_of(line)
            held.blobs[content.digest.hex()] = content.data
        elif line.startswith(EVENT):
            event = decoded(event_of(line), CORE)
            held.events[event.seq] = event
            before, state = state, fold(state, event)
            if isinstance(event.content, PacketBuilt):
                out.append(_packet(file.stem, event, event.content, before, state, held))
    return [*out, f"{file.stem} state {state_digest(state)}"]


def _packet(
    name: str, event: Event, packet: PacketBuilt, before: State, after: State, held: Held
) -> str:
    profile = _profile(packet, held)
    stored = replayed(packet, after.sent[:], held, profile, bindings_of(after))
    policy = held.event(before.policy).content
    assert isinstance(policy, PolicySet)
    rules = Rules(packet.policy, packet.measure, policy.window, policy.reserve)
    sending = Sending(sent_under(packet, held), profile, packet.headers)
    built = build(before, rules, sending, packet.as_of, held, Cache(), allow_waiting=True)
    line = f"{name} {event.step} {stored.semantic} {stored.request.digest} {stored.request.size}"
    if not isinstance(built, Built):
        return f"{line} cold: {built.reason}"
    if (built.semantic, built.request.digest) != (stored.semantic, stored.request.digest):
        return f"{line} cold: {built.semantic} {built.request.digest}"
    return line


def _profile(packet: PacketBuilt, held: Held) -> Profile:
    if not packet.profile_digest:
        return profile_named(packet.profile)
    for event in held.events.values():
        if isinstance(event.content, PolicySet) and event.content.profile_text:
            profile = profile_of(text_of(event.content.profile_text, held))
            if profile.digest == packet.profile_digest:
                return profile
    raise LookupError(f"the profile {packet.profile} is not in the log")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print("\n".join(lines_of(Path(argument))))
