"""Tests of agents: a recorded session plays the model, and each request is held to the record.

The names load on first use: pytest imports this package in every run, for its plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.testing.failures import ReplayFailed, RequestBeyond, RequestDiffers, StepsLeft

__all__ = ["ReplayFailed", "RequestBeyond", "RequestDiffers", "StepsLeft"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sawlog.testing import failures

    return getattr(failures, name)
