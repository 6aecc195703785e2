"""What a session is offered for its packets: items, by the channels that they come through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from sawlog.builder.channels import CHANNELS, Channels
from sawlog.builder.item import Retention, Sensitivity
from sawlog.store.content import Part, TextPart
from sawlog.store.envelope import Blob
from sawlog.store.errors import InvalidItem, quoted
from sawlog.store.events.items import ItemOffered, ItemWithdrawn, Label
from sawlog.store.events.world import ObservationRecorded, Saw
from sawlog.work.given import Moment, Span, moment, names, of_item, span
from sawlog.work.loading import LOADING, Load, shortened
from sawlog.work.showing import shown
from sawlog.work.telling import Telling, parts_of

_FAILURE = 2_048
"""Bytes of what a source's failure says that packets show."""


class Offering(Telling):
    """The part of a session that offers items. See `Session`."""

    channels: Channels = CHANNELS
    """The channels that items may come through; `Channels.extended` adds a caller's own."""
    loading: Mapping[str, Load] = LOADING
    """How the items of each channel come in; see `sawlog.work.loading`."""

    def offer(
        self,
        content: str | Sequence[Part] = "",
        *,
        channel: str,
        source_id: str,
        version: str = "",
        observed_at: str = "",
        updated_at: str = "",
        title: str = "",
        locator: str = "",
        repository: str = "",
        path: str = "",
        task: str = "",
        tenant: str = "",
        topics: Iterable[str] = (),
        required_for: Iterable[str] = (),
        valid_until: Moment = 0,
        ttl: Span = 0,
        relevance: int = -1,
        canonical: str = "",
        role: str = "",
        saw: Sequence[Saw] = (),
        handle: str = "",
        took: Span = -1,
        key: str | None = None,
    ) -> str:
        """Offer an item: a candidate for the packets from here on; gives the id of its event.

        The channel alone says what it is and how far it is trusted; no text changes that. What a
        `secret` channel brings is a `handle` and never a value. `valid_until` is a datetime with
        its zone, or microseconds UTC since 1970; `ttl`, how long it holds from now, and `took`,
        how long the fetching took, are timedeltas or microseconds; `relevance` is per mille.
        What its channel loads just in time is shown shortened when it is long, unless it is
        required; what it never loads has a handle alone, as a secret has.
        Raises InvalidItem with the rule's code.
        """
        labels = self.channels[channel]
        row = self.loading[channel]
        never = row.when == "never"
        if never and labels.sensitivity != Sensitivity.SECRET and (content or not handle):
            raise InvalidItem(
                "never_loaded",
                f"the channel {quoted(channel)} is never loaded in this session: give a handle and "
                "no text, or open the session with another loading of it",
            )
        sensitivity = str(Sensitivity.SECRET if never else labels.sensitivity)
        parts = self._item_parts(content, sensitivity, handle, source_id)
        if labels.located and not locator.strip(" \t\r\n"):
            raise InvalidItem(
                "missing_source_context",
                f"the source {quoted(source_id)} is a piece of something: give its locator",
            )
        if not source_id.strip(" \t\r\n"):
            raise InvalidItem("blank_item_id", "an item needs the id of its source")
        if not -1 <= relevance <= 1000:
            raise InvalidItem(
                "relevance_out_of_range", f"relevance is per mille, 0 to 1000, not {relevance}"
            )
        required_for = names(required_for, "required_for", of_item)
        blobs: list[Blob] = []
        until, holds = moment(valid_until, "valid_until"), span(ttl, "ttl")
        if row.when == "just_in_time":
            if not (required_for or labels.retention == Retention.REQUIRED):
                parts, blobs = shortened(parts, row)
            holds = holds or (0 if until else row.ttl)
        item = ItemOffered(
            parts=parts,
            label=Label(
                str(labels.kind),
                str(labels.authority),
                str(labels.trust),
                str(labels.retention),
                sensitivity,
            ),
            source_id=source_id,
            version=version,
            observed_at=observed_at,
            updated_at=updated_at or observed_at,
            title=title,
            locator=locator,
            repository=repository,
            path=path,
            task=task,
            tenant=tenant,
            topics=names(topics, "topics", of_item),
            required_for=required_for,
            valid_until=until,
            ttl=holds,
            relevance=relevance,
            canonical=canonical,
            role=role,
            saw=_seen(saw),
            handle=handle,
            took=span(took, "took", least=0, none=-1),
        )
        with self._driver.lock:
            return self._tell(item, source=channel, key=key, blobs=blobs)

    def _item_parts(
        self, content: str | Sequence[Part], sensitivity: str, handle: str, source_id: str
    ) -> tuple[Part, ...]:
        if sensitivity == Sensitivity.SECRET:
            if content or not handle:
                raise InvalidItem(
                    "secret_value",
                    f"the source {quoted(source_id)} is secret: give a handle, and keep the value",
                )
            return ()
        if not isinstance(content, str):
            parts = parts_of(content, "offer")
        else:
            parts = (TextPart(content),) if content.strip(" \t\r\n") else ()
        if not parts:
            raise InvalidItem("blank_source_content", f"the source {quoted(source_id)} has no text")
        return parts

    def unavailable(
        self, error: str, *, channel: str, source_id: str, query: str = "", locator: str = ""
    ) -> str:
        """Say that a source gave nothing, and why; gives the id of the event.

        It is told to the model as an observation, framed as what others wrote, so that neither it
        nor a reader of the log takes what is not there for what does not exist. `query` is what was
        looked for, `locator` where. Raises InvalidItem for an unknown channel, and for one whose
        handles never come in.
        """
        _ = self.channels[channel]
        if self.loading[channel].when == "never":
            raise InvalidItem(
                "never_loaded",
                f"of the channel {quoted(channel)} nothing comes in, a failure neither: leave it "
                "out",
            )
        if not source_id.strip(" \t\r\n"):
            raise InvalidItem("blank_item_id", "a source needs its id")
        told = [f"This source could not be read: {error or 'no reason was given'}"]
        told += [f"looked for: {query}"] if query else []
        told += [f"at: {locator}"] if locator else []
        parts, blobs = shown("\n".join(told), _FAILURE, "ends", None)
        with self._driver.lock:
            failed = ObservationRecorded(parts, source_id)
            return self._tell(failed, source=channel, blobs=blobs)

    def withdraw(self, channel: str, source_id: str, reason: str = "") -> None:
        """Take back what a source said: its memory, schema or permission changed.

        What packets show of it is labelled; what was not shown yet is no candidate any more.
        """
        self._tell(ItemWithdrawn(channel, source_id, reason))


def _seen(saw: Sequence[Saw]) -> tuple[Saw, ...]:
    given = cast("object", saw)
    seen = cast("tuple[object, ...]", tuple(saw)) if isinstance(given, list | tuple) else (None,)
    if not all(isinstance(one, Saw) for one in seen):
        raise of_item(f"saw is a list of what was seen, not {quoted(saw)}: give a list of Saw")
    return cast("tuple[Saw, ...]", seen)
