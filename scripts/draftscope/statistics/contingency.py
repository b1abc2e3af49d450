"""Tests on counts: McNemar for two paired yes/no outcomes, chi-square against known chances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

RARE = 5.0  # expected counts below this are pooled (Cochran 1954)


@dataclass(frozen=True)
class McNemar:
    """Exact McNemar test; `n` = only_first + only_second, the discordant pairs."""

    p: float
    n: int
    only_first: int
    only_second: int
    pairs: int
    reason: str | None = None


def mcnemar(table: Sequence[Sequence[int]] | np.ndarray) -> McNemar:
    """Exact two-sided McNemar test (McNemar 1947, binomial form).

    Args:
        table: counts [[both, only first], [only second, neither]], shape [2, 2].

    Raises:
        ValueError: another shape, or entries that are no counts.
    """
    # statsmodels takes a second to import; a script that needs no test should not wait for it.
    from statsmodels.stats import contingency_tables

    counts = np.asarray(table)
    if counts.shape != (2, 2):
        raise ValueError(f"a McNemar table has shape (2, 2), not {counts.shape}")
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        raise ValueError(f"a McNemar table holds counts, not {counts.tolist()}")
    first, second = int(counts[0, 1]), int(counts[1, 0])
    pairs = int(counts.sum())
    if first + second == 0:
        return McNemar(1.0, 0, 0, 0, pairs, "no discordant pairs")
    p = float(contingency_tables.mcnemar(counts, exact=True).pvalue)
    return McNemar(min(p, 1.0), first + second, first, second, pairs)


@dataclass(frozen=True)
class ChiSquare:
    """Goodness of fit of counts to known chances.

    Attributes:
        p: None when there is nothing to test (one cell, no counts).
        n: observations.
        impossible: cells of chance zero that were seen; any makes the fit fail, whatever p.
        pooled: cells put together because fewer than `RARE` were expected in them.
        detectable_total_variation: every alternative at least this far from the chances (in
            total variation of the cells as pooled) is found with probability `power`.
    """

    p: float | None
    n: int
    statistic: float | None
    degrees: int
    impossible: tuple[int, ...]
    pooled: int
    detectable_total_variation: float | None
    power: float
    reason: str | None = None

    def fits(self, level: float = 0.05) -> bool:
        """No impossible cell, and not rejected at `level`; look at what could be detected."""
        return not self.impossible and (self.p is None or self.p > level)


def chi_square(
    counts: Sequence[int] | np.ndarray,
    chances: Sequence[float] | np.ndarray,
    level: float = 0.05,
    power: float = 0.9,
) -> ChiSquare:
    """Pearson's chi-square of counts [cells] against chances [cells] that sum to one.

    A cell that cannot occur but did is a failure of its own kind and not turned into an infinite
    statistic. Rare cells are pooled, smallest chance first, until the pool expects `RARE`. Since
    "not rejected" says nothing without power, the detectable distance is part of the result:
    the noncentrality L that is found with `power` is a chi-square distance of w = sqrt(L / n), and
    any chances w / 2 away in total variation are that far (Cauchy-Schwarz).

    Raises:
        ValueError: shapes differ, negative counts, chances that do not sum to one.
    """
    counts, chances = np.asarray(counts, dtype=float), np.asarray(chances, dtype=float)
    if counts.shape != chances.shape or counts.ndim != 1:
        raise ValueError(f"counts {counts.shape} and chances {chances.shape} differ in shape")
    if (counts < 0).any() or (chances < 0).any() or abs(chances.sum() - 1) > 1e-6:
        raise ValueError("counts and chances must not be negative, and chances must sum to one")
    impossible = tuple(np.flatnonzero((chances == 0) & (counts > 0)).tolist())
    possible = chances > 0
    counts, chances = counts[possible], chances[possible] / chances[possible].sum()
    n = int(counts.sum())
    counts, expected, pooled = _pool(counts, chances * n)
    degrees = len(counts) - 1
    if n == 0 or degrees < 1:
        reason = "no observations" if n == 0 else "one cell after pooling"
        return ChiSquare(None, n, None, max(degrees, 0), impossible, pooled, None, power, reason)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return ChiSquare(
        float(stats.chi2.sf(statistic, degrees)),
        n,
        statistic,
        degrees,
        impossible,
        pooled,
        min(1.0, math.sqrt(_noncentrality(degrees, level, power) / n) / 2),
        power,
    )


def _pool(counts: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    order = np.argsort(expected, kind="stable")
    counts, expected = counts[order], expected[order]
    rare = int((expected < RARE).sum())
    # One rare cell alone still needs company, and so does a pool that is itself rare.
    while 0 < rare < len(expected) and expected[:rare].sum() < RARE:
        rare += 1
    if rare == 0:
        return counts, expected, 0
    return (
        np.append(counts[rare:], counts[:rare].sum()),
        np.append(expected[rare:], expected[:rare].sum()),
        rare,
    )


def _noncentrality(degrees: int, level: float, power: float) -> float:
    critical = stats.chi2.isf(level, degrees)
    high = 10.0
    while stats.ncx2.sf(critical, degrees, high) < power:
        high *= 2
    return optimize.brentq(lambda x: stats.ncx2.sf(critical, degrees, x) - power, 1e-6, high)
