"""How acceptance goes along a text when each text is compared with itself.

A linear model of acceptance on the logarithm of the position, with an intercept of each text (the
within estimator; Mundlak 1978, Econometrica 46) and errors clustered by prompt, so a GEE with
identity link and independent working correlation (Liang and Zeger 1986). Whatever makes a text
easy, and long, is in its intercept and cannot pose as a trend: a pooled curve has one intercept,
and its late positions hold only the prompts that got there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from draftscope.position.texts import Text
from draftscope.statistics.functions import leave_one_out
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.statistics.paired import equivalence
from draftscope.tokens.names import NAMES

POSITION = "log2_position"
REFERENCE = "word"
TERMS = (POSITION, "entropy", "repeated", *(name for name in NAMES if name != REFERENCE))
MODELS = ("pooled", "position", "adjusted")
_COLUMNS = {
    "pooled": (0, 1),
    "position": (1,),
    "adjusted": tuple(range(1, len(TERMS) + 1)),
}
NOT_IDENTIFIED = "no text has both: nothing to compare within texts"
RESTS_ON_ONE = "rests on one prompt: no interval"


def design(text: Text, outcome: str, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Columns [positions, 1 + terms] and outcome [positions] of a text's defined positions.

    The first column is one. A term that the draft has no value of is zero throughout.
    """
    value = text.values[outcome][:limit]
    held = ~np.isnan(value)
    kind = text.type[:limit][held]
    position = np.flatnonzero(held)
    entropy = np.nan_to_num(text.entropy[:limit][held])
    columns = [np.ones(len(position)), np.log2(1.0 + position), entropy,
               text.repeated[:limit][held].astype(float)]  # fmt: skip
    columns += [(kind == NAMES.index(name)).astype(float) for name in TERMS[3:]]
    return np.stack(columns, axis=1), value[held]


class Moments:
    """Sums of squares and products by prompt, raw and around the means of each text."""

    def __init__(self) -> None:
        size = len(TERMS) + 2  # with the intercept and the outcome
        self._empty = np.zeros((2, size, size))
        self._prompts: dict[str, np.ndarray] = {}
        self.positions = 0

    def add(self, prompt_id: str, columns: np.ndarray, outcome: np.ndarray) -> None:
        if not len(outcome):
            return
        every = np.column_stack([columns, outcome])
        centered = every - every.mean(0)
        held = self._prompts.setdefault(prompt_id, self._empty.copy())
        held[0] += every.T @ every
        held[1] += centered.T @ centered
        self.positions += len(outcome)

    @property
    def prompts(self) -> int:
        return len(self._prompts)

    def totals(self, model: str) -> np.ndarray:
        """[prompts, terms, terms + 1]: products of the model's columns, then with the outcome."""
        if not self._prompts:
            size = len(_COLUMNS[model])
            return np.zeros((0, size, size + 1))
        stacked = np.stack([held for _, held in sorted(self._prompts.items())])
        part = stacked[:, 0 if model == "pooled" else 1]
        chosen = [*_COLUMNS[model], part.shape[1] - 1]
        return part[:, chosen[:-1]][:, :, chosen]


def coefficients(sums: np.ndarray) -> np.ndarray:
    """Least squares from sums of products [..., terms, terms + 1]; NaN where not identified."""
    square, right = sums[..., :-1], sums[..., -1]
    # Columns are brought to one size first, so that the tolerance means the same for each.
    size = np.sqrt(np.einsum("...ii->...i", square))
    scale = np.where(size > 0, size, 1.0)
    square = square / scale[..., :, None] / scale[..., None, :]
    inverse = np.linalg.pinv(square, rcond=1e-9, hermitian=True)
    found = np.einsum("...ij,...j->...i", inverse, right / scale) / scale
    kept = np.einsum("...ij,...ji->...i", inverse, square)
    return np.where((size > 0) & (kept > 1 - 1e-6), found, np.nan)


def estimates(
    moments: Moments, model: str, *, margin: float, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The terms of a model with intervals and tests; rows without the names of a configuration.

    Args:
        model: one of `MODELS`.
        margin: change by a doubling of the position that counts as none.
        options: of the bootstrap (method, confidence, resamples, rng).
    """
    names = [TERMS[column - 1] for column in _COLUMNS[model] if column]
    totals = moments.totals(model)
    value, without = leave_one_out(totals, coefficients)
    columns = [_COLUMNS[model].index(1 + TERMS.index(name)) for name in names]
    pseudo = [_pseudo(value[column], without[:, column]) for column in columns]
    known = [each for each in pseudo if each is not None]
    intervals: Iterator[Interval] = iter(())
    if known:
        stacked = np.stack(known, axis=1)
        intervals = iter(bootstrap_columns(stacked, np.ones_like(stacked), **dict(options)))
    rows = []
    for name, column, each in zip(names, columns, pseudo, strict=True):
        interval = None if each is None else next(intervals)
        rows.append(
            {"model": model, "term": name}
            | {"prompts": moments.prompts, "positions": moments.positions}
            | _estimate(value[column], interval)
        )
        rows[-1] |= _tests(rows[-1], each, margin, 1 - options["confidence"])
    return rows


def _pseudo(value: float, without: np.ndarray) -> np.ndarray | None:
    """Values of the prompts whose mean is the estimate: its jackknife influences added to it."""
    if len(without) < 2 or not np.isfinite(value) or not np.isfinite(without).all():
        return None
    influence = (len(without) - 1) * (value - without)
    return value + influence - influence.mean()


def _estimate(value: float, interval: Interval | None) -> dict[str, Any]:
    row: dict[str, Any] = {"estimate": float(value) if np.isfinite(value) else None}
    if interval is None:
        row |= dict.fromkeys(("estimate_lower", "estimate_upper"))
        reason = NOT_IDENTIFIED if row["estimate"] is None else RESTS_ON_ONE
        return row | {"method": "none", "reason": reason}
    return row | {
        "estimate_lower": interval.low,
        "estimate_upper": interval.high,
        "method": "none" if interval.low is None else interval.method,
        "reason": interval.reason,
    }


def _tests(
    estimated: Mapping[str, Any], pseudo: np.ndarray | None, margin: float, level: float
) -> dict[str, Any]:
    """Tests of a term over prompts, and for the position what they amount to."""
    from scipy import stats

    row: dict[str, Any] = dict.fromkeys(("p", "margin", "equivalence_p", "decay_p"))
    row["verdict"] = ""
    if estimated["term"] == POSITION:
        row["margin"], row["verdict"] = margin, "no test"
    if pseudo is None or np.ptp(pseudo) <= 1e-12:
        return row
    value, error = estimated["estimate"], float(pseudo.std(ddof=1) / np.sqrt(len(pseudo)))
    law = stats.t(len(pseudo) - 1)
    row["p"] = float(2 * law.sf(abs(value) / error))
    if estimated["term"] != POSITION:
        return row
    row["equivalence_p"] = equivalence(pseudo, margin, level, method="student").p
    row["decay_p"] = float(law.sf((value + margin) / error))
    return row | {"verdict": verdict(estimated, row, level)}


def verdict(estimated: Mapping[str, Any], tests: Mapping[str, Any], level: float) -> str:
    """What interval and tests say of the trend, in a few words; the tests have the same level."""
    words = []
    if estimated["estimate_lower"] > 0:
        words.append("rises")
    elif estimated["estimate_upper"] < 0:
        words.append("falls")
    if tests["equivalence_p"] < level:
        words.append("within the margin")
    elif tests["decay_p"] < level and "rises" not in words:
        words.append("no fall of the margin or more")
    return ", ".join(words) or "unresolved"
