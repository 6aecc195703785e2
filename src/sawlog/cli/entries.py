"""A request and its entries, for a person and as JSON."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from sawlog.cli.output import excerpt, say, visible

if TYPE_CHECKING:
    from sawlog.audit.handoffrequest import Handoff
    from sawlog.audit.steppacket import StepPacket

_PLAIN = ("full", "recorded")
"""Forms in which a text stands as its event has it."""


def say_entries(found: StepPacket | Handoff, everything: bool) -> None:
    """Each entry under its section: where it comes from and its text, cut unless all is wanted."""
    section = ""
    for at, (entry, ref) in enumerate(zip(found.entries, found.refs, strict=True)):
        if entry.section != section:
            section = entry.section
            say(f"\n{section}")
        what = " ".join(filter(None, (entry.kind, visible(entry.name), entry.status)))
        form = "" if ref.form in _PLAIN else f", {ref.form}"
        own = "in this request alone" if ref.form in _PLAIN else ref.form
        origin = f"event {ref.seq}{form}" if ref.seq else own
        if ref.seq > found.sees:
            origin = "not in the log"
        trust = "" if entry.trust == "trusted" else f", {entry.trust}"
        say(f"{at:>5}  {what}  ({origin}{trust})")
        said = entry.readable if entry.part == "bound" and entry.readable else entry.text
        text = visible(said) if everything else excerpt(said, 3, 160)
        for line in text.split("\n") if text else ():
            say(f"         {line}")


def request_json(found: StepPacket | Handoff) -> dict[str, Any]:
    """What a request is rendered by and for, and its digests, as an object; without its bytes."""
    header, request = found.header, found.request
    return {
        "api": header.api,
        "model": header.model,
        "params": header.params,
        "profile": str(header.profile),
        "renderer": str(header.renderer),
        "method": request.method,
        "path": request.path,
        "headers": dict(request.headers),
        "size": request.size,
        "body_sha256": hashlib.sha256(found.body).hexdigest(),
        "request_digest": request.digest,
        "packet_digest": found.semantic,
        "missing": list(found.missing),
    }


def entries_json(found: StepPacket | Handoff) -> list[dict[str, Any]]:
    """The entries as objects; `seq` is null for what comes from no event of the log."""
    return [
        {
            "section": entry.section,
            "kind": entry.kind,
            "first": entry.first,
            "authority": entry.authority,
            "trust": entry.trust,
            "status": entry.status,
            "name": entry.name,
            "call_id": entry.call_id,
            "text": entry.text,
            "seq": ref.seq if 0 < ref.seq <= found.sees else None,
            "part": ref.part,
            "form": ref.form,
        }
        for entry, ref in zip(found.entries, found.refs, strict=True)
    ]
