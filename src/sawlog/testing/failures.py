"""How a program under test falls short of its recording.

ReplayFailed
├── RequestDiffers   a request says something else than the recorded one
├── RequestBeyond    a request that the recording holds no answer to
└── StepsLeft        the program ended before it made all recorded requests

The first two are no `Exception`: they are raised inside of HTTP clients, and clients and agents
catch every Exception there, wait, and ask again. So the test ends at the request that is wrong.
"""

from __future__ import annotations

from sawlog.store.errors import SawlogError


class ReplayFailed(BaseException):
    """The root: what a program did is not what was recorded."""


class RequestDiffers(ReplayFailed):
    """Raised at the first request that differs from the recorded one.

    `step` is the recorded step; `item` the place in the request, such as `messages[1]` or
    `temperature`; `index` the item's index in the recorded request, -1 for what is no item;
    `expected` and `came` are the two texts, None where there is nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        step: int,
        item: str,
        index: int,
        expected: str | None,
        came: str | None,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.item = item
        self.index = index
        self.expected = expected
        self.came = came


class RequestBeyond(ReplayFailed):
    """Raised at a request that is not in the recording: one too many, or one to no model."""


class StepsLeft(ReplayFailed, SawlogError):
    """Raised where a replay ends with recorded requests that were not made; `left` counts them."""

    def __init__(self, message: str, *, left: int) -> None:
        super().__init__(message)
        self.left = left
