"""Replayed rounds have the law of directly simulated ones, on a pair of Markov chains.

Compared are the accepted counts of two consecutive rounds, whose joint law shows errors in a
rate and errors in the dependence within or between rounds. Couplings that are deliberately wrong
must fail the same test.
"""

import numpy as np
import pytest
from draftscope.replay import sampled_rounds
from scipy import stats

STATES, CHAINS, ROUNDS = 6, 10_000, 3
LEVEL = 1e-3


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    """Transition matrices of target and draft, [from, to]."""
    generator = np.random.default_rng(11)
    target = generator.dirichlet(np.full(STATES, 0.7), STATES)
    return target, 0.6 * target + 0.4 * generator.dirichlet(np.full(STATES, 0.7), STATES)


def step(rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One draw from each row of probabilities."""
    above = rows.cumsum(axis=1) > generator.random((len(rows), 1))
    return np.where(above.any(axis=1), above.argmax(axis=1), rows.shape[1] - 1)


def simulated(target, draft, gamma, generator, chains=CHAINS) -> np.ndarray:
    """Accepted counts [chains, ROUNDS] of loops that draft, verify, and draw from the residual."""
    state, found = np.zeros(chains, int), np.zeros((chains, ROUNDS), int)
    for number in range(ROUNDS):
        going = np.ones(chains, bool)
        for _ in range(gamma):
            p, q = target[state], draft[state]
            proposed = step(q, generator)
            rows = np.arange(chains)
            accept = generator.random(chains) * q[rows, proposed] < p[rows, proposed]
            residual = np.maximum(p - q, 0)
            correction = step(residual / residual.sum(axis=1, keepdims=True), generator)
            state = np.where(going, np.where(accept, proposed, correction), state)
            going &= accept
            found[:, number] += going
        state = np.where(going, step(target[state], generator), state)
    return found


def trajectories(target, draft, gamma, generator, chains=CHAINS):
    """log p and log q of the target's own tokens, [chains, tokens], enough for ROUNDS rounds."""
    state, log_p, log_q = np.zeros(chains, int), [], []
    for _ in range(ROUNDS * (gamma + 1)):
        following = step(target[state], generator)
        log_p.append(np.log(target[state, following]))
        log_q.append(np.log(draft[state, following]))
        state = following
    return np.stack(log_p, axis=1), np.stack(log_q, axis=1)


def replayed(target, draft, gamma, generator, chains=CHAINS, weaken=0.0) -> np.ndarray:
    log_p, log_q = trajectories(target, draft, gamma, generator, chains)
    log_q = np.minimum(log_q, log_p) + np.log1p(-weaken)
    return np.array(
        [
            sampled_rounds(p, q, gamma, generator)["accepted"][:ROUNDS]
            for p, q in zip(log_p, log_q, strict=True)
        ]
    )


def with_the_ratio_turned_around(target, draft, gamma, generator) -> np.ndarray:
    """Wrong: min(1, p/q), the drafted token's probability, at emitted tokens."""
    log_p, log_q = trajectories(target, draft, gamma, generator)
    return np.array(
        [
            sampled_rounds(q, p, gamma, generator)["accepted"][:ROUNDS]
            for p, q in zip(log_p, log_q, strict=True)
        ]
    )


def with_one_uniform_a_round(target, draft, gamma, generator) -> np.ndarray:
    """Wrong: every test of a round uses the same random number."""
    log_p, log_q = trajectories(target, draft, gamma, generator)
    accept_prob, found = np.exp(np.minimum(log_q - log_p, 0)), []
    for chain in accept_prob:
        start, counts = 0, []
        for uniform in generator.random(ROUNDS):
            accepted = int((uniform < chain[start : start + gamma]).cumprod().sum())
            counts.append(accepted)
            start += accepted + 1
        found.append(counts)
    return np.array(found)


def p_value(one: np.ndarray, other: np.ndarray, gamma: int) -> float:
    """Chi-square test that both have the same law of (second, third) accepted count."""
    cells = (gamma + 1) ** 2
    table = np.array(
        [
            np.bincount(counts[:, 1] * (gamma + 1) + counts[:, 2], minlength=cells)
            for counts in (one, other)
        ]
    )
    frequent = table.sum(axis=0) >= 20  # at least 10 expected in each sample
    pooled = np.column_stack([table[:, frequent], table[:, ~frequent].sum(axis=1)])
    return stats.chi2_contingency(pooled[:, pooled.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize("gamma", range(1, 9))
def test_replayed_and_simulated_rounds_agree_and_a_wrong_ratio_does_not(pair, gamma):
    generator = np.random.default_rng(100 + gamma)
    truth = simulated(*pair, gamma, generator)
    assert p_value(replayed(*pair, gamma, generator), truth, gamma) > LEVEL
    assert p_value(with_the_ratio_turned_around(*pair, gamma, generator), truth, gamma) < LEVEL


@pytest.mark.parametrize("gamma", range(2, 9))  # with one draft a round the coupling is right
def test_case_35_one_uniform_for_a_whole_round_fails(pair, gamma):
    generator = np.random.default_rng(200 + gamma)
    truth = simulated(*pair, gamma, generator)
    assert p_value(with_one_uniform_a_round(*pair, gamma, generator), truth, gamma) < LEVEL


def test_mild_error_of_five_percent_fails_too(pair):
    """Acceptance probabilities that are 5% too small; the test sees a total variation of 3%."""
    gamma, chains, cells = 3, 25_000, 16
    noncentrality = np.linspace(1, 200, 2000)
    critical = stats.chi2.isf(LEVEL, cells - 1)
    power = stats.ncx2.sf(critical, cells - 1, noncentrality)
    # Two samples of n give a noncentrality of at least 2 n TV^2.
    detectable = np.sqrt(noncentrality[np.argmax(power >= 0.9)] / (2 * chains))
    assert detectable < 0.03

    generator = np.random.default_rng(7)
    truth = simulated(*pair, gamma, generator, chains)
    assert p_value(replayed(*pair, gamma, generator, chains), truth, gamma) > LEVEL
    assert p_value(replayed(*pair, gamma, generator, chains, weaken=0.05), truth, gamma) < LEVEL
