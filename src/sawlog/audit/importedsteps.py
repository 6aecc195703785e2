"""Verify of steps that a foreign file shows: there is no manifest, so three ways are compared.

The warm builder goes on from step to step; the news are arranged afresh, and the packet is built
without any cache; and the state that was written and read back must give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sawlog.audit.differing import Alike, Differences
from sawlog.audit.reconstructing import foreign_sending, reconstruct
from sawlog.audit.recorded import Recorded
from sawlog.builder.arrange import Arrangement
from sawlog.builder.build import Built, Cache, Sending
from sawlog.builder.draft import Refusal
from sawlog.builder.policy import AS_RECORDED
from sawlog.builder.replay import Difference, first_difference
from sawlog.builder.state import News, Ref, State
from sawlog.builder.vec import Vec
from sawlog.store.errors import BuildError
from sawlog.store.events.steps import PolicySet


class ImportedSteps:
    """The steps of an import, one after the other; what differs goes to `differences`."""

    def __init__(self, session: Recorded, differences: Differences, afresh_every: int) -> None:
        """`afresh_every` is the number of steps between two that are built without any cache."""
        self._session = session
        self._window = session.window
        self._differences = differences
        self._every = afresh_every
        self._cache = Cache()
        self._sending: Sending | None = None
        self._mirrored = Alike[News]()
        self._last: tuple[int, State, Built] | None = None
        """The newest step, while it was not arranged afresh."""
        self._line: Vec[News] = Vec()
        self._arranged_at = self._rebuilt_at = 0
        """Lengths of the history at which that was done last."""

    def is_next(self, state: State) -> bool:
        """True where the session's steps are taken as a foreign file shows them."""
        policy = self._session.policy_of(state)
        return policy is not None and policy.policy == AS_RECORDED

    def step(self, step: int, before: State, mirror: State, as_of: int) -> None:
        """Build a step from the state before its reply, and compare. `mirror` is the same state
        as it was written and read back."""
        policy = self._session.policy_of(before)
        assert policy is not None
        if self._sending is None:
            self._sending = foreign_sending(policy)
        try:
            warm = reconstruct(before, policy, self._sending, as_of, self._window, self._cache)
        except BuildError as error:
            self._differences.differs(step, "incremental", str(error), "")
            return
        if isinstance(warm, Refusal):
            # A slice may begin with a reply: what it answered is not in the file.
            if warm.reason != "nothing_to_send" or _arranged(before):
                self._differences.differs(step, "incremental", f"{warm.reason}: {warm.message}", "")
            return
        if not self._same_state(before, mirror):
            self._same_refs(step, "snapshot", warm, _arranged(mirror))
        size = len(before.news)
        if not before.news.grew_from(self._line):
            self.arrange_last()
            self._arranged_at = 0
        self._line = before.news
        self._last = step, before, warm
        if size * 8 >= self._arranged_at * 9:
            self.arrange_last()
            self._arranged_at = size
        if step % self._every == 1 and not self._rebuilt_at <= size < self._rebuilt_at * 9 // 8:
            self._rebuild(step, before, policy, as_of, warm)
            self._rebuilt_at = size

    def arrange_last(self) -> None:
        """Compare the newest step with one arranged afresh, if it was not yet.

        That takes as long as the history, so it is done at steps ever further apart while a history
        grows, and at the last one of each: what once got a wrong place keeps it until a cut.
        """
        if self._last is not None:
            step, before, warm = self._last
            self._last = None
            self._same_refs(step, "cold", warm, _arranged(before))

    def _same_state(self, state: State, mirror: State) -> bool:
        """True when all that an arrangement is made of is the same in both."""
        return (
            (state.sent_step, state.pairing, state.trims, state.waiting)
            == (mirror.sent_step, mirror.pairing, mirror.trims, mirror.waiting)
        ) and self._mirrored.alike(state.news, mirror.news)

    def _rebuild(
        self, step: int, before: State, policy: PolicySet, as_of: int, warm: Built
    ) -> None:
        """The same packet without any cache: equal entries must give equal bytes, too."""
        assert self._sending is not None
        self._window.prefetch(warm.refs)
        cold = reconstruct(before, policy, self._sending, as_of, self._window)
        if isinstance(cold, Refusal):
            self._differences.differs(step, "cold", cold.reason, warm.request.digest)
        elif cold.semantic != warm.semantic or cold.request.digest != warm.request.digest:
            found = first_difference(step, "cold", warm.entries, cold.entries)
            self._differences.add(
                found
                or Difference(
                    step,
                    "cold",
                    "the request",
                    -1,
                    warm.request.digest,
                    warm.request.size,
                    cold.request.digest,
                    cold.request.size,
                )  # fmt: skip
            )

    def _same_refs(self, step: int, path: str, warm: Built, refs: Sequence[Ref]) -> None:
        history = warm.refs.between(len(warm.refs) - len(refs), len(warm.refs))
        if history != refs:
            self._differences.refs_differ(step, path, warm.refs[:], refs)


def _arranged(state: State) -> list[Ref]:
    return list(chain.from_iterable(Arrangement().entries(state)))
