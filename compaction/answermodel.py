"""The form of what a summariser writes, strict and bounded. It loads pydantic: import it late."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter

TEXT = 600
"""Characters of a line; twice that a goal."""

NARRATIVE = 4000
LINES = 100

Said = Annotated[str, StringConstraints(min_length=1, max_length=TEXT)]
Name = Annotated[str, StringConstraints(max_length=80)]
Names = Annotated[list[Name], Field(max_length=30)]


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class WrittenLine(_Form):
    """A line: the id of a known one or nothing, its text, names of evidence."""

    id: Name = ""
    text: Said
    evidence: Names = []


class WrittenChange(_Form):
    """A changed file: its path, what the change was, names of evidence."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    text: Annotated[str, StringConstraints(max_length=TEXT)] = ""
    evidence: Names = []


Lines = Annotated[list[WrittenLine], Field(max_length=LINES)]


class Written(_Form):
    """The six fields, all of them there, and a narrative beside them."""

    goal: Annotated[str, StringConstraints(max_length=2 * TEXT)]
    constraints: Lines
    confirmed: Lines
    changed: Annotated[list[WrittenChange], Field(max_length=2 * LINES)]
    open: Lines
    next: Lines
    narrative: Annotated[str, StringConstraints(max_length=NARRATIVE)] = ""


ADAPTER = TypeAdapter(Written)
