"""Whom the live probe asks. Apart from the probe, which alone needs an HTTP library."""

from __future__ import annotations

LIVE = "deepseek-chat-v1"
"""The type of the live probe in a record; the model stands beside it."""

KEY_VARIABLE = "DEEPSEEK_API_KEY"
MODEL = "deepseek-v4-pro"
ENDPOINT = "https://api.deepseek.com/chat/completions"
TIMEOUT = 45.0
"""Seconds for a whole exchange, not for each of its parts."""
