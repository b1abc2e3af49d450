"""Closed forms and lower bounds of certificates, each a function of its own.

Source of all: Sharma, "When Is a Draft Accepted?" (arXiv 2606.30265). Probabilities and margins are
differences of probabilities, values nats; arrays broadcast. a >= b throughout.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special
from scipy.optimize import elementwise

LOG2 = math.log(2)
Real = float | np.ndarray


def two_token(a: Real, b: Real) -> np.ndarray:
    """G(a, b) = a log(2a / (a + b)) + b log(2b / (a + b)): the KL of making two tokens equal.

    Exact for strict greedy with a = p(x0) and b = p(x1) (Corollary 4.7); with b the largest
    probability of a rejected token, or a threshold, a lower bound (Lemma 4.5).
    """
    middle = (np.asarray(a, float) + b) / 2
    return special.kl_div(a, middle) + special.kl_div(b, middle)


def g(margin: Real) -> np.ndarray:
    """g(d) = ((1 + d) / 2) log(1 + d) + ((1 - d) / 2) log(1 - d), 0 <= d <= 1.

    What a margin is worth: strict greedy has a certificate of at least g of its margin, with
    equality on two tokens (Theorem 4.9); so has additive acceptance with its tolerance (4.11).
    """
    d = np.asarray(margin, float)
    return special.kl_div((1 + d) / 2, 0.5) + special.kl_div((1 - d) / 2, 0.5)


def g_series(margin: Real) -> np.ndarray:
    """d^2 / 2 + d^4 / 12, a lower bound of g (Lemma A.1)."""
    d = np.asarray(margin, float)
    return d**2 / 2 + d**4 / 12


def g_ceiling(margin: Real) -> np.ndarray:
    """d^2 / (2 (1 - d^2)), an upper bound of g (Lemma A.1); infinite at 1."""
    d = np.asarray(margin, float)
    with np.errstate(divide="ignore"):
        return d**2 / (2 * (1 - d**2))


def g_inverse(kl: Real) -> np.ndarray:
    """The margin d with g(d) = kl; infinite above log 2, which no margin reaches.

    A margin above it is enough for acceptance (Theorem 4.9). It is sqrt(2 kl) (1 - kl / 6 + ...).
    """
    wanted = np.asarray(kl, float)
    inside = np.clip(wanted, 0.0, LOG2)
    zeros, ones = np.zeros_like(inside), np.ones_like(inside)
    found = elementwise.find_root(lambda d, e: g(d) - e, (zeros, ones), args=(inside,))
    return np.where(wanted > LOG2, np.inf, np.where(wanted <= 0, 0.0, found.x))


def pinsker_margin(kl: Real) -> np.ndarray:
    """sqrt(2 kl): a margin above it is enough by Pinsker's inequality (Proposition 4.8)."""
    return np.sqrt(2 * np.asarray(kl, float))


def pinsker(margin: Real) -> np.ndarray:
    """d^2 / 2: the lower bound that Pinsker's inequality gives a margin (Proposition 4.8)."""
    return np.asarray(margin, float) ** 2 / 2


def rejectable_margin(kl: Real) -> np.ndarray:
    """sqrt(2 kl / (1 + 2 kl)): at any margin up to it some draft within kl is rejected (4.9)."""
    kl = np.asarray(kl, float)
    return np.sqrt(2 * kl / (1 + 2 * kl))


def multiplicative(first: Real, a: Real) -> np.ndarray:
    """p(x0) [log(2 / (1 + a)) + a log(2a / (1 + a))], multiplicative acceptance (4.13)."""
    return first * two_token(1.0, a)


def multiplicative_series(first: Real, a: Real) -> np.ndarray:
    """p(x0) [(1 - a)^2 / 4 + (1 - a)^3 / 8], the beginning of its series."""
    gap = 1 - np.asarray(a, float)
    return first * (gap**2 / 4 + gap**3 / 8)


def threshold(first: Real, theta: Real) -> np.ndarray:
    """(p(x0) + theta) g((p(x0) - theta) / (p(x0) + theta)): all p(v) <= theta rejected (4.14).

    The same as G(p(x0), theta); 0 where theta reaches p(x0).
    """
    first, theta = np.broadcast_arrays(np.asarray(first, float), np.asarray(theta, float))
    total = first + np.minimum(theta, first)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, (first - np.minimum(theta, first)) / total, 0.0)
    return total * g(share)


def threshold_series(first: Real, theta: Real) -> np.ndarray:
    """gap^2 / (2 s) + gap^4 / (12 s^3), s = p(x0) + theta, a lower bound of `threshold` (4.14)."""
    gap, total = first - np.asarray(theta, float), first + np.asarray(theta, float)
    return gap**2 / (2 * total) + gap**4 / (12 * total**3)


def tree(margin: Real, m: int) -> np.ndarray:
    """B_m(d), the least certificate of a tree at a margin d = p(x0) - p(x_(m)) (Theorem 5.2).

    (1 + d) log tau - log((tau^2 + (m - 1) tau + 1) / (m + 1)), tau > 1 the root of
    (1 - d) tau^2 - d (m - 1) tau - (1 + d); log(m + 1) at d = 1. B_1 is g.
    """
    d = np.asarray(margin, float)
    inner = np.minimum(d, 1 - 1e-15)
    linear = inner * (m - 1)
    tau = (linear + np.sqrt(linear**2 + 4 * (1 - inner**2))) / (2 * (1 - inner))
    value = (1 + inner) * np.log(tau) - np.log((tau**2 + (m - 1) * tau + 1) / (m + 1))
    return np.where(d >= 1, math.log(m + 1), np.maximum(value, 0.0))


def tree_series(margin: Real, m: int) -> np.ndarray:
    """(m + 1) / 4 d^2 + (5 - m) (m + 1)^2 / 192 d^4, the beginning of B_m (Theorem 5.2)."""
    d = np.asarray(margin, float)
    return (m + 1) / 4 * d**2 + (5 - m) * (m + 1) ** 2 / 192 * d**4


def tree_margin(kl: Real, m: int) -> np.ndarray:
    """sqrt(4 kl / (m + 1)): to first order, the margin that is enough for a tree (Theorem 5.2)."""
    return np.sqrt(4 * np.asarray(kl, float) / (m + 1))


def ceiling(active: Real = 2) -> np.ndarray:
    """(2 / k) log 2: no certificate of single tokens with |A| = k is larger (Theorem 4.6)."""
    return 2 / np.asarray(active, float) * LOG2


def tree_ceiling(m: int) -> float:
    """log(m + 1): no certificate of a tree of m candidates is larger (Theorem 5.3)."""
    return math.log(m + 1)
