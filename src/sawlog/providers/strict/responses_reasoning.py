"""Reasoning items of the Responses API: sealed by the provider, and never without their item."""

from __future__ import annotations

from sawlog.providers.strict.reading import JsonObject
from sawlog.providers.strict.refusal import Refusal, invalid
from sawlog.providers.strict.signing import Sealed, required_reasoning, unseal

_RUN_BY_PROVIDER = ("mcp_approval_request", "mcp_list_tools", "program")


def check_reasoning(history: list[JsonObject], key: bytes | None) -> None:
    """Refuses reasoning that was altered or sealed elsewhere, that lost the item which followed it,
    and an item that lost its reasoning. Without a key the item behind it is judged by its form: an
    item that a model puts out, with its id if the reasoning has one."""
    before: set[str] = set()  # ids of the reasoning items seen so far
    for index, item in enumerate(history):
        needed = required_reasoning(key, str(item.get("id"))) if key else None
        if needed and item["type"] != "reasoning" and needed not in before:
            raise invalid(
                f"Item '{item['id']}' of type '{item['type']}' was provided without its required "
                f"'reasoning' item: '{needed}'.",
                "input",
            )
        if item["type"] not in ("reasoning", "compaction"):
            continue
        sealed = _unseal(key, item) if key else None
        if item["type"] == "compaction":
            continue
        before.add(sealed.id if sealed else str(item.get("id")))
        follower = history[index + 1] if index + 1 < len(history) else None
        with_id = item.get("id") is not None
        if follower is None or not (
            _is_the_follower(follower, sealed, with_id)
            if sealed
            else _may_follow(follower, with_id)
        ):
            named = f"'{item['id']}' " if with_id else ""
            raise invalid(
                f"Item {named}of type 'reasoning' was provided without its required following "
                "item.",
                "input",
            )


def _unseal(key: bytes, item: JsonObject) -> Sealed:
    encrypted, id = str(item["encrypted_content"]), item.get("id")
    content = unseal(key, encrypted)
    if content is None:
        raise _unverified(encrypted, id, "Encrypted content could not be decrypted or parsed.")
    if id is not None and id != content.id:
        raise _unverified(
            encrypted, id, "Encrypted content item_id did not match the target item id."
        )
    return content


def _unverified(encrypted: str, id: object, reason: str) -> Refusal:
    shown = encrypted if len(encrypted) < 12 else f"{encrypted[:4]}...{encrypted[-4:]}"
    named = f"for item {id}" if id is not None else shown
    return invalid(
        f"The encrypted content {named} could not be verified. Reason: {reason}",
        None,
        "invalid_encrypted_content",
    )


def _is_the_follower(item: JsonObject, sealed: Sealed, with_id: bool) -> bool:
    """Whether this is the item that stood behind the reasoning when it was sealed. Ids may be left
    out, but only of both."""
    if item["type"] != sealed.follower:
        return False
    id = item.get("id")
    if sealed.call_id:
        return item.get("call_id") == sealed.call_id and id in (None, sealed.follower_id)
    if sealed.follower == "message" and item.get("role") != "assistant":
        return False
    return id == sealed.follower_id or (id is None and not with_id)


def _may_follow(item: JsonObject, with_id: bool) -> bool:
    kind = str(item["type"])
    if kind == "message":
        return item.get("role") == "assistant" and (item.get("id") is not None or not with_id)
    return kind == "reasoning" or kind.endswith("_call") or kind in _RUN_BY_PROVIDER
