"""What the fake provider answers where it is asked to compact: blocks that only it can make."""

from __future__ import annotations

from sawlog.providers.strict.reading import JsonObject, as_list, as_object
from sawlog.providers.strict.signing import Sealed, seal, sign_compaction


def signed_block(text: str, key: bytes) -> JsonObject:
    """Anthropic's block on request, which anybody can read and nobody change; without a text the
    one that says that it failed."""
    if not text:
        return {"type": "compaction", "content": None}
    return {"type": "compaction", "content": text, "signature": sign_compaction(key, text)}


def sealed_block(id: str, key: bytes) -> JsonObject:
    """OpenAI's item, which says nothing to anybody but OpenAI."""
    sealed = seal(key, Sealed(id, "", "", ""))
    return {"id": id, "encrypted_content": sealed, "type": "compaction"}


def kept_messages(history: object, ids: str) -> list[JsonObject]:
    """The user's messages, which OpenAI gives back in front of its item."""
    if isinstance(history, str):
        history = [{"role": "user", "content": history}]
    kept: list[JsonObject] = []
    for value in as_list(history) or []:
        item = as_object(value) or {}
        if item.get("role") != "user":
            continue
        content = item.get("content")
        if isinstance(content, str):
            content = [{"type": "input_text", "text": content}]
        message: JsonObject = {"id": f"msg_{ids}{len(kept):04}", "type": "message"}
        kept.append({**message, "status": "completed", "role": "user", "content": content})
    return kept
