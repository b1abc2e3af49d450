"""Intervals: measured coverage, planted truth with clusters, and degenerate input."""

import math

import numpy as np
import pytest
from draftscope.statistics import bootstrap, bootstrap_columns
from draftscope.statistics.intervals import DEFAULT_METHOD, METHODS
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

PROMPTS, SIMULATIONS = 40, 4000
NAN = float("nan")

# Populations with their mean and skewness. Acceptance rates of good drafts pile up at 1 with a
# tail to the left; rounds per prompt and speedups have a tail to the right.
POPULATIONS = {
    "normal": (lambda rng, size: rng.normal(0.03, 0.1, size), 0.03, 0.0),
    "beta(9, 1)": (lambda rng, size: rng.beta(9, 1, size), 0.9, -1.47),
    "exponential": (lambda rng, size: rng.exponential(1.0, size), 1.0, 2.0),
    "lognormal(0, 1/2)": (lambda rng, size: rng.lognormal(0, 0.5, size), math.exp(1 / 8), 1.75),
}


def coverage(values, below, truth, method):
    intervals = bootstrap_columns(values, below, method=method, resamples=1999, rng=1)
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


@pytest.mark.parametrize("name", POPULATIONS)
def test_default_interval_covers(name, capsys):
    """93-97% at 40 prompts; the Monte Carlo error of 4,000 simulations is .0034."""
    draw, truth, skewness = POPULATIONS[name]
    values = draw(np.random.default_rng(2), (PROMPTS, SIMULATIONS))
    reached = {
        method: coverage(values, np.ones_like(values), truth, method)
        for method in ("studentized", "bca", "percentile")
    }
    error = math.sqrt(0.95 * 0.05 / SIMULATIONS)
    with capsys.disabled():
        line = ", ".join(f"{method} {share:.4f}" for method, share in reached.items())
        print(
            f"\n  coverage at {PROMPTS} prompts, {name} (skewness {skewness}): {line} +- {error:.4f}"
        )
    assert 0.93 <= reached[DEFAULT_METHOD] <= 0.97
    assert abs(reached[DEFAULT_METHOD] - 0.95) < abs(reached["percentile"] - 0.95)


def clustered_rounds(rng, simulations):
    """Accepted and rounds per prompt: long prompts accept less, so the ratio is not the mean."""
    rounds = rng.integers(5, 60, (PROMPTS, simulations))
    rate = np.clip(0.9 - rounds / 150 + rng.normal(0, 0.08, rounds.shape), 0.01, 0.99)
    return rng.binomial(5 * rounds, rate).astype(float), rounds.astype(float)


def test_default_interval_covers_a_ratio_over_prompts():
    rng = np.random.default_rng(3)
    many, rounds = clustered_rounds(rng, 50_000)
    truth = many.sum() / rounds.sum()
    above, below = clustered_rounds(rng, SIMULATIONS)
    assert 0.93 <= coverage(above, below, truth, DEFAULT_METHOD) <= 0.97
    macro = (many / rounds).mean()
    assert abs(macro - truth) > 0.1  # so the simulation can tell the two estimands apart
    assert 0.93 <= coverage(above / below, np.ones_like(below), macro, DEFAULT_METHOD) <= 0.97


def test_default_interval_covers_a_difference_of_ratios():
    rng = np.random.default_rng(4)
    first, second = clustered_rounds(rng, SIMULATIONS), clustered_rounds(rng, SIMULATIONS)
    prompt = rng.normal(0, 0.5, (PROMPTS, SIMULATIONS))  # a prompt's own level, in both
    intervals = bootstrap_columns(
        first[0] + prompt * first[1],
        first[1],
        minus=(second[0] + prompt * second[1], second[1]),
        resamples=999,
    )
    covered = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
    assert 0.93 <= covered <= 0.97
    # Ignoring that both ratios come from the same prompts would be far too wide.
    width = np.mean([interval.high - interval.low for interval in intervals])
    assert width < 2 * 1.96 * np.std([interval.estimate for interval in intervals]) * 1.15


def test_case_83_tokens_of_a_prompt_are_not_independent():
    values, prompts = np.repeat([1.0, 0.0], 100), np.repeat(["a", "b"], 100)
    by_token, by_prompt = bootstrap(values), bootstrap(values, prompts)
    assert by_token.high - by_token.low < 0.15
    assert by_prompt.n == 2 and by_prompt.values == 200
    assert by_prompt.high - by_prompt.low >= 1
    percentile = bootstrap(values, prompts, method="percentile")
    assert (percentile.low, percentile.high) == (0.0, 1.0)


def test_case_83_planted_truth_is_covered_by_prompt_and_missed_by_token():
    rng = np.random.default_rng(6)
    prompts = np.repeat(np.arange(40), 20)
    covered = {"prompt": 0, "token": 0}
    for _ in range(200):
        level = rng.normal(0.8, 0.1, 40)
        values = rng.normal(level[prompts], 0.1)
        for name, clusters in (("prompt", prompts), ("token", None)):
            interval = bootstrap(values, clusters, resamples=299)
            covered[name] += interval.low <= 0.8 <= interval.high
    assert covered["prompt"] / 200 > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 200)
    assert covered["token"] / 200 < 0.5


def test_case_81_constant_values():
    for method in METHODS:
        interval = bootstrap([0.3] * 7, method=method)
        assert interval.low == interval.high == interval.estimate == pytest.approx(0.3)
        assert interval.degenerate and interval.reason == "constant"
    ratio = bootstrap([2.0, 4.0, 6.0], denominators=[1.0, 2.0, 3.0], statistic="ratio")
    assert (ratio.low, ratio.high, ratio.degenerate) == (2.0, 2.0, True)


def test_case_81_one_value_and_none():
    one = bootstrap([0.3, NAN])
    assert (one.estimate, one.low, one.high, one.n, one.missing) == (0.3, None, None, 1, 1)
    assert one.reason == "one prompt: no interval"
    none = bootstrap([NAN])
    assert (none.estimate, none.low, none.n, none.reason) == (None, None, 0, "no values")
    assert bootstrap([]).reason == "no values"
    assert bootstrap([1.0, 2.0, 3.0], ["a", "a", "a"]).low is None


def test_case_81_missing_values_are_dropped_and_counted():
    rng = np.random.default_rng(0)
    values = rng.normal(size=30)
    full = bootstrap(values)
    holed = bootstrap(np.concatenate([values, [NAN, NAN]]))
    assert (holed.missing, holed.values, holed.n) == (2, 30, 30)
    assert (holed.low, holed.high) == (full.low, full.high)


def test_case_47_micro_and_macro():
    values, prompts = [4.0] * 10 + [0.0], ["long"] * 10 + ["short"]
    assert bootstrap(values, prompts).estimate == pytest.approx(40 / 11)
    assert bootstrap(values, prompts, statistic="macro").estimate == 2.0


def test_prompts_nearly_all_alike_bound_the_interval_and_say_so():
    """A resample without the odd prompt has no spread at all."""
    interval = bootstrap([1.0] * 39 + [0.5])
    assert interval.method == "studentized" and "nearly all alike" in interval.reason
    student = bootstrap([1.0] * 39 + [0.5], method="student")
    assert interval.estimate - interval.low == pytest.approx(3 * (student.estimate - student.low))
    assert interval.high > interval.estimate


def test_few_prompts_get_student():
    interval = bootstrap([0.0, 1.0, 1.5, 1e-6])
    assert interval.method == "student" and "fewer than 8" in interval.reason
    assert (interval.low, interval.high) == pytest.approx(
        stats.t.interval(0.95, 3, 0.625, stats.sem([0.0, 1.0, 1.5, 1e-6])), abs=1e-5
    )


def test_default_interval_covers_prompts_with_a_spike_at_one():
    """Nine of ten prompts accept everything: the population that percentiles miss most."""
    rng = np.random.default_rng(8)
    size = (PROMPTS, SIMULATIONS)
    values = np.where(rng.random(size) < 0.9, 1.0, rng.uniform(0.3, 0.9, size))
    reached = {m: coverage(values, np.ones(size), 0.96, m) for m in ("studentized", "percentile")}
    assert 0.93 <= reached["studentized"] <= 0.97
    assert reached["percentile"] < 0.91


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_agrees_with_scipy(method):
    values = np.random.default_rng(1).exponential(size=60)
    ours = bootstrap(values, method=method, resamples=40_000)
    theirs = stats.bootstrap(
        (values,), np.mean, method=method, n_resamples=40_000, rng=np.random.default_rng(2)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.02 * width
    assert abs(ours.high - theirs.high) < 0.02 * width


@given(
    st.lists(st.integers(-500, 500), min_size=3, max_size=25),
    st.floats(-3, 3),
    st.sampled_from([0.25, 2.0, 8.0]),
)
def test_interval_moves_with_the_values(values, shift, factor):
    values = np.array(values) / 100
    plain = bootstrap(values, resamples=199)
    moved = bootstrap(values * factor + shift, resamples=199)
    assert plain.degenerate == moved.degenerate == (np.ptp(values) == 0)
    scale = 1e-6 * max(1.0, np.ptp(values) * factor)
    assert moved.low == pytest.approx(plain.low * factor + shift, abs=scale)
    assert moved.high == pytest.approx(plain.high * factor + shift, abs=scale)


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    values, prompts = rng.normal(size=200), rng.integers(0, 30, 200)
    order = rng.permutation(200)
    first, second = bootstrap(values, prompts), bootstrap(values[order], prompts[order])
    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=1e-12)


def test_a_seed_repeats_and_another_seed_differs():
    values = np.random.default_rng(0).normal(size=30)
    assert bootstrap(values, rng=5) == bootstrap(values, rng=5)
    assert bootstrap(values, rng=5).low != bootstrap(values, rng=6).low


def test_columns_with_absent_units():
    above, below = np.ones((30, 3)), np.ones((30, 3))
    above[:, 0] = np.arange(30)
    below[2:, 1], above[2:, 1], above[0, 1] = 0, 0, 3
    below[:, 2], above[:, 2] = 0, 0
    full, sparse, empty = bootstrap_columns(above, below)
    assert full.n == 30 and full.low < 14.5 < full.high
    assert (sparse.n, sparse.estimate) == (2, 2.0) and sparse.low < 1 and sparse.high > 3
    assert (empty.n, empty.estimate, empty.reason) == (0, None, "no values")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [[1.0]]}, "one-dimensional"),
        ({"values": [1.0, math.inf]}, "infinity"),
        ({"values": [1.0], "clusters": ["a", "b"]}, "clusters"),
        ({"values": [1.0], "statistic": "median"}, "median"),
        ({"values": [1.0], "statistic": "ratio"}, "denominators"),
        ({"values": [1.0], "denominators": [-1.0], "statistic": "ratio"}, "negative"),
        ({"values": [1.0, 2.0], "method": "basic"}, "basic"),
        ({"values": [1.0, 2.0], "confidence": 95}, "95"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(**arguments)


def test_an_interval_is_cut_to_what_is_possible():
    few = bootstrap([0.0, 0.0, 0.0, 1.0])
    assert few.low < 0 and few.high > 1 and few.method == "student"
    cut = few.within(most=1.0)
    assert (cut.low, cut.high, cut.estimate) == (0.0, 1.0, few.estimate)
    assert bootstrap([1.0]).within().low is None
