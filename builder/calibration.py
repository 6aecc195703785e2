"""What a provider's usage says of a packet's units: how many tokens a thousand of them are.

Integers only, so that every machine counts alike.
"""

from __future__ import annotations

import re

import msgspec

from sawlog.builder.replies.source import fields, is_object

LEAST, MOST = 250, 4000
"""Tokens that a thousand units are at least and at most."""

_APART = 20
"""Per mille that an observation is away from what is in force before it changes it."""

_COUNT = re.compile("[0-9]{1,15}")


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one exchange; -1: not reported.

    `input` is all that the model read, whether from a cache or not; `cached` what of it was.
    """

    input: int = -1
    output: int = -1
    cached: int = -1


def usage_of(api: str, source: str) -> Usage:
    """What a reply's usage object says, in the words of its API.

    OpenAI and DeepSeek count cached tokens in with the input, and cache writes, too. Anthropic
    counts three kinds apart: read anew, written to the cache, read from it.
    """
    if not is_object(source):
        return Usage()
    given = fields(source)
    match api:
        case "anthropic":
            fresh, cached = _count(given, "input_tokens"), _count(given, "cache_read_input_tokens")
            written = _count(given, "cache_creation_input_tokens")
            total = fresh if fresh < 0 else fresh + max(0, written) + max(0, cached)
            return Usage(total, _count(given, "output_tokens"), cached)
        case "openai-responses":
            details = fields(given.get("input_tokens_details"))
            return Usage(
                _count(given, "input_tokens"),
                _count(given, "output_tokens"),
                _count(details, "cached_tokens"),
            )
        case _:
            details = fields(given.get("prompt_tokens_details"))
            hit, miss = (_count(given, f"prompt_cache_{one}_tokens") for one in ("hit", "miss"))
            total = _count(given, "prompt_tokens")
            if total < 0 <= min(hit, miss):
                total = hit + miss
            cached = _count(details, "cached_tokens")
            return Usage(total, _count(given, "completion_tokens"), cached if cached >= 0 else hit)


def _count(given: dict[str, str], name: str) -> int:
    source = given.get(name, "")
    return int(source) if _COUNT.fullmatch(source) else -1


def recalibrated(per_mille: int, units: int, tokens: int) -> int:
    """The tokens of a thousand units from here on, after a packet of `units` took `tokens`.

    A quarter of the way to what was observed, which is bounded to 250 to 4000; what differs by no
    more than 2 % changes nothing, so that budgets do not tremble. No packet takes 0 tokens: who
    reports that counts none, and nothing changes.
    """
    if units <= 0 or tokens <= 0:
        return per_mille
    observed = min(MOST, max(LEAST, (tokens * 1000 + units // 2) // units))
    if abs(observed - per_mille) * 1000 <= _APART * per_mille:
        return per_mille
    return min(MOST, max(LEAST, (3 * per_mille + observed + 2) // 4))
