"""Paired tests on one difference a prompt: exact sign test and Wilcoxon's signed ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class SignTest:
    """Exact two-sided sign test; `n` = up + down, the differences that are not zero."""

    p: float
    n: int
    up: int
    down: int
    ties: int
    missing: int = 0
    reason: str | None = None


def sign_test(differences: Sequence[float] | np.ndarray) -> SignTest:
    """Exact two-sided sign test of a median of zero (Dixon and Mood 1946).

    Zeros are dropped and counted, and so is NaN. Without any other value there is no evidence
    either way: p = 1.

    Args:
        differences: shape [prompts], one a prompt.

    Raises:
        ValueError: not one-dimensional.
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"differences must be one-dimensional, not of shape {values.shape}")
    missing = int(np.isnan(values).sum())
    up, down = int((values > 0).sum()), int((values < 0).sum())
    return sign_test_from_counts(up, down, len(values) - missing - up - down, missing)


def sign_test_from_counts(up: int, down: int, ties: int = 0, missing: int = 0) -> SignTest:
    """The sign test from the numbers of positive and negative differences."""
    if min(up, down, ties, missing) < 0:
        raise ValueError(f"negative count among {(up, down, ties, missing)}")
    if up + down == 0:
        reason = "all differences are zero" if ties else "no differences"
        return SignTest(1.0, 0, up, down, ties, missing, reason)
    p = float(stats.binomtest(up, up + down, 0.5).pvalue)
    return SignTest(p, up + down, up, down, ties, missing)


@dataclass(frozen=True)
class Wilcoxon:
    """Two-sided signed-rank test; `n` counts the differences that are not zero."""

    p: float
    n: int
    statistic: float | None
    ties: int
    missing: int
    reason: str | None = None


def wilcoxon(differences: Sequence[float] | np.ndarray) -> Wilcoxon:
    """Wilcoxon's signed-rank test; zeros take part in the ranking and are then set aside (Pratt).

    Exact by permutation up to 13 differences, beyond that the normal approximation: the exact
    table holds only without zeros and ties, which rates of few rounds are full of.
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"differences must be one-dimensional, not of shape {values.shape}")
    held = values[~np.isnan(values)]
    missing, zeros = len(values) - len(held), int((held == 0).sum())
    n = len(held) - zeros
    if n == 0:
        reason = "all differences are zero" if zeros else "no differences"
        return Wilcoxon(1.0, 0, None, zeros, missing, reason)
    if len(held) == 1:  # one difference has either sign with the same probability
        return Wilcoxon(1.0, n, None, zeros, missing, "one difference")
    method = stats.PermutationMethod() if len(held) <= 13 else "asymptotic"
    result = stats.wilcoxon(held, zero_method="pratt", method=method)
    return Wilcoxon(float(result.pvalue), n, float(result.statistic), zeros, missing)
