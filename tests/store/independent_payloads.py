"""How payloads of stored format 1 are laid out, checked on an export without sawlog.

Stands beside `independent_reader`, which checks chain, commitments and blobs.
"""

# pyright: basic
# (what JSON holds has no type)

import base64
import json
from typing import Any


def check(path: str) -> int:
    """Check every payload of an export; returns how many. Raises AssertionError or KeyError."""
    blobs: dict[str, bytes] = {}
    cited: set[str] = set()
    count = 0
    with open(path, "rb") as file:
        lines = file.read().decode().removesuffix("\n").split("\n")
    for line in lines[1:-1]:
        value = json.loads(line)
        if "payload" not in value:
            blobs[value["blob"]] = base64.b64decode(value["data"], validate=True)
        else:
            check_payload(value["payload"], blobs, cited)
            assert set(blobs) <= cited
            count += 1
    return count


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
