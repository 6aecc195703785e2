"""The rule set `codex`: an open call shows `aborted`, and a result stays where it arrived.

It differs from `default` in three points (the vectors R1, R2 and R7 of the contracts):

- The synthetic result stands straight behind its call, not behind the whole reply, and says no more
  than `aborted`: form `synthetic@2`, status `unknown`, however far the call had come. A call whose
  outcome is recorded (denied, ignored, of an unknown tool) or that waits for approval shows what
  `default` shows: it was not cut short, and an abort must not hide the decision.
- A result is not moved to its call. A message that arrived in between keeps its place in between.
  Where the news ask for one call id more than once, the result does stand with its call, for the
  id alone would not say whose it is.
- A synthetic result has no id of its own to change: it goes out under its call's, and its entry
  names the call's event, so that building twice, retrying and resuming give the same bytes.

All else is as in `default`: what was sent stays, a real result that comes later is news, a result
before its call, a second one and one without a call are set aside.

Of the APIs only Responses takes a result that stands apart. For the others the renderer moves it
behind its call (note `moved: beside_call`), so that one state goes out to any of them.
"""

from __future__ import annotations

from sawlog.builder.state import Ref, Waiting
from sawlog.store.events.base import Named

CODEX = Named("codex", 1)

_DECIDED = frozenset({"denied", "ignored", "unknown_tool"})


def aborted_ref(call: Waiting) -> Ref | None:
    """The entry for a call that was cut short; None for one of which something else is known."""
    if call.denied in _DECIDED or (call.approval and not call.denied):
        return None
    return Ref("history", call.seq, 1, "synthetic", 2, (("kind", "unknown"),))
