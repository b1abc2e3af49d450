"""Resampled ratios of sums: the arithmetic behind the bootstrap intervals.

Arrays are [units, columns] or [resamples, columns]; a ratio is a pair (numerators, denominators).
"""

from __future__ import annotations

import numpy as np
from scipy import stats

Pair = tuple[np.ndarray, np.ndarray]
# Resamples of nearly equal units have next to no spread and throw studentized values to any size.
# With few units that is the rule, with many it concerns the prompts that are nearly all alike.
FEWEST, LIMIT = 8, 3.0
_BLOCK = 4_000_000  # matrix elements at a time: bounds the memory at some tens of MB


def bounds(pairs, estimate, influences, counts, method, alpha, resamples, rng):
    """Lower and upper bounds, and where studentizing met a limit, each of shape [columns].

    Studentized bounds stay within `LIMIT` times Student's; columns with fewer than `FEWEST`
    units get Student's.
    """
    columns = len(estimate)
    error = np.sqrt((influences**2).sum(0) * counts / np.maximum(counts - 1, 1))
    reach = stats.t.ppf(1 - alpha / 2, np.maximum(counts - 1, 1)) * error
    low, high = estimate - reach, estimate + reach
    limited = np.zeros(columns, dtype=bool)
    if method == "student" or not columns:
        return low, high, limited
    draws = _draws(len(influences), resamples, rng)
    step = max(1, _BLOCK // resamples)
    for start in range(0, columns, step):
        part = slice(start, start + step)
        shift, spread = _resample([(a[:, part], b[:, part]) for a, b in pairs], draws, method)
        if method == "studentized":
            with np.errstate(divide="ignore", invalid="ignore"):
                spread = spread * np.sqrt(counts[part] / np.maximum(counts[part] - 1, 1))
                flat = spread <= 1e-9 * error[part]
                studentized = np.where(flat, np.sign(shift) * np.inf, shift / spread)
            studentized[flat & (np.abs(shift) <= 1e-9 * error[part])] = 0.0
            lower, upper = _quantiles(studentized, alpha / 2, 1 - alpha / 2)
            few, most = counts[part] < FEWEST, LIMIT * reach[part]
            below, above = upper * error[part], -lower * error[part]
            limited[part] = few | (below > most) | (above > most)
            below, above = np.minimum(below, most), np.minimum(above, most)
            low[part] = np.where(few, low[part], estimate[part] - below)
            high[part] = np.where(few, high[part], estimate[part] + above)
        else:
            levels = (alpha / 2, 1 - alpha / 2)
            if method == "bca":
                levels = _bca_levels(shift, influences[:, part], alpha)
            lower, upper = _quantiles(shift, *levels)
            low[part], high[part] = estimate[part] + lower, estimate[part] + upper
    return low, high, limited


def _draws(units: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each unit is drawn, shape [resamples, units], float32 to halve the memory."""
    draws = np.empty((resamples, units), dtype=np.float32)
    step = max(1, _BLOCK // max(units, 1))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picked = rng.integers(0, units, (rows, units)) + units * np.arange(rows)[:, None]
        draws[start : start + rows] = np.bincount(picked.ravel(), minlength=rows * units).reshape(
            rows, units
        )
    return draws


def _resample(pairs, draws: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Resampled estimates minus the estimate and their standard errors, [resamples, columns].

    A resample that holds no unit of a column gives NaN there.
    """

    def total(array: np.ndarray) -> np.ndarray:
        step = max(1, _BLOCK // max(draws.shape[1], 1))
        blocks = range(0, len(draws), step)
        return np.concatenate([draws[b : b + step].astype(float) @ array for b in blocks])

    shifts, squares, parts = [], [], []
    for above, below in pairs:
        # Centered numerators: their sums of squares do not cancel against large means.
        centered = above - ratio(above, below) * below
        weight = total(below)
        shift = divide(total(centered), weight)
        shifts.append(shift)
        if method == "studentized":
            spread = total(centered**2) - 2 * shift * total(centered * below)
            squares.append(divide(spread + shift**2 * total(below**2), weight**2))
            parts.append((centered, below, weight))
    if len(pairs) == 1:
        shift, square = shifts[0], squares[0] if squares else None
    else:
        shift, square = shifts[0] - shifts[1], None
        if squares:
            (e1, w1, t1), (e2, w2, t2) = parts
            cross = total(e1 * e2) - shifts[1] * total(e1 * w2) - shifts[0] * total(w1 * e2)
            cross = divide(cross + shifts[0] * shifts[1] * total(w1 * w2), t1 * t2)
            square = squares[0] + squares[1] - 2 * cross
    return shift, None if square is None else np.sqrt(np.maximum(square, 0.0))


def _bca_levels(shift: np.ndarray, influences: np.ndarray, alpha: float):
    valid = ~np.isnan(shift)
    below = ((shift < 0).sum(0) + 0.5 * (shift == 0).sum(0)) / valid.sum(0)
    bias = stats.norm.ppf(np.clip(below, 1e-9, 1 - 1e-9))
    acceleration = (influences**3).sum(0) / (6 * (influences**2).sum(0) ** 1.5)
    levels = []
    for z in stats.norm.ppf([alpha / 2, 1 - alpha / 2]):
        levels.append(stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))))
    return levels


def _quantiles(sample: np.ndarray, lower, upper) -> tuple[np.ndarray, np.ndarray]:
    """Order statistics at (valid + 1) * level, rounded outwards; NaN sorts to the end."""
    ordered = np.sort(sample, axis=0)
    valid = (~np.isnan(sample)).sum(0)
    first = np.clip(np.floor((valid + 1) * lower).astype(int) - 1, 0, valid - 1)
    last = np.clip(np.ceil((valid + 1) * upper).astype(int) - 1, 0, valid - 1)
    return tuple(np.take_along_axis(ordered, index[None], axis=0)[0] for index in (first, last))


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return divide(above.sum(0), below.sum(0))


def divide(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return above / below
