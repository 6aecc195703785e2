"""A summariser that is a model, at work: what it is asked and answers is in the log.

When the request is too long even for the summariser, the oldest unit leaves it and it is asked
again, until one unit is left; another error is tried again a few times (CONTRACTS S3-18).
"""

from __future__ import annotations

from msgspec.structs import replace

from sawlog.builder.build import Sending
from sawlog.builder.packet import Request
from sawlog.builder.policy import borders
from sawlog.compaction.answering import Refusal, merged, read_answer
from sawlog.compaction.asking import MODEL, request_for
from sawlog.compaction.past import Past
from sawlog.store.errors import ConfigError, quoted
from sawlog.store.events.base import Payload
from sawlog.store.events.compaction import Checkpoint, CompactionAnswered, CompactionAsked
from sawlog.work.driver import Driver
from sawlog.work.summarising import Answered, Provider, Summariser, ask

TRIES = 3
"""Times in a row that an error other than a request too long is met, before it is given up."""

Reasons = tuple[tuple[str, str], ...]


class ModelProse:
    """Asks a model for the prose of a checkpoint; made for one compaction of one session."""

    def __init__(
        self, driver: Driver, summariser: Provider | Summariser, sending: Sending | None = None
    ) -> None:
        if sending is None:
            if not isinstance(summariser, Provider):
                raise ConfigError("a summariser that is a function needs to know its API: give one")
            sending = summariser.sending()
        self._driver = driver
        self._summariser = summariser
        self._sending = sending
        self._asked = 0

    def __call__(self, past: Past, known: Checkpoint, faults: Reasons) -> Checkpoint | Reasons:
        """The checkpoint with the model's prose, or why there is none. Raises ConfigError."""
        skipped = tries = 0
        places = borders(past.region.entries)
        while True:
            region = past.region
            entries = region.entries[places[skipped] :] if skipped else region.entries
            shortened = replace(past, region=replace(region, entries=entries))
            asked = request_for(shortened, known, self._sending, faults)
            answered = self._one(asked.request, asked.instruction)
            if answered.overflowed:
                if skipped + 1 >= len(places):
                    return (("summariser_overflow", "one unit is too long for it"),)
                skipped, tries = skipped + 1, 0
                continue
            if answered.error:
                tries += 1
                if tries >= TRIES or isinstance(self._summariser, Provider):
                    return (("summariser_failed", f"{answered.error}: {answered.message}"[:300]),)
                continue
            found = read_answer(answered.text)
            if isinstance(found, Refusal):
                return found.codes
            return merged(past, known, found, asked.evidence)

    def _one(self, request: Request, instruction: str) -> Answered:
        self._asked += 1
        header = self._sending.header
        self._append(
            CompactionAsked(
                attempt=self._asked,
                summariser=MODEL,
                instruction=instruction,
                api=header.api,
                model=header.model,
                params=header.params,
                request=request.digest,
                size=request.size,
            )
        )
        answered = ask(self._summariser, request, header.api)
        error = f"{answered.error}: {answered.message}" if answered.error else ""
        self._append(
            CompactionAnswered(self._asked, answered.status, answered.body, answered.usage, error)
        )
        return answered

    def _append(self, payload: Payload) -> None:
        self._driver.append([self._driver.new(payload, "harness")])


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
    provider = Provider(api={"openai": "openai-responses"}.get(api, api), model=model)
    try:
        provider.sending()
    except (ConfigError, KeyError, ValueError) as error:
        raise ConfigError(f"{quoted(name)} is no summariser: {error}") from error
    return provider
