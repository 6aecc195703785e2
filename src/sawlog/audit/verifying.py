"""Verify: every step of a session by independent paths, its chain and its blobs, in one pass.

stored       the manifest and the frozen forms give the bytes whose digests were recorded
cold         one fold from genesis, with the policy (a caller's own is read from the log), chooses
             and renders the same again; without a policy that is not installed here
snapshot     states written and read back, carried on beside the others, give the same
incremental  (imports) the warm builder gives what is arranged afresh at each step
recorded     (requests that another program built) the spans give the bytes whose digest was
             recorded before they left

An import has no manifests: its path `stored` is `absent`, and the other three are compared with
each other. Every fiftieth step is built once more without any cache. Memory is bounded by the
window.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from sawlog.audit.brackets import Brackets
from sawlog.audit.findings import Report
from sawlog.audit.inforce import rules_of
from sawlog.audit.manifests import Manifests
from sawlog.audit.reconstructing import foreign_sending, reconstruct
from sawlog.audit.recorded import Recorded
from sawlog.audit.recordedpackets import request_digest
from sawlog.builder.arrange import Arrangement
from sawlog.builder.assembly import Assembly
from sawlog.builder.branching import attended
from sawlog.builder.build import Built, Cache, Sending, bindings_of, build
from sawlog.builder.draft import Refusal
from sawlog.builder.manifest import BadManifest
from sawlog.builder.measure import any_measure, measure_of
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.projector import FOLD, fold
from sawlog.builder.replay import (
    Difference,
    Replayed,
    compare,
    first_difference,
    replayed,
    sent_under,
)
from sawlog.builder.requests.reading import Bodies
from sawlog.builder.snapshot import CODEC, decode, encode, state_digest
from sawlog.builder.state import Ref, State
from sawlog.builder.vec import Vec
from sawlog.store.checked import Check
from sawlog.store.envelope import UNKNOWN_TIME, StoredEvent
from sawlog.store.errors import BuildError, Damaged, InvalidPolicy, NoSession, UnknownNumber
from sawlog.store.event import Event, decoded
from sawlog.store.events.steps import PacketBuilt, PacketRecorded, PolicySet
from sawlog.store.text import BlobMissing

SNAPSHOT_EVERY = 250
"""Events between two states that the path `snapshot` writes and reads back."""


AFRESH_EVERY = 50
"""Steps between two that are built once more without any cache."""


def verify(
    session: Recorded, progress: Callable[[int, int], None] = lambda done, all: None
) -> Report:
    """Check one session; `progress` is called with (events done, events in all)."""
    run = _Verification(session)
    bad_seq, why = 0, "ok"
    try:
        stored = (decoded(one, session.log.registry) for one in _checked(session))
        for event in attended(stored, session.resuming, 0):
            run.event(event)
            progress(event.seq, session.row.head)
    except Damaged as error:
        bad_seq, why = error.seq, f"seq {error.seq}: {error}" if error.seq else str(error)
    except NoSession as error:
        why = f"the directory leads to it no longer: {error}"
    return run.report(bad_seq, why)


def _checked(session: Recorded) -> Iterator[StoredEvent]:
    """The session's events while they are as they were written. Raises Damaged at what is not."""
    check = Check(session.log, session.row)
    for place in check.places():
        if place.event is None or place.why:
            raise Damaged(place.why, session=session.id, seq=place.seq)
        yield place.event
    wrong = check.directory()
    if wrong:
        raise Damaged(wrong, session=session.id)


class _Verification:
    """The paths side by side over one pass of events."""

    def __init__(self, session: Recorded) -> None:
        self.session = session
        self.window = session.window
        self.state = State()
        self.mirror = State()
        self.cache = Cache()
        self.mirrored = Arrangement()
        self.stored_assembly: Assembly | None = None
        self.sending: Sending | None = None
        self.differences: list[Difference] = []
        self.paths: dict[str, str] = {}
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
        self.alike = True
        """The last manifest was read as the fold reads it."""
        self._since = 0
        self.brackets = Brackets()

    def event(self, event: Event) -> None:
        """Take one event through all paths."""
        self.window.hold((event,))
        content = event.content
        before = self.state
        self.manifests.see(event)
        self._compaction(event, before)
        if isinstance(content, PacketBuilt):
            self._packet(event, content, before)
        else:
            if isinstance(content, PacketRecorded):
                self._recorded(event, content)
            elif event.step > before.step and not before.blocked and self._is_foreign_step(before):
                self._reconstructed(event.step, before)
            self.state = fold(before, event)
            self.mirror = fold(self.mirror, _mirrored(event))
        self.newest = max(self.newest, event.occurred_at)
        self._since += 1
        if self._since >= SNAPSHOT_EVERY and not self.state.blocked:
            self._since = 0
            self._snapshot(event)

    def report(self, bad_seq: int, chain: str) -> Report:
        """What was found."""
        row = self.session.row
        for fault in self.brackets.end():
            self._differs(self.state.step, "compaction", fault, "")
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
            self.paths.setdefault(name, "ok" if steps else "absent")
        return Report(
            session=self.session.id,
            name=self.session.name,
            steps=self.steps,
            events=row.head,
            paths=self.paths,
            differences=tuple(self.differences),
            chain=chain,
            bad_seq=bad_seq,
            blocked=self.state.blocked,
        )

    def _compaction(self, event: Event, before: State) -> None:
        if before.blocked:
            return
        try:
            for fault in self.brackets.see(event, before, self.window):
                self._differs(before.step, "compaction", fault, "")
        except BlobMissing as error:
            self._differs(before.step, "compaction", str(error), "")

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
        try:
            refs = self.manifests.read(packet)
            stored = self._stored(packet, after, refs)
        except (BlobMissing, BuildError, BadManifest) as error:
            self._differs(step, "stored", str(error), packet.request)
            return
        self._same_as_folded(step, refs, before, after)
        found = compare(step, "stored", packet, None, stored)
        if found is not None:
            self._add(found)
            return
        self._cold(step, packet, before, refs)
        self.cache.settle(event.seq)
        if self.mirror.sent != after.sent:
            self._refs_differ(step, "snapshot", refs[:], self.mirror.sent[:])

    def _same_as_folded(self, step: int, refs: Vec[Ref], before: State, after: State) -> None:
        """The fold reads a manifest as it stands there."""
        start = 0
        if self.alike and len(before.sent) <= len(refs) and after.sent.grew_from(before.sent):
            start = len(before.sent)
        self.alike = refs.between(start, len(refs)) == after.sent.between(start, len(after.sent))
        if not self.alike:
            self._refs_differ(step, "stored", after.sent[:], refs[:])

    def _stored(self, packet: PacketBuilt, after: State, refs: Sequence[Ref]) -> Replayed:
        used = self.stored_assembly
        if used is None or used.refs[:] != refs[: len(used.refs)]:
            self.window.prefetch(refs)
            used = Assembly(any_measure())
        profile = self.session.profile_of(packet)
        out = replayed(packet, refs, self.window, profile, bindings_of(after), used)
        self.stored_assembly = used
        return out

    def _cold(self, step: int, packet: PacketBuilt, before: State, refs: Sequence[Ref]) -> None:
        try:
            rules = rules_of(packet, self.session.policy_of(before), self.window)
            _ = rules.selection, measure_of(rules.measure)
        except UnknownNumber:
            self.not_installed += 1  # the manifest and its frozen forms need no policy
            return
        except (BlobMissing, InvalidPolicy) as error:
            self._differs(step, "cold", f"the policy's text: {error}", packet.request)
            return
        sending = Sending(
            sent_under(packet, self.window), self.session.profile_of(packet), packet.headers
        )
        afresh = step % AFRESH_EVERY == 1
        if afresh:
            self.window.prefetch(refs)
        for cache in (self.cache, Cache()) if afresh else (self.cache,):
            built = build(
                before,
                rules,
                sending,
                packet.as_of,
                self.window,
                cache,
                allow_waiting=True,
                # What lacks nothing may have been cut deeper for that.
                allow_missing=bool(packet.missing),
            )
            if isinstance(built, Refusal):
                self._differs(step, "cold", f"{built.reason}: {built.message}", packet.request)
            elif built.semantic != packet.semantic or built.request.digest != packet.request:
                self._refs_differ(step, "cold", refs, built.refs[:])

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
            self._differs(event.step, "recorded", str(error), packet.request)
            return
        found = request_digest(packet, body)
        if found != packet.request or len(body) != packet.size:
            self._add(
                Difference(
                    event.step, "recorded", "the request", -1,
                    packet.request, packet.size, found, len(body),
                )
            )  # fmt: skip

    # --- a step that a foreign file shows --------------------------------------------------------

    def _is_foreign_step(self, state: State) -> bool:
        policy = self.session.policy_of(state)
        return policy is not None and policy.policy == AS_RECORDED

    def _reconstructed(self, step: int, before: State) -> None:
        self.steps += 1
        policy = self.session.policy_of(before)
        assert policy is not None
        if self.sending is None:
            self.sending = foreign_sending(policy)
        try:
            warm = reconstruct(before, policy, self.sending, self.newest, self.window, self.cache)
        except BuildError as error:
            self._differs(step, "incremental", str(error), "")
            return
        if isinstance(warm, Refusal):
            # A slice may begin with a reply: what it answered is not in the file.
            if warm.reason != "nothing_to_send" or _arranged(before, Arrangement()):
                self._differs(step, "incremental", f"{warm.reason}: {warm.message}", "")
            return
        self._same_refs(step, "cold", warm, _arranged(before, Arrangement()))
        self._same_refs(step, "snapshot", warm, _arranged(self.mirror, self.mirrored))
        if step % AFRESH_EVERY == 1:
            self._rebuilt(step, before, policy, warm)

    def _rebuilt(self, step: int, before: State, policy: PolicySet, warm: Built) -> None:
        """The same packet without any cache: equal entries must give equal bytes, too."""
        assert self.sending is not None
        self.window.prefetch(warm.refs)
        cold = reconstruct(before, policy, self.sending, self.newest, self.window)
        if isinstance(cold, Refusal):
            self._differs(step, "cold", cold.reason, warm.request.digest)
        elif cold.semantic != warm.semantic or cold.request.digest != warm.request.digest:
            found = first_difference(step, "cold", warm.entries, cold.entries)
            self._add(
                found
                or Difference(
                    step,
                    "cold",
                    "the request",
                    -1,
                    warm.request.digest,
                    warm.request.size,
                    cold.request.digest,
                    cold.request.size,
                )  # fmt: skip
            )

    def _same_refs(self, step: int, path: str, warm: Built, refs: list[Ref]) -> None:
        history = warm.refs.between(len(warm.refs) - len(refs), len(warm.refs))
        if history != refs:
            self._refs_differ(step, path, warm.refs[:], refs)

    # --- states ---------------------------------------------------------------------------------

    def _snapshot(self, event: Event) -> None:
        data = encode(self.state)
        if data != encode(self.mirror):
            self._differs(event.step, "snapshot", f"the state after event {event.seq}", "")
        self.mirror = decode(data)
        self.mirrored = Arrangement()
        self.window.forget()
        kept = self.session.log.snapshot_get(
            self.session.row, fold=FOLD, layout=CODEC, upto=event.seq
        )
        if kept is not None and kept.seq == event.seq:
            if kept.digest.hex() != state_digest(self.state):
                self._differs(event.step, "snapshot", f"the snapshot at {event.seq}", "")

    def _refs_differ(
        self, step: int, path: str, expected: Sequence[Ref], found: Sequence[Ref]
    ) -> None:
        at = 0
        while at < min(len(expected), len(found)) and expected[at] == found[at]:
            at += 1
        old = msgspec.json.encode(expected[at]) if at < len(expected) else b""
        new = msgspec.json.encode(found[at]) if at < len(found) else b""
        self._add(Difference(step, path, "an entry", at, _hex(old), len(old), _hex(new), len(new)))

    def _differs(self, step: int, path: str, what: str, expected: str) -> None:
        self._add(Difference(step, path, what, -1, expected, 0, "", 0))

    def _add(self, difference: Difference) -> None:
        self.paths[difference.path] = "differs"
        self.differences.append(difference)


def _mirrored(event: Event) -> Event:
    """The same event; the state that a rewind goes back to is written and read back."""
    if not isinstance(event.resumes, State):
        return event
    return replace(event, resumes=decode(encode(event.resumes)))


def _arranged(state: State, arrangement: Arrangement) -> list[Ref]:
    return list(chain.from_iterable(arrangement.entries(state)))


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
