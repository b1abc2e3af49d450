"""The types of tokens, in the order of their codes in files."""

from __future__ import annotations

TYPES = {
    "word": "letters of any script outside formulas and code",
    "reflection": "a trigger of the list: a word or phrase that turns the reasoning around",
    "number": "digits, with decimal point and thousands separators, wherever they stand",
    "operator": "signs and LaTeX commands that relate or combine quantities",
    "punctuation": "punctuation marks and all other symbols",
    "latex": "commands, delimiters, structure and names inside formulas",
    "code": "names, strings and comments inside program code, and the marks around it",
    "whitespace": "nothing but white space",
    "partial_utf8": "a part of a character, or bytes that are no character",
    "special": "a special token, a tag that is one token, or an id without text",
}
NAMES = tuple(TYPES)
CODE = {name: code for code, name in enumerate(NAMES)}
NO_TRIGGER = -1
WITHOUT_TRIGGERS = "no trigger in these texts"  # why a number about them is missing
