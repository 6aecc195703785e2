"""Replies of OpenAI's Chat Completions and of servers that follow it; see `chat`."""

from __future__ import annotations

from sawlog.builder.replies.answer import Answered, Received, RefusedReply
from sawlog.builder.replies.chat import read_chat

_BROKEN = ("error",)  # a gateway's word: the provider behind it failed half-way


def read(reply: Received) -> Answered | RefusedReply:
    """The reply that a body is. Raises Malformed when it is none."""
    return read_chat(reply, _BROKEN)
