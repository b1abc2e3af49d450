"""Classes of characters that regular expressions know too little about, as insides of [...]."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Scripts that are written without spaces, of which every sign may begin a word.
IDEOGRAPHS = (
    "\u3005-\u3007\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)


def _ranges(codes: Iterable[int]) -> str:
    """Rising code points as the inside of a character class."""
    codes = list(codes)
    edges = [n for n, code in enumerate(codes) if n == 0 or code != codes[n - 1] + 1]
    spans = zip(edges, [*edges[1:], len(codes)], strict=True)
    return "".join(f"\\U{codes[a]:08x}-\\U{codes[b - 1]:08x}" for a, b in spans)


# Combining signs, without which words of many scripts would fall apart (re counts them as none).
MARKS = _ranges(
    code
    for code in (*range(0x20000), *range(0xE0100, 0xE01F0))
    if unicodedata.category(chr(code))[0] == "M"
)
