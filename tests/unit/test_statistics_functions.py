"""Functions of sums, weights, partial correlation and permutation against independent ways."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from draftscope.statistics import holm, logistic, spearman_by_prompt
from draftscope.statistics.deviance import deviance, fit, predict
from draftscope.statistics.functions import bootstrap_function, jackknife
from draftscope.statistics.intervals import bootstrap_columns
from draftscope.statistics.permutation import between_groups
from scipy import stats
from statsmodels.stats.multitest import multipletests

RNG = np.random.default_rng(0)


def ratio(sums):
    return sums[..., :1] / sums[..., 1:]


@pytest.fixture(scope="module")
def outcomes():
    n = 3000
    prompt = RNG.integers(0, 30, n)
    group = np.array(["a", "b", "c"])[RNG.integers(0, 3, n)]
    x = RNG.integers(0, 4, n)
    odds = 0.4 * x - 0.8 * (group == "b") + RNG.standard_normal(30)[prompt] * 0.5 - 0.3
    y = (RNG.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    return pd.DataFrame({"prompt": prompt, "group": group, "x": x, "y": y})


def test_weighted_rows_fit_like_the_rows_written_out(outcomes):
    b, c = (np.asarray(outcomes["group"] == name, float) for name in "bc")
    plain = logistic(outcomes.y, {"b": b, "c": c, "x": outcomes.x}, outcomes.prompt)
    cells = outcomes.groupby(["prompt", "group", "x", "y"]).size().reset_index(name="n")
    columns = {name: np.asarray(cells["group"] == name, float) for name in "bc"} | {"x": cells.x}
    weighted = logistic(cells.y, columns, cells.prompt, weights=cells.n)
    by_formula = smf.glm("y ~ group + x", outcomes, family=sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": outcomes.prompt}
    )
    expected = by_formula.conf_int()
    for name, term in (("b", "group[T.b]"), ("c", "group[T.c]"), ("x", "x")):
        for found in (plain[name], weighted[name]):
            assert found.estimate == pytest.approx(by_formula.params[term])
            assert (found.low, found.high) == pytest.approx(tuple(expected.loc[term]))
    test = by_formula.wald_test("group[T.b] = 0, group[T.c] = 0", scalar=True)
    assert weighted.wald(["b", "c"]) == pytest.approx((test.statistic, 2, test.pvalue))
    assert (weighted.values, weighted.n) == (3000, 30)


def test_a_share_counts_as_that_much_of_a_success():
    share = RNG.random(200)
    x = RNG.standard_normal(200)
    found = logistic(
        np.repeat([1, 0], 200),
        {"x": np.tile(x, 2)},
        np.tile(np.arange(200) // 5, 2),
        weights=np.concatenate([share, 1 - share]),
    )
    model = sm.GLM(share, sm.add_constant(x), family=sm.families.Binomial())
    assert found["x"].estimate == pytest.approx(model.fit().params[1])


def test_case_87_separation_is_found_among_weighted_rows():
    found = logistic([1, 1, 0], {"first": [1, 0, 0]}, [0, 1, 2], weights=[50, 10, 20])
    assert (found["first"].estimate, found["first"].direction) == (None, 1)
    assert (found.separated, found.values) == (50, 80)


def test_deviance_of_many_tables_is_that_of_single_fits():
    design = np.column_stack([np.ones(6), [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    trials = RNG.integers(5, 40, (4, 6)).astype(float)
    successes = RNG.binomial(trials.astype(int), 0.4).astype(float)
    beta = fit(design, successes, trials)
    for table in range(4):
        model = sm.GLM(
            successes[table] / trials[table],
            design,
            family=sm.families.Binomial(),
            var_weights=trials[table],
        ).fit()
        assert beta[table] == pytest.approx(model.params, abs=1e-6)
        chance = predict(design, beta[[table]])[0]
        rest = trials[table] - successes[table]
        expected = -2 * (successes[table] @ np.log(chance) + rest @ np.log(1 - chance))
        own = deviance(design, successes[[table]], trials[[table]], beta[table])
        assert own[0] == pytest.approx(expected)
    # A separated cell costs nothing in the limit.
    alone = deviance(np.eye(2) + [[0, 0], [1, 0]], np.array([[3.0, 8.0]]), np.array([[8.0, 8.0]]))
    assert alone[0] == pytest.approx(-2 * (3 * np.log(3 / 8) + 5 * np.log(5 / 8)), abs=1e-4)


def test_the_jackknife_of_a_mean_is_the_t_interval():
    values = RNG.lognormal(size=25)
    totals = np.column_stack([values, np.ones(25)])
    (found,) = jackknife(totals, ratio)
    expected = stats.t.interval(0.95, 24, values.mean(), stats.sem(values))
    assert (found.interval.low, found.interval.high) == pytest.approx(expected)
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)


def test_the_jackknife_over_strata_is_welchs_interval():
    one, two = RNG.normal(0, 1, 12), RNG.normal(0.5, 3, 30)
    side = np.repeat([0, 1], [12, 30])
    totals = np.zeros((42, 2, 2))
    totals[np.arange(42), side, 0] = np.concatenate([one, two])
    totals[np.arange(42), side, 1] = 1
    (found,) = jackknife(totals, lambda s: ratio(s[..., 0, :]) - ratio(s[..., 1, :]), side)
    expected = stats.ttest_ind(one, two, equal_var=False)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        tuple(expected.confidence_interval())
    )
    assert found.p == pytest.approx(expected.pvalue)


def test_the_jackknife_takes_the_bias_of_a_square_away():
    values = RNG.normal(size=40)
    totals = np.column_stack([values, np.ones(40)])
    (found,) = jackknife(totals, lambda s: ratio(s) ** 2, less_bias=True)
    assert found.interval.estimate == pytest.approx(values.mean() ** 2 - values.var(ddof=1) / 40)


def test_the_bootstrap_of_a_function_is_that_of_a_mean_where_it_is_one():
    values = RNG.lognormal(size=(30, 1))
    ones = np.ones_like(values)
    (own,) = bootstrap_function(np.concatenate([values, ones], axis=1), ratio, resamples=500, rng=1)
    (expected,) = bootstrap_columns(values, ones, resamples=500, rng=1)
    assert (own.low, own.estimate, own.high) == pytest.approx(
        (expected.low, expected.estimate, expected.high)
    )


def test_functions_of_too_few_prompts_say_why():
    def function(sums):
        return np.concatenate([ratio(sums), ratio(sums) * np.inf * 0], axis=-1)

    one, undefined = bootstrap_function(np.ones((1, 2)), function)
    assert (one.estimate, one.low, one.reason) == (1.0, None, "one prompt: no interval")
    assert undefined.estimate is None and "undefined" in undefined.reason
    rests = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    (alone,) = bootstrap_function(rests, ratio)
    assert alone.estimate == 1.0 and "without one of the prompts" in alone.reason
    (constant,) = jackknife(np.ones((5, 2)), ratio)
    assert constant.interval.degenerate and constant.p is None


def test_partial_rank_correlation_is_that_of_residuals():
    prompt, category = np.repeat(np.arange(6), 40), RNG.integers(0, 3, 240)
    x = RNG.standard_normal(240) + category
    y = np.round(RNG.standard_normal(240) + 0.5 * x - category)
    found = spearman_by_prompt(x, y, prompt, category)
    for own in range(6):
        rows = prompt == own
        dummies = pd.get_dummies(category[rows]).to_numpy(float)
        residuals = [sm.OLS(stats.rankdata(values[rows]), dummies).fit().resid for values in (x, y)]
        assert found.rhos[own] == pytest.approx(stats.pearsonr(*residuals).statistic)
    plain = spearman_by_prompt(x, y, prompt)
    assert plain.rhos[0] == pytest.approx(stats.spearmanr(x[:40], y[:40]).statistic)
    assert spearman_by_prompt(x, category, prompt, category).n == 0


def test_dealing_the_groups_anew_gives_the_exact_p_value():
    rest, weight = np.array([3.0, 1.0, -0.5, -1.0, -2.5]), np.array([2.0, 1.0, 1.0, 2.0, 1.0])
    groups = np.array([0, 0, 1, 1, 1])

    def score(labels):
        labels = np.asarray(labels)
        own = sum(rest[labels == g].sum() ** 2 / weight[labels == g].sum() for g in (0, 1))
        return own - rest.sum() ** 2 / weight.sum()

    every = [score(labels) for labels in permutations(groups)]
    found = between_groups(rest, weight, groups, 20_000, 3)
    assert found.statistic == pytest.approx(score(groups))
    assert found.p == pytest.approx(np.mean(np.array(every) >= score(groups) - 1e-12), abs=0.01)
    assert found.expected == pytest.approx(np.mean(every), rel=0.03)
    assert between_groups(rest, weight, np.zeros(5), 10, 1).reason.startswith("one group")


def test_holm_agrees_with_statsmodels():
    p = RNG.random(12) ** 3
    assert holm(p).p == pytest.approx(multipletests(p, method="holm")[1])
