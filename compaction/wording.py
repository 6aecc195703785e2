"""How a checkpoint's lines are found in texts, spelled and named: rules on plain text alone.

Matching is on ASCII letters only, so that no release of Python finds other lines. What names a line
is made of its text and of nothing else: no packet may depend on an event's id, place or time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

from sawlog.builder.item import SPACE
from sawlog.store.text import raw_bytes

LINE = 300
"""Characters of a line that code takes from a text; what is longer is cut, and ends with `…`."""

_GAP = re.compile(f"[{re.escape(SPACE)}]+")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNQUOTED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ID = re.compile("[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


# --- spelling and naming --------------------------------------------------------------------------


def one_line(text: str) -> str:
    """A text on one line, single spaces in it; what cannot be seen is U+FFFD."""
    return _UNSEEN.sub("\ufffd", _GAP.sub(" ", text)).strip(" ")


def cut(text: str, most: int = LINE) -> str:
    """At most so many characters of a text; one that was cut ends with `…`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def word_for_word(text: str) -> str:
    """A text as it is, but for what cannot be seen or would pass for the end of a line: U+FFFD."""
    return _HIDDEN.sub("\ufffd", text)


def whole(text: str) -> str:
    """A name or a path as it is, but for what JSON does not escape and nobody can see: U+FFFD."""
    return _UNQUOTED.sub("\ufffd", text)


def line_id(letter: str, text: str) -> str:
    """What names a line: a letter for what it is, and 8 hex digits of the SHA-256 of its text."""
    return letter + hashlib.sha256(raw_bytes(text)).hexdigest()[:8]


def is_plain_id(name: str) -> bool:
    """True for a name that cannot be read as anything but one: 1 to 100 of `A-Za-z0-9._:-`."""
    return _ID.fullmatch(name) is not None


def note_id(name: str) -> str:
    """What names a note's line: its own name, or `n-` and the name's digest where it is not plain.

    A checkpoint shows the ids of its lines as they are, so none may look like anything else.
    """
    return name if is_plain_id(name) else line_id("n-", name)


# --- what asks to be kept -------------------------------------------------------------------------

_ASKS_TO_KEEP = re.compile(
    r"\b(?:must|mustn['\u2019]t|never|only|always|ensure|shall|cannot|forbidden|avoid|without|"
    r"untouched|unchanged|make sure|be sure|at most|at least|no more than|no less than|"
    r"may not|not allowed|has to|have to|should not|shouldn['\u2019]t|"
    r"(?<!\bI )do not|(?<!\bI )don['\u2019]t)(?![A-Za-z0-9_])"
    r"|\A(?:keep|leave|no) ",
    re.ASCII | re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_LIST = re.compile(r"[ \t]*(?:[-*+\u2022]|[0-9]{1,9}[.)])[ \t]+")
_MARK = re.compile(r"[ \t]*(?:#{1,6}|>+)[ \t]*")
_END = re.compile(r"(?:(?<=[.!?])[\"')\]]*(?= )|(?<=[\u3002\uff01\uff1f]))")
_SHORT_FORM = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|no|approx)\.|\b[A-Za-z]\.)\Z", re.ASCII)
_IN_FRONT, _BEHIND = 60, 120  # what is kept around a word that asks, in a sentence too long
_WRAPPED = 60  # a line of this length that ends no sentence goes on in the next one


def constraints_in(text: str) -> list[str]:
    """The sentences of a text that ask for something to hold, each on a line of its own.

    Those with `must`, `never`, `do not`, `only`, `always`, `make sure`, `at most` and their like;
    code between fences and lines with a box are none. Of a sentence above 300 characters the
    piece around each such word is given, so that none is lost in what is cut.
    """
    return [
        piece
        for sentence in _sentences(text)
        if _ASKS_TO_KEEP.search(sentence)
        for piece in _pieces(sentence)
    ]


def lines_of(text: str) -> list[str]:
    """The lines of a text, whichever way they end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _sentences(text: str) -> Iterator[str]:
    lines = ("" if _BOX.match(line) else line for line in _outside_fences(lines_of(text)))
    for paragraph in _paragraphs(lines):
        start = 0
        for end in _END.finditer(paragraph):
            if _SHORT_FORM.search(paragraph, start, end.start()):
                continue
            yield paragraph[start : end.end()].strip(" ")
            start = end.end()
        yield paragraph[start:].strip(" ")


def _outside_fences(lines: list[str]) -> list[str]:
    """The lines without those between two fences; a fence that nothing closes is none."""
    out: list[str] = []
    held: list[str] | None = None
    for line in lines:
        if _FENCE.match(line):
            out, held = (out, []) if held is None else ([*out, ""], None)
        elif held is None:
            out.append(line)
        else:
            held.append(line)
    return out if held is None else [*out, *held]


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines joined where one goes on in the next, without the marks of lists and headings."""
    so_far = last = ""
    for raw in lines:
        begins = _LIST.match(raw) or _MARK.match(raw)
        line = one_line(raw[begins.end() :] if begins else raw)
        if so_far and line and not begins and _goes_on(last, line):
            so_far = f"{so_far} {line}"
        else:
            if so_far:
                yield so_far
            so_far = line
        last = line
    if so_far:
        yield so_far


def _goes_on(line: str, following: str) -> bool:
    if line.endswith((".", "!", "?", ":", "\u3002", "\uff01", "\uff1f")):
        return False
    return len(line) >= _WRAPPED or "a" <= following[0] <= "z"


def _pieces(sentence: str) -> Iterator[str]:
    """A sentence, or of one that is too long what stands around each word that asks.

    Cut at spaces where it has any: a little in front of the word, and most of it behind.
    """
    if len(sentence) <= LINE:
        yield sentence
        return
    covered = 0
    for word in _ASKS_TO_KEEP.finditer(sentence):
        if covered and word.end() + _BEHIND <= covered:
            continue
        start = max(0, word.start() - _IN_FRONT)
        if start:
            start = sentence.find(" ", start, word.start()) + 1 or start
        end = min(len(sentence), start + LINE - 2)
        if end < len(sentence):
            at = sentence.rfind(" ", word.end() + 1, end)
            end = end if at < 0 else at
        covered = end
        yield f"{'…' if start else ''}{sentence[start:end]}{'…' if end < len(sentence) else ''}"


# --- what is open, what is planned ----------------------------------------------------------------

_BOX = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(.+)")
_PLAN = re.compile(r"\b(?:next|todo|to[- ]do|plan|remaining)\b", re.ASCII | re.IGNORECASE)
_PLAN_OF_ONE = re.compile(
    r"(?:next(?: steps?)?|todo|plan)[ \t]*:[ \t]*(.+)", re.ASCII | re.IGNORECASE
)
_HEADING = 80
PLANNED = 10
"""Lines of a plan that are kept."""


def boxes_in(text: str) -> list[tuple[str, bool]]:
    """The lines of a text that begin with a box, `- [ ]` or `- [x]`: what they say, and if done."""
    found = (_BOX.match(line) for line in lines_of(text))
    boxes = ((one_line(box[2]), box[1] != " ") for box in found if box)
    return [(said, done) for said, done in boxes if said]


def plan_in(text: str) -> list[str]:
    """What a text plans: the list below its last heading with `next`, `plan`, `todo` or alike.

    A heading is a line of at most 80 characters. Lines with a box are no part of it: those are
    open items.
    """
    plan: list[str] = []
    lines = lines_of(text)
    for at, line in enumerate(lines):
        heading = one_line(_MARK.sub("", line, count=1)).strip("*_ ")
        of_one = _PLAN_OF_ONE.fullmatch(heading)
        if of_one:
            plan = [of_one[1]]
        elif _LIST.match(line) is None and len(heading) <= _HEADING and _PLAN.search(heading):
            plan = _listed(lines[at + 1 :]) or plan
    return plan[:PLANNED]


def _listed(lines: list[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        mark = _LIST.match(line)
        if mark is None:
            if one_line(line):
                break
            continue
        said = one_line(line[mark.end() :])
        if said and _BOX.match(line) is None:
            out.append(said)
    return out


# --- what asks for work ---------------------------------------------------------------------------

_FIRST = re.compile(r"[A-Za-z]+(?:['\u2019][A-Za-z]+)?")
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_PASSED_OVER = frozenset("please now then next also first finally just still and step".split())
_BASE_FORMS = frozenset(
    "add adjust analyze apply ask assert avoid build bump call change check clean clear clone "
    "commit compile complete compute configure confirm connect continue convert copy correct "
    "create debug define delete deploy describe determine disable do document download drop edit "
    "enable ensure evaluate examine execute explore export extract fetch fill find finish fix "
    "follow format generate get give go handle identify implement import improve inspect install "
    "integrate investigate keep launch list load look make merge migrate modify move open optimize "
    "patch perform ping prepare print push provide pull publish refactor reload remember remove "
    "rename render repair replace report rerun resolve restart restore retry return review "
    "revert rewrite run save search see send ship show skip start stop submit switch take tell "
    "test think try tune undo uninstall update upgrade upload use validate verify wait watch work "
    "write".split()
)
"""Verbs as they are when something is asked for. `read`, `set`, `put` and others that are the same
in the past are none: of those nobody can say which it is."""
_ASKING = re.compile(
    r"(?:(?:you|we) )?(?:must|should|need to|have to)\b"
    r"|(?:needs to|let['\u2019]?s|don['\u2019]t|do not|remember to|to ?do|to be)\b",
    re.ASCII,
)


def asks_for_work(text: str) -> bool:
    """True of a line that asks for something where it should tell of something done.

    Its first word, behind `please`, `now` and their like, is a verb in its base form (`run`,
    `fix`), or it begins with `must`, `should`, `need to`, `let's`, `don't`, `todo`.
    """
    left = one_line(text).translate(_FOLD).lstrip("-*+>#[](){}\"'`.,:0123456789 \u2022")
    while True:
        word = _FIRST.match(left)
        if word is None:
            return False
        if word[0] not in _PASSED_OVER:
            break
        left = left[word.end() :].lstrip(" ,:.-0123456789")
    return word[0] in _BASE_FORMS or _ASKING.match(left) is not None
