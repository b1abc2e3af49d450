"""Comparing two logs: how many prompts settle a difference, and which verdict is given."""

import engine_logs as logs
import numpy as np
import pytest
from compared_logs import GAMMA, macro, means, sums, two_drafts
from draftscope.acceptance import compare as comparing
from draftscope.acceptance.compare import Plan, compare, sentences
from draftscope.acceptance.sums import Sums
from draftscope.statistics import prompts_needed, smallest_difference
from scipy import stats
from statsmodels.stats.power import TTestPower


@pytest.fixture(scope="module")
def pair():
    return two_drafts()


def test_the_number_of_prompts_has_the_power_that_is_promised(pair):
    a, b = map(means, pair)
    differences, effect = b - a, 0.25
    needed = prompts_needed(differences, effect)
    size = effect / differences.std(ddof=1)
    assert needed == int(np.ceil(TTestPower().solve_power(size, alpha=0.05, power=0.8)))
    # Prompts like the measured ones, moved to a mean of the effect: how often is it found?
    rng = np.random.default_rng(0)
    moved = differences - differences.mean()
    moved *= np.sqrt(len(moved) / (len(moved) - 1))
    samples = rng.choice(moved, (4000, needed)) + effect
    p = stats.ttest_1samp(samples, 0, axis=1).pvalue
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.04)
    fewer = stats.ttest_1samp(samples[:, : needed // 2], 0, axis=1).pvalue
    assert (fewer < 0.05).mean() < 0.7  # half of them would not do


def test_the_smallest_difference_is_the_same_question_the_other_way_round(pair):
    differences = means(pair[1]) - means(pair[0])
    smallest = smallest_difference(differences)
    assert prompts_needed(differences, smallest * 1.001) == len(differences)
    assert prompts_needed(differences, smallest * 0.97) > len(differences)
    size = TTestPower().solve_power(nobs=len(differences), alpha=0.05, power=0.8)
    assert smallest == pytest.approx(size * differences.std(ddof=1))
    assert smallest_difference([1.0]) is None and smallest_difference([1.0, 1.0]) is None


def test_undecided_comparisons_say_what_would_settle_them(pair):
    first = sums(pair[0])
    second = sums(logs.draw(prompts=24, seed=9, rate=0.7))
    plan = Plan(measures=("accepted_length",))
    row = macro(compare(first, second, plan))
    assert row["verdict"] == "undecided" and row["effect"] == row["difference"]
    assert row["prompts_needed"] > 24
    asked = Plan(measures=("accepted_length",), effects={"accepted_length": 0.3})
    again = compare(first, second, asked)
    assert macro(again)["effect"] == 0.3
    assert (
        f"{macro(again)['prompts_needed']:,} prompts would settle a difference 0.3 if"
        in (sentences(again, asked)[0])
    )
    hopeless = Plan(measures=("accepted_length",), effects={"accepted_length": 1e-9})
    found = compare(first, second, hopeless)
    assert macro(found)["prompts_needed"] is None
    assert f"up to {comparing.MOST_PROMPTS:,}" in sentences(found, hopeless)[0]


@pytest.mark.parametrize(
    ("shift", "margin", "verdict"),
    [
        (0.0, 0.5, "equivalent"),
        (0.0, 0.0001, "undecided"),
        (1.0, 2.0, "B higher, within the margin"),
        (1.0, 0.5, "B higher"),
        (-1.0, 0.5, "B lower"),
    ],
)
def test_verdicts(shift, margin, verdict):
    rng = np.random.default_rng(4)
    names = np.array([f"p{n:02d}" for n in range(30)], object)
    below, base = np.full(30, 10.0), rng.normal(20, 5, 30)
    noise = rng.normal(0, 2, 30)
    noise -= noise.mean()

    def one(above):
        return Sums(names, GAMMA, 30, 300, 0, {("accepted_length", None): (above, below)}, {})

    plan = Plan(measures=("accepted_length",), margins={"accepted_length": margin})
    found = compare(one(base), one(base + noise + 10 * shift), plan)
    row = macro(found)
    assert row["verdict"] == verdict
    # Only what is undecided needs more prompts; what these could have found is always said.
    asks = verdict == "undecided"
    assert (row["effect"] is not None) == asks and row["smallest"] > 0
    assert asks or row["prompts_needed"] is None
