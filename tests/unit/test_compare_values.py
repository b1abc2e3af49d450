"""Two logs on the same prompts: differences and tests against independent ones, and pairing."""

import engine_logs as logs
import numpy as np
import pytest
from compared_logs import GAMMA, macro, means, micro, sums, two_drafts
from draftscope.acceptance.compare import Plan, compare, sentences
from draftscope.errors import UserError
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired


@pytest.fixture(scope="module")
def pair():
    return two_drafts()


@pytest.fixture(scope="module")
def found(pair):
    plan = Plan(margins={"accepted_length": 0.8, "def1": 0.001})
    return compare(*map(sums, pair), plan)


def test_differences_and_tests_are_those_of_scipy_and_statsmodels(pair, found):
    a, b = map(means, pair)
    row = macro(found)
    assert (row["first"], row["second"]) == pytest.approx((a.mean(), b.mean()))
    assert row["difference"] == pytest.approx((b - a).mean())
    up, down = int((b > a).sum()), int((b < a).sum())
    assert (row["up"], row["down"], row["ties"]) == (up, down, 0)
    assert row["p_sign"] == pytest.approx(stats.binomtest(up, up + down).pvalue)
    expected = stats.wilcoxon(b, a, zero_method="pratt", method="asymptotic")
    assert row["p_wilcoxon"] == pytest.approx(expected.pvalue)
    assert row["p_equivalence"] == pytest.approx(ttost_paired(b, a, -0.8, 0.8)[0])
    # Differences of 24 prompts are near normal: bootstrap-t and Student's interval are near too.
    student = stats.ttest_rel(b, a).confidence_interval(0.95)
    width = student.high - student.low
    assert [row["low"], row["high"]] == pytest.approx([student.low, student.high], abs=width / 8)


def test_micro_is_the_difference_of_pooled_ratios_resampled_in_pairs(pair, found):
    pooled = [sum(a for lines in d.values() for _, a, _ in lines) for d in pair]
    rounds = [sum(map(len, d.values())) for d in pair]
    row = micro(found)
    assert row["difference"] == pytest.approx(pooled[1] / rounds[1] - pooled[0] / rounds[0])
    # By hand: prompts drawn in pairs, the spread of the difference of the two ratios.
    rng = np.random.default_rng(5)
    above = [np.array([sum(a for _, a, _ in d[p]) for p in sorted(d)]) for d in pair]
    below = [np.array([len(d[p]) for p in sorted(d)]) for d in pair]
    drawn = rng.integers(0, 24, (4000, 24))
    ratios = [u[drawn].sum(1) / v[drawn].sum(1) for u, v in zip(above, below, strict=True)]
    spread = np.std(ratios[1] - ratios[0])
    assert (row["high"] - row["low"]) / (2 * stats.t.ppf(0.975, 23) * spread) == pytest.approx(
        1, abs=0.2
    )


def test_every_measure_is_compared_in_both_poolings(found):
    assert not found.missing
    seen = [(row["metric"], row["position"], row["pooling"]) for row in found.rows]
    assert len(seen) == len(set(seen)) == 2 * (8 + 2 * GAMMA)
    assert {row["pooling"] for row in found.rows} == {"micro", "macro"}
    assert all(row["reason"] or row["low"] is not None for row in found.rows)


def test_a_log_against_itself_is_equal_and_nothing_else(pair):
    one = sums(pair[0])
    plan = Plan(measures=("accepted_length",), margins={"accepted_length": 0.01})
    row = macro(compare(one, one, plan))
    assert (row["difference"], row["ties"], row["p_sign"], row["p_wilcoxon"]) == (0, 24, 1, 1)
    assert row["verdict"] == "equal, within the margin" and row["prompts_needed"] is None


def test_the_order_of_prompts_does_not_matter_but_who_is_paired_with_whom_does(pair):
    plan = Plan(measures=("accepted_length",))
    base = logs.draw(prompts=24, seed=3, spread=0.25)
    better = {p: [(k, min(k, a + (i % 7 == 0)), 0) for i, (k, a, _) in enumerate(lines)]
              for p, lines in base.items()}  # fmt: skip
    better = {p: [(k, a, a + 1) for k, a, _ in lines] for p, lines in better.items()}
    right = macro(compare(sums(base), sums(better), plan))
    again = macro(compare(sums(base), sums(dict(reversed(better.items()))), plan))
    assert again == right
    names = sorted(better)
    crossed = {name: better[names[n - 1]] for n, name in enumerate(names)}
    wrong = macro(compare(sums(base), sums(crossed), plan))
    assert wrong["difference"] == pytest.approx(right["difference"])
    assert wrong["high"] - wrong["low"] > 3 * (right["high"] - right["low"])
    assert right["verdict"] == "B higher" and wrong["verdict"] == "undecided"


def test_prompts_of_one_side_are_named_and_left_out(pair):
    first, second = dict(pair[0]), dict(pair[1])
    for name in ("p00", "p01"):
        del first[name]
    second["new"] = second.pop("p05")
    found = compare(sums(first), sums(second), Plan(measures=("def1",)))
    assert found.only_first == ["p05"] and found.only_second == ["new", "p00", "p01"]
    both = sorted(set(first) & set(second))
    alone = compare(*(sums({p: d[p] for p in both}) for d in pair), Plan(measures=("def1",)))
    assert found.rows == alone.rows and found.prompts == both
    with pytest.raises(UserError, match="share no prompt: one has p02, the other x"):
        compare(sums(first), sums({"x": second["p07"]}), Plan())


def test_a_prompt_with_nothing_to_measure_on_one_side_is_no_pair():
    first = {"a": [(4, 1, 2)], "b": [(4, 2, 3)], "c": [(4, 3, 4)]}
    second = {"a": [(2, 1, 2)], "b": [(4, 2, 3)], "c": [(4, 4, 5)]}  # a has no full round
    found = compare(sums(first), sums(second), Plan(measures=("def1",)))
    for row in (macro(found, "def1"), micro(found, "def1")):
        assert (row["prompts"], row["unpaired"]) == (2, 1)
    assert macro(found, "def1")["difference"] == pytest.approx(0.125)


def test_one_prompt_or_none_has_a_stated_answer():
    one = {"a": [(4, 1, 2)]}
    found = compare(sums(one), sums({"a": [(4, 3, 4)]}), Plan(measures=("def1",)))
    row = macro(found, "def1")
    assert row["difference"] == 0.5 and row["low"] is None and row["verdict"] == "undecided"
    assert row["reason"] == "one prompt: no interval"
    assert "too few prompts" in sentences(found, Plan())[0]
    empty = compare(sums({"a": [(2, 1, 2)]}), sums(one), Plan(measures=("def1",)))
    assert macro(empty, "def1")["difference"] is None
    assert macro(empty, "def1")["reason"] == "no values"


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_swapping_the_logs_turns_every_sign(seed, prompts):
    drawn = [logs.draw(prompts=prompts, rounds=6, seed=seed + n) for n in (0, 1)]
    plan = Plan(measures=("accepted_length", "def1"))
    one, other = compare(*map(sums, drawn), plan), compare(*map(sums, drawn[::-1]), plan)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["difference"] == pytest.approx(-b["difference"], abs=1e-12)
        assert (a["first"], a["second"]) == (b["second"], b["first"])
        assert (a["up"], a["down"], a["p_sign"]) == (b["down"], b["up"], b["p_sign"])
        assert (a["prompts_needed"], a["smallest"]) == (b["prompts_needed"], b["smallest"])
