"""How a value may be spelled: one pattern that finds it as it is and as encoders write it.

Escaped for JSON or by Python, for a URL, for HTML, each any number of times and only in part; in
base64, also in the middle of something longer (as in `Authorization: Basic`) and over several
lines; in hexadecimal digits.
"""

from __future__ import annotations

import base64
import re

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a", "\0": "0"}
_ENTITY = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_LEAST = 4  # bytes; less than that would be found in what only looks like it
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PADDING = "(?:=|%3[dD]){0,2}"
_LINE_END = r"(?:(?:\\++[rn]|[\r\n])[ \t]*+)*+"


_GAPS = re.compile(r"\\++[rn]?|[\r\n\t ]")
_SAME = (("-", "+"), ("_", "/"), ("%2b", "+"), ("%2B", "+"), ("%2f", "/"), ("%2F", "/"))


class Spellings:
    """All spellings of one value. No text takes longer than in proportion to its length."""

    def __init__(self, value: str) -> None:
        raw = value.encode("utf-8", "surrogatepass")
        ways = [_escaped(value)]
        self._digits: list[list[str]] = []
        if len(raw) < _LEAST:
            digits = base64.b64encode(raw).decode().rstrip("=")
            ways.append("".join(map(_digit, digits)) + _PADDING)
        else:
            ways.append("[ :]?".join(_hex(byte, 2) for byte in raw))
            self._digits.extend(_in_base64(raw, offset) for offset in range(3))
        self._cores = [
            "".join(fits for fits in digits if len(fits) == 1) for digits in self._digits
        ]
        self._pattern = re.compile("|".join(ways))
        self._in_base64: re.Pattern[str] | None = None

    def replaced(self, shown: str, text: str) -> str:
        """The text with `shown` in the place of each spelling."""
        text = self._pattern.sub(shown, text)
        if not self._may_be_in_base64(text):
            return text
        if self._in_base64 is None:  # long ones take a while to make, and are seldom wanted
            self._in_base64 = re.compile("|".join(map(_over_lines, self._digits)))
        return self._in_base64.sub(shown, text)

    def _may_be_in_base64(self, text: str) -> bool:
        if not self._cores:
            return False
        text = _GAPS.sub("", text)
        for one, same in _SAME:
            text = text.replace(one, same)
        return any(core in text for core in self._cores)


def _in_base64(raw: bytes, offset: int) -> list[str]:
    """The bytes in base64, `offset` bytes behind the start of a group of three: for each place, the
    digits that may stand there. At both ends one may hold bits of what stands beside them, too."""
    ones = [*[None] * (8 * offset), *(byte >> 7 - at & 1 for byte in raw for at in range(8))]
    ones += [None] * (-len(ones) % 6)
    places = (ones[at : at + 6] for at in range(0, len(ones), 6))
    return [
        "".join(one for number, one in enumerate(_BASE64) if _agrees(number, six))
        for six in places
        if any(bit is not None for bit in six)
    ]


def _agrees(number: int, bits: list[int | None]) -> bool:
    return all(bit is None or number >> 5 - at & 1 == bit for at, bit in enumerate(bits))


def _digit(digit: str) -> str:
    """A pattern for a digit of base64 in either alphabet, as JSON and URLs write it, too."""
    if digit == "+":
        return "(?:[-+]|%2[bB])"
    return r"(?:(?<!\\)\\++/|/|_|%2[fF])" if digit == "/" else digit


def _over_lines(digits: list[str]) -> str:
    places = [f"(?:{'|'.join(map(_digit, fits))})" for fits in digits]
    first = ""
    if len(digits[0]) > 1:
        # Where one value follows on another, the last digit of that one is the first of this.
        first = f"(?:{places.pop(0)}{_LINE_END})?"
    return first + _LINE_END.join(places) + _PADDING


def _escaped(value: str) -> str:
    """A pattern for the value as it is and with any of its characters escaped, any number of times.

    Quantifiers give nothing back and begin where a run of backslashes begins, so that a text of
    backslashes costs no more than its length.
    """
    out: list[str] = []
    at = 0
    while at < len(value):
        start = "" if at else r"(?<!\\)"
        if value[at] != "\\":
            after_run = at > 0 and value[at - 1] == "\\"
            out.append(_character(value[at], r"\\*+" if after_run else start + r"\\++"))
            at += 1
            continue
        end = at
        while end < len(value) and value[end] == "\\":
            end += 1
        # Escaping doubles them; as \u005c each takes the place of one.
        escaped = rf"(?:\\++(?:u005[cC]|x5[cC])){{{end - at}}}"
        others = rf"(?:%(?:25)*5[cC]|&(?:amp;)*#(?:0*92|[xX]0*5[cC]);){{{end - at}}}"
        out.append(rf"(?:{start}{escaped}|{others}|{start}\\{{{end - at},}}+)")
        at = end
    return "".join(out)


def _character(character: str, lead: str) -> str:
    """A pattern for one character; `lead` is what stands in front of an escape's letter."""
    code = ord(character)
    raw = character.encode("utf-8", "surrogatepass")
    ways: list[str] = []
    if character in "\"'/":
        ways.append(re.escape(character))
    if character in _SHORT:
        ways.append(_SHORT[character])
    if code < 0x100:
        ways.append(f"x{_hex(code, 2)}")
    if code < 0x10000:
        ways.append(f"u{_hex(code, 4)}")
    else:
        high, low = 0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)
        ways.append(rf"u{_hex(high, 4)}\\++u{_hex(low, 4)}")
    ways.append(f"U{_hex(code, 8)}")
    if code >= 0x80:
        ways.append(r"\\++".join(f"x{_hex(byte, 2)}" for byte in raw))
    again = "(?:25)+" if character == "%" else "(?:25)*"
    name = f"|{_ENTITY[character]}" if character in _ENTITY else ""
    whole = [
        "".join(f"%{again}{'' if byte == 0x25 else _hex(byte, 2)}" for byte in raw),
        f"&(?:amp;)*(?:#0*{code}|#[xX]0*{_hex(code, 1)}{name});",
        re.escape(character),
        f"{lead}(?:{'|'.join(ways)})",
    ]
    if character == " ":
        whole.append(r"\+")
    if ways[0] == re.escape(character):
        # What stands in front of it goes with it.
        whole.insert(0, f"{lead}{ways[0]}")
    return f"(?:{'|'.join(whole)})"


def _hex(code: int, digits: int) -> str:
    """A hexadecimal number in either case."""
    text = f"{code:0{digits}x}"
    return "".join(f"[{digit}{digit.upper()}]" if digit > "9" else digit for digit in text)
