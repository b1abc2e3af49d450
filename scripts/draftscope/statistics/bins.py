"""Acceptance along a text: fifths of each text, and the curve over absolute positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.statistics.observations import Observations
from draftscope.statistics.sums import PositionSums, bin_edges, bin_sums, window_sums


@dataclass(frozen=True)
class Quintiles:
    """Mean of each fifth of a text, prompts weighted equally.

    Attributes:
        intervals: one a fifth; their `n` counts the prompts that have values in it.
        n: prompts with a value in some fifth.
        short: trajectories with fewer tokens than fifths, which enter nothing.
    """

    quantity: str
    intervals: tuple[Interval, ...]
    n: int
    short: int


def quintiles(data: Observations, windows: int = 5, **options: Any) -> Quintiles:
    """Means by fifth of the text, the fifth of a value being floor(5 * start / tokens).

    Each trajectory gives a mean a fifth, samples of a prompt are averaged, and the intervals
    resample prompts.

    Args:
        windows: number of equal parts.
        options: passed to the bootstrap (method, confidence, resamples, rng).
    """
    short = data.tokens < windows
    data = data.without(short)
    sums, counts = window_sums(data, windows)
    means = np.divide(sums, counts * data.scale, out=np.zeros_like(sums), where=counts > 0)
    totals = np.zeros((len(data.prompt_ids), windows))
    held = np.zeros_like(totals)
    np.add.at(totals, data.prompt, means)
    np.add.at(held, data.prompt, counts > 0)
    means = np.divide(totals, held, out=np.zeros_like(totals), where=held > 0)
    intervals = bootstrap_columns(means, (held > 0).astype(float), **options)
    n = int((held > 0).any(1).sum())
    return Quintiles(data.quantity, tuple(intervals), n, int(short.sum()))


def position_curve(
    data: Observations | PositionSums, width: int | Sequence[int], **options: Any
) -> pd.DataFrame:
    """Mean over all values that start in a bin of positions, with prompt-clustered bands.

    One set of resampled prompts serves all bins, so the band belongs to one curve. The prompts
    still alive say how far the curve compares like with like: it ends on the longest texts.

    Args:
        width: tokens in a bin, or the edges of the bins.
        options: passed to the bootstrap (method, confidence, resamples, rng).

    Returns:
        A row a bin: left, right (tokens, right excluded), mean, low, high (NaN without a band),
        values, prompts (with a value in the bin), alive (prompts with a text that reaches it),
        degenerate, reason.
    """
    if isinstance(width, int | np.integer):
        edges = bin_edges(data.tokens, int(width))
    else:
        edges = np.asarray(width)
        if len(edges) < 2 or (np.diff(edges) <= 0).any():
            raise ValueError("edges of bins must rise")
    sums, counts = bin_sums(data, edges)
    intervals = bootstrap_columns(sums, counts, **options)
    reached = np.zeros(len(data.prompt_ids), dtype=np.int64)
    np.maximum.at(reached, data.prompt, data.tokens)
    return pd.DataFrame(
        {
            "left": edges[:-1],
            "right": edges[1:],
            "mean": [_number(interval.estimate) for interval in intervals],
            "low": [_number(interval.low) for interval in intervals],
            "high": [_number(interval.high) for interval in intervals],
            "values": counts.sum(0),
            "prompts": (counts > 0).sum(0),
            "alive": (reached[:, None] > edges[None, :-1]).sum(0),
            "degenerate": [interval.degenerate for interval in intervals],
            "reason": [interval.reason for interval in intervals],
        }
    )


def value_bins(values: Sequence[float] | np.ndarray, bins: int = 5) -> np.ndarray:
    """Bin of each value by its rank: floor(bins * values below it / number of values).

    Equal values share a bin, so many zeros fill the first one and leave bins after it empty.
    NaN gets bin -1.

    Args:
        values: shape [n].

    Returns:
        Integers from -1 to bins - 1, shape [n].
    """
    values = np.asarray(values, dtype=float)
    known = ~np.isnan(values)
    ordered = np.sort(values[known])
    result = np.full(len(values), -1)
    if len(ordered):
        below = np.searchsorted(ordered, values[known], side="left")
        result[known] = bins * below // len(ordered)
    return result


def _number(value: float | None) -> float:
    return np.nan if value is None else value
