"""References to other sessions: bounded, messages alone, as they were (S2-22, CASE 60)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sawlog.agentlog import AgentLog
from sawlog.builder.render.frames import framed
from sawlog.importing import import_path
from sawlog.providers.fake import Call, Reply
from sawlog.store.content import BoundPart, IncompletePart, MediaPart, TextPart
from sawlog.store.envelope import NewEvent
from sawlog.store.errors import ConfigError, NoSession
from sawlog.store.events.base import Payload
from sawlog.store.events.conversation import (
    MessageAssistant,
    MessageSystem,
    MessageUser,
    ToolFinished,
    ToolRequested,
)
from sawlog.store.events.lifecycle import HistoryRewound, SessionForked
from sawlog.store.events.world import ObservationRecorded
from sawlog.store.text import raw_bytes
from sawlog.work.references import LIMIT, Reference, capture, capture_all
from tests.session.agents import fix, opened, provided, script


@pytest.fixture
def log(store_url: str) -> Iterator[AgentLog]:
    """An open log over an empty store, once for each kind of database."""
    with opened(store_url) as log:
        yield log


@pytest.fixture
def small(tmp_path: Path) -> Iterator[AgentLog]:
    """The same on SQLite alone, where the database makes no difference."""
    with opened(str(tmp_path / "small.db")) as log:
        yield log


def user(text: str, **fields: Any) -> MessageUser:
    return MessageUser(parts=(TextPart(text),), **fields)


def assistant(text: str, **fields: Any) -> MessageAssistant:
    return MessageAssistant(parts=(TextPart(text),), **fields)


def put(log: AgentLog, name: str, *payloads: Payload, source: str = "user") -> str:
    """A session with these events; gives its id."""
    row = log.store.session(name, create=True)
    log.store.append(row, [NewEvent(payload=one, source=source) for one in payloads])
    return row.id.hex()


def body(reference: Reference) -> str:
    """The text below the heading."""
    return reference.text.partition("\n")[2]


def test_case_60_a_live_session_without_its_tools_and_thoughts(log: AgentLog) -> None:
    replies = [*fix("anthropic")[:-1], Reply("Done.", thinking="secret thought")]
    with log.session("fix-refund") as s, provided("anthropic", replies) as (_, client):
        script(s, "anthropic", client)
    reference = capture(log, "fix-refund")
    session = log.read("fix-refund")
    assert reference.session == session.id
    assert (reference.label, reference.captured) == ("fix-refund", session.row.head)
    assert reference.text == (
        f"Session fix-refund ({session.id}) up to its event {session.row.head}, messages alone: 3."
        "\nuser:\n  refund_should_reject_expired_order fails"
        "\nassistant:\n  I look.\nassistant:\n  Done."
    )
    assert (reference.messages, reference.omitted_messages, reference.omitted_bytes) == (3, 0, 0)
    everything = "".join(repr(event.content) for event in session.events())
    for hidden in ("secret thought", "It is simple.", "You fix bugs", "text of a.py", "read_file"):
        assert hidden in everything
        assert hidden not in reference.text


def test_only_messages_are_taken(small: AgentLog) -> None:
    put(
        small,
        "s",
        MessageSystem(parts=(TextPart("no system"),)),
        user("yes user"),
        user("no harness", origin="harness"),
        user("no summary", origin="summary"),
        user("no copy", copy=True),
        MessageUser(parts=(MediaPart("image/png", url="no media"), TextPart("yes beside"))),
        MessageAssistant(
            parts=(
                BoundPart("thinking", "anthropic", '{"no":1}', "no thought"),
                TextPart("yes reply"),
                IncompletePart("no_tool", "no arguments"),
            )
        ),
        assistant("no copy", copy=True),
        ToolRequested(call_id="c", name="no_tool", arguments='{"no":1}'),
        ToolFinished(call_id="c", parts=(TextPart("no result"),)),
        ObservationRecorded(parts=(TextPart("no observation"),)),
        assistant("yes cut", interrupted=True),
    )
    assert body(capture(small, "s")) == (
        "user:\n  yes user\nuser:\n  yes beside\nassistant:\n  yes reply"
        "\nassistant, interrupted:\n  yes cut"
    )


def test_who_says_it_comes_from_the_channel(small: AgentLog) -> None:
    put(small, "s", user("typed"))
    put(small, "s", user("hooked"), source="hook:lint")
    put(small, "s", user("tooled"), source="tool:x")
    assert body(capture(small, "s")) == "user:\n  typed\nhook:lint:\n  hooked"


def test_a_missing_session_and_another_tenants_give_the_same_error(
    log: AgentLog, store_url: str
) -> None:
    from sawlog import open as open_log

    id = put(log, "theirs", user("secret"))
    with open_log(store_url, tenant="other") as other:
        put(other, "mine", user("x"))
        errors: list[str] = []
        for name in ("theirs", "nowhere", id, "0" * 32, id[:20]):
            with pytest.raises(NoSession) as caught:
                capture(other, name)
            assert type(caught.value) is NoSession
            errors.append(str(caught.value).replace(repr(name), "NAME"))
        assert len(set(errors)) == 1
        assert "secret" not in errors[0]


def test_a_capture_is_as_it_was_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with opened(str(path)) as log:
        put(log, "s", user("first"))
    stored = hashlib.sha256(path.read_bytes()).digest()
    with opened(str(path), read_only=True) as log:
        reference = capture(log, "s")
    assert hashlib.sha256(path.read_bytes()).digest() == stored
    with opened(str(path)) as log:
        put(log, "s", assistant("second"))
        later = capture(log, "s")
    assert body(reference) == "user:\n  first"
    assert (reference.captured, later.captured) == (1, 2)
    assert body(later).endswith("second")
    changing: Any = reference
    with pytest.raises(AttributeError):
        changing.text = "other"


def test_what_was_rewound_is_not_said_any_more(small: AgentLog) -> None:
    put(small, "s", user("one"), assistant("two"), user("three"), HistoryRewound(to=1), user("4"))
    assert body(capture(small, "s")) == "user:\n  one\nuser:\n  4"


def test_a_fork_has_said_what_its_parent_said_before(small: AgentLog) -> None:
    put(small, "parent", user("one"), assistant("two"), user("three"))
    parent = small.find("parent")
    row = small.store.fork(parent, 2, name="child")
    digest = small.store.events(parent, [2])[0].digest.hex()
    forked = SessionForked(parent=parent.id.hex(), at=2, digest=digest)
    small.store.append(row, [NewEvent(payload=forked, source="user")])
    put(small, "child", user("other"))
    assert body(capture(small, "child")) == "user:\n  one\nassistant:\n  two\nuser:\n  other"


def test_an_imported_session_can_be_referred_to(small: AgentLog, tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
    ]
    file = tmp_path / "chat.json"
    file.write_bytes(msgspec.json.encode({"messages": messages}) + b"\n")
    import_path(small, file)
    assert body(capture(small, "-")) == "user:\n  hello\nassistant:\n  hi"


def test_a_session_that_said_nothing(small: AgentLog) -> None:
    id = put(small, "s")
    assert capture(small, "s").text == (f"Session s ({id}) up to its event 0, messages alone: 0.")


# --- the bound -----------------------------------------------------------------------------------


def test_the_newest_are_kept_and_what_is_left_out_is_said(small: AgentLog) -> None:
    put(small, "s", user("a" * 3000), assistant("ä" * 5000), user("last"))
    reference = capture(small, "s", limit=4096)
    assert len(reference.text.encode()) <= 4096
    assert len(reference.text.encode()) > 4096 - 40
    assert reference.text.endswith("ä\nuser:\n  last")
    assert (reference.messages, reference.omitted_messages) == (2, 1)
    kept = 2 * reference.text.count("ä")
    assert reference.omitted_bytes == 3000 + 10_000 - kept
    heading, _, rest = reference.text.partition("\n")
    assert heading.endswith(
        f": 2; left out before them: 1 messages, {reference.omitted_bytes} bytes in all."
    )
    assert rest.startswith(f"assistant:\n[{10_000 - kept} bytes are left out here.]\n  ä")


def test_the_published_bound(small: AgentLog) -> None:
    assert LIMIT == 65_536
    put(small, "s", *(user("x" * 999) for _ in range(100)))
    reference = capture(small, "s")
    assert 65_536 - 1010 < len(reference.text.encode()) <= 65_536
    assert reference.messages + reference.omitted_messages == 100


def test_a_limit_without_room_is_refused(small: AgentLog) -> None:
    put(small, "s", user("x"))
    with pytest.raises(ConfigError, match="4096"):
        capture(small, "s", limit=4095)


def test_a_long_and_odd_name_has_room(small: AgentLog) -> None:
    name = "\U000e0001" * 1000
    put(small, name, user("x" * 9000))
    reference = capture(small, name, limit=4096)
    assert reference.label == name
    assert len(reference.text.encode()) <= 4096 and reference.messages == 1


def test_a_content_that_is_gone_is_said_and_hides_no_other(small: AgentLog) -> None:
    put(small, "s", user("older"), user("b" * 5000), user("newer"))
    with small.store.database.write() as tx:
        tx.run("DELETE FROM sawlog.blobs", ())
    reference = capture(small, "s")
    assert body(reference) == (
        "user:\n  older\nuser:\n[This message's content is no longer in the log.]\nuser:\n  newer"
    )
    assert reference.omitted_bytes == 5000


hostile = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\n\r\x00\x1b\u2028\ud800<>&:[]"),
    ),
    max_size=30,
)
said = st.lists(
    st.tuples(
        st.booleans(), st.one_of(hostile, st.builds(str.__mul__, hostile, st.integers(0, 99)))
    ),
    max_size=12,
)


@given(said, st.integers(4096, 6000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_messages_are_bounded_and_cannot_pass_for_others(
    small: AgentLog, messages: list[tuple[bool, str]], limit: int
) -> None:
    name = f"s{len(small.sessions())}"
    put(small, name, *(user(text) if mine else assistant(text) for mine, text in messages))
    reference = capture(small, name, limit=limit)
    assert len(reference.text.encode()) <= limit
    spoken = [text for _, text in messages if text]
    assert reference.messages + reference.omitted_messages == len(spoken)
    assert 0 <= reference.omitted_bytes <= sum(len(raw_bytes(text)) for text in spoken)
    assert ("left out" in reference.text.partition("\n")[0]) == (reference.omitted_bytes > 0)
    heads = [line for line in reference.text.splitlines()[1:] if line and line[:2] != "  "]
    speakers = [line for line in heads if line in ("user:", "assistant:")]
    assert len(speakers) == reference.messages
    assert all(
        re.fullmatch(r"\[\d+ bytes are left out here\.\]", h) for h in set(heads) - {*speakers}
    )
    # In its frame nothing of it opens or closes anything.
    assert framed("item", reference.text, trusted=False).count("<") == 2
    assert capture(small, name, limit=limit) == reference


# --- several -------------------------------------------------------------------------------------


def test_three_references_are_allowed_and_no_fourth(small: AgentLog) -> None:
    ids = [put(small, name, user(name)) for name in "abcd"]
    found = capture_all(small, ["b", "a", "c"])
    assert [reference.label for reference in found] == ["b", "a", "c"]
    with pytest.raises(ConfigError, match="4 sessions are referred to, and 3 are allowed"):
        capture_all(small, "abcd")
    assert len(capture_all(small, "abcd", most=4)) == 4
    # One session named in two ways is one reference.
    assert [one.session for one in capture_all(small, ["a", ids[0], "a"])] == [ids[0]]
    assert capture_all(small, []) == ()
    with pytest.raises(NoSession):
        capture_all(small, ["a", "nowhere"])


def test_a_call_without_text_is_no_message(small: AgentLog) -> None:
    with (
        small.session("s") as s,
        provided(
            "openai-chat", [Reply(calls=[Call("read_file", {"path": "a"})]), Reply("Done.")]
        ) as (_, client),
    ):
        script(s, "openai-chat", client)
    assert capture(small, "s").messages == 2
