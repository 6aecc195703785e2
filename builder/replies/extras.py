"""What a text, a call or a message says besides what sawlog has words for.

Citations, a thought signature, a caller that is not the model itself: such a field belongs to its
text, call or message, and a renderer that knows it can send it back there. It stands right behind
it as a bound part of the kind `text.FIELD`, `call.FIELD` or `message.FIELD`, its source being the
field's value as received. So the text itself stays plain, and every model can be shown it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sawlog.builder.replies.answer import Assembly
from sawlog.builder.replies.source import fields, is_empty, text_of
from sawlog.store.content import BoundPart


def add_extras(
    assembly: Assembly, api: str, what: str, members: Mapping[str, str], known: Collection[str]
) -> None:
    """Add the fields that are set and not `known`, in the order received.

    `what` is `text`, `call` or `message`.
    """
    for name, value in members.items():
        if name in known or is_empty(value):
            continue
        if name == "caller" and text_of(fields(value).get("type")) == "direct":
            continue  # the ordinary caller: the model
        text = text_of(value) or text_of(fields(value).get("transcript"))
        assembly.part(BoundPart(f"{what}.{name}", api, value, text))
