"""Intervals over prompts: of shares and means as everywhere, and of quantiles over positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.statistics.functions import ONE_PROMPT
from draftscope.statistics.intervals import Interval, bootstrap_columns

# Quantiles need a pass over the positions for each resample; their ends need no more digits.
QUANTILE_RESAMPLES = 1000
Row = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How the study resamples, as in `statistics.intervals`."""

    confidence: float = 0.95
    resamples: int = 10_000
    method: str = "studentized"
    seed: int = 0

    def options(self, *names: str) -> dict[str, Any]:
        """Options of the bootstrap; the names make the resamples of one table its own."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "rng": seeds.generator("certificates", self.seed, *names),
        }


def ratios(
    columns: Mapping[str, tuple[np.ndarray, np.ndarray]],
    settings: Settings,
    *names: str,
    limits: Mapping[str, tuple[float, float]] | None = None,
) -> tuple[Row, dict[str, str]]:
    """Intervals of ratios of sums over prompts, all from the same resamples.

    Args:
        columns: name -> (numerators, denominators), [prompts] each.
        limits: name -> least and greatest possible value; 0 and 1 where it is a share.

    Returns:
        A row with name, name_lower, name_upper, and the reasons by name of what is missing.
    """
    above, below = (np.stack(side, axis=1) for side in zip(*columns.values(), strict=True))
    above = np.where(below.sum(0) > 0, above, 0.0)  # a ratio of something to nothing is none
    found = bootstrap_columns(above, below, **settings.options(*names))
    bounds = [(limits or {}).get(name, (0.0, 1.0)) for name in columns]
    cut = [interval.within(*own) for interval, own in zip(found, bounds, strict=True)]
    return _rows(list(columns), cut)


def differences(
    columns: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
    settings: Settings,
    *names: str,
) -> tuple[Row, dict[str, str]]:
    """As `ratios`, of differences of two ratios: numerators, denominators, then those to subtract."""
    sides = [np.stack(side, axis=1) for side in zip(*columns.values(), strict=True)]
    found = bootstrap_columns(*sides[:2], minus=tuple(sides[2:]), **settings.options(*names))
    return _rows(list(columns), found)


def _rows(names: Sequence[str], found: Sequence[Interval]) -> tuple[Row, dict[str, str]]:
    row: Row = {}
    reasons: dict[str, str] = {}
    for name, interval in zip(names, found, strict=True):
        row |= {name: interval.estimate, f"{name}_lower": interval.low}
        row[f"{name}_upper"] = interval.high
        if interval.reason and interval.low is None:
            reasons[name] = interval.reason
    return row, reasons


def said(reasons: Mapping[str, str]) -> str | None:
    """Reasons as one text, each said once."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name.replace("_", " "))
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items()) or None


def sums(values: np.ndarray, prompt: np.ndarray, prompts: int) -> np.ndarray:
    """Sums of values [positions] by prompt, [prompts]."""
    return np.bincount(prompt, values, prompts).astype(float)


def quantiles(
    values: np.ndarray,
    prompt: np.ndarray,
    levels: Mapping[str, float],
    settings: Settings,
    *names: str,
) -> tuple[Row, dict[str, str]]:
    """Quantiles over positions with percentile intervals from resampling whole prompts.

    A quantile is the least value that enough positions do not exceed, so it is one of the values
    and may be infinite. Percentile intervals, since quantiles are no smooth function of sums.
    """
    order = np.argsort(values, kind="stable")
    ranked, owner = values[order], prompt[order]
    wanted = np.array(list(levels.values()))
    row: Row = {}
    point = _at(np.arange(1, len(ranked) + 1), ranked, wanted)
    for name, value in zip(levels, point, strict=True):
        row |= {name: float(value), f"{name}_lower": None, f"{name}_upper": None}
    prompts = len(np.unique(prompt))
    if prompts < 2:
        return row, dict.fromkeys(levels, ONE_PROMPT)
    rng = seeds.generator("certificates", settings.seed, "quantiles", *names)
    count = min(settings.resamples, QUANTILE_RESAMPLES)
    draws = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=count)
    place = np.unique(owner, return_inverse=True)[1]
    found = np.stack([_at(np.cumsum(draw[place]), ranked, wanted) for draw in draws])
    tail = (1 - settings.confidence) / 2
    ends = np.quantile(found, [tail, 1 - tail], axis=0, method="inverted_cdf")
    for name, low, high in zip(levels, *ends, strict=True):
        row |= {f"{name}_lower": float(low), f"{name}_upper": float(high)}
    return row, {}


def _at(cumulated: np.ndarray, ranked: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Values at levels of a weighted sample whose weights add up to `cumulated`."""
    places = np.searchsorted(cumulated, levels * cumulated[-1] * (1 - 1e-12), side="left")
    return ranked[np.minimum(places, len(ranked) - 1)]
