"""The model families in use in November 2026: what each says otherwise than its API's base.

Names of models are those that the official clients list (anthropic 2.14, openai 3.57); for DeepSeek
and Gemini those of the providers' own pages. Windows, replies and bounds of media are the
providers' documented ones; what is not sure is left as the base has it. A family is never changed
once it was released: what is learned later is a new one with a later date.
"""

from __future__ import annotations

from typing import NamedTuple

from sawlog.builder.demands import BoundKind


class Bound(NamedTuple):
    """A bound on media of one shape: most bytes of one, most in a request (0: none)."""

    shape: str
    largest: int
    most: int


class Family(NamedTuple):
    """A family of one API. `window` is what a request may hold, in tokens: where the provider
    bounds the input apart from the reply, that bound."""

    name: str
    api: str
    models: tuple[str, ...]
    window: int
    output: int
    media: tuple[Bound, ...] = ()
    bound: tuple[BoundKind, ...] = ()
    cache: str = "none"
    path: str = ""
    placeholder: str = ""


_DATE = "@2026-11"

# --- Claude --------------------------------------------------------------------------------------

# The base binds thinking to all that stands before it, as models since Fable 5.1 check it. Older
# ones check that it is their own alone.
_OLDER = (
    BoundKind("thinking", "provider"),
    BoundKind("redacted_thinking", "provider"),
    BoundKind("compaction", "provider"),
)
_LARGE = (Bound("image", 0, 600),)
_SMALL = (Bound("image", 0, 100),)  # with a window of 200,000


def _claude(
    name: str,
    *models: str,
    window: int = 1_000_000,
    output: int = 128_000,
    bound: tuple[BoundKind, ...] = (),
) -> Family:
    return Family(
        name="anthropic/" + name + _DATE,
        api="anthropic",
        models=models,
        window=window,
        output=output,
        media=_LARGE if window > 200_000 else _SMALL,
        bound=bound,
        cache="anthropic-rolling",
    )


_CLAUDE = (
    _claude("fable-5.2", "claude-fable-5-2", "claude-mythos-5-2"),
    _claude("fable-5.1", "claude-fable-5-1", "claude-mythos-5-1"),
    _claude("opus-5.5", "claude-opus-5-5"),
    _claude("sonnet-5.5", "claude-sonnet-5-5"),
    _claude("haiku-5.5", "claude-haiku-5-5"),
    _claude(
        "claude-5",
        "claude-fable-5",
        "claude-mythos-5",
        "claude-opus-5",
        "claude-sonnet-5",
        bound=_OLDER,
    ),
    _claude("opus-4.6", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8", bound=_OLDER),
    _claude("sonnet-4.6", "claude-sonnet-4-6", output=64_000, bound=_OLDER),
    _claude(
        "claude-4.5",
        "claude-opus-4-5",
        "claude-opus-4-5-20251101",
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        window=200_000,
        output=64_000,
        bound=_OLDER,
    ),
)

# --- GPT -----------------------------------------------------------------------------------------

_GPT_MEDIA = (Bound("image", 0, 1_500), Bound("document", 50_000_000, 0))


def _gpt(name: str, *models: str, window: int, output: int = 128_000) -> tuple[Family, Family]:
    """A family of GPT on both APIs."""
    chat, responses = (
        Family(f"{api}/{name}{_DATE}", api, models, window, output, _GPT_MEDIA)
        for api in ("openai-chat", "openai-responses")
    )
    return chat, responses


_GPT = (
    *_gpt(
        "gpt-6",
        "gpt-6-astra",
        "gpt-6-sol",
        "gpt-6-luna",
        "gpt-6.1-sol",
        "gpt-6.1-terra",
        "gpt-6.2-astra",
        "gpt-6.2-sol",
        window=922_000,
    ),
    *_gpt("gpt-5.6", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", window=922_000),
    *_gpt("gpt-5.4", "gpt-5.4", "gpt-5.5", "gpt-5.5-2026-04-23", window=922_000),
    *_gpt(
        "gpt-5.4-mini",
        "gpt-5.4-mini",
        "gpt-5.4-mini-2026-03-17",
        "gpt-5.4-nano",
        "gpt-5.4-nano-2026-03-17",
        window=272_000,
    ),
    *_gpt(
        "gpt-5",
        "gpt-5",
        "gpt-5-2025-08-07",
        "gpt-5-mini",
        "gpt-5-mini-2025-08-07",
        "gpt-5-nano",
        "gpt-5-nano-2025-08-07",
        "gpt-5.1",
        "gpt-5.1-2025-11-13",
        "gpt-5.2",
        "gpt-5.2-2025-12-11",
        window=272_000,
    ),
    *_gpt(
        "gpt-4.1",
        "gpt-4.1",
        "gpt-4.1-2025-04-14",
        "gpt-4.1-mini",
        "gpt-4.1-mini-2025-04-14",
        "gpt-4.1-nano",
        "gpt-4.1-nano-2025-04-14",
        window=1_047_576,
        output=32_768,
    ),
    *_gpt(
        "gpt-4o",
        "gpt-4o",
        "gpt-4o-2024-11-20",
        "gpt-4o-2024-08-06",
        "gpt-4o-mini",
        "gpt-4o-mini-2024-07-18",
        window=128_000,
        output=16_384,
    ),
)

# --- others --------------------------------------------------------------------------------------

_DEEPSEEK = Family(
    name="deepseek-chat/v4" + _DATE,
    api="deepseek-chat",
    models=("deepseek-v4-pro", "deepseek-v4-flash"),
    window=1_000_000,
    output=384_000,
)

# Gemini 3 refuses a reply whose first call lacks the signature that it was given; its pages name
# this one text for calls that another model made. The client's base URL holds the version already.
_GEMINI = Family(
    name="google/gemini-3" + _DATE,
    api="openai-chat",
    models=("gemini-3-flash-preview", "gemini-3-pro-preview"),
    window=1_048_576,
    output=65_536,
    bound=(BoundKind("call.extra_content", "provider"),),
    path="/chat/completions",
    placeholder='{"google":{"thought_signature":"skip_thought_signature_validator"}}',
)

FAMILIES: tuple[Family, ...] = (*_CLAUDE, *_GPT, _DEEPSEEK, _GEMINI)
"""The families of this release."""
