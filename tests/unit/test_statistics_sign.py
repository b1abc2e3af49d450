"""Exact tests: published p-values, sizes enumerated, and input without evidence."""

import math
from importlib import metadata

import numpy as np
import pytest
from draftscope.statistics import (
    chi_square,
    holm,
    mcnemar,
    sign_test,
    sign_test_from_counts,
    wilcoxon,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats


@pytest.mark.parametrize(
    ("up", "down", "published"),
    [
        (327, 126, "1.2e-21"),
        (354, 130, "5.2e-25"),
        (393, 61, "1.8e-60"),
        (407, 78, "9.6e-55"),
        (333, 151, "8.3e-17"),
        (365, 120, "8.7e-30"),
    ],
)
def test_published_sign_tests(up, down, published):
    differences = [0.01] * up + [-0.3] * down
    assert f"{sign_test(differences).p:.1e}" == published
    assert f"{sign_test_from_counts(up, down, ties=7).p:.1e}" == published


def test_case_76_sign_test_with_only_ties():
    result = sign_test([0.0, 0.0, 0.0])
    assert (result.p, result.n, result.ties) == (1.0, 0, 3)
    assert result.reason == "all differences are zero"


def test_case_76_sign_test_of_an_empty_sample():
    result = sign_test([])
    assert (result.p, result.n, result.reason) == (1.0, 0, "no differences")


def test_case_76_sign_test_of_one_pair():
    assert sign_test([0.5]).p == 1.0


def test_sign_test_counts_missing_and_ties_apart():
    result = sign_test([1, 2, -1, 0, float("nan"), 3])
    assert (result.up, result.down, result.ties, result.missing, result.n) == (3, 1, 1, 1, 4)
    assert result.p == pytest.approx(2 * 5 / 16)


@given(st.lists(st.sampled_from([-1.0, 0.0, 2.0])))
def test_sign_test_is_symmetric(differences):
    assert sign_test(differences).p == sign_test([-d for d in differences]).p


def test_size_of_the_sign_test_is_at_most_the_level():
    """Enumerated: every n up to 60, two levels; and the test is not empty either."""
    sizes = {}
    for n in range(1, 61):
        p = np.array([sign_test_from_counts(up, n - up).p for up in range(n + 1)])
        chance = stats.binom.pmf(np.arange(n + 1), n, 0.5)
        for level in (0.05, 0.01):
            sizes[n, level] = chance[p <= level].sum()
            assert sizes[n, level] <= level
    assert max(size for (_, level), size in sizes.items() if level == 0.05) > 0.045


def test_size_of_mcnemar_is_at_most_the_level():
    worst = 0.0
    for n in range(1, 41):
        p = np.array([mcnemar([[9, b], [n - b, 4]]).p for b in range(n + 1)])
        size = stats.binom.pmf(np.arange(n + 1), n, 0.5)[p <= 0.05].sum()
        assert size <= 0.05
        worst = max(worst, size)
    assert worst > 0.04


def test_case_79_mcnemar_without_discordant_pairs():
    result = mcnemar([[10, 0], [0, 5]])
    assert (result.p, result.n, result.pairs) == (1.0, 0, 15)
    assert result.reason == "no discordant pairs"


def test_case_79_mcnemar_is_exact_when_few_pairs_differ():
    result = mcnemar([[10, 6], [1, 5]])
    assert result.p == pytest.approx(2 * (1 + 7) / 2**7)
    assert (result.only_first, result.only_second) == (6, 1)


@pytest.mark.parametrize("table", [[[1, 2, 3], [4, 5, 6]], [[1, -1], [0, 0]], [[1, 0.5], [0, 0]]])
def test_mcnemar_refuses_what_is_no_table(table):
    with pytest.raises(ValueError, match="McNemar"):
        mcnemar(table)


def test_case_78_scipy_is_recent_enough():
    """Old releases got zeros under Pratt wrong; the balanced samples below show this one does not."""
    assert tuple(int(part) for part in metadata.version("scipy").split(".")[:2]) >= (1, 13)


@pytest.mark.parametrize("zeros", [0, 1, 5, 30])
@pytest.mark.parametrize("pairs", [1, 3, 20])
def test_case_78_balanced_differences_with_zeros_are_no_evidence(zeros, pairs):
    sizes = np.arange(1, pairs + 1) / 7
    result = wilcoxon(np.concatenate([sizes, -sizes, np.zeros(zeros)]))
    assert result.p == pytest.approx(1.0)
    assert (result.n, result.ties) == (2 * pairs, zeros)


def test_case_78_only_zeros():
    assert (wilcoxon([0, 0]).p, wilcoxon([0, 0]).n, wilcoxon([]).p) == (1.0, 0, 1.0)


def test_wilcoxon_keeps_its_size_with_many_zeros():
    rng = np.random.default_rng(3)
    p = [wilcoxon(rng.integers(-2, 3, 40)).p for _ in range(2000)]
    assert 0.03 < np.mean(np.array(p) <= 0.05) < 0.065


def test_holm_ignores_undefined_entries():
    result = holm([0.01, None, 0.04, float("nan"), 0.03])
    assert (result.n, result.undefined) == (3, 2)
    assert result.p[1] is None and result.p[3] is None
    assert [result.p[i] for i in (0, 2, 4)] == pytest.approx([0.03, 0.06, 0.06])


def test_case_84_undefined_tests_do_not_count_as_comparisons():
    assert holm([0.02, None, None]).p == (0.02, None, None)
    assert holm([None]).p == (None,)
    assert holm([]).n == 0


def test_holm_refuses_what_is_no_p_value():
    with pytest.raises(ValueError, match="1.5"):
        holm([0.1, 1.5])


def test_case_88_an_impossible_token_fails_by_itself():
    chances = [0.5, 0.5, 0.0]
    result = chi_square([500, 500, 1], chances)
    assert result.impossible == (2,)
    assert not result.fits()
    assert result.p > 0.5  # the other tokens are judged on their own, and are in order
    assert chi_square([500, 500, 0], chances).fits()


def test_case_88_rare_cells_are_pooled():
    chances = np.array([0.9, 0.09] + [0.001] * 10)
    result = chi_square([900, 90] + [1] * 10, chances)
    assert (result.pooled, result.degrees, result.p) == (10, 2, pytest.approx(1.0))
    # A single rare cell takes the next smallest one into its pool.
    assert chi_square([90, 9, 1], [0.9, 0.09, 0.01]).degrees == 1
    assert chi_square([1, 1], [0.5, 0.5]).reason == "one cell after pooling"
    assert chi_square([0, 0], [0.5, 0.5]).reason == "no observations"


def test_case_88_the_stated_detectable_distance_is_detected():
    """Alternatives at that distance, near and far in shape, are found at least that often."""
    rng = np.random.default_rng(5)
    chances, n = np.array([0.4, 0.3, 0.2, 0.1]), 2000
    distance = chi_square(chances * n, chances).detectable_total_variation
    assert 0.03 < distance < 0.06
    for shift in ([1, -1, 0, 0], [0, 0, 1, -1], [0.5, 0.5, -0.5, -0.5]):
        other = chances + distance * np.array(shift)
        found = [chi_square(c, chances).p <= 0.05 for c in rng.multinomial(n, other, 400)]
        assert np.mean(found) > 0.9 - 3 * math.sqrt(0.09 / 400)
    null = [chi_square(c, chances).p <= 0.05 for c in rng.multinomial(n, chances, 400)]
    assert np.mean(null) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
