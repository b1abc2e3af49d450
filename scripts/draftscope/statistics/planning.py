"""How many prompts, and how many trainings, would tell two arms apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import stats

from draftscope.statistics.crossed import Spread

MOST = 1_000_000


def power(spread: Spread, effect: float, trainings: int, prompts: int, level: float) -> float:
    """Chance that a two-sided t test finds a difference of `effect`; noncentral t.

    Args:
        trainings: of each arm, at least 2.
        prompts: in all domains together.
        level: of the test.
    """
    degrees = spread.degrees_of(trainings, prompts)
    error = spread.variance(trainings, prompts) ** 0.5
    if error == 0:
        return 1.0 if effect else level
    limit, shift = stats.t.ppf(1 - level / 2, degrees), abs(effect) / error
    above = stats.nct.sf(limit, degrees, shift)
    if math.isnan(
        above
    ):  # far out, where scipy's series fails: by the normal law (Johnson and Welch)
        spread = math.sqrt(1 + limit**2 / (2 * degrees))
        above = stats.norm.sf((limit * (1 - 1 / (4 * degrees)) - shift) / spread)
    # It also fails for the other side, where what is left out is below a thousandth.
    below = stats.nct.cdf(-limit, degrees, shift)
    return float(min(above + (0.0 if math.isnan(below) else below), 1.0))


@dataclass(frozen=True)
class Needed:
    """What would find an effect; None where no number of the kind would.

    Attributes:
        trainings: of each arm, with the prompts at hand.
        prompts: with the trainings at hand.
        factor: times as many of both.
        smallest: the difference that the design at hand would find.
    """

    trainings: int | None
    prompts: int | None
    factor: int | None
    smallest: float | None


def needed(
    spread: Spread,
    effect: float,
    trainings: int,
    prompts: int,
    *,
    level: float = 0.05,
    power_wanted: float = 0.8,
) -> Needed:
    """Trainings, prompts, or a multiple of both that find `effect` with this power.

    The variances are taken as they were estimated, from few trainings: orders of magnitude, no more.

    Args:
        effect: 0 is found by no number.
        trainings, prompts: of the design at hand.
    """

    def least(enough: Callable[[int], bool], start: int) -> int | None:
        if not effect or not enough(MOST):
            return None
        low, high = start - 1, start
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def finds(s: int, p: int) -> bool:
        return power(spread, effect, s, p, level) >= power_wanted

    return Needed(
        least(lambda s: finds(s, prompts), 2),
        least(lambda p: finds(trainings, p), 2 * spread.strata),
        least(lambda k: finds(k * trainings, k * prompts), 1),
        smallest(spread, trainings, prompts, level=level, power_wanted=power_wanted),
    )


def smallest(
    spread: Spread, trainings: int, prompts: int, *, level: float = 0.05, power_wanted: float = 0.8
) -> float | None:
    """The least difference that so many trainings and prompts would find with this power."""
    error = spread.variance(trainings, prompts) ** 0.5
    if error == 0:
        return None
    low, high = 0.0, error
    while power(spread, high, trainings, prompts, level) < power_wanted:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        found = power(spread, middle, trainings, prompts, level) >= power_wanted
        low, high = (low, middle) if found else (middle, high)
    return high
