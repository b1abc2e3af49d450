"""Does acceptance change along a text? Second half against first, prompt by prompt and pooled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope.statistics.intervals import Interval, bootstrap, bootstrap_columns
from draftscope.statistics.observations import Observations, Table, observe_rounds
from draftscope.statistics.sign import SignTest, sign_test
from draftscope.statistics.sums import PositionSums, sides, window_sums


@dataclass(frozen=True, eq=False)
class PairedHalves:
    """Second minus first half, one difference a prompt.

    Attributes:
        prompt_ids, differences: shape [prompts]; NaN for prompts without a value in a half.
        interval: of the mean difference, prompts weighted equally.
        sign: exact two-sided sign test of the differences.
        n: prompts with a difference.
        without_half: prompts with no trajectory that has a value in each half.
        values: rounds or positions that counted.
        dropped: those that did not, by reason.
    """

    quantity: str
    prompt_ids: np.ndarray
    differences: np.ndarray
    interval: Interval
    sign: SignTest
    n: int
    without_half: int
    values: int
    dropped: dict[str, int]

    @property
    def difference(self) -> float | None:
        return self.interval.estimate

    @property
    def p(self) -> float:
        return self.sign.p

    @property
    def reason(self) -> str | None:
        return self.interval.reason

    @property
    def cut_rounds(self) -> int:
        return self.dropped.get("cut rounds", 0)

    def record(self) -> dict[str, Any]:
        """The numbers as plain values, for a row of a table."""
        return {
            "quantity": self.quantity,
            "difference": self.interval.estimate,
            "low": self.interval.low,
            "high": self.interval.high,
            "method": self.interval.method,
            "degenerate": self.interval.degenerate,
            "up": self.sign.up,
            "down": self.sign.down,
            "ties": self.sign.ties,
            "p": self.sign.p,
            "prompts": self.n,
            "prompts_without_half": self.without_half,
            "values": self.values,
            "cut_rounds": self.cut_rounds,
            "end_rounds": self.dropped.get("full rounds at the end of text", 0),
            "missing_positions": self.dropped.get("missing positions", 0),
            "reason": self.interval.reason or self.sign.reason,
        }


def paired_halves(
    rounds: Observations | PositionSums | Table,
    tokens: Table | None = None,
    *,
    keep: str = "full",
    **options: Any,
) -> PairedHalves:
    """Mean of the second half minus mean of the first, per prompt.

    A value belongs to the half of its start: the first when 2 * start < n, n the generated
    tokens of its trajectory. Halves are compared within a trajectory, samples of a prompt are
    averaged, and prompts weigh the same.

    Args:
        rounds: a round table, observations (of rounds or positions), or sums of them.
        tokens, keep: as in `observe_rounds`, for a round table.
        options: passed to `bootstrap` (method, confidence, resamples, rng).
    """
    data = rounds
    if not isinstance(data, Observations | PositionSums):
        data = observe_rounds(rounds, tokens, keep=keep)
    sums, counts = window_sums(data, 2)
    both = (counts > 0).all(1)
    (first, second), (m, n) = sums[both].T, counts[both].T
    # Over a common denominator, counts of accepted tokens that tie give an exact zero.
    per_trajectory = (second * m - first * n) / (m * n * data.scale)
    prompts = len(data.prompt_ids)
    owner = data.prompt[both]
    held = np.bincount(owner, minlength=prompts)
    total = np.bincount(owner, per_trajectory, prompts)
    differences = np.full(prompts, np.nan)
    np.divide(total, held, out=differences, where=held > 0)
    # Samples that cancel leave a rounding error in place of a tie.
    differences[np.abs(differences) < 1e-12] = 0.0
    return PairedHalves(
        data.quantity,
        data.prompt_ids,
        differences,
        bootstrap(differences, **options),
        sign_test(differences),
        int((held > 0).sum()),
        int((held == 0).sum()),
        data.count,
        dict(data.dropped),
    )


@dataclass(frozen=True)
class PooledDifference:
    """Mean of values after the split minus mean before it, over all prompts at once.

    Attributes:
        split: median start of all values; a value at it counts as late.
        n: prompts; `both` of them have values on either side.
        early, late: number of values; `early_mean` and `late_mean` are of all of them.
    """

    quantity: str
    interval: Interval
    split: float | None
    n: int
    both: int
    early: int
    late: int
    early_mean: float | None
    late_mean: float | None

    @property
    def difference(self) -> float | None:
        return self.interval.estimate

    @property
    def reason(self) -> str | None:
        return self.interval.reason


def pooled_difference(data: Observations | PositionSums, **options: Any) -> PooledDifference:
    """Values pooled over prompts and split at the global median start, interval by prompt.

    Long texts fill the late side, so the difference mixes what position does with which prompts
    get far; `paired_halves` compares each prompt with itself.

    Args:
        options: passed to the bootstrap (method, confidence, resamples, rng).
    """
    found = sides(data)
    (late, late_counts), (early, early_counts) = found.late, found.early
    (interval,) = bootstrap_columns(
        late[:, None],
        late_counts[:, None],
        minus=(early[:, None], early_counts[:, None]),
        **options,
    )
    both = int(((late_counts > 0) & (early_counts > 0)).sum())
    return PooledDifference(
        data.quantity,
        interval,
        found.split,
        interval.n,
        both,
        int(early_counts.sum()),
        int(late_counts.sum()),
        found.early_mean,
        found.late_mean,
    )
