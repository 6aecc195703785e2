"""build(state, rules, header, as_of, contents) → (packet, trace) or a named refusal. Pure.

A packet keeps what was sent and grows at its end; every break has a named cause. Refusals:
`blocked`, `awaiting_approval`, `needs_context`, `cannot_fit`, `missing_blob`, `nothing_to_send`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from sawlog.builder import around
from sawlog.builder.arrange import Arrangement, synthetic_kind
from sawlog.builder.assembly import Assembly
from sawlog.builder.behind import Behind
from sawlog.builder.candidates import Known
from sawlog.builder.contents import Contents
from sawlog.builder.draft import Draft, Refusal
from sawlog.builder.manifest import write
from sawlog.builder.measure import measure_of
from sawlog.builder.packet import Binding, Entry, Header, Request
from sawlog.builder.pairing import unknown_pairing
from sawlog.builder.policy import Rules, header_refs
from sawlog.builder.profiles import Profile
from sawlog.builder.projector import FOLD
from sawlog.builder.state import Ref, State
from sawlog.builder.trace import Break, Trace, Verdict
from sawlog.builder.vec import Vec
from sawlog.store.errors import InvalidItem
from sawlog.store.events.base import EventId
from sawlog.store.events.steps import PacketBuilt
from sawlog.store.text import BlobMissing, Text


class Built(msgspec.Struct, frozen=True):
    """A packet and all that `packet.built` says of it.

    `refs` and `entries` are parallel. `semantic` and `request.digest` are hex digests. `counts`
    are (zone, units) in the rules' measure. `base` and `parts` are the manifest.
    """

    header: Header
    headers: tuple[tuple[str, str], ...]
    profile_digest: str
    rules: Rules
    as_of: int
    refs: Vec[Ref]
    entries: Vec[Entry]
    missing: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    semantic: str
    request: Request
    base: int
    parts: tuple[object, ...]
    trace: Trace

    def event(self, *, replaces: EventId = "", fallback_of: EventId = "") -> PacketBuilt:
        """The payload of `packet.built` for this packet."""
        return PacketBuilt(
            fold=FOLD,
            policy=self.rules.policy,
            measure=self.rules.measure,
            profile=self.header.profile,
            renderer=self.header.renderer,
            api=self.header.api,
            model=self.header.model,
            params=self.header.params,
            method=self.request.method,
            path=self.request.path,
            headers=self.request.headers,
            as_of=self.as_of,
            missing=self.missing,
            counts=self.counts,
            semantic=self.semantic,
            request=self.request.digest,
            size=self.request.size,
            base=self.base,
            parts=self.parts,  # type: ignore[arg-type]
            prefix=self.request.prefix,
            profile_digest=self.profile_digest,
            replaces=replaces,
            fallback_of=fallback_of,
        )


class Cache:
    """What a warm builder keeps between the steps of one session: the news' order, the assembly.

    Nothing in it is truth: without it the same packet is built from the state alone.
    """

    def __init__(self) -> None:
        self.arrangement = Arrangement()
        self.assembly: Assembly | None = None
        self.measured: object = None
        self.settled_at = 0
        self.known = Known()
        self.borders: frozenset[int] = frozenset()
        """Where units begin and end among the entries of the news."""

    def settle(self, seq: int) -> None:
        """Say that the packet built last is now event `seq` of the log."""
        self.settled_at = seq


class Sending(msgspec.Struct, frozen=True):
    """What a packet goes out under, beside the log: header, HTTP headers, profile."""

    header: Header
    profile: Profile
    headers: tuple[tuple[str, str], ...] = ()


def build(
    state: State,
    rules: Rules,
    sending: Sending,
    as_of: int,
    contents: Contents,
    cache: Cache | None = None,
    *,
    allow_waiting: bool = False,
    reconstructed: bool = False,
    missing: tuple[str, ...] = (),
    allow_missing: bool = False,
    recorded: bool = False,
) -> Built | Refusal:
    """The next packet of a state, or why there is none.

    `as_of` is microseconds UTC, raised to the branch's newest. `allow_waiting` shows calls that
    wait for approval as such instead of refusing. `reconstructed` builds what a foreign file
    says was asked, also where nothing new is to be sent; `missing` names what the model saw and
    the log does not hold. `allow_missing` builds although a requirement is not satisfied, and says
    so in the packet. `recorded`: the packet is in the log already, so no manifest is written.
    """
    cache = cache or Cache()
    blocked = state.blocked or unknown_pairing(state)
    if blocked:
        return Refusal("blocked", blocked, ("a release of sawlog that knows it",))
    for call in state.waiting:
        if not call.gone and not allow_waiting and synthetic_kind(call) == "awaiting_approval":
            return Refusal(
                "awaiting_approval",
                f"the call of event {call.seq} waits for approval {call.approval}",
                (str(call.approval),),
            )
    news: list[Ref] = []
    borders: list[int] = []
    for unit in cache.arrangement.entries(state):
        borders.append(len(news))
        news.extend(unit)
    cache.borders = frozenset((*borders, len(news)))
    header = header_refs(state)
    try:
        return _assembled(
            state, rules, sending, as_of, contents, cache, header, news, reconstructed, missing,
            allow_missing, recorded,
        )  # fmt: skip
    except InvalidItem as error:
        # Recorded by another release or by hand: the policy cannot weigh it.
        return Refusal("blocked", str(error), (error.code,))
    except BlobMissing as error:
        return Refusal(
            "missing_blob",
            f"the content sha256:{error.digest} is not in the store",
            (error.digest,),
        )


def _assembled(
    state: State,
    rules: Rules,
    sending: Sending,
    as_of: int,
    contents: Contents,
    cache: Cache,
    header: list[Ref],
    news: list[Ref],
    reconstructed: bool,
    missing: tuple[str, ...],
    allow_missing: bool,
    recorded: bool,
) -> Built | Refusal:
    breaks: list[Break] = []
    behind: list[Verdict] = []
    assembly, kept = _standing(state, rules, cache, header, news, contents, breaks, behind)
    assembly.extend(news[len(assembly.refs) - kept :], contents)
    verdicts = behind + [
        Verdict(ref.seq, ref.part, "history", "selected", _why(ref), units)
        for ref, units in zip(news, assembly.units.between(kept, len(assembly.units)), strict=True)
    ]
    verdicts.extend(
        Verdict(one.seq, 1, "pairing", "dropped", one.flag or "not_shown")
        for one in cache.arrangement.aside()
    )
    at = len(header)
    cache.assembly = assembly
    cache.settled_at = -1
    idle = _nothing_to_send(assembly, at, reconstructed)
    if idle is not None:
        return idle
    as_of = as_of if state.as_of is None else max(as_of, state.as_of)
    shown = None
    if behind:
        # The news are among these entries.
        shown = around.shown(replace(state, news=Vec()), assembly.refs[:], grown=False)
    draft = Draft(state, rules, as_of, contents, at, assembly, verdicts, breaks, shown)
    refused = draft.fill(cache.known, allow_missing=allow_missing)
    if refused is not None:
        cache.assembly = None
        return refused
    if draft.assembly is not assembly:
        kept = at
    assembly, missing = draft.assembly, (*missing, *draft.missing)
    cache.assembly = assembly
    entries = assembly.entries
    request = assembly.request(sending.header, sending.headers, sending.profile, bindings_of(state))
    verdicts.extend(_rendered(state, sending, request, assembly, kept, breaks))
    # What is reconstructed was never sent, and has no manifest.
    base, parts = (
        (0, ())
        if reconstructed or recorded
        else write(state, assembly.refs, grown=not breaks and kept == len(state.base))
    )
    fixed = sum(assembly.units.between(0, at))
    return Built(
        header=sending.header,
        headers=sending.headers,
        profile_digest=sending.profile.own_digest,
        rules=rules,
        as_of=as_of,
        refs=assembly.refs,
        entries=entries,
        missing=missing,
        counts=(("fixed", fixed), ("history", assembly.total - fixed)),
        semantic=assembly.semantic(missing),
        request=request,
        base=base,
        parts=parts,
        trace=Trace(kept, tuple(verdicts), tuple(breaks)),
    )


def _nothing_to_send(assembly: Assembly, at: int, reconstructed: bool) -> Refusal | None:
    if len(assembly.entries) == at:
        return Refusal(
            "nothing_to_send", "the history is empty: append a user message first", ("input",)
        )
    # A reply that ends in a part that the provider runs was paused: it goes back as it is.
    last = assembly.entries[-1]
    if not reconstructed and last.authority == "assistant" and last.part != "raw":
        return Refusal(
            "nothing_to_send",
            "the history ends with the model's own reply: append a message or a result first",
            ("input",),
        )
    return None


def _rendered(
    state: State,
    sending: Sending,
    request: Request,
    assembly: Assembly,
    kept: int,
    breaks: list[Break],
) -> list[Verdict]:
    """Verdicts of the renderer, and what a break costs in bound items that stay out from now on."""
    before = state.current
    header = sending.header
    afresh = before is None or (before.api, before.model) != (header.api, header.model)
    broken = 0
    found: list[Verdict] = []
    for at, what, why in request.notes:
        out = what == "left_out"
        if at < kept and not ((afresh or breaks) and out):
            continue
        if out and at < kept and why == "binding_broken":
            broken += 1
        seq, part = (assembly.refs[at].seq, assembly.refs[at].part) if at >= 0 else (0, 0)
        found.append(
            Verdict(seq, part, "render", "dropped" if out else "selected", f"{what}: {why}")
        )
    if broken and breaks:
        breaks[-1] = replace(breaks[-1], bound=breaks[-1].bound + broken)
    return found


def _standing(
    state: State,
    rules: Rules,
    cache: Cache,
    header: list[Ref],
    news: list[Ref],
    contents: Contents,
    breaks: list[Break],
    behind: list[Verdict],
) -> tuple[Assembly, int]:
    """The assembly of what stays as it was sent, and how many entries that is.

    The cached one where it still is that; it may hold some of the news already. `behind` gets a
    verdict for each entry that a compaction leaves and that now stands there in another form.
    """
    measured = rules.measure
    old = cache.assembly if cache.measured == measured else None
    sent = state.sent
    at = len(header)
    same_header = sent.between(0, at) == header and (
        len(sent) == at or sent[at].section == "history"
    )
    if (
        old is not None
        and cache.settled_at == state.sent_at
        and len(old.refs) == len(sent)
        and same_header
        and not state.cuts
    ):
        return old, len(sent)
    history = [ref for ref in sent if ref.section == "history"]
    if "trimmed" in state.cuts:
        history = trimmed(history, frozenset(state.trims))
    if state.checkpoint and "compacted" in state.cuts and rules.selection is not None:
        history = _behind(state, history, contents, behind)
    refs = [*header, *history]
    if state.base or state.cuts:
        _name_breaks(state, refs, same_header, breaks)
    cache.measured = measured
    kept = len(refs)
    if old is not None and len(old.refs) <= kept and old.refs[:] == refs[: len(old.refs)]:
        old.extend(refs[len(old.refs) :], contents)
        return old, kept
    if old is not None and len(old.refs) - kept in cache.borders:
        # Built before and not sent, as for each step of an import: then it only grows, too. It
        # does at the end of a unit; within one, a message that is rendered would change.
        if old.refs[:] == [*refs, *news[: len(old.refs) - kept]]:
            return old, kept
    assembly = Assembly(measure_of(measured))
    assembly.extend(refs, contents)
    return assembly, kept


def _behind(
    state: State, history: list[Ref], contents: Contents, behind: list[Verdict]
) -> list[Ref]:
    otherwise = Behind.of(state, contents)
    out: list[Ref] = []
    for ref in history:
        other, why = otherwise(ref)
        if other is not None:
            out.append(other)
        if other != ref:
            outcome = "dropped" if other is None else "selected"
            behind.append(Verdict(ref.seq, ref.part, "freshness", outcome, why))
    return out


def _name_breaks(state: State, refs: list[Ref], same_header: bool, breaks: list[Break]) -> None:
    causes = list(state.cuts)
    if not same_header and state.sent:
        causes.append("header_changed")
    if not causes:
        return
    base = state.base[:]
    kept = 0
    while kept < min(len(base), len(refs)) and base[kept] == refs[kept]:
        kept += 1
    breaks.extend(Break(cause, kept, len(base) - kept, 0) for cause in causes)


def trimmed(history: list[Ref], trims: frozenset[int]) -> list[Ref]:
    """The entries with a stub in the place of each trimmed result."""
    out: list[Ref] = []
    for ref in history:
        if ref.seq in trims and ref.form in ("full", "preview"):
            if ref.part == 1:
                out.append(Ref("history", ref.seq, 1, "stub"))
        else:
            out.append(ref)
    return out


def _why(ref: Ref) -> str:
    if ref.form == "synthetic":
        return f"synthetic:{dict(ref.args)['kind']}"
    return "news" if ref.form == "full" else ref.form


def bindings_of(state: State) -> Callable[[int], Binding | None]:
    """What the bound items of a step are bound to, as a state knows it."""
    bounds = state.bounds

    def find(step: int) -> Binding | None:
        for at in range(len(bounds) - 1, -1, -1):
            bound = bounds[at]
            if bound.step == step:
                return Binding(bound.prefix, bound.api, _plain(bound.model), _plain(bound.account))
            if bound.step < step:
                return None
        return None

    return find


def _plain(text: Text) -> str:
    return text if isinstance(text, str) else f"sha256:{text.blob or text.wtf8}"
