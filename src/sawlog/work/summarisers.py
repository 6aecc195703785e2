"""A summariser that is a model, at work: what it is asked and answers is in the log.

When the request is too long even for the summariser, its oldest units leave it and it is asked
again, until one unit is left; an error that may pass is tried again a few times (CONTRACTS S3-18),
after as long as the provider asks for. One that stays, such as a wrong key, ends the asking.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from sawlog.builder.build import Sending
from sawlog.builder.packet import Request
from sawlog.builder.policy import borders
from sawlog.compaction.answering import Refusal, merged, read_answer
from sawlog.compaction.asking import MODEL, request_for
from sawlog.compaction.blocks import block_of, compactor_of, request_for_block
from sawlog.compaction.past import Past
from sawlog.store.errors import ConfigError, quoted
from sawlog.store.events.base import Named, Payload
from sawlog.store.events.compaction import Checkpoint, CompactionAnswered, CompactionAsked
from sawlog.work.apis import APIS
from sawlog.work.compacting import Reasons
from sawlog.work.driver import Driver
from sawlog.work.summarising import AGAIN, Answered, Provider, Summariser, ask, cleaned

REFUSES = frozenset({"auth", "invalid_request", "refused_content"})
"""Errors after which the summariser is asked nothing more for a checkpoint."""

TRIES = 3
"""Times that a function is asked the same before it is given up."""

Scrub = Callable[[str], str]
"""Takes known secrets out of a text."""


def _as_it_is(text: str) -> str:
    return text


class _Asks:
    """Asks one summariser for one session; every request and answer is in the log.

    `scrub` takes out of an answer what the log must not hold, before anything reads it.
    """

    def __init__(
        self,
        driver: Driver,
        summariser: Provider | Summariser,
        sending: Sending | None = None,
        scrub: Scrub = _as_it_is,
    ) -> None:
        if sending is None:
            if not isinstance(summariser, Provider):
                raise ConfigError("a summariser that is a function needs to know its API: give one")
            sending = summariser.sending()
        self._driver = driver
        self._retries = TRIES - 1
        if isinstance(summariser, Provider):
            # Each try is asked for here, so that each is in the log.
            self._retries, summariser = summariser.retries, replace(summariser, retries=0)
        self._summariser = summariser
        self._sending = sending
        self._scrub = scrub
        self._asked = 0

    def _answer(self, request: Request, summariser: Named, instruction: str) -> Answered:
        """The answer to a request, after as many tries as may help."""
        for tried in range(self._retries + 1):
            answered = self._once(request, summariser, instruction)
            if answered.error not in AGAIN or tried == self._retries:
                return answered
            time.sleep(max(answered.pause, min(8.0, 0.25 * 2.0**tried)))
        raise AssertionError("unreachable")

    def _once(self, request: Request, summariser: Named, instruction: str) -> Answered:
        self._asked += 1
        header = self._sending.header
        self._append(
            CompactionAsked(
                attempt=self._asked,
                summariser=summariser,
                instruction=instruction,
                api=header.api,
                model=header.model,
                params=header.params,
                request=request.digest,
                size=request.size,
            )
        )
        answered = cleaned(ask(self._summariser, request, header.api), self._scrub)
        error = f"{answered.error}: {answered.message}" if answered.error else ""
        self._append(
            CompactionAnswered(self._asked, answered.status, answered.body, answered.usage, error)
        )
        return answered

    def _append(self, payload: Payload) -> None:
        self._driver.append([self._driver.new(payload, "harness")])


class ModelProse(_Asks):
    """Asks a model for the prose of a checkpoint: the local route."""

    _skipped = 0
    """Units at the front of the region that it is not shown: with them it was too long."""

    def __call__(self, past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint | Reasons:
        """The checkpoint with the model's prose, or why there is none. Raises ConfigError."""
        places = borders(past.region.entries)
        last = len(places) - 1
        more = 1
        while True:
            region = past.region
            entries = region.entries[places[self._skipped] :] if self._skipped else region.entries
            shortened = replace(past, region=replace(region, entries=entries))
            asked = request_for(shortened, known, self._sending, faults)
            answered = self._answer(asked.request, MODEL, asked.instruction)
            if answered.overflowed and self._skipped < last:
                # The oldest units go, with all their pairs: each time twice as many, so that a long
                # region is not sent once for each of its units.
                self._skipped = min(last, self._skipped + more)
                more *= 2
                continue
            if answered.error:
                return _failed(answered)
            found = read_answer(answered.text)
            if isinstance(found, Refusal):
                return found.codes
            return merged(past, known, found, asked.evidence)


class ProviderBlock(_Asks):
    """Asks a provider to compact by itself: its block heads the packet, code fills the data."""

    def __call__(self, past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint | Reasons:
        """The checkpoint with the provider's block, or why there is none. Raises ConfigError."""
        by = compactor_of(self._sending)
        answered = self._answer(request_for_block(past, self._sending).request, by, "")
        if answered.error:
            return _failed(answered)
        block = block_of(answered.parts)
        if block is None:
            return (("no_block", "the provider gave no compaction"),)
        source = block.source if isinstance(block.source, str) else ""
        if self._scrub(source) != source:
            return (("withheld", "its block holds a secret"),)
        return replace(known, block=block, summariser=by)


def _failed(answered: Answered) -> Reasons:
    if answered.overflowed:
        return (("summariser_overflow", "one unit alone is too long for it"),)
    code = "summariser_refused" if answered.error in REFUSES else "summariser_failed"
    return ((code, f"{answered.error}: {answered.message}"[:300]),)


def provider_named(name: str) -> Provider | None:
    """The provider of `API/MODEL`, such as `anthropic/some-model`; None for `extractive`.

    Raises ConfigError for what names neither.
    """
    if name == "extractive":
        return None
    api, slash, model = name.partition("/")
    if not slash or not model:
        raise ConfigError(
            f"{quoted(name)} is no summariser: use extractive, or API/MODEL such as "
            "anthropic/some-model"
        )
    provider = Provider(api=APIS.get(api, api), model=model)
    try:
        provider.sending()
    except (ConfigError, KeyError, ValueError) as error:
        raise ConfigError(f"{quoted(name)} is no summariser: {error}") from error
    return provider
