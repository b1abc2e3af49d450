"""Bootstrap intervals of means, ratios and their differences, with the prompt as the unit.

All three are ratios of sums over prompts: a prompt contributes (numerator, denominator), a mean
being the case in which the denominators count values. Resampling draws prompts, so one matrix
of counts serves every column of a table or bin of a curve at once.

Methods:
    studentized: bootstrap-t (Efron and Tibshirani 1993, section 12.5) with the linearized
        standard error of the ratio, within limits (see `resampling`). The default: at 40
        prompts it is the one that covers.
    bca: bias-corrected and accelerated (same, section 14.3), acceleration from the influences.
    percentile: quantiles of the resampled estimates; what most studies print. Too narrow.
    student: estimate -+ t standard errors, no resampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from draftscope.statistics.resampling import FEWEST, LIMIT, Draws, bounds, divide, ratio

METHODS = ("studentized", "bca", "percentile", "student")
DEFAULT_METHOD = "studentized"
RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval; `low` and `high` are None when there is none.

    Attributes:
        n: units that carry the estimate (prompts).
        values: values that went into them.
        missing: values dropped because they were NaN.
        method: how the interval was made, one of `METHODS`.
        degenerate: all units agree, so the interval is the single point.
        reason: why there is no interval, or why it is not of the method asked for.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    values: int
    missing: int
    method: str
    confidence: float
    degenerate: bool = False
    reason: str | None = None

    def within(self, least: float = 0.0, most: float = np.inf) -> Interval:
        """The interval cut to the values that the quantity can have at all.

        With few prompts the ends may lie beyond them; what is cut off holds no possible value, so
        that the interval covers as often as before.
        """
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))


def bootstrap(
    values: Sequence[float] | np.ndarray,
    clusters: Sequence[Any] | np.ndarray | None = None,
    *,
    denominators: Sequence[float] | np.ndarray | None = None,
    statistic: str = "mean",
    method: str = DEFAULT_METHOD,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    rng: int | np.random.Generator | Draws = 0,
) -> Interval:
    """Interval of a mean or ratio, resampling whole clusters.

    Args:
        values: shape [values]; NaN is dropped and counted.
        clusters: the prompt of each value; without it each value is a unit of its own.
        denominators: shape [values], not negative; for statistic "ratio".
        statistic: "mean" (of all values, so long prompts weigh more), "macro" (mean of the
            clusters' means), or "ratio" (sum of values / sum of denominators).
        rng: seed or generator, or draws to share. The result depends on it, never on the order
            of clusters.

    Raises:
        ValueError: shapes that differ, infinities, an unknown statistic or method.
    """
    values = _vector(values, "values")
    if statistic not in ("mean", "macro", "ratio"):
        raise ValueError(f"statistic {statistic!r} is not mean, macro or ratio")
    if (denominators is not None) != (statistic == "ratio"):
        raise ValueError("denominators belong to statistic 'ratio'")
    below = np.ones_like(values) if denominators is None else _vector(denominators, "denominators")
    if below.shape != values.shape:
        raise ValueError(f"{len(values)} values but {len(below)} denominators")
    keep = ~(np.isnan(values) | np.isnan(below))
    if clusters is None:
        unit = np.arange(len(values))
    else:
        clusters = np.asarray(clusters)
        if clusters.shape != values.shape:
            raise ValueError(f"{len(values)} values but {clusters.shape} clusters")
        unit = np.unique(clusters, return_inverse=True)[1]
    values, below, unit = values[keep], below[keep], unit[keep]
    if (below < 0).any():
        raise ValueError("a denominator is negative")
    size = int(unit.max()) + 1 if len(unit) else 0
    above = np.bincount(unit, values, size)
    total = np.bincount(unit, below, size)
    if statistic == "macro":
        held = total > 0
        above, total = above[held] / total[held], np.ones(held.sum())
    (interval,) = bootstrap_columns(
        above[:, None],
        total[:, None],
        method=method,
        confidence=confidence,
        resamples=resamples,
        rng=rng,
    )
    return replace(interval, values=len(values), missing=int((~keep).sum()))


def bootstrap_columns(
    numerators: np.ndarray,
    denominators: np.ndarray,
    minus: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    method: str = DEFAULT_METHOD,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    rng: int | np.random.Generator | Draws = 0,
) -> list[Interval]:
    """Intervals of several ratios of sums, all from the same resamples of the units.

    Args:
        numerators, denominators: shape [units, columns]; denominator 0 where a unit has
            nothing in a column.
        minus: numerators and denominators of a second ratio, subtracted from the first.

    Returns:
        One interval a column; `n` counts the units with something in it.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    pairs = [(numerators, denominators)] + ([] if minus is None else [minus])
    pairs = [(np.asarray(a, dtype=float), np.asarray(b, dtype=float)) for a, b in pairs]
    if len({array.shape for pair in pairs for array in pair}) != 1:
        raise ValueError("numerators and denominators differ in shape")
    if not all(np.isfinite(array).all() for pair in pairs for array in pair):
        raise ValueError("a numerator or denominator is not finite")
    held = np.any([below > 0 for _, below in pairs], axis=0)
    counts = held.sum(0)
    defined = np.all([below.sum(0) > 0 for _, below in pairs], axis=0)
    estimate = ratio(*pairs[0]) - (ratio(*pairs[1]) if minus is not None else 0.0)
    influences = sum(
        sign * divide(above - ratio(above, below) * below, below.sum(0))
        for sign, (above, below) in zip((1, -1), pairs, strict=False)
    )
    # Rounding leaves influences of the order of the machine's precision for constant input.
    scale = np.maximum(1.0, np.abs(estimate)) / np.maximum(counts, 1)
    constant = (np.abs(influences) <= 1e-12 * scale).all(0)
    active = np.flatnonzero(defined & (counts >= 2) & ~constant)
    low, high, limited = bounds(
        [(a[:, active], b[:, active]) for a, b in pairs],
        estimate[active],
        influences[:, active],
        counts[active],
        method,
        1 - confidence,
        resamples,
        rng if isinstance(rng, Draws) else np.random.default_rng(rng),
    )
    place = {column: index for index, column in enumerate(active)}
    results = []
    for column in range(len(estimate)):
        n = int(counts[column])
        interval = Interval(None, None, None, n, n, 0, method, confidence)
        if not defined[column]:
            reason = "no values" if n == 0 else "no values on one side of the difference"
            interval = replace(interval, reason=reason)
        elif n < 2:
            interval = replace(
                interval, estimate=float(estimate[column]), reason="one prompt: no interval"
            )
        elif constant[column]:
            value = float(estimate[column])
            interval = replace(
                interval, estimate=value, low=value, high=value, degenerate=True, reason="constant"
            )
        else:
            at = place[column]
            interval = replace(
                interval,
                estimate=float(estimate[column]),
                low=float(low[at]),
                high=float(high[at]),
            )
            if limited[at] and n < FEWEST:
                reason = f"Student t: fewer than {FEWEST} prompts"
                interval = replace(interval, method="student", reason=reason)
            elif limited[at]:
                reason = f"bounded at {LIMIT:g} times Student t: prompts nearly all alike"
                interval = replace(interval, reason=reason)
        results.append(interval)
    return results


def _vector(values, name: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if np.isinf(array).any():
        raise ValueError(f"{name} hold an infinity")
    return array
