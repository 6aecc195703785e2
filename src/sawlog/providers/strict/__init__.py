"""Strict checkers: what each provider would refuse, told from the bytes of a request alone.

`check(api, body, headers)` returns None for a request that the provider would take and raises
`Refusal` for one that it would not, with the provider's own status, error type and sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sawlog.providers.strict import anthropic, deepseek_chat, openai_chat, openai_responses
from sawlog.providers.strict.refusal import APIS, Refusal, error_body, invalid
from sawlog.providers.strict.signing import FAKE_KEY

__all__ = ["APIS", "FAKE_KEY", "Refusal", "check", "error_body"]

_CHECKS: dict[str, Callable[[bytes, Mapping[str, str] | None, bytes | None], None]] = {
    "anthropic": anthropic.check,
    "openai-chat": openai_chat.check,
    "openai-responses": openai_responses.check,
    "deepseek-chat": deepseek_chat.check,
}


def check(
    api: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    key: bytes | None = FAKE_KEY,
    compacts: bool = False,
) -> None:
    """Raises Refusal if the provider of `api` (one of APIS) would refuse this request.

    `headers` are looked at only when given. `key` is that of the fake provider: thinking and
    reasoning in the request must come from it and stand where they were issued. With `key=None`
    signatures are not checked, as for a request that is meant for the real provider. `compacts`:
    it goes to the path on which Responses compacts a history (Anthropic's is the usual one).
    Raises ValueError for an unknown API.
    """
    try:
        checker = _CHECKS[api]
    except KeyError:
        raise ValueError(f"unknown API {api!r}; one of {', '.join(APIS)}") from None
    if compacts and api == "openai-responses":
        checker = openai_responses.check_compaction
    try:
        checker(body, headers, key)
    except RecursionError:
        raise invalid("The request body is nested too deeply.") from None
