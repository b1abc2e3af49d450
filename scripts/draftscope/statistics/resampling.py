"""Resampled ratios of sums: the arithmetic behind the bootstrap intervals.

Arrays are [units, columns] or [resamples, columns]; a ratio is a pair (numerators, denominators).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

Pair = tuple[np.ndarray, np.ndarray]
# Resamples of nearly equal units have next to no spread and throw studentized values to any size.
# With few units that is the rule, with many it concerns the prompts that are nearly all alike.
FEWEST, LIMIT = 8, 3.0
_BLOCK = 4_000_000  # matrix elements at a time: bounds the memory at some tens of MB


class Draws:
    """Resamples of prompts that several statistics share.

    Statistics of as many units and resamples get the same matrix, as if each had begun with a
    generator of its own, freshly made; the last matrix is kept.
    """

    def __init__(self, generator: Callable[[], np.random.Generator]) -> None:
        self._generator = generator
        self._size: tuple[int, int] | None = None
        self._matrix = np.zeros((0, 0))

    def __call__(self, units: int, resamples: int) -> np.ndarray:
        if self._size != (units, resamples):
            self._matrix = np.zeros((0, 0))  # two of them need not fit
            self._matrix = _draws(units, resamples, self._generator())
            self._size = (units, resamples)
        return self._matrix


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
    shared = rng if isinstance(rng, Draws) else Draws(lambda: rng)
    draws = shared(len(influences), resamples)
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
    """How often each unit is drawn, shape [resamples, units], in as few bytes as hold it."""
    draws = np.empty((resamples, units), dtype=np.uint16 if units < 1 << 16 else np.uint32)
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

    # Centered numerators: their sums of squares do not cancel against large means.
    sides = [(above - ratio(above, below) * below, below) for above, below in pairs]
    parts = [part for side in sides for part in side]
    if method == "studentized":
        for centered, below in sides:
            parts += [centered**2, centered * below, below**2]
        if len(sides) == 2:
            (e1, w1), (e2, w2) = sides
            parts += [e1 * e2, e1 * w2, w1 * e2, w1 * w2]
    sums = iter(_totals(draws, parts))
    totals = [(next(sums), next(sums)) for _ in sides]
    shifts = [divide(centered, weight) for centered, weight in totals]
    shift = shifts[0] if len(sides) == 1 else shifts[0] - shifts[1]
    if method != "studentized":
        return shift, None
    squares = []
    for (_, weight), own in zip(totals, shifts, strict=True):
        spread = next(sums) - 2 * own * next(sums)
        squares.append(divide(spread + own**2 * next(sums), weight**2))
    if len(sides) == 1:
        return shift, np.sqrt(np.maximum(squares[0], 0.0))
    cross = next(sums) - shifts[1] * next(sums) - shifts[0] * next(sums)
    cross = divide(cross + shifts[0] * shifts[1] * next(sums), totals[0][1] * totals[1][1])
    return shift, np.sqrt(np.maximum(squares[0] + squares[1] - 2 * cross, 0.0))


def _totals(draws: np.ndarray, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Sums of each array [units, columns] over the units of each resample, [resamples, columns]."""
    totals = [np.empty((len(draws), part.shape[1])) for part in parts]
    step = max(1, _BLOCK // max(draws.shape[1], 1))
    for begin in range(0, len(draws), step):
        rows = draws[begin : begin + step].astype(float)
        for total, part in zip(totals, parts, strict=True):
            total[begin : begin + step] = rows @ part
    return totals


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
