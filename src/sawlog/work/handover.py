"""A hand-over: the one thing of a child session that its parent gets, checked at this border.

It is text of others for the parent, whoever wrote it: it is offered on the channel `handover`,
unverified, and shown in a frame as JSON, in which no field can pass for another (CONTRACTS S1-29).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sawlog.store.errors import InvalidItem

RESULT = 8_000
"""Characters of a result."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class HandOver(BaseModel):
    """What a child gives back: its result, where the evidence stands, what it leaves open.

    A piece of evidence is the locator of a text that the child's log stores (`sha256:…`), the id of
    one of its events, or a file that it saw, lines behind a colon.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    result: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=RESULT)
    ]
    evidence: Annotated[tuple[Text, ...], Field(max_length=32)] = ()
    open_questions: Annotated[tuple[Text, ...], Field(max_length=16)] = ()

    @property
    def text(self) -> str:
        """The JSON that the parent is offered: the three fields, in this order."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1)


def checked(
    result: object, evidence: Iterable[object] = (), open_questions: Iterable[object] = ()
) -> HandOver:
    """The hand-over of these fields. Raises InvalidItem (`invalid_handover`), naming each fault."""
    given = {
        "result": result,
        "evidence": _all(evidence),
        "open_questions": _all(open_questions),
    }
    try:
        return HandOver.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5]
        )
        raise InvalidItem("invalid_handover", f"this is no hand-over: {faults}") from None


def _all(values: Iterable[object]) -> object:
    # A text is an iterable of texts, too, and is not what was meant.
    return values if isinstance(values, str | bytes) else tuple(values)
