"""Reads exports of stored format 1 without sawlog: `python independent_reader.py FILE...`.

Written from the description of the format alone. Checks header, commitment and chain of every
event, and every blob; prints session, head and digest, or fails.
"""

import base64
import hashlib
import json
import re
import struct
import sys

KEYS = "seq id type version flags step source occurred_at recorded_at fence salt commitment digest"


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def sized(text: str) -> bytes:
    return struct.pack(">I", len(text.encode())) + text.encode()


def no_float(text: str) -> None:
    raise ValueError(f"the number {text} in a payload")


def read(path: str) -> tuple[str, int, str]:
    """Session, head and digest of an export. Raises AssertionError, KeyError or ValueError."""
    with open(path, "rb") as file:
        first, *lines, last = file.read().decode().removesuffix("\n").split("\n")
    start = json.loads(first)
    fresh: set[str] = set()
    seen: set[str] = set()
    assert list(start) == ["sawlog", "session", "name", "ancestors"] and start["sawlog"] == 1
    owners: list[tuple[str, int]] = [*start["ancestors"], (start["session"], 2**63)]
    seq, digest = 0, sha(b"sawlog/1 genesis", bytes.fromhex(owners[0][0]))
    for line in lines:
        if line.startswith('{"blob":'):
            name, data = json.loads(line).values()
            assert sha(base64.b64decode(data, validate=True)).hex() == name not in seen
            fresh.add(name)
            seen.add(name)
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
            cited = set(re.findall('"blob":"([0-9a-f]{64})"', payload))
            assert isinstance(value, dict) and fresh <= cited <= seen
        digest = sha(b"sawlog/1 event", digest, header, bytes.fromhex(e["commitment"]))
        fresh.clear()
        assert (list(e), e["seq"], e["digest"]) == (KEYS.split(), seq, digest.hex())
    assert json.loads(last) == {"head": seq, "digest": digest.hex()} and not fresh
    return start["session"], seq, digest.hex()


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(*read(path))
