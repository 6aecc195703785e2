"""Sessions of the OpenAI Agents SDK (extra `openai-agents`), kept in the log.

    session = SawlogSession("conversation_123", "agent.db")
    result = await Runner.run(agent, "What city is the Golden Gate Bridge in?", session=session)

Items come out as they went in. In the log each is an ordinary event, so `sawlog show`, `packet`,
`why` and `handoff` read the session like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Unpack, cast

from msgspec.structs import replace

from sawlog.adapters.keeping import Keeper
from sawlog.adapters.missing import missing
from sawlog.adapters.place import Closing, Place, Store
from sawlog.adapters.records import Entry, Said
from sawlog.formats.codex_items import API, REPLY, Item, item_of
from sawlog.formats.values import as_object, as_text
from sawlog.store.content import RawPart
from sawlog.store.errors import InvalidEvent
from sawlog.store.events.conversation import MessageAssistant, MessageUser
from sawlog.store.jsontext import source_of
from sawlog.work.opening import SessionOptions

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import resolve_session_limit
except ImportError:
    raise missing("openai-agents", "openai-agents") from None

__all__ = ["FORMAT", "SawlogSession"]

FORMAT = "openai-agents"

# Items of these kinds are said to the model, whatever else of Responses is said by it.
_TOLD = ("_output", "_response", "_reference")


class SawlogSession(Closing):
    """A session of the SDK in a session of the log, new or continued.

    `store` is an open log, or where to open one. The first call takes the lease and holds it until
    `close` (or the end of a `with`, or of the process): another process that runs the same session
    meanwhile gets Leased before its model is asked. `session_settings` are the SDK's own; further
    options are those of `AgentLog.session`, of which `wait` is how long to wait for the lease of a
    process that was killed.

    What is popped or cleared is rewound: it is shown no more, and stays in the log.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        store: Store,
        *,
        tenant: str = "default",
        session_settings: SessionSettings | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._place = Place(store, tenant)
        self._keeper = Keeper(self._place, session_id, format=FORMAT, api=API, **options)

    # --- the SDK's protocol -----------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with a limit (or that of the settings) the newest so many."""
        most = resolve_session_limit(limit, self.session_settings)
        kept = await self._place.run(self._keeper.kept)
        if most is not None:
            kept = kept[-most:] if most > 0 else []
        return [_item(one.source) for one in kept]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items: all of them are in the log when this returns, or none.

        Raises InvalidEvent, naming the place, for what is no JSON object.
        """
        entries = [entry_of(item, f"items[{at}]") for at, item in enumerate(items)]
        await self._place.run(self._keeper.add, entries)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back and give it; None when there is none."""
        gone = await self._place.run(self._pop)
        return _item(gone) if gone is not None else None

    async def clear_session(self) -> None:
        """Take all items back."""
        await self._place.run(self._keeper.keep, 0, "the session was cleared")

    # --- life -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give the lease back, and close the log if it was opened here."""
        self._keeper.release()
        self._place.close()

    def _pop(self) -> str | None:
        kept = self._keeper.kept()
        if not kept:
            return None
        [gone] = self._keeper.keep(len(kept) - 1, "the newest item was popped")
        return gone.source


def _item(source: str) -> TResponseInputItem:
    return cast("TResponseInputItem", json.loads(source))


def entry_of(item: object, path: str = "item") -> Entry:
    """An item of the SDK as it is kept: its source, and the event that it is."""
    if not isinstance(item, Mapping):
        raise InvalidEvent(f"{type(item).__name__} is no item: give a JSON object", path=path)
    source = source_of(cast("Mapping[object, object]", item), path)
    value: dict[str, Any] = json.loads(source)
    if "type" not in value and isinstance(value.get("role"), str):
        value["type"] = "message"  # the short form of a message
    model = as_text(as_object(value.get("provider_data")).get("model"))
    found = item_of(value, source, model=model) or _raw(value, source, model)
    payload = found.payload
    if isinstance(payload, MessageUser):
        # Who wrote it is the channel's word, and the text's least of all.
        payload = replace(payload, origin="")
    return Entry(source, (Said(payload, found.place == REPLY, found.blobs),))


def _raw(value: Mapping[str, Any], source: str, model: str) -> Item:
    """An item that has no word of its own here: to its API it goes as it is."""
    told = as_text(value.get("type")).endswith(_TOLD)
    payload = MessageAssistant(parts=(RawPart(API, source),), model="" if told else model)
    return Item("input" if told else REPLY, payload)
