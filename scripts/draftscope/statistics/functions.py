"""Intervals of any smooth function of sums over prompts, from what each prompt does to it.

Ratios have their own bootstrap (`intervals`). For a product of rates, a decomposition or a
model's deviance the function is worked out once without each prompt (the jackknife; Efron and
Tibshirani 1993, chapter 11), for all prompts at once where the function takes stacked sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from draftscope.statistics.intervals import Interval, bootstrap_columns

Function = Callable[[np.ndarray], np.ndarray]
ONE_PROMPT = "one prompt: no interval"
RESTS_ON_ONE = "undefined without one of the prompts: no interval"
UNDEFINED = "undefined: nothing to compute it from"


def leave_one_out(totals: np.ndarray, function: Function) -> tuple[np.ndarray, np.ndarray]:
    """The function of all sums, [columns], and of the sums without each unit, [units, columns].

    Args:
        totals: shape [units, ...], what each unit adds to the sums.
        function: sums [..., of one unit's shape] -> values [..., columns]; NaN where undefined.
    """
    whole = totals.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return function(whole[None])[0], function(whole[None] - totals)


def bootstrap_function(totals: np.ndarray, function: Function, **options: Any) -> list[Interval]:
    """Intervals of a function of sums, by the bootstrap of its jackknife influences.

    The influence of a unit is (n - 1) times what the value falls by without it; the value plus
    their mean is then a mean over units, with the intervals of one.

    Args:
        totals, function: as in `leave_one_out`.
        options: passed to `bootstrap_columns` (method, confidence, resamples, rng).
    """
    units = len(totals)
    value, without = leave_one_out(totals, function)
    influence = (units - 1) * (value - without)
    influence -= influence.mean(0) if units else 0.0
    defined = np.isfinite(value) & np.isfinite(influence).all(0)
    columns = np.where(defined, value + influence, 0.0)
    intervals = bootstrap_columns(columns, np.ones_like(columns), **options)
    return [
        interval if defined[column] else _missing(interval, value[column], units)
        for column, interval in enumerate(intervals)
    ]


@dataclass(frozen=True)
class Jackknifed:
    """An interval and the two-sided p-value of "zero" that belongs to it; None without one."""

    interval: Interval
    p: float | None


def jackknife(
    totals: np.ndarray,
    function: Function,
    strata: np.ndarray | None = None,
    *,
    confidence: float = 0.95,
    less_bias: bool = False,
) -> list[Jackknifed]:
    """Jackknife intervals of a function of sums over units drawn within strata.

    The standard error adds up the strata's own, and Student's t has the degrees of freedom of
    Welch and Satterthwaite.

    Args:
        totals, function: as in `leave_one_out`.
        strata: the stratum of each unit, [units]; one when not given.
        less_bias: subtract the jackknife's estimate of the bias, as for quadratic functions that
            chance alone makes positive.
    """
    units = len(totals)
    value, without = leave_one_out(totals, function)
    strata = np.zeros(units) if strata is None else strata
    strata = np.unique(strata, return_inverse=True)[1]
    bias, variance, squares = (np.zeros(len(value)) for _ in range(3))
    alone = False
    for stratum in range(strata.max(initial=-1) + 1):
        part = without[strata == stratum]
        n = len(part)
        if n < 2:
            alone = True
            continue
        mean = part.mean(0)
        bias += (n - 1) * (mean - value)
        own = (n - 1) / n * ((part - mean) ** 2).sum(0)
        variance += own
        squares += own**2 / (n - 1)
    estimate = value - bias if less_bias else value
    results = []
    for column, (center, square) in enumerate(zip(estimate, variance, strict=True)):
        interval = Interval(None, None, None, units, units, 0, "jackknife", confidence)
        if not np.isfinite(value[column]) or not np.isfinite(square) or alone:
            missing = _missing(interval, value[column], 1 if alone else units)
            results.append(Jackknifed(missing, None))
            continue
        center, error = float(center), float(np.sqrt(square))
        interval = replace(interval, estimate=center, low=center, high=center)
        if error <= 1e-12 * max(1.0, abs(center)):
            interval = replace(interval, degenerate=True, reason="constant")
            results.append(Jackknifed(interval, None))
            continue
        law = stats.t(square**2 / squares[column])
        reach = law.ppf(0.5 + confidence / 2) * error
        interval = replace(interval, low=center - reach, high=center + reach)
        results.append(Jackknifed(interval, float(2 * law.sf(abs(center) / error))))
    return results


def _missing(interval: Interval, value: float, units: int) -> Interval:
    estimate = float(value) if np.isfinite(value) else None
    reason = UNDEFINED if estimate is None else ONE_PROMPT if units < 2 else RESTS_ON_ONE
    return replace(
        interval, estimate=estimate, low=None, high=None, degenerate=False, reason=reason
    )
