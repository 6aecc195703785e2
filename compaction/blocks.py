"""A provider's own compaction: how it is asked for, and the block that comes back, asked or not.

- `openai-responses`: a path of its own, which takes the model, the instructions and the items, and
  gives an item that nobody can read.
- `anthropic`: a parameter of an ordinary request, under a header that switches it on; the block
  holds its summary as text. Parameters that shape a reply are refused beside it.

Either block is bound to API and model. The checkpoint's data is filled and checked all the same:
a block that cannot be read confirms nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec.structs import replace

from sawlog.builder.blocks import maker_of
from sawlog.builder.build import Sending, bindings_of
from sawlog.builder.packet import Entry
from sawlog.builder.render import start
from sawlog.builder.replies.source import fields, text_of
from sawlog.compaction.asking import Asked, head_entries
from sawlog.compaction.evidence import Evidence
from sawlog.compaction.past import Past
from sawlog.store.content import BoundPart, Part
from sawlog.store.errors import ConfigError
from sawlog.store.events.base import Named

APIS = ("anthropic", "openai-responses")
"""APIs that compact."""

BETA = "compact-2026-09-04"
"""The header `anthropic-beta` with which Anthropic compacts on request, and takes such a block."""

_PATH = "/v1/responses/compact"
_TAKEN = ("service_tier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")
_OF_A_REPLY = ("context_management", "stop_sequences", "output_format", "stream", "compaction")


def block_of(parts: Sequence[Part]) -> BoundPart | None:
    """The last compaction among the parts of a reply that holds something; None: there is none.

    A block without content says that the provider could not compact.
    """
    found: BoundPart | None = None
    for part in parts:
        if isinstance(part, BoundPart) and part.kind == "compaction" and _holds(part):
            found = part
    return found


def _holds(part: BoundPart) -> bool:
    if not isinstance(part.source, str):
        return True  # it has more than 4,096 bytes
    holds = "content" if part.api == "anthropic" else "encrypted_content"
    return bool(text_of(fields(part.source).get(holds)))


def compactor_of(sending: Sending) -> Named:
    """What a checkpoint with this model's own block names as its summariser."""
    return maker_of(sending.header.api, sending.header.model)


def request_for_block(past: Past, sending: Sending) -> Asked:
    """The request with which a provider is asked to compact the region itself.

    Raises ConfigError for an API that does not, BlobMissing.
    """
    if sending.header.api not in APIS:
        raise ConfigError(
            f"the API {sending.header.api!r} does not compact; those that do: {', '.join(APIS)}"
        )
    head = head_entries(past)
    if sending.header.api == "anthropic":
        sending = _by_parameter(sending)
    else:
        sending = _by_path(sending)
        head = tuple(entry for entry in head if entry.section != "tools")
    entries: tuple[Entry, ...] = (*head, *past.region.entries)
    rendering = start(sending.header, sending.profile, bindings_of(past.state),
                      headers=sending.headers)  # fmt: skip
    rendering.add(entries)
    return Asked(rendering.request(), entries, len(head), "", Evidence())


def _by_path(sending: Sending) -> Sending:
    members = _members(sending.header.params)
    kept = {name: source for name, source in members.items() if name in _TAKEN}
    header = replace(sending.header, params=_object(kept))
    return Sending(header, replace(sending.profile, path=_PATH), sending.headers)


def _by_parameter(sending: Sending) -> Sending:
    members = _members(sending.header.params)
    kept = {name: source for name, source in members.items() if name not in _OF_A_REPLY}
    if text_of(fields(kept.get("tool_choice")).get("type")) in ("any", "tool"):
        del kept["tool_choice"]
    output = fields(kept.get("output_config"))
    if "format" in output:
        kept["output_config"] = _object({k: v for k, v in output.items() if k != "format"})
    kept["compaction"] = '{"type":"summarize"}'
    header = replace(sending.header, params=_object(kept))
    # The history may end as it does: nothing is sampled behind it.
    needs = replace(sending.profile.needs, last_user=False)
    return Sending(header, replace(sending.profile, needs=needs), with_beta(sending.headers))


def with_beta(headers: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Headers with the one that makes Anthropic compact on request, and take the block again."""
    found = dict(headers)
    switches = [one for one in found.get("anthropic-beta", "").split(",") if one]
    if BETA not in [one.strip(" ") for one in switches]:
        switches.append(BETA)
    return tuple(sorted({**found, "anthropic-beta": ",".join(switches)}.items()))


def _members(params: str) -> dict[str, str]:
    return fields(params.strip(" \t\r\n") or "{}")


def _object(members: dict[str, str]) -> str:
    """A JSON object of members given as source."""
    return "{" + ",".join(f"{json.dumps(name)}:{source}" for name, source in members.items()) + "}"
