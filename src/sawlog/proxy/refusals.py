"""The answers that are the proxy's own, in a form that every provider's client can read."""

from __future__ import annotations

import json
from collections.abc import Callable

from sawlog.proxy.upstreams import Elsewhere
from sawlog.store.errors import SawlogError


class Refusal(Exception):
    """What the client gets in place of a provider's answer: a status and a body."""

    def __init__(self, status: int, kind: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        said = {"type": kind, "code": code or kind, "message": f"sawlog proxy: {message}"}
        self.body = json.dumps({"type": "error", "error": said}).encode()


def not_passed(error: Elsewhere) -> Refusal:
    """For a request that leads nowhere."""
    return Refusal(error.status, "sawlog_not_passed_on", str(error))


def not_recorded(error: SawlogError) -> Refusal:
    """For a request that was not sent because its record failed."""
    name = type(error).__name__
    message = f"the request was not sent, because it could not be recorded ({name}): {error}"
    return Refusal(503, "sawlog_record_failed", message, name)


def no_answer(authority: str, error: Exception, clean: Callable[[str], str]) -> Refusal:
    """For an upstream that gave no answer; `clean` takes the client's keys out of what is said."""
    reason = clean(f"{type(error).__name__}: {error}".rstrip(": "))
    message = f"no answer came from {authority} ({reason})"
    return Refusal(502, "sawlog_upstream_failed", message)
