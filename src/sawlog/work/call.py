"""A tool call that the model asked for, as the agent's loop handles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from sawlog.builder.contents import Contents, text_of
from sawlog.store.errors import InvalidArguments, ToolError
from sawlog.store.events.conversation import ToolRequested
from sawlog.work.tools import Declared, call_arguments, json_arguments


class Declares(Protocol):
    """What a call needs of its session: the tools as they were last offered."""

    def declared(self, name: str) -> Declared | None:
        """The tool of that name, or None."""
        ...

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of all tools."""
        ...


class Call(msgspec.Struct, frozen=True):
    """A tool call that the model asked for.

    `arguments` is the source as the model wrote it; `args` reads it. `event_id` names the request
    in the log. `kind` is `json`, `text` (a free-form tool's input) or `search`.
    """

    session: Declares
    event_id: str
    call_id: str
    name: str
    arguments: str
    step: int
    kind: str = "json"
    namespace: str = ""

    @classmethod
    def of(
        cls, session: Declares, event_id: str, step: int, content: ToolRequested, contents: Contents
    ) -> Call:
        """The call that a `tool.requested` event asks for."""
        return cls(
            session,
            event_id,
            text_of(content.call_id, contents),
            text_of(content.name, contents),
            text_of(content.arguments, contents),
            step,
            content.kind,
            text_of(content.namespace, contents),
        )

    @property
    def args(self) -> dict[str, Any]:
        """The arguments, checked against the tool's declaration where it is a function.

        Raises InvalidArguments when they are no JSON object or do not fit; inside a tool run that
        becomes the call's error result.
        """
        declared = self.session.declared(self.name)
        if declared is not None:
            return call_arguments(declared, self.arguments)
        return json_arguments(self.name, self.arguments)

    def run(self) -> Any:
        """What the declared function gives for these arguments.

        Raises as `function` and `args` do; what the function raises goes through.
        """
        return self.function()(**self.args)

    def function(self) -> Callable[..., Any]:
        """The function declared under the call's name.

        Raises InvalidArguments when no tool of that name was offered, which is the model's to mend;
        ToolError when tools were not offered through this handle, or this one without a function.
        """
        declared = self.session.declared(self.name)
        offered = self.session.offered
        if declared is None and offered:
            raise InvalidArguments(
                f"there is no tool {self.name!r}; the tools are {', '.join(offered)}"
            )
        if declared is None or declared.function is None:
            raise ToolError(
                f"there is no function for the tool {self.name!r}: offer one with tools([...])"
            )
        return declared.function
