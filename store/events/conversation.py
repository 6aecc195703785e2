"""Messages, tool calls and approvals."""

from __future__ import annotations

from msgspec import structs

from sawlog.store.content import Part
from sawlog.store.events.base import EventId, Named, Payload
from sawlog.store.events.registry import event
from sawlog.store.events.world import Saw
from sawlog.store.text import Text


@event("message.user", 1, shown=True)
class MessageUser(Payload, frozen=True):
    """What the user said. `copy`: a foreign compaction's own copy of an earlier item.

    `origin` says who wrote the text when it was not a person, such as `harness` or `summary`.
    """

    parts: tuple[Part, ...]
    copy: bool = False
    origin: str = ""
    once: bool = False


@event("message.system", 1, shown=True)
class MessageSystem(Payload, frozen=True):
    """An instruction of the operator; before the first step it is the header's system text.

    `role` is `system` or `developer`.
    """

    parts: tuple[Part, ...]
    role: str = "system"
    copy: bool = False
    once: bool = False


@event("message.assistant", 1, shown=True)
class MessageAssistant(Payload, frozen=True):
    """A run of parts of one reply. All of one step's are one message.

    `interrupted`: the reply was cut off. `model` is the model served, where no attempt says it.
    """

    parts: tuple[Part, ...]
    interrupted: bool = False
    model: Text = ""
    copy: bool = False


@event("tool.requested", 1, shown=True)
class ToolRequested(Payload, frozen=True):
    """A call that the client runs. `arguments` is the source as the model wrote it.

    `call_id` is the provider's id. `kind` is `json` or `text` (a free-form tool's input) or
    `search` (a tool search). `item` is the provider's item id where it has two.
    """

    call_id: Text
    name: Text
    arguments: Text
    kind: str = "json"
    namespace: Text = ""
    item: Text = ""


@event("tool.checked", 1)
class ToolChecked(Payload, frozen=True):
    """What a gateway policy said of a call before it was run: `allow`, `deny` or `ask`, and why.

    Since version 2 of `tool.started` a call that runs has its verdict there.
    """

    call: EventId
    policy: Named
    verdict: str
    reason: str = ""


@event("tool.started", 1, upcast=lambda old: ToolStarted(**structs.asdict(old)))
class ToolStarted1(Payload, frozen=True):
    """As it was: what allowed the call stood in a `tool.checked` of its own in front of it."""

    call: EventId = ""
    call_id: Text = ""
    effect: str = "side_effect"
    key: Text = ""


@event("tool.started", 2)
class ToolStarted(Payload, frozen=True):
    """Appended before a tool's side effect. `key` is what the tool may use to do it once.

    `allowed_by` is the gateway policy that allowed the call, None where there was no check, and
    `reason` why.
    """

    call: EventId = ""
    call_id: Text = ""
    effect: str = "side_effect"
    key: Text = ""
    allowed_by: Named | None = None
    reason: str = ""


@event("tool.finished", 1, shown=True, open=True)
class ToolFinished(Payload, frozen=True):
    """A tool's result. `call` names the request where the appender knows it, else `call_id` does.

    `status` is `ok`, `error` or `interrupted` (partial output). `external`: a named result that
    may stand without a call. `saw` is what the tool saw of the world.
    """

    call: EventId = ""
    call_id: Text = ""
    name: Text = ""
    status: str = "ok"
    parts: tuple[Part, ...] = ()
    external: bool = False
    saw: tuple[Saw, ...] = ()


@event("tool.denied", 1)
class ToolDenied(Payload, frozen=True):
    """A call that was not run. `kind` is `denied`, `ignored` or `unknown_tool`."""

    call: EventId = ""
    call_id: Text = ""
    kind: str = "denied"
    reason: Text = ""
    by: Text = ""


@event("approval.requested", 1)
class ApprovalRequested(Payload, frozen=True):
    """A call waits for a decision. `approval` is the id under which it is decided."""

    call: EventId
    approval: Text
    question: Text = ""


@event("approval.decided", 1, open=True)
class ApprovalDecided(Payload, frozen=True):
    """A decision on an approval; the first one wins."""

    approval: Text
    allow: bool
    by: Text = ""
    reason: Text = ""
