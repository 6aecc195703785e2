"""Chat Completions of DeepSeek: POST /chat/completions.

As `openai-chat`, but for what its profile says: developers speak as the system, every content is
one string, there are no media, and while the model thinks each message with calls brings its
`reasoning_content` back, an empty one where the thinking is not at hand or its binding is gone.
"""

from __future__ import annotations

from typing import ClassVar

from sawlog.builder.render.openai_chat import OpenAIChat


class DeepSeekChat(OpenAIChat):
    """Renderer `deepseek-chat@1`."""

    api = "deepseek-chat"
    may_set = ()
    free_form = False
    raw_types: ClassVar[dict[str, frozenset[str]]] = {}
