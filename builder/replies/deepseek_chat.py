"""Replies of DeepSeek's Chat Completions; see `chat`."""

from __future__ import annotations

from sawlog.builder.replies.answer import Answered, Received, RefusedReply
from sawlog.builder.replies.chat import read_chat

# The text ends where DeepSeek ran out of machines: half an answer must not pass for one.
_BROKEN = ("insufficient_system_resource",)


def read(reply: Received) -> Answered | RefusedReply:
    """The reply that a body is. Raises Malformed when it is none."""
    return read_chat(reply, _BROKEN)
