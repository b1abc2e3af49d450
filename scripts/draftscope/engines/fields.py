"""Fields of the JSON objects that engines write, with every fault named by place and field."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from draftscope.errors import UserError

# Tokens of a round are stored in 16 bits, counts in 64: far fewer, so that no sum over the requests
# of a file leaves them and every count is exact as a float.
MOST, MOST_OF_A_ROUND = 2**40, 2**15 - 1


class Object:
    """A JSON object that knows where it stands.

    Attributes:
        where: file and line.
        name: dotted path of the object in its line, empty for the line itself.
    """

    def __init__(self, where: str, values: Mapping[str, Any], name: str = ""):
        self.where, self.values, self.name = where, values, name

    def path(self, key: str | int) -> str:
        """Dotted path of a field."""
        return f"{self.name}.{key}" if self.name else str(key)

    def fault(self, key: str | int, what: str) -> UserError:
        """The error that names a field of this object."""
        return UserError(f"{self.where}: {self.path(key)} {what}")

    def has(self, key: str) -> bool:
        """The field is there, and not null."""
        return self.values.get(key) is not None

    def object(self, key: str) -> Object | None:
        """The object under a key, None where there is none (or something else)."""
        value = self.values.get(key)
        return Object(self.where, value, self.path(key)) if isinstance(value, Mapping) else None

    def objects(self, key: str) -> list[Object]:
        """The objects of the list under a key; empty where there is no list."""
        value = self.values.get(key)
        return [
            Object(self.where, one, f"{self.path(key)}[{place}]")
            for place, one in enumerate(value if isinstance(value, list) else ())
            if isinstance(one, Mapping)
        ]

    def text(self, key: str) -> str | None:
        """A text that is not empty; a number is taken as text."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value:
            raise self.fault(key, f"is {value!r}; it must be a text that is not empty")
        return value

    def integer(self, key: str, least: int = 0, most: int = MOST) -> int | None:
        """A whole number in a range, None where the field is missing or null."""
        value = self.values.get(key)
        return None if value is None else self._integer(key, value, least, most)

    def integers(
        self, key: str, least: int = 0, most: int = MOST_OF_A_ROUND
    ) -> tuple[int, ...] | None:
        """A list of whole numbers in a range, None where the field is missing or null."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(key, f"is {_short(value)}; it must be a list of whole numbers")
        return tuple(self._integer(f"{key}[{i}]", one, least, most) for i, one in enumerate(value))

    def histogram(self, key: str) -> dict[int, int] | None:
        """Rounds by a number of tokens, from a list or from an object with numbers as keys.

        Numbers of tokens that no round has are left out.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, list):
            counts = self.integers(key, most=MOST)
            return {place: count for place, count in enumerate(counts) if count}
        if not isinstance(value, Mapping):
            raise self.fault(key, f"is {_short(value)}; it must be a list or an object of counts")
        part, counts = Object(self.where, value, self.path(key)), {}
        for bucket in value:
            count = part.integer(bucket)
            if count:
                counts[self.bucket(key, bucket)] = count
        return counts

    def bucket(self, key: str, bucket: str) -> int:
        """A key of an object that counts by a number of tokens."""
        digits = bucket.isascii() and bucket.isdigit() and len(bucket) <= 20
        if not digits or int(bucket) > MOST_OF_A_ROUND:
            raise self.fault(
                key,
                f"has the key {_short(bucket)}; keys are numbers of tokens, 0 to {MOST_OF_A_ROUND}",
            )
        return int(bucket)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Stop at a field that has no meaning here; a misspelt one would be silently lost."""
        known = tuple(known)
        for key in self.values:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                instead = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
                raise self.fault(key, f"is no field of this format; {instead}")

    def _integer(self, key: str, value: Any, least: int, most: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 43.0 is how some writers spell 43
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        huge = isinstance(value, int | float) and value > most
        bounds = f"from {least} to {most}" if most < MOST or huge else f"at least {least}"
        raise self.fault(
            key,
            f"is {_short(value)}; it must be a whole number, {bounds}{_nearest(value, least, most)}",
        )


def _nearest(value: Any, least: int, most: int) -> str:
    """The number that was probably meant."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return ""
    if isinstance(value, bool) or not math.isfinite(number):
        return ""
    return f"; nearest: {min(max(round(number), least), most)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
