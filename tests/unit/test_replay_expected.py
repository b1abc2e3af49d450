"""Expected rounds against enumeration, against the mean of replays, and against closed forms."""

import itertools

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.replay import expected_rounds, greedy_rounds, sampled_rounds
from hypothesis import given, settings
from hypothesis import strategies as st

PROBABILITIES = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


@st.composite
def situations(draw, most: int):
    accept_prob = draw(st.lists(PROBABILITIES, min_size=1, max_size=most))
    stop_reason = draw(st.sampled_from(["eos", "budget", "context"]))
    spare = draw(st.integers(0, 9)) if stop_reason == "eos" else 0
    tokens = len(accept_prob)
    limit = draw(st.none() | st.lists(st.integers(0, 6), min_size=tokens, max_size=tokens))
    return np.array(accept_prob), {
        "gamma": draw(st.integers(1, 5)),
        "budget": tokens + spare,
        "stop_reason": stop_reason,
        "offered_limit": None if limit is None else np.array(limit, int),
    }


def counts(table) -> np.ndarray:
    return np.array([len(table["round"]), table["accepted"].sum(), table["offered"].sum()])


def expected(accept_prob, **situation) -> np.ndarray:
    found = expected_rounds(accept_prob, **situation)
    return np.array([found.rounds, found.accepted, found.offered])


@settings(max_examples=60, deadline=None)
@given(situations(most=6))
def test_expectation_equals_the_sum_over_all_outcomes(situation):
    accept_prob, loop = situation
    total = np.zeros(3)
    for outcome in itertools.product((False, True), repeat=len(accept_prob)):
        weight = np.where(outcome, accept_prob, 1 - accept_prob).prod()
        total += weight * counts(greedy_rounds(outcome, **loop))
    np.testing.assert_allclose(expected(accept_prob, **loop), total, atol=1e-12)


@given(situations(most=30), st.integers(0, 2**20))
def test_expectation_is_the_count_when_probabilities_are_0_or_1(situation, seed):
    accept_prob, loop = situation
    matches = np.random.default_rng(seed).random(len(accept_prob)) < accept_prob
    np.testing.assert_allclose(
        expected(matches.astype(float), **loop), counts(greedy_rounds(matches, **loop)), atol=1e-12
    )


@pytest.mark.parametrize("gamma", [1, 3, 5, 8])
@pytest.mark.parametrize("stop_reason", ["eos", "budget"])
def test_expectation_is_the_mean_of_many_replays(gamma, stop_reason):
    generator = np.random.default_rng(gamma)
    log_p, log_q = np.log(generator.uniform(0.2, 1, size=(2, 60)))
    log_q[-4:] = log_p[-4:] + 0.5  # so that the end is often accepted
    ends = {"budget": 60 + 20 * (stop_reason == "eos"), "stop_reason": stop_reason}
    out = np.zeros(60, bool)
    out[[17, 40]] = True
    replays = np.array(
        [
            counts(sampled_rounds(log_p, log_q, gamma, generator, disagreement=out, **ends))
            for _ in range(3000)
        ]
    )
    limit = np.array([next((d for d in range(60 - s) if out[s + d]), 99) for s in range(60)])
    accept_prob = np.exp(np.minimum(log_q - log_p, 0))
    truth = expected(accept_prob, gamma=gamma, offered_limit=limit, **ends)
    error = replays.std(axis=0) / np.sqrt(len(replays))
    assert (np.abs(replays.mean(axis=0) - truth) < 4 * error).all()
    # The estimand: tokens / E[rounds] is smaller than E[tokens / rounds] (Jensen).
    found = expected_rounds(accept_prob, gamma, offered_limit=limit, **ends)
    assert found.acceptance_length == 60 / found.rounds < (60 / replays[:, 0]).mean()


@pytest.mark.parametrize("gamma", range(1, 9))
def test_case_27_self_draft_expects_only_full_acceptance(gamma):
    found = expected_rounds(np.ones(50), gamma)
    assert found.rounds == -(-50 // (gamma + 1))
    assert found.accepted == found.offered


@pytest.mark.parametrize("gamma", [1, 4])
def test_constant_acceptance_in_a_long_text_reaches_the_formula(gamma):
    alpha, tokens = 0.8, 40_000
    found = expected_rounds(np.full(tokens, alpha), gamma)
    formula = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert found.acceptance_length == pytest.approx(formula, rel=1e-3)
    # A rejected or bonus token is emitted a round, but for a last block without one.
    assert tokens - 1 <= found.accepted + found.rounds <= tokens + 1


def test_empty_trajectory_expects_nothing():
    found = expected_rounds([], 3)
    assert (found.rounds, found.accepted, found.offered) == (0, 0, 0)
    assert found.acceptance_length is None


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_values_that_are_no_probabilities_are_refused(wrong):
    with pytest.raises(ValueError, match="probability"):
        expected_rounds([0.5, wrong], 3)


def test_draft_length_below_one_is_refused():
    with pytest.raises(UserError, match="draft length"):
        expected_rounds([0.5], 0)
