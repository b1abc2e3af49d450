"""Which parts of a text are formulas, and which are program code.

Formulas stand between dollar signs or LaTeX delimiters, in a LaTeX environment, or in the braces
of a command. Code stands in fences, between backticks, or in lines that only a program has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

PROSE, FORMULA, PROGRAM = 0, 1, 2

_OPENING = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}|~{3,})[^\n`]*"
    r"|(?P<ticks>`+)"
    r"|(?P<escaped>\\[$`\\])"
    r"|(?P<dollars>\$\$?)"
    r"|(?P<bracket>\\[(\[])"
    r"|\\begin\{(?P<environment>[A-Za-z]+\*?)\}"
    r"|\\(?P<command>[A-Za-z]+)\*?(?=\{)",
    re.MULTILINE,
)
_ENVIRONMENTS = {
    **dict.fromkeys(
        ("equation", "align", "aligned", "alignat", "gather", "gathered", "multline", "split",
         "cases", "array", "matrix", "pmatrix", "bmatrix", "vmatrix", "eqnarray", "math",
         "displaymath", "smallmatrix"),
        FORMULA,
    ),
    **dict.fromkeys(("verbatim", "lstlisting", "minted"), PROGRAM),
}  # fmt: skip
# Commands whose braces hold prose, in a formula and outside of one.
_PROSE_COMMANDS = frozenset(
    ("text", "textbf", "textit", "textrm", "emph", "mbox", "section", "subsection", "caption",
     "title", "footnote", "item", "underline")
)  # fmt: skip
_IN_FORMULA = re.compile(r"\\(?P<command>[A-Za-z]+)\*?(?=\{)")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")

# Lines that open a block, import, or declare, as common languages write them.
_STATEMENT = re.compile(
    r"^[ \t]*(?:"
    r"(?:async[ ]+)?def[ ]+\w+[ ]*\(|class[ ]+\w+[ ]*[(:{]|"
    r"import[ ]+[\w.]+(?:[ ]+as[ ]+\w+)?(?:,[ ]*[\w.]+)*[ \t]*;?[ \t]*$|"
    r"from[ ]+[\w.]+[ ]+import[ ]+\S|"
    r"for[ ]+[\w, ()]+[ ]+in[ ]+[^\n]*:[ \t]*$|"
    r"(?:if|elif|while)[ ]+(?:[^\n]*(?:[=!<>]=|[()\[\]<>_])[^\n]*|(?:not[ ]+)?[\w.]+"
    r"|\w+[ ]+(?:not[ ]+)?in[ ]+[\w.]+)[ ]*:[ \t]*$|"
    r"(?:for|while|if|switch)[ ]*\([^\n]*\)[ ]*\{|"
    r"@\w[\w.]*(?:\([^\n]*\))?[ \t]*$|"
    r"\#include[ ]*[<\"]|"
    r"(?:const|let|var)[ ]+\w+[ ]*=[^\n]*;[ \t]*$|"
    r"(?:public|private|static|func|function|fn|int|void|struct)[ ]+\w+[^\n]*[;{][ \t]*$"
    r")"
)
# What goes on with code, but could be prose or a formula where no code stands before it.
_CONTINUED = re.compile(
    r"^[ \t]*(?:return\b|print[ ]*\(|else[ ]*:|try[ ]*:|except\b[^\n]*:|finally[ ]*:|with\b[^\n]*:|"
    r"\#|//|[\]})][\])};,:]*[ \t]*$|"
    r"[A-Za-z_][\w.]*(?:\[[^\n]*\])?[ ]*(?:[-+*/%|&]?=)[ ]*\S|[A-Za-z_][\w.]*\([^\n]*\)?[ \t]*;?$|"
    r"[^\n]*[;{][ \t]*$)"
)
_LONGEST_LINE = 500  # no line of a program is longer, and the patterns look at a line many times
_INDENTED = re.compile(r"^(?:\t|[ ]{2,})\S")


@dataclass
class Regions:
    """Region of each character, and spans whose type is known: delimiters and marks.

    Attributes:
        kind: [characters], one of PROSE, FORMULA, PROGRAM.
        marks: (start, stop, type) of delimiters, type "latex" or "code".
    """

    kind: np.ndarray
    marks: list[tuple[int, int, str]] = field(default_factory=list)


def find(text: str) -> Regions:
    """Formulas and code of a whole text.

    What opens in the last paragraph and does not close goes on to the end of the text, which its
    budget may have cut, as does a fence wherever it opens; a single dollar sign is then money.
    """
    regions = Regions(np.zeros(len(text), dtype=np.int8))
    place = 0
    while found := _OPENING.search(text, place):
        # Every branch moves on, if only by one character.
        place = max(_open(text, found, regions), found.start() + 1)
    _unfenced(text, regions)
    return regions


def _open(text: str, found: re.Match[str], regions: Regions) -> int:
    """Mark what the match opens; returns where to look on."""
    if found["fence"]:
        return _fence(text, found, regions)
    if found["ticks"]:
        return _ticks(text, found, regions)
    if found["escaped"]:
        return found.end()
    if found["dollars"]:
        return _dollars(text, found, regions)
    if found["bracket"]:
        closing = text.find("\\)" if found["bracket"] == "\\(" else "\\]", found.end())
        return _formula(text, found.start(), found.end(), closing, 2, regions)
    if found["environment"]:
        return _environment(text, found, regions)
    return _braces(text, found, regions, found["command"] in _PROSE_COMMANDS)


def _fence(text: str, found: re.Match[str], regions: Regions) -> int:
    fence = found["fence"]
    closing = re.compile(rf"^[ ]{{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, found.end())
    stop = end.start() if end else len(text)
    regions.kind[found.start() : end.end() if end else stop] = PROGRAM
    regions.marks.append((found.start("fence"), found.end(), "code"))
    if end:
        regions.marks.append((end.start(), end.end(), "code"))
    return end.end() if end else stop


def _ticks(text: str, found: re.Match[str], regions: Regions) -> int:
    ticks = found["ticks"]
    limit = _paragraph_end(text, found.end())
    end = re.compile(rf"(?<!`){ticks}(?!`)").search(text, found.end(), limit)
    if end is None or end.start() == found.end():
        return found.end()
    regions.kind[found.start() : end.end()] = PROGRAM
    regions.marks += [(found.start(), found.end(), "code"), (end.start(), end.end(), "code")]
    return end.end()


def _dollars(text: str, found: re.Match[str], regions: Regions) -> int:
    if found["dollars"] == "$$":
        return _formula(text, found.start(), found.end(), text.find("$$", found.end()), 2, regions)
    start, limit = found.end(), _paragraph_end(text, found.end())
    if start >= len(text) or text[start].isspace():
        return start
    closing = text.find("$", start)
    while 0 <= closing < limit:
        after = text[closing + 1 : closing + 2]
        # Two prices in a sentence are no formula: a closing sign follows what it closes.
        if text[closing - 1] == "\\":
            closing = text.find("$", closing + 1)
            continue
        if text[closing - 1].isspace() or after.isdigit():
            return start
        return _formula(text, found.start(), start, closing, 1, regions)
    return start


def _formula(text: str, start: int, inside: int, closing: int, width: int, regions: Regions) -> int:
    """A formula from its opening sign to its closing one, within a paragraph."""
    limit = _paragraph_end(text, inside)
    if not 0 <= closing < limit:
        if limit < len(text):  # never closed: no formula
            return inside
        closing, width = limit, 0
    regions.marks.append((start, inside, "latex"))
    if width:
        regions.marks.append((closing, closing + width, "latex"))
    _formula_inside(text, start, inside, closing, regions)
    regions.kind[closing : closing + width] = FORMULA
    return closing + width


def _formula_inside(text: str, start: int, inside: int, stop: int, regions: Regions) -> None:
    regions.kind[start:stop] = FORMULA
    for command in _IN_FORMULA.finditer(text, inside, stop):
        if command["command"] in _PROSE_COMMANDS:
            end = _matching_brace(text, command.end(), stop)
            regions.kind[command.end() + 1 : end] = PROSE
            regions.marks.append((command.end(), command.end() + 1, "latex"))
            if end < stop:
                regions.marks.append((end, end + 1, "latex"))


def _environment(text: str, found: re.Match[str], regions: Regions) -> int:
    regions.marks.append((found.start(), found.end(), "latex"))
    name = found["environment"]
    kind = _ENVIRONMENTS.get(name.rstrip("*"), PROSE)
    if kind == PROSE:
        return found.end()
    closing = f"\\end{{{name}}}"
    end = text.find(closing, found.end())
    stop = end if end >= 0 else len(text)
    if kind == FORMULA:
        _formula_inside(text, found.start(), found.end(), stop, regions)
    else:
        regions.kind[found.end() : stop] = PROGRAM
    if end < 0:
        return stop
    regions.marks.append((end, end + len(closing), "latex"))
    return end + len(closing)


def _braces(text: str, found: re.Match[str], regions: Regions, prose: bool) -> int:
    """A command outside of a formula: what is in its braces belongs to it."""
    end = _matching_brace(text, found.end(), len(text))
    regions.marks.append((found.end(), found.end() + 1, "latex"))
    if prose:
        if end < len(text):
            regions.marks.append((end, end + 1, "latex"))
        return found.end() + 1
    stop = min(end + 1, len(text))
    _formula_inside(text, found.start(), found.end() + 1, stop, regions)
    # Further arguments, as the denominator of a fraction.
    if text[stop : stop + 1] == "{":
        further = min(_matching_brace(text, stop, len(text)) + 1, len(text))
        _formula_inside(text, stop, stop + 1, further, regions)
        return further
    return stop


def _matching_brace(text: str, opening: int, stop: int) -> int:
    """Place of the brace that closes the one at `opening`; the end of its paragraph without one."""
    depth, limit = 0, min(stop, _paragraph_end(text, opening))
    for place in range(opening, limit):
        if text[place] == "{" and text[place - 1] != "\\":
            depth += 1
        elif text[place] == "}" and text[place - 1] != "\\":
            depth -= 1
            if not depth:
                return place
    return limit


def _paragraph_end(text: str, place: int) -> int:
    found = _BLANK_LINE.search(text, place)
    return found.start() if found else len(text)


def _unfenced(text: str, regions: Regions) -> None:
    """Lines of code without fences: what opens as a program, and what goes on with it."""
    place, in_code, blank = 0, False, False
    for line in text.splitlines(keepends=True):
        start, place = place, place + len(line)
        if not line.strip():
            blank = True  # ends nothing by itself
            continue
        if regions.kind[start:place].any() or len(line) > _LONGEST_LINE:
            in_code = False
            continue
        bare = line.rstrip("\r\n")
        goes_on = bool(_INDENTED.match(bare) or _CONTINUED.match(bare))
        heading = blank and bare.startswith("#")
        in_code = bool(_STATEMENT.match(bare)) or (in_code and goes_on and not heading)
        blank = False
        if in_code:
            regions.kind[start:place] = PROGRAM
