"""How far what the log says was sent is what the model saw, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sawlog.audit.recorded import Recorded

SENT = {
    "exact": "exact: these bytes left, and nothing beside them",
    "edited": "edited: the provider says that it edited what it was sent",
    "held": "held: it leans on something that the provider keeps",
    "rewritten": "rewritten: other bytes left than those that were built",
    "unconfirmed": "unconfirmed: it went out some other way than through sawlog",
    "external": "external: a part of it is only named, and its bytes are not in the log",
    "reconstructed": "reconstructed: nobody recorded what was sent",
    "": "not yet: no attempt to send it is in the log",
}


def must_be_ours(session: Recorded, why: str) -> None:
    """Raise ConfigError for a session whose every request another program built; `why` goes on."""
    from sawlog.store.errors import ConfigError

    types = {stored.type for stored in session.log.read(session.row)}
    if "packet.recorded" in types and "packet.built" not in types:
        named = session.name or session.id
        raise ConfigError(f"another program built all requests of {named}, {why}")
