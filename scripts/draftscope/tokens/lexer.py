"""The type of each character of a text, and the segments (words, numbers, signs) it falls into.

Segments follow the word boundaries of Unicode (UAX 29) as far as types need them: an ideograph
is a word of its own, other letters with the marks, digits and apostrophes inside them form one.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np

from draftscope.tokens import regions
from draftscope.tokens.characters import IDEOGRAPHS, MARKS
from draftscope.tokens.lists import Lists
from draftscope.tokens.names import CODE, NO_TRIGGER
from draftscope.tokens.regions import FORMULA, PROGRAM, PROSE

# Superscripts, fractions and circled numbers are no digits to re, but no letters either.
_NUMERALS = "\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209c\u2150-\u218b\u2460-\u249b"
_LETTER = f"(?:[^\\W\\d_{IDEOGRAPHS}{_NUMERALS}])"
_IN_WORD = f"(?:[^\\W_{IDEOGRAPHS}{_NUMERALS}]|[{MARKS}])"
_NUMBER = r"(?P<number>\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|" f"[{_NUMERALS}]+)"
_SPACE = r"(?P<whitespace>\s+)"
_BROKEN = "(?P<partial_utf8>\ufffd+)"
_ANY = "(?P<sign>.)"
_COMMAND = r"(?P<command>\\[A-Za-z]+\*?|\\.)"


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.DOTALL)


_PATTERNS = {
    PROSE: _pattern(
        _NUMBER,
        f"(?P<word>[{IDEOGRAPHS}]|{_LETTER}{_IN_WORD}*(?:['\u2019]{_LETTER}{_IN_WORD}*)*)",
        _SPACE, r"(?P<command>\\[A-Za-z]+\*?)", r"(?P<code></?[A-Za-z][\w-]*\s*/?>)", _BROKEN, _ANY,
    ),
    FORMULA: _pattern(
        _NUMBER, f"(?P<word>[{IDEOGRAPHS}])", f"(?P<latex>{_LETTER}+|[{{}}_^&~'])", _SPACE,
        _COMMAND, _BROKEN, _ANY,
    ),
    PROGRAM: _pattern(
        r"(?P<quoted>\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)"
        r"|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'|\#[^\n]*)",
        r"(?P<number>0[xXbBoO][\dA-Fa-f_]+|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)",
        f"(?P<code>(?:[^\\W\\d]|[{MARKS}])(?:\\w|[{MARKS}])*)", _SPACE,
        r"(?P<operator>[-+*/%=<>!&|^~@]+)", _BROKEN, _ANY,
    ),
}  # fmt: skip
_QUOTED = re.compile(r"\s+|\S+")
# Signs that are operators inside a formula although they are not mathematical to Unicode.
_OF_FORMULAS = frozenset("-*/!")


@dataclass(frozen=True, eq=False)
class Lexed:
    """What each character is, [characters] each.

    Attributes:
        type: code of `names.TYPES`.
        segment: where the character's segment begins.
        end: one past where it ends.
        trigger: number of the trigger in the lists, `NO_TRIGGER` elsewhere.
        region: as in `regions`.
    """

    type: np.ndarray
    segment: np.ndarray
    end: np.ndarray
    trigger: np.ndarray
    region: np.ndarray


def lex(text: str, lists: Lists, within: int | None = None) -> Lexed:
    """Types and segments of a text.

    Args:
        within: the region that all of the text lies in; found from the text when not given.
    """
    if within is None:
        found = regions.find(text)
    else:
        found = regions.Regions(np.full(len(text), within, dtype=np.int8))
    starts, types = _segments(text, found, lists)
    edges = np.array([*starts, len(text)], dtype=np.int64)
    lengths = np.diff(edges)
    kind = np.repeat(np.array(types, dtype=np.int8), lengths)
    segment, end = np.repeat(edges[:-1], lengths), np.repeat(edges[1:], lengths)
    trigger = np.full(len(text), NO_TRIGGER, dtype=np.int16)
    for first, last, number in lists.find(text):
        if (found.kind[first:last] != PROSE).any():
            continue  # a name in code or a formula reflects nothing
        kind[first:last] = CODE["reflection"]
        segment[first:last], end[first:last] = first, last
        trigger[first:last] = number
    return Lexed(kind, segment, end, trigger, found.kind)


def _segments(text: str, found: regions.Regions, lists: Lists) -> tuple[list[int], list[int]]:
    """Where each segment begins, and the code of its type; they tile the text."""
    marked = np.zeros(len(text), dtype=bool)
    marks = {}
    for start, stop, name in found.marks:
        if start < stop and not marked[start:stop].any():
            marked[start:stop] = True
            marks[start] = (stop, name)
    # Segments end where a region or a mark begins.
    borders = np.flatnonzero(np.diff(found.kind) != 0) + 1
    edges = sorted({0, len(text), *borders.tolist(), *marks, *(stop for stop, _ in marks.values())})
    starts: list[int] = []
    types: list[int] = []
    for start, stop in itertools.pairwise(edges):
        if start in marks:
            name = marks[start][1]
            for part in _QUOTED.finditer(text, start, stop):
                starts.append(part.start())
                types.append(CODE["whitespace" if part[0].isspace() else name])
            continue
        region = int(found.kind[start])
        for match in _PATTERNS[region].finditer(text, start, stop):
            if match.lastgroup == "quoted":
                for part in _QUOTED.finditer(text, *match.span()):
                    starts.append(part.start())
                    types.append(CODE["whitespace" if part[0].isspace() else "code"])
                continue
            starts.append(match.start())
            types.append(CODE[_type(match, text, region, lists)])
    return starts, types


def _type(match: re.Match[str], text: str, region: int, lists: Lists) -> str:
    name = match.lastgroup
    if name == "command":
        return "operator" if match[0][1:] in lists.operator_commands else "latex"
    if name != "sign":
        return str(name)
    sign = match[0]
    if lists.is_operator(sign):
        return "operator"
    if region == FORMULA:
        between = sign in _OF_FORMULAS or sign in lists.operators_between
        return "operator" if between else "punctuation"
    if sign in lists.operators_between and _between_operands(text, match.start()):
        return "operator"
    return "punctuation"


_BEFORE = re.compile(r"(?P<run>\w+|[)\]}%$\u00b0])?(?P<gap>[ \t]*)\Z")
_AFTER = re.compile(r"(?P<gap>[ \t]*)(?P<run>\w+|[(\[{\\.$\u221a])?")
_MINUS = "-\u2212"
_REACH = 40  # characters around a sign that are looked at


def _between_operands(text: str, place: int) -> bool:
    """Whether a sign that may be a hyphen, a bullet or a slash stands between operands.

    Numbers, single letters and brackets are operands. A word is one only across spaces, beside an
    operand of the other kinds: "cost - 5", but not "covid-19" or "double-check". A minus sign
    before a number needs no operand on its left.
    """
    before = _BEFORE.search(text[max(0, place - _REACH) : place])
    after = _AFTER.match(text[place + 1 : place + 1 + _REACH])
    left, right = before["run"], after["run"]
    opened = text[place - 1 : place] in ("", " ", "\t", "\n", "(", "[", "{", "=", ",", "<", ">")
    if text[place] in _MINUS and opened and not after["gap"] and right and right[0].isdigit():
        return True  # the sign of a number
    if left is None:
        return False
    if right is None:
        return False
    operands = [not run[0].isalpha() or len(run) == 1 for run in (left, right)]
    return any(operands) if before["gap"] and after["gap"] else all(operands)
