"""What a call says besides its id, name and arguments.

A thought signature, a caller that is not the model itself: such a field belongs to its call, and
the provider may want it back with it. It stands right behind the call as a bound part of the kind
`call.FIELD`, its source being the field's value as received.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sawlog.builder.replies.answer import Assembly
from sawlog.builder.replies.source import fields, is_empty, text_of
from sawlog.store.content import BoundPart


def add_extras(
    assembly: Assembly, api: str, call: Mapping[str, str], known: Collection[str]
) -> None:
    """Add the fields of a call that are set and not `known`, in the order received."""
    for name, value in call.items():
        if name in known or is_empty(value):
            continue
        if name == "caller" and text_of(fields(value).get("type")) == "direct":
            continue  # the ordinary caller: the model
        assembly.part(BoundPart(f"call.{name}", api, value))
