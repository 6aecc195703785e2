"""Verify: every step of a session by independent paths, its chain and its blobs, in one pass.

stored       the manifest and the frozen forms give the bytes whose digests were recorded
cold         one fold from genesis, with the policy (a caller's own is read from the log), chooses
             the same and gives the same bytes; without a policy that is not installed here
snapshot     states written and read back, carried on beside the others, give the same; so does
             each snapshot that the store holds of this fold
incremental  (imports) the warm builder gives what is arranged afresh
recorded     (requests that another program built) the spans give the bytes whose digest was
             recorded before they left

What the manifest lists and what the policy chose are found apart from each other. Where both are
the same entries under the same header, one rendering of them serves both paths: forms and renderers
are pure. Else each is rendered by itself.

An import has no manifests: its path `stored` is `absent`, and the other three are compared with
each other. Every fiftieth step is built once more without any cache; of an import, whose history
may be without bound, only where it has grown by an eighth since. Memory is bounded by the window.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from sawlog.audit.brackets import Brackets
from sawlog.audit.checkedevents import checked_events, snapshots_of
from sawlog.audit.differing import Alike, Differences
from sawlog.audit.findings import Report
from sawlog.audit.importedsteps import ImportedSteps
from sawlog.audit.inforce import rules_of
from sawlog.audit.manifests import Manifests
from sawlog.audit.recorded import Recorded
from sawlog.audit.recordedpackets import request_digest
from sawlog.builder.assembly import Assembly
from sawlog.builder.branching import attended
from sawlog.builder.build import Built, Cache, Sending, bindings_of, build
from sawlog.builder.draft import Refusal
from sawlog.builder.manifest import BadManifest
from sawlog.builder.measure import measure_of
from sawlog.builder.policy import Rules
from sawlog.builder.projector import fold
from sawlog.builder.replay import (
    Difference,
    Replayed,
    compare,
    replayed,
    sent_under,
)
from sawlog.builder.requests.reading import Bodies
from sawlog.builder.snapshot import decode, encode
from sawlog.builder.state import Ref, State
from sawlog.builder.vec import Vec
from sawlog.store.envelope import UNKNOWN_TIME
from sawlog.store.errors import BuildError, Damaged, InvalidPolicy, NoSession, UnknownNumber
from sawlog.store.event import Event
from sawlog.store.events.steps import PacketBuilt, PacketRecorded
from sawlog.store.text import BlobMissing

SNAPSHOT_EVERY = 500
"""Events, at most, between two states that the path `snapshot` writes and reads back."""

AFRESH_EVERY = 50
"""Steps between two that are built once more without any cache."""

_FORGET_EVERY = 250
_HELD = 2_000
"""Events of the packets' history that stay at hand, at most, beside those since."""


def verify(
    session: Recorded, progress: Callable[[int, int], None] = lambda done, all: None
) -> Report:
    """Check one session; `progress` is called with (events done, events in all)."""
    run = _Verification(session)
    bad_seq, why = 0, "ok"
    try:
        for event in attended(checked_events(session), session.resuming, 0):
            run.event(event)
            progress(event.seq, session.row.head)
    except Damaged as error:
        bad_seq, why = error.seq, f"seq {error.seq}: {error}" if error.seq else str(error)
    except NoSession as error:
        why = f"the directory leads to it no longer: {error}"
    return run.report(bad_seq, why)


_Cold = Built | Refusal | str | None
"""A packet of the cold path, or why there is none; None: its policy is not installed here."""


class _Verification:
    """The paths side by side over one pass of events."""

    def __init__(self, session: Recorded) -> None:
        self.session = session
        self.window = session.window
        self.state = State()
        self.mirror = State()
        self.cache = Cache()
        self.stored_assembly: Assembly | None = None
        self.differences = Differences()
        self.imported = ImportedSteps(session, self.differences, AFRESH_EVERY)
        self.steps = 0
        self.built = 0
        """Steps that have a manifest."""
        self.bodies = Bodies(session.window)
        self.bodies_seen = 0
        """Requests that are kept as they left."""
        self.recorded = 0
        """Steps whose request another program built."""
        self.not_installed = 0
        """Steps whose policy is not installed: no cold build tells what it would choose."""
        self.newest = UNKNOWN_TIME
        self.manifests = Manifests(session.expanded)
        self.brackets = Brackets()
        self._folded = Alike[Ref]()
        self._chosen = Alike[Ref]()
        self._mirrored = Alike[Ref]()
        self._snapshots = dict(snapshots_of(session))
        self._since = 0

    def event(self, event: Event) -> None:
        """Take one event through all paths."""
        self.window.hold((event,))
        content = event.content
        before = self.state
        self.manifests.see(event)
        self._compaction(event, before)
        if type(content) is PacketBuilt:
            self._packet(event, content, before)
        else:
            if type(content) is PacketRecorded:
                self._recorded(event, content)
            elif event.step > before.step and not before.blocked and self.imported.is_next(before):
                self.steps += 1
                self.imported.step(event.step, before, self.mirror, self.newest)
            self.state = fold(before, event)
            self.mirror = fold(self.mirror, _mirrored(event))
        self.newest = max(self.newest, event.occurred_at)
        self._since += 1
        kept = self._snapshots.pop(event.seq, None)
        if (kept or self._since >= SNAPSHOT_EVERY) and not self.state.blocked:
            self._since = 0
            self._snapshot(event, kept)
        if event.seq % _FORGET_EVERY == 0:
            self.window.forget(_shown(self.state), _HELD)

    def report(self, bad_seq: int, chain: str) -> Report:
        """What was found."""
        row = self.session.row
        self.imported.arrange_last()
        for fault in self.brackets.end():
            self.differences.differs(self.state.step, "compaction", fault, "")
        ours = self.steps - self.recorded
        checked = {
            "stored": self.built,
            "cold": ours - self.not_installed,
            "snapshot": ours,
            **({"incremental": ours} if ours > self.built else {}),
            **({"recorded": self.bodies_seen} if self.bodies_seen else {}),
            **({"compaction": self.brackets.seen} if self.brackets.seen else {}),
        }
        for name, steps in checked.items():
            self.differences.paths.setdefault(name, "ok" if steps else "absent")
        return Report(
            session=self.session.id,
            name=self.session.name,
            steps=self.steps,
            events=row.head,
            paths=self.differences.paths,
            differences=tuple(self.differences.found),
            chain=chain,
            bad_seq=bad_seq,
            blocked=self.state.blocked,
        )

    def _compaction(self, event: Event, before: State) -> None:
        if before.blocked:
            return
        try:
            for fault in self.brackets.see(event, before, self.window):
                self.differences.differs(before.step, "compaction", fault, "")
        except BlobMissing as error:
            self.differences.differs(before.step, "compaction", str(error), "")

    # --- a step that was recorded ---------------------------------------------------------------

    def _packet(self, event: Event, packet: PacketBuilt, before: State) -> None:
        self.steps += 1
        self.built += 1
        after = fold(before, event)
        self.state = after
        self.mirror = fold(self.mirror, event)
        if after.blocked:
            return
        step = event.step
        stored: Replayed | None = None
        cold: _Cold | Exception = None
        try:
            refs = self.manifests.read(packet)
            try:
                cold = self._cold(packet, before)
            except Exception as error:  # what is gone from the log, the manifest's own path names
                cold = error
            if not self._serves_both(cold, packet, refs, before, after):
                stored = self._stored(packet, after, refs)
        except (BlobMissing, BuildError, BadManifest) as error:
            self.differences.differs(step, "stored", str(error), packet.request)
            return
        if not self._folded.alike(refs, after.sent):
            self.differences.refs_differ(step, "stored", after.sent[:], refs[:])
        found = compare(step, "stored", packet, None, stored) if stored is not None else None
        if found is not None:
            self.differences.add(found)
            return
        if isinstance(cold, Exception):
            raise cold
        self._compare_cold(step, packet, before, refs, cold)
        self.cache.settle(event.seq)
        if not self._mirrored.alike(self.mirror.sent, after.sent):
            self.differences.refs_differ(step, "snapshot", refs[:], self.mirror.sent[:])

    def _serves_both(
        self,
        cold: _Cold | Exception,
        packet: PacketBuilt,
        refs: Vec[Ref],
        before: State,
        after: State,
    ) -> bool:
        """True when what the policy's choice was rendered to is what the manifest's would be.

        That is so, and gives what was recorded, when all that a rendering is made of is equal.
        """
        return (
            isinstance(cold, Built)
            and (cold.semantic, cold.request.digest) == (packet.semantic, packet.request)
            and cold.missing == packet.missing
            and self._chosen.alike(cold.refs, refs)
            and _bound_alike(cold, before, after)
        )

    def _stored(self, packet: PacketBuilt, after: State, refs: Sequence[Ref]) -> Replayed:
        used = self.stored_assembly
        if used is None or used.refs[:] != refs[: len(used.refs)]:
            self.window.prefetch(refs)
            used = Assembly()
        profile = self.session.profile_of(packet)
        out = replayed(packet, refs, self.window, profile, bindings_of(after), used)
        self.stored_assembly = used
        return out

    def _cold(self, packet: PacketBuilt, before: State) -> _Cold:
        """What the policy makes of the state: a packet, a refusal, or why there is no policy."""
        try:
            rules = rules_of(packet, self.session.policy_of(before), self.window)
            _ = rules.selection, measure_of(rules.measure)
        except UnknownNumber:
            return None  # the manifest and its frozen forms need no policy
        except (BlobMissing, InvalidPolicy) as error:
            return f"the policy's text: {error}"
        return self._build(packet, before, rules, self.cache)

    def _build(
        self, packet: PacketBuilt, before: State, rules: Rules, cache: Cache
    ) -> Built | Refusal:
        sending = Sending(
            sent_under(packet, self.window), self.session.profile_of(packet), packet.headers
        )
        return build(
            before,
            rules,
            sending,
            packet.as_of,
            self.window,
            cache,
            allow_waiting=True,
            # What lacks nothing may have been cut deeper for that.
            allow_missing=bool(packet.missing),
            recorded=True,
        )

    def _compare_cold(
        self, step: int, packet: PacketBuilt, before: State, refs: Sequence[Ref], cold: _Cold
    ) -> None:
        if cold is None:
            self.not_installed += 1
            return
        if isinstance(cold, str):
            self.differences.differs(step, "cold", cold, packet.request)
            return
        found = [cold]
        if step % AFRESH_EVERY == 1:
            self.window.prefetch(refs)
            rules = rules_of(packet, self.session.policy_of(before), self.window)
            found.append(self._build(packet, before, rules, Cache()))
        for built in found:
            if isinstance(built, Refusal):
                self.differences.differs(
                    step, "cold", f"{built.reason}: {built.message}", packet.request
                )
            elif built.semantic != packet.semantic or built.request.digest != packet.request:
                self.differences.refs_differ(step, "cold", refs, built.refs[:])

    # --- a step whose request another program built ----------------------------------------------

    def _recorded(self, event: Event, packet: PacketRecorded) -> None:
        """The spans must give the bytes whose digest was recorded; nothing else is claimed."""
        self.bodies_seen += 1
        if packet.origin != "rewritten":  # else the packet that was built is its step
            self.steps += 1
            self.recorded += 1
        try:
            body = self.bodies.body(event.seq)
        except (BlobMissing, BuildError) as error:
            self.differences.differs(event.step, "recorded", str(error), packet.request)
            return
        found = request_digest(packet, body)
        if found != packet.request or len(body) != packet.size:
            self.differences.add(
                Difference(
                    event.step, "recorded", "the request", -1,
                    packet.request, packet.size, found, len(body),
                )
            )  # fmt: skip

    # --- states ---------------------------------------------------------------------------------

    def _snapshot(self, event: Event, kept: bytes | None) -> None:
        """Go on from the state as bytes; `kept` is the digest of a snapshot that is stored here."""
        data = encode(self.state)
        if data != encode(self.mirror):
            self.differences.differs(
                event.step, "snapshot", f"the state after event {event.seq}", ""
            )
        if kept is not None and kept != hashlib.sha256(data).digest():
            self.differences.differs(event.step, "snapshot", f"the snapshot at {event.seq}", "")
        self.mirror = decode(data)


def _bound_alike(built: Built, before: State, after: State) -> bool:
    """True when the bound items of a packet hold to the same by either state."""
    if after.bounds.grew_from(before.bounds):
        return True
    one, other = bindings_of(before), bindings_of(after)
    return all(one(step) == other(step) for step in {e.step for e in built.entries if e.bound})


def _shown(state: State) -> frozenset[int]:
    """The seqs of what the next packet is likely to show."""
    found = {one.seq for one in state.news}
    found.update((state.policy, state.checkpoint, state.task, state.tools[0]))
    for ref in state.sent:
        found.add(ref.seq)
        found.update(value for _, value in ref.args if isinstance(value, int))
    return frozenset(found)


def _mirrored(event: Event) -> Event:
    """The same event; the state that a rewind goes back to is written and read back."""
    if event.resumes is None:
        return event
    assert isinstance(event.resumes, State)
    return replace(event, resumes=decode(encode(event.resumes)))
