"""What a session's log says of the files in its workspace: what a look at them is compared with."""

from __future__ import annotations

from sawlog.builder.contents import Contents
from sawlog.builder.facts import File
from sawlog.builder.state import State
from sawlog.store.events.items import ItemOffered
from sawlog.workspace.comparing import Believed

_NO_CONTENT = "0" * 64
"""A version that no content has."""


def believed(state: State, contents: Contents) -> Believed:
    """Version and state of the files that the log knows, and of those that items were taken from,
    by path."""
    # An index may give older values of a path before its newest.
    known: dict[str, File] = dict(state.files.items())
    found = {
        path: (file.version, "absent" if file.absent else "present") for path, file in known.items()
    }
    offered: dict[str, set[str]] = {}
    for offer in state.offers:
        if offer.withdrawn or not offer.saw:
            continue
        content = contents.event(offer.seq).content
        assert isinstance(content, ItemOffered)
        for one in content.saw:
            if isinstance(one.path, str) and one.holds == "until-file-change":
                offered.setdefault(one.path, set()).add(one.version)
    for path, versions in offered.items():
        if path not in known or not known[path].seq:
            # Of two versions one is not the file's, whatever the file is.
            version = versions.pop() if len(versions) == 1 else _NO_CONTENT
            found[path] = (version, "present")
    return found
