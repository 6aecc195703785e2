"""What is dangerous about a path that a model wrote: one answer for the gateway and for graders.

A path is read in every way that a tool or a file system may read it: as it is, percent escapes
decoded until none are left, characters that NFKC or a narrow code page turns into dots, slashes and
ASCII letters as those, characters that file systems or NFKC's case folding pass over left out, `\\`
as `/`, case of ASCII letters folded, dots and spaces at the end of a segment and NTFS streams cut
off. Dangerous in one reading is dangerous.

Nothing is looked up: links, mounts and short names other than those of `.env` and `.git` are the
sandbox's to stop. Letters that only look like others (`.еnv` with a Cyrillic е) name another file
on every file system and are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sawlog.builder.alike import ALIKE

CONTROL = "control_character"
ENCODED = "encoded_path"
PROTECTED = "protected_path"
PARENT = "parent_segment"
UNC = "unc_path"
DRIVE = "drive_path"
HOME = "home_path"
ABSOLUTE = "absolute_path"

REASONS = (CONTROL, ENCODED, PROTECTED, PARENT, UNC, DRIVE, HOME, ABSOLUTE)
"""Why a path is dangerous, in the order in which it is looked for."""

_ROUNDS = 8  # of percent decoding; what is wrapped deeper hides something

FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
QUOTES = "'\"`"

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
_WIDE_ESCAPE = re.compile("%[uU]([0-9A-Fa-f]{4})")
_DRIVE = re.compile("[A-Za-z]:")
_SHORT = re.compile("(?:git|env)~[0-9]+")  # NTFS gives .git the second name GIT~1


def path_danger(path: str, root: str = "") -> str:
    """Why a path is dangerous, one of REASONS, or an empty text.

    Dangerous are `..`, `.env`, `.env.*` and `.git` as any segment, all below them, UNC paths and
    places relative to a home; absolute paths and drive letters unless they lead into `root`, an
    absolute folder.
    """
    like = root.translate(ALIKE)
    found = {reason for text in _readings(path) for reason in _dangers(text, like)}
    found.update(_dangers(path, root))
    return next((reason for reason in REASONS if reason in found), "")


def _readings(path: str) -> Iterator[str | None]:
    """The path as what it looks like, and with its escapes decoded one time, two times, …; None
    ends what does not decode."""
    text = path.translate(ALIKE)
    yield text
    for _ in range(_ROUNDS):
        decoded = _decoded(text)
        if decoded == text:
            return
        yield decoded
        if decoded is None:
            return
        text = decoded
    yield None


def _decoded(text: str) -> str | None:
    try:
        text = _ESCAPES.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(), text)
    except UnicodeDecodeError:
        return None  # overlong forms and halves of characters
    return _WIDE_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text).translate(ALIKE)


def _dangers(text: str | None, root: str) -> Iterator[str]:
    if text is None:
        yield ENCODED
        return
    if _CONTROLS.search(text):
        yield CONTROL
    place, segments = _placed(text.strip(SPACES + QUOTES).replace("\\", "/"))
    if root and place in (ABSOLUTE, DRIVE):
        base, inner = _placed(root.replace("\\", "/"))
        if base == place and _begins(segments, inner, folded=place == DRIVE):
            place, segments = "", segments[len(inner) :]
    if place:
        yield place
    for segment in segments:
        name = _name(segment)
        if name == ".." or (name.count(".") > 1 and not name.strip("." + SPACES)):
            yield PARENT
        name = name.rstrip("." + SPACES)
        if name in (".env", ".git") or name.startswith(".env.") or _SHORT.fullmatch(name):
            yield PROTECTED


def _placed(text: str) -> tuple[str, list[str]]:
    """Where a path starts (empty: here), and its segments; a drive is the first of them, with its
    slash: `C:x` is wherever the process stands on that drive."""
    if text[:5].translate(FOLD) == "file:":
        text = text[5:]
        if text.startswith("//"):
            host, slash, rest = text[2:].partition("/")
            if host.translate(FOLD) not in ("", "localhost"):
                return UNC, _split(text)
            text = slash + rest
        if _DRIVE.match(text, 1) and text.startswith("/"):
            text = text[1:]
    if text.startswith("//"):
        return UNC, _split(text)
    if _DRIVE.match(text):
        drive = text[:3] if text[2:3] == "/" else text[:2]
        return DRIVE, [drive, *_split(text[2:])]
    if text.startswith("~"):
        return HOME, _split(text)
    return ABSOLUTE if text.startswith("/") else "", _split(text)


def _split(text: str) -> list[str]:
    # A single dot, also one with spaces, stays where it is.
    return [part for part in text.split("/") if part.strip(SPACES) not in ("", ".")]


def _begins(segments: list[str], inner: list[str], *, folded: bool) -> bool:
    head = segments[: len(inner)]
    if folded:
        return [part.translate(FOLD) for part in head] == [part.translate(FOLD) for part in inner]
    return head == inner


def _name(segment: str) -> str:
    """The file that a segment names: without its stream and spaces around it, its case folded."""
    return segment.translate(FOLD).partition(":")[0].strip(SPACES)
