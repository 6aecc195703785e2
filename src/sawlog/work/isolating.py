"""What comes into a session from beside it: other sessions, facts out of foreign text, its blobs.

Each comes in as an item of a channel of its own, bounded, and never as more than its channel makes
it (CONTRACTS S1-26, S1-29, S2-22).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TypedDict

from sawlog.builder.channels import CHANNELS
from sawlog.builder.contents import Contents, text_of
from sawlog.builder.effects import READ_ONLY
from sawlog.builder.facts import Offer
from sawlog.builder.item import Kind, Sensitivity, content_digest
from sawlog.store.content import TextPart
from sawlog.store.envelope import StoredEvent
from sawlog.store.errors import ConfigError, InvalidItem, quoted
from sawlog.store.event import Event, decoded
from sawlog.store.events.items import ItemOffered, ItemWithdrawn
from sawlog.store.ids import keyed_id
from sawlog.store.log import Log
from sawlog.work.citations import WHOLE, evidence_text
from sawlog.work.given import Moment, as_moment, names, of_item
from sawlog.work.outputs import Outputs
from sawlog.work.searching import Search
from sawlog.work.surroundings import Surroundings
from sawlog.work.tools import Declared, tool
from sawlog.work.window import Window

REFERENCE = "session_reference"
FACTS = 64
"""Facts of one extraction."""

FACT = 1_000
"""Characters of one fact."""

Fact = str | int | bool | None
_ID = re.compile("[0-9a-f]{32}")

_FACT_NAME = re.compile("[A-Za-z_][A-Za-z0-9_.-]{0,99}")


class Scope(TypedDict):
    """What of a task's scope an item takes over."""

    repository: str
    task: str
    tenant: str


class Isolating(Surroundings):
    """The part of a session that lets others' results in. See `Session`."""

    _log: Log

    # --- parts of what the log stores ------------------------------------------------------------

    @property
    def read_output(self) -> Declared:
        """A tool to offer, which reads any part of a text that packets show shortened.

        `s.tools([..., s.read_output])`. The model names the text by the `sha256:…` that stands in
        its short form, and gets at most 8,192 bytes at once: a range, or the lines in which a plain
        text stands. Nothing but what this session stores is found.
        """
        return tool(
            Outputs(self._blob, self._cited, self._listed).read_output,
            effect=READ_ONLY,
            description="Read part of a long output that is shown shortened: ref is the sha256:… "
            "that names it, or the name of evidence in a checkpoint, such as k2.5. Give start and "
            "end in bytes (end 0: as much as there is room for), or "
            "pattern, a plain text whose places are listed. At most 8192 bytes come at once. "
            "To search all that checkpoint 2 stands for, give ref k2 and a pattern.",
        )

    def stored(self, ref: str) -> str:
        """The whole text that a locator `sha256:…` names, for the caller's own code.

        Raises InvalidArguments when this session stores none.
        """
        outputs = Outputs(self._blob, self._cited, self._listed)
        return outputs.text(ref).decode("utf-8", "surrogatepass")

    def _blob(self, digest: str) -> bytes:
        with self._driver.lock:
            return self._driver.window.blob(digest)

    def _cited(self, name: str) -> str:
        """The text of a piece of evidence, or of an event that a search named. Raises
        InvalidArguments."""
        with self._driver.lock:
            state = self._driver.load()
            if WHOLE.fullmatch(name):
                return self._search(state.checkpoint).text(name)
            return evidence_text(name, state.checkpoint, self._driver.window, self._read_by_id)

    def _listed(self, name: str, pattern: str, start: int) -> str:
        """The places of a pattern in all that a checkpoint stands for. Raises InvalidArguments."""
        with self._driver.lock:
            return self._search(self._driver.load().checkpoint).listed(name, pattern, start)

    def _search(self, newest: int) -> Search:
        # What a search reads is not kept among the contents of packets.
        window = Window(self._log, self._driver.row)
        return Search(newest, window, self._driver.events, self._read_by_id)

    def _read_by_id(self, id: str) -> Event | None:
        found = self._event(bytes.fromhex(id)) if _ID.fullmatch(id) else None
        return None if found is None else decoded(found, self._log.registry)

    # --- what is in the log ----------------------------------------------------------------------

    def _knows(self, key: str) -> bool:
        """True when an event with that key is in the log."""
        return self._event(keyed_id(key)) is not None

    def _event(self, id: bytes) -> StoredEvent | None:
        return self._log.by_event_id(self._driver.row, id)

    def _scope(self) -> Scope:
        """What the session's task says of its scope, for items that are about the same."""
        with self._driver.lock:
            now = self._task_now()
            read = self._driver.window
            return {
                "repository": text_of(now.repository, read),
                "task": text_of(now.task, read),
                "tenant": text_of(now.tenant, read),
            }

    # --- other sessions --------------------------------------------------------------------------

    def refer(self, name: str) -> str:
        """Refer to another session of this tenant: what was said in it, as it is now, as an item.

        At most 65,536 bytes, messages alone, untrusted, and never changed: referred to again, a
        session that went on is another version. At most three are referred to at a time;
        `withdraw("session_reference", id)` makes room. Gives the id of the item's event. Raises
        NoSession alike for a session that is missing and for another tenant's, ConfigError for a
        fourth, and for this session itself.
        """
        from sawlog.agentlog import AgentLog
        from sawlog.work.references import MOST, capture

        with self._driver.lock:
            reference = capture(AgentLog(self._log), name)
            if reference.session == self._driver.row.id.hex():
                raise ConfigError("a session cannot refer to itself")
            offers = self._driver.catch_up().offers
            others = {
                one.source_id for one in offers if one.channel == REFERENCE and not one.withdrawn
            }
            known = self._newest(REFERENCE, reference.session)
            if known is not None and _text(known, self._driver.window) == reference.text:
                return known.id
            if known is None and len(others) >= MOST:
                raise ConfigError(
                    f"{MOST} sessions are referred to already: withdraw one with "
                    f"withdraw({REFERENCE!r}, id)"
                )
            return self.offer(
                reference.text,
                channel=REFERENCE,
                source_id=reference.session,
                version=str(reference.captured),
                title=reference.label,
                locator=f"session:{reference.session}",
                **self._scope(),
            )

    # --- facts out of untrusted text -------------------------------------------------------------

    def extract(
        self,
        item_id: str,
        facts: Mapping[str, Fact],
        *,
        channel: str,
        topics: Iterable[str] = (),
        required_for: Iterable[str] = (),
    ) -> str:
        """Offer facts that were taken out of an item, as a source of their own.

        The item stays what it is. The facts are names with texts, whole numbers, true, false or
        nothing, and come in through a channel that the caller added (`Channels.extended`) for what
        the taking out is worth. They say which text they are from, hold as long as it does and are
        of the same scope; taken out again, they take the older ones' place. Gives the id of their
        event. Raises InvalidItem: `unknown_item`, `withdrawn_item`, `no_own_channel`,
        `invalid_facts`.
        """
        labels = self.channels[channel]
        if channel in CHANNELS or labels.kind != Kind.FACT or labels.sensitivity == "secret":
            raise InvalidItem(
                "no_own_channel",
                f"{quoted(channel)} is not for facts taken out of other texts: add a channel of "
                "kind fact with Channels.extended",
            )
        text = _facts_text(facts)
        topics = names(topics, "topics", of_item)
        required_for = names(required_for, "required_for", of_item)
        with self._driver.lock:
            seq, offer, content = self._standing(item_id)
            read = self._driver.window
            source = text_of(content.source_id, read)
            taken = _taken_from(offer.channel, source)
            known = self._newest(channel, taken)
            if known is not None and _text(known, read) == text:
                return known.id
            return self.offer(
                text,
                channel=channel,
                source_id=taken,
                version=str(self._driver.load().seq),  # what is taken out later is newer
                observed_at=text_of(content.observed_at, read),
                updated_at=text_of(content.updated_at, read),
                title=f"facts out of {text_of(content.title, read) or source}",
                locator=f"item:{item_id} sha256:{content_digest(_text(read.event(seq), read))}",
                repository=text_of(content.repository, read),
                path=text_of(content.path, read),
                task=text_of(content.task, read),
                tenant=text_of(content.tenant, read),
                topics=topics,
                required_for=required_for,
                valid_until=_ends(read.event(seq), content),
                saw=content.saw,
            )

    def withdraw(self, channel: str, source_id: str, reason: str = "") -> None:
        """Take back what a source said: its memory, schema or permission changed.

        What packets show of it is labelled; what was not shown yet is no candidate any more. Facts
        that were taken out of it are taken back with it.
        """
        with self._driver.lock:
            offers = self._driver.catch_up().offers
            gone = {(channel, source_id): None}
            for each in gone.copy():
                self._add_taken(each, offers, gone)
            new = self._driver.new
            events = [new(ItemWithdrawn(*each, reason), "harness") for each in gone]
            self._driver.append(events)

    def _add_taken(self, of: Source, offers: Iterable[Offer], gone: dict[Source, None]) -> None:
        taken = _taken_from(*of)
        for one in offers:
            found = (one.channel, taken)
            if one.source_id == taken and one.channel not in CHANNELS and found not in gone:
                gone[found] = None
                self._add_taken(found, offers, gone)

    def _standing(self, item_id: str) -> tuple[int, Offer, ItemOffered]:
        """The offer of an item that holds: its seq, what the state knows, what it says."""
        stored = self._event(bytes.fromhex(item_id)) if _ID.fullmatch(item_id) else None
        offers = self._driver.catch_up().offers
        offer = next((one for one in offers if stored and one.seq == stored.seq), None)
        if offer is None:
            raise InvalidItem("unknown_item", f"no item {item_id} is a candidate in this session")
        if offer.withdrawn:
            raise InvalidItem("withdrawn_item", f"the item {item_id} was taken back")
        content = self._driver.window.event(offer.seq).content
        assert isinstance(content, ItemOffered)
        if content.label.sensitivity == Sensitivity.SECRET:
            raise InvalidItem("secret_value", f"the item {item_id} is secret: it has no text")
        return offer.seq, offer, content

    def _newest(self, channel: str, source_id: str) -> Event | None:
        """The newest item of a source that holds."""
        seqs = [
            one.seq
            for one in self._driver.load().offers
            if (one.channel, one.source_id) == (channel, source_id) and not one.withdrawn
        ]
        return self._driver.window.event(max(seqs)) if seqs else None


Source = tuple[str, str]
"""A channel, and the id of a source in it."""


def _taken_from(channel: str, source_id: str) -> str:
    """The source id of facts that were taken out of another source."""
    return f"{channel}/{source_id}"


def _text(event: Event, contents: Contents) -> str:
    """The texts of an item, joined."""
    content = event.content
    assert isinstance(content, ItemOffered)
    return "".join(
        text_of(part.text, contents) for part in content.parts if isinstance(part, TextPart)
    )


def _ends(event: Event, content: ItemOffered) -> Moment:
    """When an item ends to hold; 0: never."""
    ends = [content.valid_until] if content.valid_until else []
    if content.ttl:
        ends.append(event.occurred_at + content.ttl)
    return as_moment(min(ends)) if ends else 0


def _facts_text(facts: Mapping[str, Fact]) -> str:
    """The facts as JSON, in their order. Raises InvalidItem, naming the fact that will not do."""
    if not 0 < len(facts) <= FACTS:
        raise InvalidItem("invalid_facts", f"give 1 to {FACTS} facts, not {len(facts)}")
    for name, value in facts.items():
        if not _FACT_NAME.fullmatch(name):
            raise InvalidItem("invalid_facts", f"{name[:120]!r} is no plain name of a fact")
        if not isinstance(value, Fact | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidItem(
                "invalid_facts",
                f"{name} is a {type(value).__name__}: a fact is a text, a whole number, true, "
                "false or nothing",
            )
        if len(str(value)) > FACT:
            raise InvalidItem("invalid_facts", f"{name} has more than {FACT} characters")
    return json.dumps(dict(facts), ensure_ascii=False, indent=1)
