"""Closed forms and lower bounds of certificates: every inequality, and that each is sharp."""

import math

import numpy as np
import pytest
from draftscope import certificates
from draftscope.certificates import bounds
from hypothesis import given
from hypothesis import strategies as st

MARGINS = st.floats(0.0, 1.0)
DUST = 1e-12


@st.composite
def distributions(draw, most=9):
    weights = draw(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=most).filter(any))
    p = np.array(weights)
    return np.sort(p / p.sum())[::-1]


@given(MARGINS)
def test_g_lies_between_its_bounds_and_is_undone_by_its_inverse(d):
    value = float(bounds.g(d))
    assert bounds.g_series(d) <= value + DUST
    assert bounds.pinsker(d) <= value + DUST
    assert value <= bounds.g_ceiling(d) + DUST
    assert float(bounds.g_inverse(value)) == pytest.approx(d, abs=2e-8)
    assert float(bounds.tree(d, 1)) == pytest.approx(value, abs=DUST)
    closed = ((1 + d) * math.log(1 + d) + (0 if d == 1 else (1 - d) * math.log(1 - d))) / 2
    assert value == pytest.approx(closed, abs=DUST)


@given(st.floats(1e-6, 0.6))
def test_margins_that_suffice_are_in_order(kl):
    assert bounds.rejectable_margin(kl) <= bounds.g_inverse(kl) + DUST
    assert bounds.g_inverse(kl) <= bounds.pinsker_margin(kl) + DUST


def test_the_inverse_at_its_ends_and_its_series():
    assert float(bounds.g_inverse(0.0)) == 0.0
    assert float(bounds.g_inverse(math.log(2))) == pytest.approx(1.0)
    assert float(bounds.g_inverse(0.7)) == math.inf
    e = np.array([1e-4, 1e-3, 1e-2])
    series = np.sqrt(2 * e) * (1 - e / 6)
    assert np.abs(bounds.g_inverse(e) - series).max() < 1e-5


@given(distributions())
def test_strict_greedy_is_the_two_token_form_and_above_its_margin(p):
    strict = float(certificates.strict(p))
    assert strict == pytest.approx(float(bounds.two_token(p[0], p[1])), abs=DUST)
    assert strict >= bounds.g(p[0] - p[1]) - DUST
    assert strict >= bounds.pinsker(p[0] - p[1]) - DUST


@given(MARGINS)
def test_two_tokens_attain_the_margin_bound(d):
    p = np.array([(1 + d) / 2, (1 - d) / 2])
    assert float(certificates.strict(p)) == pytest.approx(float(bounds.g(d)), abs=DUST)


@given(st.floats(1e-4, 0.5))
def test_a_margin_that_may_be_rejected_is(kl):
    # With p(x1) as large as the margin allows and the rest elsewhere, the nearest rejected draft
    # lies within kl.
    d = float(bounds.rejectable_margin(kl))
    p = np.array([(1 + d) / 2, (1 - d) / 2])
    assert float(certificates.strict(p)) <= kl + DUST


@given(distributions(), st.floats(0.01, 1.0))
def test_additive_bounds(p, t):
    value = float(certificates.additive(p, t))
    assert value >= bounds.g(min(t, 1.0)) - DUST
    assert value >= bounds.g_series(t) - DUST
    if t <= p[0]:
        assert value >= bounds.two_token(p[0], p[0] - t) - DUST
        assert value >= bounds.threshold(p[0], p[0] - t) - DUST


@given(distributions(), st.floats(0.01, 0.99))
def test_multiplicative_bounds(p, a):
    value = float(certificates.multiplicative(p, a))
    closed = float(bounds.multiplicative(p[0], a))
    assert value >= closed - DUST
    assert closed >= bounds.multiplicative_series(p[0], a) - DUST
    written = p[0] * (math.log(2 / (1 + a)) + a * math.log(2 * a / (1 + a)))
    assert closed == pytest.approx(written, abs=DUST)


@given(distributions(), st.integers(1, 5), st.floats(0.01, 0.99))
def test_bounds_of_thresholds(p, m, t):
    theta = max(p[0] - t, p[m] if m < len(p) else -1.0)
    value = float(certificates.top_m_additive(p, m, t))
    if theta >= 0:
        assert value >= bounds.threshold(p[0], theta) - DUST
        assert value >= bounds.two_token(p[0], theta) - DUST
        assert bounds.threshold(p[0], theta) >= bounds.threshold_series(p[0], theta) - DUST
    else:
        assert value == math.inf


@given(distributions(), st.integers(1, 8))
def test_tree_bounds(p, m):
    value = float(certificates.tree(p, m))
    if m >= len(p):
        assert value == math.inf
        return
    assert value >= bounds.tree(p[0] - p[m], m) - 1e-11
    assert value <= bounds.tree_ceiling(m) + DUST


@pytest.mark.parametrize("m", [1, 2, 3, 4, 8])
def test_some_target_attains_the_tree_bound(m):
    # The extremal law of Theorem 5.2 tilts uniform by h: tau^2 on x0, tau on m - 1 others, 1 on
    # the last. Its own margin gives back its certificate.
    for tau in (1.05, 1.5, 4.0):
        weights = np.array([tau**2, *[tau] * (m - 1), 1.0])
        p = weights / weights.sum()
        value = float(certificates.tree(p, m))
        assert value == pytest.approx(float(bounds.tree(p[0] - p[-1], m)), abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 4, 8])
@pytest.mark.parametrize("d", [0.05, 0.1])
def test_the_expansion_of_the_tree_bound(m, d):
    assert float(bounds.tree(d, m)) == pytest.approx(float(bounds.tree_series(d, m)), rel=2e-3)
    kl = float(bounds.tree(d, m))
    assert float(bounds.tree_margin(kl, m)) == pytest.approx(d, rel=0.02)


def test_ceilings():
    assert float(bounds.ceiling()) == pytest.approx(math.log(2))
    assert float(bounds.ceiling(4)) == pytest.approx(math.log(2) / 2)
    assert float(bounds.tree(1.0, 3)) == pytest.approx(bounds.tree_ceiling(3))
    assert float(bounds.g(1.0)) == pytest.approx(math.log(2))
