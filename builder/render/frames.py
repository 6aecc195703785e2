"""Fixed texts, and the frame around text that stands where its standing does not show.

    <sawlog:late name="run_tests" trust="untrusted">
    …
    </sawlog:late>

No text leaves its frame or makes one: in text that is not trusted every `<`, `>` and `&` is
escaped; in trusted text, and in what a user says outside of any frame, only what would begin a tag
of sawlog's own. Frozen with the renderers that use it.
"""

from __future__ import annotations

import re

EMPTY = "(empty)"
"""Stands where a message or a result has no text and its API wants some."""

OPENING = "<sawlog:notice>\nThe history begins with a message of the assistant.\n</sawlog:notice>"
"""The user's message in front of an assistant's, where the API wants the user's first."""

CLOSING = "<sawlog:notice>\nPlease go on.\n</sawlog:notice>"
"""The user's message behind the assistant's last, where the API wants the user's last."""

FAILED = "<sawlog:status>error</sawlog:status>"
"""Says that a tool failed, where the API cannot mark a result with media as an error."""

_OWN_TAG = re.compile(r"<(?=[ \t\r\n/]*[sS][aA][wW][lL][oO][gG][ \t\r\n]*:)")


def framed(tag: str, text: str, *, trusted: bool, name: str = "") -> str:
    """A text in its frame. `tag` is sawlog's own word, `name` anybody's."""
    attributes = f' name="{_attribute(name)}"' if name else ""
    if not trusted:
        attributes += ' trust="untrusted"'
    inner = guarded(text) if trusted else _escaped(text)
    return f"<sawlog:{tag}{attributes}>\n{inner}\n</sawlog:{tag}>"


def guarded(text: str) -> str:
    """A text in which nothing begins a tag of sawlog's own; the same object when nothing did."""
    return _OWN_TAG.sub("&lt;", text) if _OWN_TAG.search(text) else text


def not_shown(media_type: str) -> str:
    """What stands for a medium that this model cannot be shown here."""
    return framed("media", "This model cannot be shown it here.", trusted=True, name=media_type)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    text = _escaped(text).replace('"', "&quot;")
    return text.replace("\r", "&#13;").replace("\n", "&#10;")
