"""Rank correlation, pooled as published and prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from draftscope.statistics.intervals import Interval, bootstrap
from draftscope.statistics.sign import SignTest, sign_test

UNDEFINED = "undefined (constant)"


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho; `rho` and `p` are None where it is undefined, and `reason` says why."""

    rho: float | None
    p: float | None
    n: int
    missing: int
    reason: str | None = None


@dataclass(frozen=True)
class CorrelationByPrompt:
    """Mean of the prompts' own rho, with an interval and a sign test over prompts.

    Attributes:
        rhos: one a prompt in sorted order of prompts, None where undefined.
        n: prompts with a defined rho; `undefined` counts the others, which enter nothing.
    """

    interval: Interval
    sign: SignTest
    rhos: tuple[float | None, ...]
    n: int
    undefined: int

    @property
    def rho(self) -> float | None:
        return self.interval.estimate

    @property
    def p(self) -> float | None:
        return self.sign.p if self.n else None

    @property
    def reason(self) -> str | None:
        return self.interval.reason


def spearman(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Spearman's rank correlation of pairs [n]; pairs with a NaN are dropped and counted.

    The p-value takes the pairs as independent. Tokens of one prompt are not: for them use
    `spearman_by_prompt`, and this one only to show a pooled figure as published.
    """
    x, y, missing = _pairs(x, y)
    if len(x) < 3:
        return Correlation(None, None, len(x), missing, "undefined (fewer than 3 pairs)")
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return Correlation(None, None, len(x), missing, UNDEFINED)
    result = stats.spearmanr(x, y)
    return Correlation(float(result.statistic), float(result.pvalue), len(x), missing)


def spearman_by_prompt(
    x: Sequence[float],
    y: Sequence[float],
    prompts: Sequence[Any],
    categories: Sequence[Any] | None = None,
    **options: Any,
) -> CorrelationByPrompt:
    """Rank correlation within each prompt, averaged over prompts.

    Args:
        x, y: shape [n]; pairs with a NaN are dropped.
        prompts: the prompt of each pair, shape [n].
        categories: what to hold equal, shape [n]: the prompt's ranks less their mean in each
            category are correlated, which is the partial correlation of ranks given categories.
        options: passed to `bootstrap` (method, confidence, resamples, rng).
    """
    x, y, prompts = np.asarray(x, float), np.asarray(y, float), np.asarray(prompts)
    if not x.shape == y.shape == prompts.shape:
        raise ValueError(f"{x.shape} and {y.shape} values but {prompts.shape} prompts")
    names, prompt = np.unique(prompts, return_inverse=True)
    rhos = rhos_by_prompt(x, y, prompt, len(names), categories)
    defined = rhos[~np.isnan(rhos)]
    return CorrelationByPrompt(
        bootstrap(defined, **options),
        sign_test(defined),
        tuple(None if np.isnan(rho) else float(rho) for rho in rhos),
        len(defined),
        len(rhos) - len(defined),
    )


def rhos_by_prompt(
    x: np.ndarray,
    y: np.ndarray,
    prompt: np.ndarray,
    prompts: int,
    categories: Sequence[Any] | None = None,
) -> np.ndarray:
    """Each prompt's own rho, NaN where it is undefined, [prompts].

    Args:
        x, y: shape [n]; pairs with a NaN are dropped.
        prompt: number of the prompt of each pair, from 0 to prompts - 1, [n].
        categories: as in `spearman_by_prompt`.
    """
    keep = ~(np.isnan(x) | np.isnan(y))
    cell = prompt
    if categories is not None:
        known, category = np.unique(np.asarray(categories), return_inverse=True)
        cell = prompt * len(known) + category
    x, y, prompt, cell = x[keep], y[keep], prompt[keep], cell[keep]
    centered = []
    for values in (x, y):
        ranks = pd.Series(values).groupby(prompt).rank().to_numpy()
        ranks = 2.0 * ranks  # whole numbers, so that equal ranks leave exactly nothing
        count = np.bincount(cell)
        mean = np.bincount(cell, ranks) / np.maximum(count, 1)
        centered.append(ranks - mean[cell])
    a, b = centered
    n = np.bincount(prompt, minlength=prompts)
    xx, yy, xy = (np.bincount(prompt, each, prompts) for each in (a * a, b * b, a * b))
    defined = (n >= 3) & (np.minimum(xx, yy) > 1e-9 * n**3.0)
    product = np.sqrt(np.where(defined, xx * yy, 1.0))
    return np.where(defined, np.clip(xy / product, -1.0, 1.0), np.nan)


def spearman_influences(x: np.ndarray, y: np.ndarray, unit: np.ndarray, units: int) -> np.ndarray:
    """What each unit adds to rho, to first order, [units]; zero in sum.

    Rho is a correlation of distribution functions that the data themselves give, so a pair acts
    through its own ranks and through everybody else's (its influence function, as for any
    functional of a distribution; Hampel 1974, J. Am. Stat. Assoc. 69).

    Args:
        x, y: shape [n], neither constant, without NaN.
        unit: number of the unit of each pair, from 0 to units - 1, [n].
    """
    n = len(x)
    codes = [np.unique(values, return_inverse=True)[1] for values in (x, y)]
    a, b = (_centered_ranks(code) / n for code in codes)
    both, own = (a @ b) / n, [(a @ a) / n, (b @ b) / n]
    rho = both / np.sqrt(own[0] * own[1])
    joint = a * b + _above(codes[0], b) + _above(codes[1], a) - 3 * both
    spreads = [
        values**2 + 2 * _above(code, values) - 3 * variance
        for code, values, variance in zip(codes, (a, b), own, strict=True)
    ]
    influence = joint / np.sqrt(own[0] * own[1])
    influence -= rho / 2 * (spreads[0] / own[0] + spreads[1] / own[1])
    return np.bincount(unit, influence, units) / n


def _centered_ranks(code: np.ndarray) -> np.ndarray:
    """Mean ranks of integer codes, less their mean."""
    counts = np.bincount(code)
    return (np.cumsum(counts) - (counts - 1) / 2)[code] - (len(code) + 1) / 2


def _above(code: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Mean weight of what lies above each value, its equals counting half."""
    totals = np.bincount(code, weight) / len(code)
    return (totals.sum() - np.cumsum(totals) + totals / 2)[code]


def _pairs(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray, int]:
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"pairs need two vectors of one length, not {x.shape} and {y.shape}")
    keep = ~(np.isnan(x) | np.isnan(y))
    return x[keep], y[keep], int((~keep).sum())
