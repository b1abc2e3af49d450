"""Rank correlation, pooled as published and prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    x: Sequence[float], y: Sequence[float], prompts: Sequence[Any], **options: Any
) -> CorrelationByPrompt:
    """Rank correlation within each prompt, averaged over prompts.

    Args:
        x, y: shape [n].
        prompts: the prompt of each pair, shape [n].
        options: passed to `bootstrap` (method, confidence, resamples, rng).
    """
    x, y, prompts = np.asarray(x, float), np.asarray(y, float), np.asarray(prompts)
    if prompts.shape != x.shape:
        raise ValueError(f"{x.shape} values but {prompts.shape} prompts")
    order = np.argsort(prompts, kind="stable")
    starts = np.unique(prompts[order], return_index=True)[1]
    groups = np.split(order, starts[1:]) if len(order) else []
    rhos = [spearman(x[rows], y[rows]).rho for rows in groups]
    defined = [rho for rho in rhos if rho is not None]
    return CorrelationByPrompt(
        bootstrap(defined, **options),
        sign_test(defined),
        tuple(rhos),
        len(defined),
        len(rhos) - len(defined),
    )


def _pairs(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray, int]:
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"pairs need two vectors of one length, not {x.shape} and {y.shape}")
    keep = ~(np.isnan(x) | np.isnan(y))
    return x[keep], y[keep], int((~keep).sum())
