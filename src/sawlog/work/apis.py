"""The names that an API may be asked for under."""

from __future__ import annotations

from sawlog.store.errors import ConfigError, quoted

APIS = {
    "anthropic": "anthropic",
    "openai": "openai-responses",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "deepseek": "deepseek-chat",
    "deepseek-chat": "deepseek-chat",
}
"""Each name, and the API that it means."""


def api_of(provider: str) -> str:
    """The API that a provider's name means. Raises ConfigError for one that is not known."""
    api = APIS.get(provider)
    if api is None:
        known = ", ".join(dict.fromkeys(APIS.values()))
        raise ConfigError(f"there is no provider {quoted(provider)}: use one of {known}")
    return api
