"""Correlation, logistic regression, paired differences, equivalence and power."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import statsmodels.api as sm
from draftscope.statistics import (
    equivalence,
    holm,
    logistic,
    paired_difference,
    prompts_needed,
    spearman,
    spearman_by_prompt,
)

NAN = float("nan")


def test_case_84_spearman_with_constant_input():
    result = spearman([0.1, 0.7, 0.3, 0.9], [1.0, 1.0, 1.0, 1.0])
    assert (result.rho, result.p, result.reason) == (None, None, "undefined (constant)")
    assert "NaN" not in json.dumps(asdict(result), allow_nan=False)
    assert holm([result.p, 0.01]).n == 1


def test_case_84_constant_prompts_stay_out_of_averages():
    prompts = ["a"] * 4 + ["b"] * 4 + ["c"] * 4 + ["d"] * 2
    x = [1, 2, 3, 4] * 3 + [1, 2]
    y = [1, 2, 3, 4, 5, 5, 5, 5, 4, 3, 2, 1, 1, 2]
    result = spearman_by_prompt(x, y, prompts)
    assert result.rhos == (pytest.approx(1.0), None, pytest.approx(-1.0), None)
    assert (result.n, result.undefined, result.rho) == (2, 2, pytest.approx(0.0))
    assert spearman_by_prompt([1, 2, 3], [1, 1, 1], ["a"] * 3).p is None


def test_spearman_by_prompt_is_not_fooled_by_levels_of_prompts():
    """Prompts differ in level, nothing happens within them: pooled rho is high, the mean is not."""
    rng = np.random.default_rng(0)
    level = np.repeat(np.arange(30.0), 20)
    x, y = level + rng.normal(size=600), level + rng.normal(size=600)
    assert spearman(x, y).rho > 0.9
    result = spearman_by_prompt(x, y, np.repeat(np.arange(30), 20))
    assert result.interval.low < 0 < result.interval.high


def test_spearman_drops_missing_pairs():
    result = spearman([1, 2, NAN, 4, 5], [2, NAN, 3, 5, 9])
    assert (result.n, result.missing, result.rho) == (3, 2, pytest.approx(1.0))


def test_paired_difference_is_pairwise():
    first, second = [0.3, 0.4, 0.9, NAN, 0.5], [0.2, 0.3, 0.5, 0.1, 0.5]
    result = paired_difference(first, second)
    assert result.difference == pytest.approx(0.15)
    assert (result.sign.up, result.sign.ties, result.sign.missing) == (3, 1, 1)
    assert result.n == 4 and result.p == pytest.approx(0.25)
    # .3 - .2 - (.4 - .3) is 2.8e-17: a tie all the same.
    assert paired_difference([0.3 - 0.2], [0.4 - 0.3]).sign.ties == 1


def test_case_53_vectors_of_different_lengths_are_no_pairs():
    with pytest.raises(ValueError, match=r"one length, not \(3,\), \(1,\)"):
        paired_difference([1.0, 2.0, 3.0], [1.0])
    empty = paired_difference([], [])
    assert empty.n == 0 and empty.reason


def test_case_87_separated_position_is_unbounded_and_the_rest_is_estimated():
    rng = np.random.default_rng(0)
    first = np.tile([1.0, 0.0, 0.0, 0.0], 150)
    entropy = rng.exponential(1, 600)
    accepted = (rng.random(600) < 1 / (1 + np.exp(entropy - 1.5))) | (first == 1)
    prompts = np.repeat(np.arange(30), 20)
    fit = logistic(accepted, {"first": first, "entropy": entropy}, prompts)
    assert (fit["first"].estimate, fit["first"].direction) == (None, 1)
    assert fit["first"].reason == "unbounded (perfect separation)"
    assert fit.separated == 150 and "perfect separation" in fit.reason
    rest = first == 0
    expected = sm.GLM(
        accepted[rest].astype(float),
        sm.add_constant(entropy[rest]),
        family=sm.families.Binomial(),
    ).fit(cov_type="cluster", cov_kwds={"groups": prompts[rest]})
    assert fit["entropy"].estimate == pytest.approx(expected.params[1])
    assert fit["entropy"].low == pytest.approx(expected.conf_int()[1][0])
    assert fit["entropy"].p < 1e-6
    for coefficient in fit.coefficients.values():
        assert coefficient.low is None or coefficient.high - coefficient.low < 10


def test_case_87_never_accepted_has_the_other_sign():
    rng = np.random.default_rng(0)
    x = np.tile([1.0, 0.0, 0.0], 40)
    fit = logistic((rng.random(120) < 0.5) & (x == 0), {"x": x}, np.arange(120) // 6)
    assert fit["x"].direction == -1 and fit["intercept"].estimate is not None


def test_case_87_complete_separation_and_a_constant_outcome():
    x = np.arange(20.0)
    fit = logistic(x > 9.5, {"x": x}, np.arange(20))
    assert fit["x"].direction == 1 and fit["intercept"].direction == -1
    assert fit.separated == 20
    always = logistic(np.ones(20), {"x": x}, np.arange(20))
    assert always["intercept"].estimate is None and always["x"].estimate is None


def test_logistic_without_separation_has_no_unbounded_coefficient():
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    fit = logistic(rng.random(400) < 1 / (1 + np.exp(-x)), {"x": x}, np.repeat(np.arange(40), 10))
    assert fit.separated == 0 and fit.reason is None
    assert fit["x"].low < 1 < fit["x"].high


def test_logistic_errors_are_those_of_prompts():
    """Ten copies of each outcome within its prompt carry no more than one."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=60)
    y = rng.random(60) < 1 / (1 + np.exp(-x))
    once = logistic(y, {"x": x}, np.arange(60))
    copied = logistic(np.repeat(y, 10), {"x": np.repeat(x, 10)}, np.repeat(np.arange(60), 10))
    width = [fit["x"].high - fit["x"].low for fit in (once, copied)]
    assert width[1] == pytest.approx(width[0], rel=0.05)


def test_logistic_refuses_collinear_covariates():
    x = np.arange(10.0)
    with pytest.raises(ValueError, match="collinear"):
        logistic(x % 2, {"x": x, "twice": 2 * x}, np.arange(10))


def test_equivalence_inside_outside_and_too_few():
    rng = np.random.default_rng(0)
    near, far = rng.normal(0, 0.02, 50), rng.normal(0.05, 0.02, 50)
    result = equivalence(near, 0.02)
    assert result.p < 0.01 and -0.02 < result.interval.low < result.interval.high < 0.02
    assert equivalence(far, 0.02).p > 0.99
    assert equivalence([0.0], 0.02).p is None
    assert equivalence([0.0] * 5, 0.02).p == 0.0
    assert equivalence([0.03] * 5, 0.02).reason == "constant"
    with pytest.raises(ValueError, match="positive"):
        equivalence(near, 0)


def test_size_of_equivalence_at_the_margin():
    """A true difference exactly at the margin is called equivalent 1 time in 20 at most."""
    rng = np.random.default_rng(1)
    p = [equivalence(rng.normal(0.1, 0.1, 40), 0.1, resamples=9).p for _ in range(1000)]
    assert abs(np.mean(np.array(p) < 0.05) - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 1000)


def test_prompts_needed_reach_the_power():
    rng = np.random.default_rng(2)
    differences = rng.normal(0, 0.1, 100)
    n = prompts_needed(differences, 0.04)
    spread = differences.std(ddof=1)
    draws = rng.normal(0.04, spread, (4000, n))
    t = draws.mean(1) / (draws.std(1, ddof=1) / math.sqrt(n))
    power = (np.abs(t) > 1.96 * (1 + 1.2 / n)).mean()
    assert 0.77 < power < 0.84
    assert prompts_needed([0.1] * 9, 0.04) is None
    assert prompts_needed(differences, 0) is None
    assert prompts_needed(differences, 10.0) == 3
