"""The fake provider's signatures: thinking bound to a prefix, compactions, calls, reasoning, ids.

Everything is HMAC-SHA256 under one key, and what a signature says of its origin is inside it, so a
checker needs the key and nothing else: no state of the server that issued it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import NamedTuple

from sawlog.providers.strict.reading import JsonObject, as_list, as_object

FAKE_KEY = b"sawlog fake provider 1"
"""The key of the fake provider. It protects nothing: it tells own signatures from foreign ones."""

_DIGEST = 16  # bytes of each prefix digest kept in a signature
_OWN = 24  # hexadecimal digits of a Responses item id that name a reasoning item
_ALONE = "0" * _OWN
_SEALED = "gAAAAA"  # how the encrypted content of OpenAI begins


class Prefix(NamedTuple):
    """Digests of what a thinking block is bound to: all of the request that stands before it."""

    system: bytes
    tools: bytes
    messages: bytes


class PrefixDigest:
    """The prefix at any place of a request, computed while one walks along its messages.

    Marks (`cache_control`) do not count, and a text given as a string equals the same text given
    as one text block. Messages of one role are not merged.
    """

    def __init__(self, request: JsonObject) -> None:
        self._system = _digest(_blocks(request.get("system")))
        self._tools = _digest([_unmarked(tool) for tool in as_list(request.get("tools")) or []])
        self._messages = hashlib.sha256()

    def add_message(self, message: JsonObject) -> None:
        """Puts a whole message into the prefix of all that follows."""
        self._messages.update(_dump([message.get("role"), _blocks(message.get("content"))]))

    def before(self, blocks: list[object]) -> Prefix:
        """The prefix of a block that follows `blocks` in a message behind those added."""
        messages = self._messages.copy()
        for block in blocks:
            messages.update(b"block" + _dump(_unmarked(block)))
        return Prefix(self._system, self._tools, messages.digest()[:_DIGEST])


def sign_thinking(key: bytes, kind: str, prefix: Prefix, text: str) -> str:
    """The signature of a thinking block, or the data of a redacted one (then `text` is empty)."""
    bound = b"".join(prefix)
    return _base64(bound + _mac(key, kind, bound + _utf8(text)))


def check_thinking(key: bytes, kind: str, prefix: Prefix, text: str, signature: str) -> str:
    """Why a thinking block is not valid where it stands: `forged` (altered or of another
    provider), `system`, `tools` or `messages` (that part of the prefix differs); "" if it is."""
    raw = _unbase64(signature)
    if raw is None or len(raw) < 3 * _DIGEST:
        return "forged"
    bound, mac = raw[: 3 * _DIGEST], raw[3 * _DIGEST :]
    if not hmac.compare_digest(mac, _mac(key, kind, bound + _utf8(text))):
        return "forged"
    for number, (name, digest) in enumerate(zip(Prefix._fields, prefix, strict=True)):
        if bound[number * _DIGEST : (number + 1) * _DIGEST] != digest:
            return name
    return ""


def sign_compaction(key: bytes, text: str) -> str:
    """The signature of a compaction block with this summary."""
    digest = hashlib.sha256(_utf8(text)).digest()[:_DIGEST]
    return _base64(digest + _mac(key, "compaction", digest))


def check_compaction(key: bytes, text: str, signature: str) -> str:
    """Why a compaction block is not valid: `forged`, or `content` (it was signed with another
    summary); "" if it is."""
    raw = _unbase64(signature)
    if raw is None or len(raw) <= _DIGEST:
        return "forged"
    digest, mac = raw[:_DIGEST], raw[_DIGEST:]
    if not hmac.compare_digest(mac, _mac(key, "compaction", digest)):
        return "forged"
    return "" if digest == hashlib.sha256(_utf8(text)).digest()[:_DIGEST] else "content"


def sign_call(key: bytes, name: str, arguments: str) -> str:
    """The signature of a call: of its name and its arguments as given."""
    return _base64(_mac(key, "call", _utf8(name) + b"\0" + _utf8(arguments)))


def check_call(key: bytes, name: str, arguments: str, signature: str) -> bool:
    """Whether a call has the signature that was made for it."""
    given = _unbase64(signature)
    made = _mac(key, "call", _utf8(name) + b"\0" + _utf8(arguments))
    return given is not None and hmac.compare_digest(given, made)


class Sealed(NamedTuple):
    """What the encrypted content of a reasoning (or compaction) item says: its own id and the item
    that must follow it, by type, id and call id."""

    id: str
    follower: str
    follower_id: str
    call_id: str


def seal(key: bytes, content: Sealed) -> str:
    """The encrypted content of an item."""
    text = json.dumps(content).encode("ascii")
    raw = _mac(key, "sealed", text) + text
    return _SEALED + base64.urlsafe_b64encode(raw).decode("ascii")


def unseal(key: bytes, encrypted: str) -> Sealed | None:
    """What `seal` put in, None if the text was altered or sealed elsewhere."""
    if not encrypted.startswith(_SEALED):
        return None
    raw = _unbase64(encrypted[len(_SEALED) :].replace("-", "+").replace("_", "/"))
    if raw is None or not hmac.compare_digest(raw[:32], _mac(key, "sealed", raw[32:])):
        return None
    return Sealed(*json.loads(raw[32:]))


def reasoning_id(key: bytes, seed: str) -> str:
    """A new id for a reasoning item."""
    own = hashlib.sha256(seed.encode("utf-8")).hexdigest()[:_OWN]
    return _reasoning_id(key, own)


def item_id(key: bytes, prefix: str, seed: str, reasoning: str | None) -> str:
    """A new id for an output item that remembers the reasoning item it needs (None: none)."""
    own = reasoning[3 : 3 + _OWN] if reasoning else _ALONE
    number = hashlib.sha256(seed.encode("utf-8")).hexdigest()[:8]
    return f"{prefix}_{own}{number}{_short_mac(key, prefix, own + number)}"


def required_reasoning(key: bytes, id: str) -> str | None:
    """The id of the reasoning item that an item of this id needs; None for other ids."""
    prefix, _, rest = id.rpartition("_")
    own, number, mac = rest[:_OWN], rest[_OWN : _OWN + 8], rest[_OWN + 8 :]
    if own == _ALONE or mac != _short_mac(key, prefix, own + number):
        return None
    return _reasoning_id(key, own)


def _reasoning_id(key: bytes, own: str) -> str:
    return f"rs_{own}{_mac(key, 'reasoning', _utf8(own)).hex()[:_OWN]}"


def _short_mac(key: bytes, prefix: str, text: str) -> str:
    return _mac(key, prefix, _utf8(text)).hex()[:16]


def _mac(key: bytes, kind: str, message: bytes) -> bytes:
    return hmac.digest(key, _utf8(kind) + b"\0" + message, "sha256")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _digest(value: object) -> bytes:
    return hashlib.sha256(_dump(value)).digest()[:_DIGEST]


def _blocks(content: object) -> object:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = as_list(content)
    return content if blocks is None else [_unmarked(block) for block in blocks]


def _unmarked(block: object) -> object:
    """The block without its mark and those of blocks inside a tool result; JSON of the caller
    (tool input, schemas) is left alone, whatever its keys."""
    fields = as_object(block)
    if fields is None:
        return block
    plain = {name: value for name, value in fields.items() if name != "cache_control"}
    if plain.get("type") == "tool_result" and "content" in plain:
        plain["content"] = _blocks(plain["content"])
    return plain


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _unbase64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: a character above ASCII
        return None
