"""Reads exports of stored format 1 without sawlog: `python independent_reader.py FILE...`.

Written from the description of the format alone. Checks header, commitment and chain of every
event, every blob, and how payloads are laid out; prints session, head and digest, or fails.
"""

# pyright: basic
# (what JSON holds has no type)

import base64
import hashlib
import json
import struct
import sys
from typing import Any

KEYS = "seq id type version flags step source occurred_at recorded_at fence salt commitment digest"


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def sized(text: str) -> bytes:
    return struct.pack(">I", len(text.encode())) + text.encode()


def no_float(text: str) -> None:
    raise ValueError(f"the number {text} in a payload")


def check_payload(value: Any, blobs: dict[str, bytes], cited: set[str]) -> None:
    """Texts have at most 4,096 bytes, or are the object that stands for one whose blob is there."""
    if isinstance(value, dict) and "wtf8" in value:
        raw = base64.b64decode(value["wtf8"], validate=True)
        surrogates = [c for c in raw.decode("utf-8", "surrogatepass") if "\ud800" <= c <= "\udfff"]
        assert surrogates and len(raw) <= 4096 and len(value) == 1
    elif isinstance(value, dict):
        if "blob" in value:
            cited.add(value["blob"])
            size = len(blobs[value["blob"]])
            if value.get("t") != "media":
                assert list(value)[:3] == ["blob", "size", "media"] and value["size"] == size
                assert list(value)[3:] == ["head", "tail", "limit"] or size > 4096
        for each in value.values():
            check_payload(each, blobs, cited)
    elif isinstance(value, list):
        for each in value:
            check_payload(each, blobs, cited)
    else:
        assert not isinstance(value, str) or len(value.encode()) <= 4096


def read(path: str) -> tuple[str, int, str]:
    """Session, head and digest of an export. Raises AssertionError, KeyError or ValueError."""
    with open(path, "rb") as file:
        first, *lines, last = file.read().decode().removesuffix("\n").split("\n")
    start = json.loads(first)
    blobs: dict[str, bytes] = {}
    fresh: set[str] = set()
    cited: set[str] = set()
    assert list(start) == ["sawlog", "session", "name", "ancestors"] and start["sawlog"] == 1
    owners: list[tuple[str, int]] = [*start["ancestors"], (start["session"], 2**63)]
    seq, digest = 0, sha(b"sawlog/1 genesis", bytes.fromhex(owners[0][0]))
    for line in lines:
        if line.startswith('{"blob":'):
            name, data = json.loads(line).values()
            blobs[name] = base64.b64decode(data, validate=True)
            assert sha(blobs[name]).hex() == name and name not in fresh | cited
            fresh.add(name)
            continue
        envelope, payload = line[:-1].split(',"payload":', 1)
        e, seq = json.loads(envelope + "}"), seq + 1
        owner = next(bytes.fromhex(id) for id, upto in owners if seq <= upto)
        header = struct.pack(">8s16sQ16s", b"sawlog/1", owner, seq, bytes.fromhex(e["id"]))
        header += sized(e["type"]) + struct.pack(">IIQ", e["version"], e["flags"], e["step"])
        header += sized(e["source"])
        header += struct.pack(">qqQ", e["occurred_at"], e["recorded_at"], e["fence"])
        if e["salt"] is None:
            assert payload == "null" and not fresh
        else:
            assert sha(bytes.fromhex(e["salt"]), payload.encode()).hex() == e["commitment"]
            value = json.loads(payload, parse_float=no_float, parse_constant=no_float)
            assert json.dumps(value, ensure_ascii=False, separators=(",", ":")) == payload
            check_payload(value, blobs, cited)
            assert isinstance(value, dict) and fresh <= cited
        digest = sha(b"sawlog/1 event", digest, header, bytes.fromhex(e["commitment"]))
        fresh.clear()
        assert (list(e), e["seq"], e["digest"]) == (KEYS.split(), seq, digest.hex())
    assert json.loads(last) == {"head": seq, "digest": digest.hex()} and not fresh
    return start["session"], seq, digest.hex()


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(*read(path))
