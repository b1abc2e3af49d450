"""Several tests at once: Holm's adjustment over the tests that exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Adjusted:
    """Adjusted p-values in the order given, None where there was none; `n` counts the tests."""

    p: tuple[float | None, ...]
    n: int
    undefined: int


def holm(p_values: Sequence[float | None]) -> Adjusted:
    """Holm's step-down adjustment (Holm 1979), which holds under any dependence.

    Entries that are None or NaN (undefined tests) are neither adjusted nor counted.

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    known = [
        index for index, p in enumerate(p_values) if p is not None and not math.isnan(float(p))
    ]
    for index in known:
        if not 0 <= p_values[index] <= 1:
            raise ValueError(f"p-value {p_values[index]} is outside [0, 1]")
    adjusted: list[float | None] = [None] * len(p_values)
    # Own arithmetic: statsmodels' multipletests collects garbage at every call, which takes a
    # tenth of a second, and a study adjusts some hundred families.
    known.sort(key=lambda index: p_values[index])
    largest = 0.0
    for rank, index in enumerate(known):
        largest = max(largest, min((len(known) - rank) * float(p_values[index]), 1.0))
        adjusted[index] = largest
    return Adjusted(tuple(adjusted), len(known), len(p_values) - len(known))
