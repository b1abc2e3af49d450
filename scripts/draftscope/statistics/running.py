"""The mean of many numbers that come in parts, the same to the last bit however they are cut."""

from __future__ import annotations

import numpy as np

BLOCK = 8192


class RunningMean:
    """Mean of float64 values in their order, with at most a block of them waiting.

    Whole blocks are summed pairwise by numpy and added up one after another, so the rounding
    depends on the values and their order alone. numpy 2.2 cuts one long array at the same places.
    """

    def __init__(self) -> None:
        self.count, self._total = 0, 0.0
        self._waiting = np.empty(0)

    def add(self, values: np.ndarray) -> None:
        """The next values, shape [values]."""
        self.count += len(values)
        values = np.concatenate([self._waiting, np.asarray(values, dtype=float)])
        whole = len(values) - len(values) % BLOCK
        for begin in range(0, whole, BLOCK):
            self._total += float(values[begin : begin + BLOCK].sum())
        self._waiting = values[whole:].copy()

    @property
    def mean(self) -> float | None:
        """None of no value at all."""
        if not self.count:
            return None
        return (self._total + float(self._waiting.sum())) / self.count
