"""A real tokenizer as a measure, of the package tiktoken (extra `tokens`), loaded when it is asked
for.

Its name says all that its counts depend on: package, encoding, release, digest of the vocabulary.
"""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sawlog.builder.measure import FRAME, MEASURES, MEDIUM, Measure, install
from sawlog.builder.packet import Entry
from sawlog.store.errors import ConfigError
from sawlog.store.events.base import Named

if TYPE_CHECKING:
    from tiktoken import Encoding

_PIECE = 50_000
"""Characters that are counted at once, so that no text takes the tokenizer longer than its length
says. A piece's border may count one token more."""

_lock = threading.Lock()


def token_measure(
    encoding: str = "o200k_base",
    *,
    vocabulary: str | os.PathLike[str] | None = None,
    pattern: str = "",
) -> Named:
    """The name of a measure that counts tokens, for `Rules(measure=…)`; it is installed with this.

    Without a `vocabulary` tiktoken brings the encoding itself, which reads its cache
    (TIKTOKEN_CACHE_DIR) or the network. With one, a file of tiktoken's form (a token in base64 and
    its rank a line), `pattern` is the regular expression that splits a text first. Raises
    ConfigError when it cannot be loaded.
    """
    try:
        import tiktoken
    except ImportError:
        raise ConfigError(
            "the package tiktoken is not installed: pip install 'sawlog[tokens]'"
        ) from None
    from importlib.metadata import version

    if not encoding or not encoding.isascii() or "/" in encoding:
        raise ConfigError(f"{encoding!r} is no name of an encoding")
    if vocabulary is None:
        if pattern:
            raise ConfigError("a pattern goes with a vocabulary file: give both, or neither")
        loaded, ranks = _brought(tiktoken, encoding)
    else:
        ranks = _read(vocabulary)
        loaded = _made(tiktoken, encoding, ranks, pattern)
    name = Named(f"tiktoken/{encoding}/{version('tiktoken')}/{_digest(ranks, pattern)[:12]}")
    with _lock:
        if name not in MEASURES:
            install(name, _measure(loaded))
    return name


def _measure(encoding: Encoding) -> Measure:
    def tokens(text: str) -> int:
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    def measure(entry: Entry) -> int:
        """The tokens of text, name and call id, and 4 for the frame; 1,600 for a medium."""
        if entry.part == "media":
            return MEDIUM + FRAME
        return tokens(entry.text) + tokens(entry.name) + tokens(entry.call_id) + FRAME

    return measure


def _brought(tiktoken: Any, encoding: str) -> tuple[Encoding, dict[bytes, int]]:
    try:
        loaded: Encoding = tiktoken.get_encoding(encoding)
    except Exception as error:
        # Its loader lets through whatever files and networks raise.
        raise ConfigError(
            f"tiktoken cannot load the encoding {encoding!r} ({type(error).__name__}): set "
            "TIKTOKEN_CACHE_DIR to a folder that holds it, or give a vocabulary file and a pattern"
        ) from error
    return loaded, {one: loaded.encode_single_token(one) for one in loaded.token_byte_values()}


def _made(tiktoken: Any, encoding: str, ranks: dict[bytes, int], pattern: str) -> Encoding:
    if not pattern:
        raise ConfigError("a vocabulary needs the pattern that splits a text first: give pattern=")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ConfigError(f"the vocabulary lacks {len(missing)} of the 256 single bytes")
    try:
        made: Encoding = tiktoken.Encoding(
            encoding, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )
    except ValueError as error:
        raise ConfigError(
            f"tiktoken does not take the pattern or the vocabulary: {error}"
        ) from error
    return made


def _read(vocabulary: str | os.PathLike[str]) -> dict[bytes, int]:
    try:
        with open(vocabulary, "rb") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"the vocabulary cannot be read: {error}") from error
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            key, value = base64.b64decode(token, validate=True), int(rank)
        except ValueError:
            raise ConfigError(
                f"line {number} of the vocabulary {os.fspath(vocabulary)!r} is no token in base64 "
                "and its rank"
            ) from None
        if key in ranks or value < 0:
            raise ConfigError(f"line {number} of the vocabulary repeats a token or has no rank")
        ranks[key] = value
    if len(set(ranks.values())) != len(ranks):
        raise ConfigError("two tokens of the vocabulary have one rank")
    return ranks


def _digest(ranks: Mapping[bytes, int], pattern: str) -> str:
    hasher = hashlib.sha256(b"sawlog/1 vocabulary")
    hasher.update(len(pattern.encode()).to_bytes(4, "big") + pattern.encode())
    for token, rank in sorted(ranks.items(), key=_by_rank):
        hasher.update(len(token).to_bytes(4, "big") + token + rank.to_bytes(4, "big"))
    return hasher.hexdigest()


def _by_rank(one: tuple[bytes, int]) -> int:
    return one[1]
