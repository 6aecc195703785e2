"""Where in a program a failure came from, without the frames of the libraries in between."""

from __future__ import annotations

from types import TracebackType

_BETWEEN = ("anthropic", "httpcore", "httpcore2", "httpx", "httpx2", "openai", "sawlog")


def without_libraries(error: BaseException) -> None:
    """Take the frames of HTTP libraries, official clients and sawlog out of its traceback.

    One frame stays in any case, the last.
    """
    kept = [one for one in _frames(error.__traceback__) if not _is_between(one)]
    kept = kept or _frames(error.__traceback__)[-1:]
    after: TracebackType | None = None
    for one in reversed(kept):
        after = TracebackType(after, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = after


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    found: list[TracebackType] = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _is_between(trace: TracebackType) -> bool:
    name = str(trace.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in _BETWEEN
