"""Snapshots: a state as bytes and back, and one digest for one state however it came about."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields, replace

from sawlog.builder.facts import File, Offer, Pending, Seen, Sight, Told, Value
from sawlog.builder.projector import fold_all
from sawlog.builder.snapshot import CODEC, decode, encode, state_digest
from sawlog.builder.state import Answer, Bound, News, Ref, State, Waiting
from sawlog.builder.vec import Index, Vec
from sawlog.store.events.base import Named
from sawlog.store.text import TextObject
from tests.builder.memory import Story

ODD = TextObject(wtf8="7aC9")
FULL = State(
    seq=90,
    blocked="event 91 is unknown",
    step=12,
    began=True,
    as_of=1_764_000_000_000_000,
    system=((2, 1), (5, 2)),
    tools=(3, 2),
    policy=4,
    pairing=Named("codex", 2),
    sent=Vec([Ref("system", 2, 1), Ref("history", 6, 1, "synthetic", 1, (("kind", "unknown"),))]),
    sent_at=80,
    sent_step=11,
    base=Vec([Ref("system", 2, 1)]),
    links=7,
    news=Vec([News(81, "ab" * 16, "tool.finished", 0, 2, (2,), ODD, 70, "late")]),
    waiting=(Waiting(70, "cd" * 16, "c1", 11, True, True, "denied", 75, "q", 74),),
    answered=Index([("c0", Answer(60, 61)), (ODD, Answer(62, 63))]),
    orphans=(("c9", 44),),
    gaps=(44, 45),
    trims=(61,),
    cuts=("trimmed", "rewound"),
    bounds=Vec([Bound(59, 10, "00ff", "anthropic", "m", "org")]),
    current=Bound(0, 12, "11ff", "openai-chat", ODD, ""),
    open_step=12,
    attempts=3,
    unsettled=3,
    summary_lost=True,
    checkpoint=58,
    blocks=(58,),
    compacting=90,
    task=21,
    world=(Value("cwd", 22, 1, "aa" * 32), Value("mode", 23, 2, "", True, True)),
    told=(Told("cwd", 22, 1, "aa" * 32), Told("cwd", 24, 1, "bb" * 32, False, 22, 1)),
    files=Index(
        [("a.py", File("a.py", 30, "v2", True, 32, (Seen("v1", 28, 29, 30),), ("v0",), True))]
    ),
    sights=Index([(29, (Sight("a.py", "v1", 28),))]),
    dirty=("a.py",),
    offers=(Offer(31, "retrieval", ODD, 2, True, 33, 30, (Sight("a.py", "v1", 31),)),),
    items=(31,),
    inbox=(Pending(34, "ef" * 16, "next-step", True),),
    per_mille=1250,
)
OTHER: dict[str, Any] = {
    "blocked": "", "began": False, "as_of": None, "system": (), "tools": (0, 0),
    "pairing": Named("default"), "sent": Vec(), "base": Vec(), "news": Vec(), "waiting": (),
    "answered": Index(), "orphans": (), "gaps": (), "trims": (), "cuts": (), "bounds": Vec(),
    "current": None, "summary_lost": False, "checkpoint": 0, "blocks": (), "compacting": 0,
    "world": (), "told": (), "files": Index(), "sights": Index(), "dirty": (), "offers": (),
    "items": (), "inbox": (),
}  # fmt: skip


@pytest.mark.parametrize("state", [State(), FULL], ids=["empty", "full"])
def test_a_state_comes_back(state: State) -> None:
    again = decode(encode(state))
    for field in fields(State):
        assert getattr(again, field.name) == getattr(state, field.name), field.name
    assert encode(again) == encode(state)


@pytest.mark.parametrize("name", [field.name for field in fields(State)])
def test_every_field_is_in_it(name: str) -> None:
    """A field that the codec forgot would be a state that resumes as another one."""
    assert getattr(FULL, name) != getattr(State(), name), "the full state has a value of its own"
    other = replace(FULL, **{name: OTHER.get(name, 1)})
    assert encode(other) != encode(FULL)
    assert getattr(decode(encode(other)), name) == getattr(other, name)


def test_equal_lists_are_written_once() -> None:
    """After an ordinary packet the entries and what the manifest says are one list."""
    refs = Vec(Ref("history", seq, 1) for seq in range(1, 200))
    one, two = State(sent=refs, base=refs), State(sent=Vec(refs), base=Vec(refs))
    assert encode(one) == encode(two)
    longer = State(sent=refs.append(Ref("history", 200, 1)), base=refs)
    assert len(encode(one)) * 1.8 < len(encode(longer))
    assert decode(encode(longer)).sent != decode(encode(longer)).base


STORY = "U P A[c1,c2,c3] S1 R1 S2 P R2 U2 P A2[c4] D4 Q1 R9 U3"


def test_one_state_has_one_digest_however_it_came_about() -> None:
    log = Story().run(STORY).log
    cold = fold_all(State(), log.events)
    assert encode(cold) == encode(log.state)
    for at in range(len(log.events) + 1):
        early = decode(encode(fold_all(State(), log.events[:at])))
        assert state_digest(fold_all(early, log.events[at:])) == state_digest(cold)
    assert state_digest(cold) == hashlib.sha256(encode(cold)).hexdigest()


DIGESTS = {
    "empty": (State(), "e96e5955398029e599bf5dd14cbfc22a"),
    "full": (replace(FULL, blocks=()), "25ea5a21dbecaf2819401f387d518935"),
    "story": (Story().run(STORY).log.state, "e59fdb4464b89ec2e16b90886c515b9b"),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_bytes_of_this_codec_are_frozen(name: str) -> None:
    """Another layout is another number: snapshots of the old one are passed over, not misread."""
    state, digest = DIGESTS[name]
    assert CODEC == 3
    assert state_digest(state)[:32] == digest


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"{}", b"\x90", encode(FULL)[:-1], encode(FULL) + b"\x00", encode(FULL)[1:],
     msgspec.msgpack.encode([1, 2, 3]), msgspec.msgpack.encode({"seq": 1})],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(data)


def test_it_is_data_and_holds_no_text_of_the_session() -> None:
    """References alone: no message, no argument, no result."""
    log = Story().run("U P A[c1] S1 R1 U2").log
    data = encode(log.state)
    for text in (b"U2", b"R1", b'"n":"c1"', b"A[c1]"):
        assert text not in data
