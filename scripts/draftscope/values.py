"""What the values of a script's settings must be, where a person may have written them by hand.

The workflow checks its configuration when it is read; these checks are for the scripts alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from draftscope.errors import UserError

_LAW = ("temperature", "top_k", "top_p")


def whole_numbers(settings: Mapping[str, Any], **at_least: int) -> None:
    """Check settings that count something; `at_least` maps each to its smallest value.

    Raises:
        UserError: one is missing, no whole number, or too small.
    """
    for key, least in at_least.items():
        value = settings[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(
                f"setting {key!r} is {value!r}; it must be a whole number, at least {least}"
            )


def distinct_numbers(settings: Mapping[str, Any], key: str, least: int) -> None:
    """Check a setting that lists whole numbers.

    Raises:
        UserError: it is missing, no list, or empty, or a number is too small or stands twice.
    """
    values = settings[key]
    if not isinstance(values, list) or not values:
        raise UserError(f"setting {key!r} is {values!r}; it must list at least one whole number")
    for value in values:
        whole_numbers({key: value}, **{key: least})
        if values.count(value) > 1:
            raise UserError(f"{value} stands twice in setting {key!r}")


def decoding_law(settings: Mapping[str, Any]) -> dict[str, float]:
    """The setting `law`: temperature, top_k and top_p, and nothing else.

    Raises:
        UserError: a part is missing, unknown, or out of its range.
    """
    law = settings["law"]
    if not isinstance(law, Mapping) or set(law) != set(_LAW):
        raise UserError(f"setting 'law' is {law!r}; it must have {', '.join(_LAW)} and no more")
    whole_numbers(law, top_k=0)
    for key, most in (("temperature", math.inf), ("top_p", 1.0)):
        value = law[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value <= most or value == math.inf:
            limits = "at least 0" if most == math.inf else f"from 0 to {most:g}"
            raise UserError(f"{key} of setting 'law' is {value!r}; it must be a number, {limits}")
    return dict(law)
