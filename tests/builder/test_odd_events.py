"""Laws 4 and 6 on what nobody should write: fold never raises, build gives a packet or says why.

The values are those that a hand, another release or a fault could leave in a log: odd names, bad
JSON, numbers that count backwards, labels that no channel grants.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sawlog.builder.build import Sending, build
from sawlog.builder.contents import Held
from sawlog.builder.draft import Refusal
from sawlog.builder.packet import Header
from sawlog.builder.policy import Rules
from sawlog.builder.profiles import profile_for
from sawlog.builder.projector import fold
from sawlog.builder.render import renderer_for
from sawlog.builder.snapshot import decode, encode
from sawlog.builder.state import State
from sawlog.store.content import TextPart
from sawlog.store.event import Event
from sawlog.store.events.base import Named, Payload
from sawlog.store.events.conversation import MessageUser
from sawlog.store.events.inbox import InboxCancelled, InboxClaimed, InboxInjected
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label, TaskSet
from sawlog.store.events.steps import MeasureRecorded, StepCompleted
from sawlog.store.events.world import (
    FileChanged,
    FileObserved,
    ObservationRecorded,
    Saw,
    Section,
    WorldChanged,
)
from sawlog.store.text import seal

IDS = [f"{number:032x}" for number in range(6)]
WORDS = ("", "a", "a.py", "x" * 200, "{}", "null", '"v"', '{"a":[1,2.5e400]}', "[", "\ud800",
         "é\x00", "1", "v10", '{"goal":1}')  # fmt: skip
TEXTS = st.sampled_from(WORDS).map(lambda word: seal(word)[0])
TOKENS = st.sampled_from(
    ("", "a", "v1", "v2", "present", "absent", "unreadable", "edit", "next-step", "next-turn",
     "2026-07-29")
)  # fmt: skip
NAMES = st.lists(TOKENS, max_size=2).map(tuple)
SAW = st.lists(
    st.builds(Saw, TEXTS, TOKENS, TOKENS, st.sampled_from(("until-file-change", "always"))),
    max_size=2,
).map(tuple)
PARTS = st.lists(st.builds(TextPart, TEXTS), max_size=2).map(tuple)
SECTIONS = st.builds(
    Section,
    st.sampled_from(
        ("cwd", "mode", "permissions", "instructions", "goal", "time", "tools", "other")
    ),
    TEXTS,
    st.booleans(),
    st.booleans(),
)
LABELS = st.builds(
    Label,
    st.sampled_from(("fact", "instruction", "task", "tool_schema", "observation", "none such")),
    st.sampled_from(("none", "user", "system", "none such")),
    st.sampled_from(("verified", "hostile", "unverified", "none such")),
    st.sampled_from(("required", "low", "high", "none such")),
    st.sampled_from(("public", "internal", "secret", "none such")),
)
MESSAGES = st.lists(st.sampled_from(IDS), max_size=2).map(tuple)
EVENTS: st.SearchStrategy[Payload] = st.one_of(
    st.builds(WorldChanged, st.lists(SECTIONS, max_size=3).map(tuple)),
    st.builds(FileObserved, TEXTS, TOKENS, TOKENS, TOKENS, TOKENS, st.sampled_from((*IDS, ""))),
    st.builds(FileChanged, TEXTS, TOKENS, TOKENS, TEXTS),
    st.builds(
        ItemOffered,
        parts=PARTS,
        label=LABELS,
        source_id=TEXTS,
        version=TEXTS,
        updated_at=TEXTS,
        title=TEXTS,
        locator=TEXTS,
        repository=st.sampled_from(("", "a")),
        path=TEXTS,
        topics=NAMES,
        required_for=NAMES,
        valid_until=st.sampled_from((0, 1, -1, 10**15)),
        ttl=st.sampled_from((0, 5, -3)),
        relevance=st.sampled_from((-1, 0, 1000, 5000)),
        canonical=TEXTS,
        role=TOKENS,
        saw=SAW,
        handle=TEXTS,
    ),
    st.builds(ItemWithdrawn, st.sampled_from(("retrieval", "x")), TEXTS, TEXTS),
    st.builds(
        TaskSet,
        goal=TEXTS,
        done_when=TEXTS,
        requirements=NAMES,
        topics=NAMES,
        phase=TOKENS,
        repository=st.sampled_from(("", "a")),
        path=TEXTS,
        allowed=st.sampled_from(((), ("public",), ("none such",))),
        clearance=st.integers(-1, 2),
    ),
    st.builds(InboxInjected, PARTS, TOKENS, st.booleans()),
    st.builds(InboxClaimed, MESSAGES),
    st.builds(InboxCancelled, MESSAGES),
    st.builds(
        MeasureRecorded,
        st.just(Named("utf8-quarter")),
        st.integers(0, 9),
        per_mille=st.sampled_from((0, 1, -5, 1000, 4000)),
    ),
    st.builds(ObservationRecorded, PARTS, TEXTS, SAW),
    st.builds(MessageUser, PARTS),
)

PROFILE, _ = profile_for("openai-chat", "m")
SENDING = Sending(
    Header("openai-chat", "m", "{}", PROFILE.named, renderer_for("openai-chat")), PROFILE
)
GO = MessageUser((TextPart("Go on."),))


@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=14), st.sampled_from((0, 200, 2000)))
def test_nothing_in_a_log_makes_the_core_raise(
    story: list[tuple[Payload, bool]], window: int
) -> None:
    events: dict[int, Event] = {}
    state = State()

    def put(content: Payload, source: str, step: int = 0) -> State:
        seq = state.seq + 1
        event = Event(
            seq=seq,
            id=IDS[seq] if seq < len(IDS) else f"{seq:032x}",
            type="any",
            version=1,
            source=source,
            step=step,
            occurred_at=-(2**63) if seq % 3 else 10**15,
            content=content,
            shown=True,
            ignorable=False,
        )
        events[seq] = event
        return fold(state, event)

    state = put(GO, "user")
    for content, builds in story:
        state = put(content, "retrieval")
        assert encode(decode(encode(state))) == encode(state)
        if not builds:
            continue
        built = build(state, Rules(window=window), SENDING, 10**15, Held(events))
        if isinstance(built, Refusal):
            assert built.message
            continue
        state = put(built.event(), "harness", state.step + 1)
        assert not state.blocked
        state = put(StepCompleted(), "provider:openai-chat", state.step)
        state = put(GO, "user")
