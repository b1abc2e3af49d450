"""The lists that token types rest on: triggers of reflection, operators."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from draftscope.errors import UserError
from draftscope.tokens.characters import IDEOGRAPHS, MARKS

# Mathematical to Unicode, but in texts the lines of a table, or "about".
_NO_OPERATORS = "|~"
_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")


@dataclass(frozen=True)
class Lists:
    """What counts as a trigger and as an operator.

    Attributes:
        published_triggers: words that the published study names.
        further_triggers: words and phrases of our own.
        operators: signs that are operators wherever they stand, beside those that Unicode calls
            mathematical.
        operators_between: signs that are operators only between operands, such as the hyphen.
        operator_commands: LaTeX commands that are operators, without the backslash.
    """

    published_triggers: tuple[str, ...] = ()
    further_triggers: tuple[str, ...] = ()
    operators: str = ""
    operators_between: str = ""
    operator_commands: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Lists:
        """Lists from JSON values.

        Raises:
            UserError: an unknown or missing key, or a trigger without letters or given twice.
        """
        known = set(cls.__dataclass_fields__)
        if set(settings) != known:
            wrong = ", ".join(sorted(set(settings) ^ known))
            raise UserError(f"the lists of token types: {wrong} unknown or missing")
        found = cls(
            tuple(settings["published_triggers"]),
            tuple(settings["further_triggers"]),
            settings["operators"],
            settings["operators_between"],
            frozenset(settings["operator_commands"]),
        )
        for trigger in found.triggers:
            if not any(character.isalpha() for character in trigger):
                raise UserError(f"trigger {trigger!r} has no letter")
        normal = [normalized(trigger) for trigger in found.triggers]
        twice = next((t for t in normal if normal.count(t) > 1), None)
        if twice is not None:
            raise UserError(f"trigger {twice!r} stands twice in the lists")
        return found

    @property
    def triggers(self) -> tuple[str, ...]:
        """All triggers, the published ones first; their places are their numbers in files."""
        return self.published_triggers + self.further_triggers

    @cached_property
    def _order(self) -> list[int]:
        """Numbers of the triggers as the pattern tries them: of one border together, long ones first."""
        return sorted(
            range(len(self.triggers)),
            key=lambda n: (_borders(self.triggers[n]), -len(self.triggers[n])),
        )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # A group each, since what is found need not be spelt as its trigger is: to re the dotless
        # i of Turkish is an i, and no way of comparing strings says so.
        parts = []
        ordered = (self.triggers[n] for n in self._order)
        for (before, after), alike in itertools.groupby(ordered, _borders):
            parts.append(f"{before}(?:{'|'.join(f'({_body(each)})' for each in alike)}){after}")
        return re.compile("|".join(parts), re.IGNORECASE)

    def find(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Triggers as whole words of any case: where each begins, one past its end, its number."""
        if self.triggers:
            for match in self._pattern.finditer(text):
                yield *match.span(), self._order[match.lastindex - 1]

    def is_operator(self, sign: str) -> bool:
        """Whether a sign is an operator wherever it stands."""
        if sign in self.operators_between:
            return False
        mathematical = unicodedata.category(sign) == "Sm" and sign not in _NO_OPERATORS
        return sign in self.operators or mathematical


def normalized(trigger: str) -> str:
    """A trigger without differences of case, white space and shape of apostrophe."""
    return " ".join(trigger.casefold().replace("\u2019", "'").split())


def _body(trigger: str) -> str:
    plain = trigger.replace("\u2019", "'").split()
    return r"\s+".join(re.escape(word).replace("'", "['\u2019]") for word in plain)


def _borders(trigger: str) -> tuple[str, str]:
    """What must not stand before a trigger, and after it: where the word would go on."""
    # Where words have no spaces around them, a trigger may stand between any two signs.
    before = "" if _IDEOGRAPH.match(trigger[0]) else rf"(?<![\w{MARKS}'\u2019])"
    after = "" if _IDEOGRAPH.match(trigger[-1]) else rf"(?![\w{MARKS}]|['\u2019]\w)"
    return before, after
