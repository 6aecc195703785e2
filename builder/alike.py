"""Characters that file systems, tools and code pages take for ASCII, or pass over.

A table of its own: what Python knows of Unicode differs between its releases.
"""

from __future__ import annotations

_ASCII = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALIKE: dict[int, str] = {
    # The wide forms of ASCII, which narrow code pages and NFKC turn into it.
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys((0x2024, 0x3002, 0xFE52, 0xFF61), "."),
    **dict.fromkeys((0x2025, 0xFE30), ".."),
    **dict.fromkeys((0x2026, 0xFE19), "..."),
    **dict.fromkeys((0x2044, 0x2215, 0x29F8), "/"),
    # Code pages of Japan and Korea have a currency sign where ASCII has the backslash.
    **dict.fromkeys((0xA5, 0x20A9, 0x2216, 0x29F5, 0x29F9, 0xFE68), "\\"),
    **dict.fromkeys((0x2236, 0xFE13, 0xFE55), ":"),
    0xFE6A: "%",
    # Letters that NFKC turns into ASCII: mathematical, circled, squared and outlined ones, then
    # single ones of all alphabets, in either case.
    **{0x1D400 + at: _ASCII[at % 52] for at in range(13 * 52)},
    **{0x24B6 + at: letter for at, letter in enumerate(_ASCII)},
    **{0x1F130 + at: letter for at, letter in enumerate(_ASCII[:26])},
    **{0x1CCD6 + at: letter for at, letter in enumerate(_ASCII[:26])},
    **dict.fromkeys((0xAA, 0x1D2C, 0x1D43, 0x2090), "a"),
    **dict.fromkeys((0x1D2E, 0x1D47, 0x212C), "b"),
    **dict.fromkeys((0x1D9C, 0x2102, 0x212D, 0x216D, 0x217D, 0xA7F2, 0x1F12B), "c"),
    **dict.fromkeys((0x1D30, 0x1D48, 0x2145, 0x2146, 0x216E, 0x217E), "d"),
    **dict.fromkeys((0x1D31, 0x1D49, 0x2091, 0x212F, 0x2130, 0x2147), "e"),
    **dict.fromkeys((0x1DA0, 0x2131, 0xA7F3), "f"),
    **dict.fromkeys((0x1D33, 0x1D4D, 0x210A), "g"),
    **dict.fromkeys((0x2B0, 0x1D34, 0x2095, 0x210B, 0x210C, 0x210D, 0x210E), "h"),
    **dict.fromkeys((0x1D35, 0x1D62, 0x2071, 0x2110, 0x2111, 0x2139, 0x2148, 0x2160, 0x2170), "i"),
    **dict.fromkeys((0x2B2, 0x1D36, 0x2149, 0x2C7C), "j"),
    **dict.fromkeys((0x1D37, 0x1D4F, 0x2096, 0x212A), "k"),
    **dict.fromkeys((0x2E1, 0x1D38, 0x2097, 0x2112, 0x2113, 0x216C, 0x217C), "l"),
    **dict.fromkeys((0x1D39, 0x1D50, 0x2098, 0x2133, 0x216F, 0x217F), "m"),
    **dict.fromkeys((0x1D3A, 0x207F, 0x2099, 0x2115), "n"),
    **dict.fromkeys((0xBA, 0x1D3C, 0x1D52, 0x2092, 0x2134), "o"),
    **dict.fromkeys((0x1D3E, 0x1D56, 0x209A, 0x2119), "p"),
    **dict.fromkeys((0x211A, 0xA7F4, 0x107A5), "q"),
    **dict.fromkeys((0x2B3, 0x1D3F, 0x1D63, 0x211B, 0x211C, 0x211D, 0x1F12C), "r"),
    **dict.fromkeys((0x17F, 0x2E2, 0x209B), "s"),
    **dict.fromkeys((0x1D40, 0x1D57, 0x209C), "t"),
    **dict.fromkeys((0x1D41, 0x1D58, 0x1D64), "u"),
    **dict.fromkeys((0x1D5B, 0x1D65, 0x2164, 0x2174, 0x2C7D), "v"),
    **dict.fromkeys((0x2B7, 0x1D42), "w"),
    **dict.fromkeys((0x2E3, 0x2093, 0x2169, 0x2179), "x"),
    **dict.fromkeys((0x2B8,), "y"),
    **dict.fromkeys((0x1DBB, 0x2124, 0x2128), "z"),
    0x33B5: "nv",
    # What HFS+ passes over when it compares names, what NFKC's case folding does, and other
    # characters that only say how to show those beside them.
    **dict.fromkeys(
        (
            0xAD,
            0x34F,
            0x61C,
            0x115F,
            0x1160,
            0x17B4,
            0x17B5,
            *range(0x180B, 0x1810),
            *range(0x200B, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            0x3164,
            *range(0xFE00, 0xFE10),
            0xFEFF,
            0xFFA0,
            *range(0xFFF0, 0xFFFC),
            *range(0x1BCA0, 0x1BCA4),
            *range(0x1D173, 0x1D17B),
            *range(0xE0000, 0xE1000),
        ),
        "",
    ),
}
"""What a character looks like, by its code; empty for one that is not seen."""
