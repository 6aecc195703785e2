"""Snapshots: a state as bytes and back. Derived, deletable, never truth (see docs/format.md).

MessagePack from structs, maps as lists; the state digest is the SHA-256 of these bytes, so two
states that are the same have the same digest, however they came about.
"""

from __future__ import annotations

import hashlib

import msgspec

from sawlog.builder.facts import File, Offer, Pending, Sight, Told, Value
from sawlog.builder.state import Answer, Bound, News, Ref, State, Waiting
from sawlog.builder.vec import Index, Vec
from sawlog.store.events.base import Named
from sawlog.store.text import Text

CODEC = 3
"""The number of this codec; another one is another number."""


class _Form(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    blocked: str
    step: int
    began: bool
    as_of: int | None
    system: tuple[tuple[int, int], ...]
    tools: tuple[int, int]
    policy: int
    pairing: Named
    sent: list[Ref] | None
    sent_at: int
    sent_step: int
    base: list[Ref]
    links: int
    news: list[News]
    waiting: tuple[Waiting, ...]
    answered: list[tuple[Text, Answer]]
    orphans: tuple[tuple[Text, int], ...]
    gaps: tuple[int, ...]
    trims: tuple[int, ...]
    cuts: tuple[str, ...]
    bounds: list[Bound]
    current: Bound | None
    open_step: int
    attempts: int
    unsettled: int
    summary_lost: bool
    checkpoint: int
    compacting: int
    task: int
    world: tuple[Value, ...]
    told: tuple[Told, ...]
    files: list[tuple[str, File]]
    sights: list[tuple[int, tuple[Sight, ...]]]
    dirty: tuple[str, ...]
    offers: tuple[Offer, ...]
    items: tuple[int, ...]
    inbox: tuple[Pending, ...]
    per_mille: int


class _WithBlock(_Form, frozen=True, array_like=True):
    """The form of a state that knows of a block; without one it is written as it always was."""

    blocks: tuple[int, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_WithBlock)


def encode(state: State) -> bytes:
    """The bytes of a state."""
    # After an ordinary packet both lists are one and the same: it is written once.
    same = state.sent.grew_from(state.base) and len(state.sent) == len(state.base)
    same = same or state.sent == state.base
    form = _Form(
        state.seq,
        state.blocked,
        state.step,
        state.began,
        state.as_of,
        state.system,
        state.tools,
        state.policy,
        state.pairing,
        None if same else state.sent[:],
        state.sent_at,
        state.sent_step,
        state.base[:],
        state.links,
        state.news[:],
        state.waiting,
        state.answered.items()[:],
        state.orphans,
        state.gaps,
        state.trims,
        state.cuts,
        state.bounds[:],
        state.current,
        state.open_step,
        state.attempts,
        state.unsettled,
        state.summary_lost,
        state.checkpoint,
        state.compacting,
        state.task,
        state.world,
        state.told,
        # What a file was before is of no use to anybody.
        list(dict(state.files.items()).items()),
        list(dict(state.sights.items()).items()),
        state.dirty,
        state.offers,
        state.items,
        state.inbox,
        state.per_mille,
    )
    if state.blocks:
        return _encoder.encode((*msgspec.structs.astuple(form), state.blocks))
    return _encoder.encode(form)


def decode(data: bytes) -> State:
    """The state that was encoded. Raises msgspec.DecodeError when the bytes are not one."""
    form = _decoder.decode(data)
    base = Vec(form.base)
    return State(
        seq=form.seq,
        blocked=form.blocked,
        step=form.step,
        began=form.began,
        as_of=form.as_of,
        system=form.system,
        tools=form.tools,
        policy=form.policy,
        pairing=form.pairing,
        sent=base if form.sent is None else Vec(form.sent),
        sent_at=form.sent_at,
        sent_step=form.sent_step,
        base=base,
        links=form.links,
        news=Vec(form.news),
        waiting=form.waiting,
        answered=Index(form.answered),
        orphans=form.orphans,
        gaps=form.gaps,
        trims=form.trims,
        cuts=form.cuts,
        bounds=Vec(form.bounds),
        current=form.current,
        open_step=form.open_step,
        attempts=form.attempts,
        unsettled=form.unsettled,
        summary_lost=form.summary_lost,
        checkpoint=form.checkpoint,
        compacting=form.compacting,
        task=form.task,
        world=form.world,
        told=form.told,
        files=Index(form.files),
        sights=Index(form.sights),
        dirty=form.dirty,
        offers=form.offers,
        items=form.items,
        inbox=form.inbox,
        per_mille=form.per_mille,
        blocks=form.blocks,
    )


def state_digest(state: State) -> str:
    """The SHA-256 of a state's bytes, in hex."""
    return hashlib.sha256(encode(state)).hexdigest()
