"""Two measurements of the same prompts: difference, interval, sign test, equivalence, power."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope.statistics.intervals import Interval, bootstrap
from draftscope.statistics.sign import SignTest, sign_test


@dataclass(frozen=True)
class PairedDifference:
    """First minus second, prompt by prompt; pairs with a NaN are counted as missing."""

    interval: Interval
    sign: SignTest

    @property
    def difference(self) -> float | None:
        return self.interval.estimate

    @property
    def p(self) -> float:
        return self.sign.p

    @property
    def n(self) -> int:
        return self.interval.n

    @property
    def reason(self) -> str | None:
        return self.interval.reason


def paired_difference(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray, **options: Any
) -> PairedDifference:
    """Mean difference of two vectors [prompts] with its interval and sign test.

    Args:
        options: passed to `bootstrap` (method, confidence, resamples, rng).

    Raises:
        ValueError: vectors of different lengths.
    """
    differences = paired_differences(first, second)
    return PairedDifference(bootstrap(differences, **options), sign_test(differences))


def paired_differences(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray
) -> np.ndarray:
    """First minus second, [prompts]; what differs by rounding alone is no difference.

    Raises:
        ValueError: vectors of different lengths.
    """
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"pairs need two vectors of one length, not {first.shape}, {second.shape}")
    differences = first - second
    # .3 - .2 and .4 - .3 differ in the last bit: that is no evidence for a direction.
    scale = np.maximum(np.abs(first), np.abs(second))
    differences[np.abs(differences) <= 1e-12 * np.maximum(scale, 1.0)] = 0.0
    return differences


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests: `p` is the larger one; below the level the mean is inside the margin.

    Attributes:
        interval: 1 - 2 * level confidence, which lies inside the margin exactly when p < level
            up to the difference between Student's t and the bootstrap.
    """

    p: float | None
    n: int
    margin: float
    interval: Interval
    reason: str | None = None


def equivalence(
    differences: Sequence[float] | np.ndarray, margin: float, level: float = 0.05, **options: Any
) -> Equivalence:
    """Is the mean difference smaller than `margin` either way? (Schuirmann 1987, on prompts.)

    Args:
        differences: shape [prompts]; NaN is dropped and counted.
        margin: positive, in the unit of the differences.

    Raises:
        ValueError: the margin is not positive.
    """
    # statsmodels takes a second to import; a script that needs no test should not wait for it.
    from statsmodels.stats.weightstats import DescrStatsW

    if not margin > 0:
        raise ValueError(f"the margin {margin} is not positive")
    values = np.asarray(differences, dtype=float)
    interval = bootstrap(values, confidence=1 - 2 * level, **options)
    values = values[~np.isnan(values)]
    if interval.low is None:
        return Equivalence(None, interval.n, margin, interval, interval.reason)
    if interval.degenerate:
        inside = abs(interval.estimate) < margin
        return Equivalence(0.0 if inside else 1.0, interval.n, margin, interval, "constant")
    p = float(DescrStatsW(values).ttost_mean(-margin, margin)[0])
    return Equivalence(p, interval.n, margin, interval)


def prompts_needed(
    differences: Sequence[float] | np.ndarray,
    effect: float,
    level: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Prompts with which a mean difference of `effect` would be found with this power.

    Two-sided paired t test, with the spread of the differences at hand [prompts]; None when
    they tell no spread (fewer than two, or constant) or the effect is zero.
    """
    from statsmodels.stats.power import TTestPower

    values = np.asarray(differences, dtype=float)
    values = values[~np.isnan(values)]
    if _no_spread(values) or effect == 0:
        return None
    size = abs(effect) / values.std(ddof=1)
    search = TTestPower()
    if search.power(size, nobs=3, alpha=level) >= power:
        return 3
    low, high = 3, 6
    while search.power(size, nobs=high, alpha=level) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if search.power(size, nobs=middle, alpha=level) < power:
            low = middle
        else:
            high = middle
    return high


def smallest_difference(
    differences: Sequence[float] | np.ndarray, level: float = 0.05, power: float = 0.8
) -> float | None:
    """The mean difference that as many prompts as these would find with this power.

    The counterpart of `prompts_needed`, under the same assumptions; it does not depend on the
    difference that was seen, only on the spread.
    """
    from statsmodels.stats.power import TTestPower

    values = np.asarray(differences, dtype=float)
    values = values[~np.isnan(values)]
    if _no_spread(values):
        return None
    search, low, high = TTestPower(), 0.0, 1.0
    while search.power(high, nobs=len(values), alpha=level) < power:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        if search.power(middle, nobs=len(values), alpha=level) < power:
            low = middle
        else:
            high = middle
    return float(high * values.std(ddof=1))


def _no_spread(values: np.ndarray) -> bool:
    """Fewer than two values, or all alike but for rounding."""
    return len(values) < 2 or np.ptp(values) <= 1e-12 * max(1.0, np.abs(values).max())
