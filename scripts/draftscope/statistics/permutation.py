"""Permutation test of groups of prompts: the labels are dealt to whole prompts anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_BLOCK = 2_000_000  # labels at a time


@dataclass(frozen=True)
class BetweenGroups:
    """The score statistic of groups and how often chance reaches it.

    Attributes:
        expected: mean of the statistic over permutations: what chance gives.
        p: None when there is nothing to permute.
    """

    statistic: float | None
    expected: float | None
    p: float | None
    n: int
    reason: str | None = None


def between_groups(
    rest: np.ndarray, weight: np.ndarray, groups: np.ndarray, permutations: int, rng
) -> BetweenGroups:
    """Do groups differ in what a model without them leaves over?

    The statistic adds up (sum of the group's residuals)^2 / (sum of its variances), less the same
    for all units together: Rao's score statistic of the group effects, which is near the
    deviance they would explain. With prompts as units its own law does not hold, so it is
    compared with that of labels dealt to the units at random (exact up to Monte Carlo).

    Args:
        rest: sum of outcome minus expectation of each unit, [units].
        weight: sum of the variances that the model gives its outcomes, [units], positive.
        groups: group of each unit, [units].
        permutations: number of random labelings.
        rng: seed or generator.
    """
    groups = np.unique(groups, return_inverse=True)[1]
    number = int(groups.max(initial=-1)) + 1
    units = len(rest)
    if number < 2:
        return BetweenGroups(None, None, None, units, "one group: nothing to compare")
    if np.ptp(rest) == 0 or not (weight > 0).any():
        return BetweenGroups(None, None, None, units, "all units are alike")
    rng = np.random.default_rng(rng)
    together = rest.sum() ** 2 / weight.sum()

    def statistic(labels: np.ndarray) -> np.ndarray:
        total = -together * np.ones(len(labels))
        for group in range(number):
            member = labels == group
            below = member @ weight
            total += np.divide(
                (member @ rest) ** 2, below, out=np.zeros(len(labels)), where=below > 0
            )
        return total

    seen = float(statistic(groups[None])[0])
    step = max(1, _BLOCK // units)
    dealt = np.concatenate(
        [
            statistic(rng.permuted(np.tile(groups, (min(step, permutations - at), 1)), axis=1))
            for at in range(0, permutations, step)
        ]
    )
    # As in any permutation test the labeling at hand counts as one of them.
    reached = int((dealt >= seen - 1e-12 * abs(seen)).sum())
    return BetweenGroups(seen, float(dealt.mean()), (reached + 1) / (permutations + 1), units)
