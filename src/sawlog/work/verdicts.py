"""What a session's gateway says of a call: the built-in rules, a caller's own function, or nothing.

A verdict of the built-in rules depends on the call, on the tools in force and on how the session
was opened, and on nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal, cast

import msgspec

from sawlog.builder.contents import text_of
from sawlog.builder.gateway import ALLOW, ASK, DENY, GatewayVerdict, check, check_undeclared
from sawlog.builder.offered import is_the_providers, may_find_more, offered
from sawlog.builder.paths import ABSOLUTE, DRIVE
from sawlog.store.errors import ConfigError, InvalidArguments, ToolError
from sawlog.store.events.base import Named
from sawlog.store.events.world import Tool, ToolsChanged
from sawlog.work.call import Call
from sawlog.work.driver import Driver

Gateway = Callable[[Call], GatewayVerdict]
"""A caller's own gateway. It is asked when the reply arrives and again when the call is started, by
any thread; what it raises leaves the call undecided, and such a call does not run."""

STRICT = Named("strict", 1)
OWN = Named("caller", 1)

_SHOWN = 80
_REASON = 300


class Denied(msgspec.Struct, frozen=True):
    """A call that does not run: why, and the path that is the reason, if one is.

    `told` is what the model reads as the reason.
    """

    call: Call
    reason: str
    path: str
    told: str


class Guard(msgspec.Struct, frozen=True):
    """What a session checks calls by, as it was opened.

    `gateway` is `strict`, a caller's own or None for no check; `root` the absolute folder that
    absolute paths may lead into; `approve` says what needs an approval: `side_effects`, or nothing.
    """

    gateway: Gateway | Literal["strict"] | None = "strict"
    root: str = ""
    approve: str = ""

    @classmethod
    def of(
        cls,
        gateway: Gateway | Literal["strict"] | None,
        root: str | PathLike[str],
        approve: str | None,
    ) -> Guard:
        """The options of a session. Raises ConfigError, naming the one that will not do."""
        if gateway is not None and gateway != "strict" and not callable(gateway):
            raise ConfigError(f"{gateway!r} is no gateway: give 'strict', a function, or None")
        folder = fspath(root)
        if folder and not _is_absolute(folder):
            raise ConfigError(f"the root {folder!r} is no absolute folder")
        if approve not in (None, "", "side_effects"):
            raise ConfigError(f"approve is 'side_effects' or nothing, not {approve!r}")
        if approve and gateway is None:
            raise ConfigError("approve needs a gateway, which says what has side effects")
        return cls(gateway, folder, approve or "")


class Verdicts:
    """The verdicts of one driver's session."""

    def __init__(self, driver: Driver, guard: Guard) -> None:
        self._driver = driver
        self._guard = guard
        self.policy = STRICT if guard.gateway == "strict" else OWN
        self._tools: tuple[int, tuple[Tool, ...]] = (0, ())
        # What the newest reply's calls were found to be, under the tools of that event.
        self._found: dict[str, GatewayVerdict] = {}
        self._found_at = 0

    @property
    def asks(self) -> bool:
        """True when a call that needs an approval may get one in this session."""
        return bool(self._guard.approve)

    def forget(self) -> None:
        """A new reply arrives: verdicts on the calls before it are not asked for again."""
        self._found = {}

    def of(self, call: Call) -> GatewayVerdict | None:
        """What the gateway says of a call; None without one.

        Raises ToolError for a caller's gateway that gives no verdict, and whatever it raises.
        """
        gateway = self._guard.gateway
        if gateway is None:
            return None
        if callable(gateway):
            verdict = cast("object", gateway(call))
            if not isinstance(verdict, GatewayVerdict) or not _is_whole(verdict):
                raise ToolError(
                    f"the gateway gave {verdict!r} for the call {call.event_id}: it gives a "
                    "GatewayVerdict that allows, denies or asks"
                )
            return verdict
        tools = self._in_force()
        if self._found_at != self._tools[0]:
            self._found, self._found_at = {}, self._tools[0]
        found = self._found.get(call.event_id)
        if found is None:
            found = self._found[call.event_id] = self._strict(call, tools)
        return found

    def _strict(self, call: Call, tools: tuple[Tool, ...] | None) -> GatewayVerdict:
        root, free_form = self._guard.root, call.kind == "text"
        if tools is None:
            return check_undeclared(call.arguments, root, free_form=free_form)
        tool = offered(call.name, call.namespace, tools)
        if tool is None and may_find_more(tools):
            return check_undeclared(call.arguments, root, free_form=free_form)
        if tool is not None and is_the_providers(tool):
            return check_undeclared(call.arguments, root)
        return check(call.name, call.arguments, () if tool is None else (tool,), root)

    def _in_force(self) -> tuple[Tool, ...] | None:
        """The tools that are in force in the log; None when it never told of any."""
        with self._driver.lock:
            seq = self._driver.load().tools[0]
            if not seq:
                return None
            if self._tools[0] != seq:
                window = self._driver.window
                content = window.event(seq).content
                if not isinstance(content, ToolsChanged):
                    return ()  # erased: nothing is known of them
                tools = tuple(
                    Tool(text_of(one.name, window), text_of(one.source, window), one.effect)
                    for one in content.tools
                )
                self._tools = (seq, tools)
            return self._tools[1]

    def denied(self, call: Call, verdict: GatewayVerdict) -> Denied:
        """The denial that a verdict is, with what the model is told."""
        reason = ascii_line(verdict.reason)
        told = reason
        if verdict.path:
            told = f"{reason}: {_quoted(verdict.path)}{self._path_mend(reason)}"
        elif self.policy == STRICT and (more := self._in_words(call, reason)):
            told = f"{reason}: {more}"
        return Denied(call, reason, verdict.path, told)

    def _path_mend(self, reason: str) -> str:
        """What mends an absolute path: for the model, and for who reads the log."""
        if self.policy != STRICT or reason not in (ABSOLUTE, DRIVE):
            return ""
        if self._guard.root:
            return f"; absolute paths lead into {_quoted(self._guard.root)}, others are relative"
        return "; give a relative path (absolute ones are for sessions that were opened with root=)"

    def _in_words(self, call: Call, reason: str) -> str:
        """What the model needs to do better, beside the reason."""
        if reason == "unknown_tool":
            names = ", ".join(str(tool.name) for tool in self._in_force() or ())
            return ascii_line(f"the tools are {names}") if names else "there are no tools"
        if reason in ("invalid_arguments", "missing_required_arguments"):
            try:
                _ = call.args
            except InvalidArguments as error:
                return ascii_line(str(error))
            except Exception:
                # A check of the function's own that broke; the reason stands without it.
                return ""
        return ""


def _is_whole(verdict: GatewayVerdict) -> bool:
    """True for a verdict that says one of three things, in texts; its type does not see to it."""
    texts = cast("tuple[object, ...]", (verdict.reason, verdict.path))
    return verdict.kind in (ALLOW, DENY, ASK) and all(isinstance(one, str) for one in texts)


def _is_absolute(folder: str) -> bool:
    return PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()


def _quoted(path: str) -> str:
    """A path as a JSON string of ASCII, shortened: it says nothing to who reads it."""
    text = json.dumps(path[:_SHOWN])
    return text if len(path) <= _SHOWN else f"{text} and {len(path) - _SHOWN} characters more"


def ascii_line(text: str) -> str:
    """A text in ASCII on one line, shortened."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    line = "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in escaped)
    return line if len(line) <= _REASON else f"{line[:_REASON]}..."
