"""Arms that were trained several times and measured on the same prompts: seeds crossed with prompts.

What a training of an arm reaches is chance (the order of texts, anchors, first weights), and so is
which prompts stand in a benchmark. An interval over prompts alone holds for the weights at hand;
one for the arm counts both. Model, of arm a, training s and prompt p:

    y[a, s, p] = mean[a] + prompt[a, p] + training[a, s] + rest[a, s, p]

with prompt, training and rest random: prompts are shared by all trainings, a training is of one arm.
A difference of two arms has the variance

    V(prompts) + k B - k E,   k = 1 / trainings of the one + 1 / trainings of the other

V(prompts): variance over prompts of the difference of the arms' means / number of prompts; it holds
    the rest once, as E / prompts for each training.
B: mean square between the trainings of an arm (of their means over prompts), pooled over all arms: with
    two trainings an arm has one degree of freedom of its own. So the spread of trainings is taken as one
    for all arms.
E: what of B is the rest, from the residuals of the two-way layout; it is in V(prompts) already.

The sum is held to V(prompts) at least. The interval is Student's t with degrees of freedom after
Satterthwaite (1946), in which B counts no less than E, and no fewer than B has. Prompts of several domains are strata with equal
weights. That this covers with two or three trainings, and prompts alone do not, is tested on planted
data sets. Where the trainings of one arm spread twice as much as those of the others, 95% intervals of
its differences cover 84% (11 arms, 2 trainings) to 95%.

Trainings may be paired: training s of every arm starts from the same weights. Then what all arms share of
a training is taken out of B and E first, and B has (arms - 1)(trainings - 1) degrees of freedom. The mean
of one arm keeps what is shared, and of that all arms together know no more than one: there B has
trainings - 1 degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

ONE_TRAINING = "one training an arm: the spread of trainings is unknown"
ONE_PROMPT = "fewer than two prompts in a domain: no interval"
CONSTANT = "constant"


@dataclass(frozen=True)
class Estimate:
    """A mean or difference with its Student interval; without one, `reason` says why.

    Attributes:
        prompts_low, prompts_high: the interval of the trainings at hand, over prompts alone.
        p: two-sided t test of 0; None without an interval.
    """

    estimate: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    degrees: float | None
    p: float | None
    prompts_low: float | None
    prompts_high: float | None
    reason: str | None = None

    @property
    def separated(self) -> bool:
        """The interval excludes 0."""
        return self.low is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Spread:
    """Variances of a difference of two arms, for planning: of single trainings, prompts and the rest.

    Attributes:
        training: variance of a training's true mean, one training.
        prompts: variance of the prompts' part of the difference times their number, one prompt.
        rest: variance of the rest, one training on one prompt.
        degrees: those of `training` for each training beyond the first of an arm.
        strata: domains.
    """

    training: float
    prompts: float
    rest: float
    degrees: int
    strata: int

    def variance(self, trainings: float, prompts: float) -> float:
        """Of the difference, with so many trainings of each arm and prompts in all."""
        return (
            2 * self.training / trainings
            + self.prompts / prompts
            + 2 * self.rest / (trainings * prompts)
        )

    def degrees_of(self, trainings: float, prompts: float) -> float:
        """Degrees of freedom of the estimated variance, after Satterthwaite."""
        seeds = 2 * (self.training / trainings + self.rest / (trainings * prompts))
        own = self.prompts / prompts + 2 * self.rest / (trainings * prompts)
        total = self.variance(trainings, prompts)
        below = seeds**2 / (self.degrees * (trainings - 1)) + own**2 / max(prompts - self.strata, 1)
        least = min(self.degrees * (trainings - 1), prompts - self.strata)
        return max(total**2 / below, least, 1.0) if below > 0 else math.inf


@dataclass(frozen=True)
class Pooled:
    """Mean square between the trainings of an arm, what of it is the rest, degrees of freedom."""

    degrees: int
    between: float
    rest: float


class Crossed:
    """Values of several arms on the same prompts.

    Args:
        values: arm -> [trainings, prompts], finite.
        strata: domain of each prompt [prompts]; domains weigh alike. None: one domain.
        fixed: arms without chance in them (drafts that are not trained); they have one row.
        paired: row s of every arm belongs to row s of the others, in differences.

    Raises:
        ValueError: arms of different prompts, a fixed arm with several rows, or trainings that are
            paired and not as many in each arm.
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        strata: Collection[Any] | None = None,
        fixed: Collection[str] = (),
        paired: bool = False,
    ) -> None:
        self.values = {arm: np.atleast_2d(np.asarray(v, float)) for arm, v in values.items()}
        sizes = {v.shape[1] for v in self.values.values()}
        if len(sizes) != 1:
            raise ValueError(f"arms have different numbers of prompts: {sorted(sizes)}")
        for arm in fixed:
            if len(self.values[arm]) != 1:
                raise ValueError(f"arm {arm} has no trainings but {len(self.values[arm])} rows")
        self.prompts, self.fixed = sizes.pop(), frozenset(fixed)
        self._options = (strata, paired)
        labels = np.zeros(self.prompts, int) if strata is None else np.asarray(list(strata))
        self._stratum = np.unique(labels, return_inverse=True)[1]
        self._counts = np.bincount(self._stratum)
        self._weight = 1 / (len(self._counts) * self._counts[self._stratum])
        trained = [v for arm, v in self.values.items() if arm not in self.fixed]
        self._own = self._pool(trained, 1.0)
        self._shared = self._own
        if paired:
            if len({len(v) for v in trained}) != 1:
                raise ValueError("paired trainings, but not as many of each arm")
            self._own = replace(self._own, degrees=len(trained[0]) - 1)
            common = np.mean(trained, axis=0)
            self._shared = self._pool([v - common for v in trained], 1 - 1 / len(trained))

    def like(self, values: Mapping[str, np.ndarray]) -> Crossed:
        """Other values of the same arms, or some of them, in the same layout."""
        strata, paired = self._options
        return Crossed(values, strata, self.fixed & set(values), paired)

    def _pool(self, trained: Sequence[np.ndarray], free: float) -> Pooled:
        """Mean squares between trainings and of the rest, over all arms that are trained.

        Args:
            free: share of the degrees of freedom that is left after what arms share is taken out.
        """
        degrees, between, rest = 0, 0.0, np.zeros(len(self._counts))
        for values in trained:
            if len(values) > 1:
                means = values @ self._weight
                degrees += len(values) - 1
                between += float(((means - means.mean()) ** 2).sum())
                rest += self._strata_squares(values - values.mean(0)).sum(0)
        degrees = round(degrees * free)
        if not degrees:
            return Pooled(0, 0.0, 0.0)
        if (self._counts < 2).any():
            return Pooled(degrees, between / degrees, 0.0)
        size = self._counts * len(self._counts) ** 2
        squares = rest / (degrees * (self._counts - 1))
        return Pooled(degrees, between / degrees, float((squares / size).sum()))

    def _strata_squares(self, values: np.ndarray) -> np.ndarray:
        """Sums of squares around the means of each stratum, [rows, strata]."""
        rows = []
        for row in np.atleast_2d(values):
            mean = np.bincount(self._stratum, row) / self._counts
            rows.append(np.bincount(self._stratum, (row - mean[self._stratum]) ** 2))
        return np.array(rows)

    def level(self, arm: str, confidence: float = 0.95) -> Estimate:
        """The mean of an arm over trainings and prompts."""
        own = self.values[arm]
        share = 0.0 if arm in self.fixed else 1 / len(own)
        return self._estimate(own.mean(0), share, self._own, confidence)

    def difference(self, arm: str, against: str, confidence: float = 0.95) -> Estimate:
        """Arm minus another arm on the same prompts."""
        own, other = self.values[arm], self.values[against]
        share = sum(
            1 / len(values)
            for name, values in ((arm, own), (against, other))
            if name not in self.fixed
        )
        return self._estimate(own.mean(0) - other.mean(0), share, self._shared, confidence)

    def spread(self, arm: str, against: str) -> Spread | None:
        """Variances for planning; None where nothing was trained twice, or too few prompts."""
        pooled, trained = self._shared, len(self.values) - len(self.fixed)
        if not pooled.degrees or (self._counts < 2).any():
            return None
        own = self.values[arm].mean(0) - self.values[against].mean(0)
        variance, _ = self._over_prompts(own)
        share = sum(1 / len(self.values[name]) for name in (arm, against) if name not in self.fixed)
        return Spread(
            training=max(pooled.between - pooled.rest, 0.0),
            prompts=max(variance - share * pooled.rest, 0.0) * self.prompts,
            rest=pooled.rest * self.prompts,
            degrees=trained if pooled is self._own else trained - 1,
            strata=len(self._counts),
        )

    def _over_prompts(self, values: np.ndarray) -> tuple[float, float]:
        """Variance of the weighted mean over prompts, and its degrees of freedom."""
        squares = self._strata_squares(values)[0]
        parts = squares / (self._counts - 1) / self._counts / len(self._counts) ** 2
        variance = float(parts.sum())
        below = float((parts**2 / (self._counts - 1)).sum())
        # Rounding leaves a spread of the order of the machine's precision for constant input.
        if variance <= (1e-12 * max(1.0, float(np.abs(values).max()))) ** 2:
            return 0.0, float(self.prompts - len(self._counts))
        return variance, variance**2 / below

    def _estimate(
        self, values: np.ndarray, share: float, pooled: Pooled, confidence: float
    ) -> Estimate:
        if not self.prompts:
            return Estimate(None, *[None] * 7, reason="no prompt")
        estimate = float(values @ self._weight)
        if (self._counts < 2).any():
            return Estimate(estimate, *[None] * 7, reason=ONE_PROMPT)
        over_prompts, prompt_degrees = self._over_prompts(values)
        half = _half(over_prompts, prompt_degrees, confidence)
        alone = (estimate - half, estimate + half)
        if share and not pooled.degrees:
            return Estimate(estimate, *[None] * 5, *alone, reason=ONE_TRAINING)
        added = max(share * (pooled.between - pooled.rest), 0.0)
        variance = over_prompts + added
        if variance == 0:
            p = 1.0 if estimate == 0 else None
            return Estimate(estimate, estimate, estimate, 0.0, None, p, *alone, reason=CONSTANT)
        degrees = prompt_degrees
        if share:
            counted = share * max(pooled.between, pooled.rest)
            below = over_prompts**2 / prompt_degrees + counted**2 / pooled.degrees
            least = min(prompt_degrees, float(pooled.degrees))
            degrees = min(max(variance**2 / below, least), prompt_degrees)
        error, half = math.sqrt(variance), _half(variance, degrees, confidence)
        p = float(2 * stats.t.sf(abs(estimate) / error, degrees))
        return Estimate(estimate, estimate - half, estimate + half, error, degrees, p, *alone)


def _half(variance: float, degrees: float, confidence: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, degrees)) * math.sqrt(variance)
