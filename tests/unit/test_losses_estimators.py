"""The estimate of accepted length is unbiased and the product of overlaps is not: a Markov pair."""

import itertools

import numpy as np
import pytest
import torch
from draftscope.losses import accepted_length_estimate, accepted_length_surrogate, overlap
from draftscope.losses.estimators import accept_prob_emitted

K = 4
# After token 0 the draft knows the target well and after token 1 badly, and p and q share mostly
# token 0: whoever accepted so far is more often in the good state than the target's own text.
TARGET = np.array([[0.5, 0.5], [0.4, 0.6]])
DRAFT = np.array([[0.6, 0.4], [0.98, 0.02]])


def exact(weight):
    """sum_k sum over texts y_1..y_k after token 0 of prod weight(i, before, y_i)."""
    total = 0.0
    for k in range(1, K + 1):
        for text in itertools.product((0, 1), repeat=k):
            total += np.prod([weight(b, y) for b, y in zip((0, *text), text, strict=False)])
    return total


def exact_length(target=TARGET, draft=DRAFT):
    return exact(lambda before, y: min(target[before, y], draft[before, y]))


def exact_surrogate(target=TARGET, draft=DRAFT):
    """E over the target's texts of the product of overlaps."""
    shared = np.minimum(target, draft).sum(1)
    return exact(lambda before, y: target[before, y] * shared[before])


def texts(count, target=TARGET, seed=5):
    """States before each token and the tokens, [count, K]."""
    generator = np.random.default_rng(seed)
    before, tokens = np.zeros((count, K), int), np.zeros((count, K), int)
    state = np.zeros(count, int)
    for k in range(K):
        before[:, k] = state
        state = (generator.random(count) < target[state, 1]).astype(int)
        tokens[:, k] = state
    return before, tokens


def estimates(count, target=TARGET, draft=DRAFT):
    before, tokens = texts(count, target)
    log_p, log_q = (torch.tensor(np.log(m[before, tokens])) for m in (target, draft))
    overlaps = overlap(torch.tensor(target[before]), torch.tensor(draft[before]))
    return accepted_length_estimate(log_p, log_q), accepted_length_surrogate(overlaps)


def z(values, truth):
    """Distance from the truth in standard errors."""
    return float((values.mean() - truth) / (values.std() / len(values) ** 0.5))


def test_the_estimate_is_unbiased_and_the_product_of_overlaps_is_not():
    unbiased, surrogate = estimates(200_000)
    assert abs(z(unbiased, exact_length())) < 4
    # Negative control: the surrogate misses E[L] by far more than its Monte Carlo error, by what
    # the enumeration says.
    assert abs(z(surrogate, exact_length())) > 50
    assert abs(z(surrogate, exact_surrogate())) < 4
    assert exact_length() - exact_surrogate() > 0.05
    assert surrogate.std() < unbiased.std()


def test_rounds_that_draw_drafts_agree_with_the_enumeration():
    generator = np.random.default_rng(6)
    count, lengths = 100_000, []
    state, alive, length = np.zeros(count, int), np.ones(count, bool), np.zeros(count)
    for _ in range(K):
        drafted = (generator.random(count) < DRAFT[state, 1]).astype(int)
        accept = np.minimum(1, TARGET[state, drafted] / DRAFT[state, drafted])
        alive &= generator.random(count) < accept
        length += alive
        state = drafted
    lengths = torch.tensor(length)
    assert abs(z(lengths, exact_length())) < 4
    assert abs(z(lengths, exact_surrogate())) > 20


@pytest.mark.parametrize("case", ["one draft", "same overlap everywhere"])
def test_the_product_of_overlaps_is_exact_where_it_should_be(case):
    if case == "one draft":
        shared = np.minimum(TARGET[0], DRAFT[0])
        assert shared.sum() == pytest.approx(TARGET[0] @ np.minimum(1, DRAFT[0] / TARGET[0]))
        return
    target, draft = np.array([[0.5, 0.5]] * 2), np.array([[0.8, 0.2]] * 2)
    assert exact_surrogate(target, draft) == pytest.approx(exact_length(target, draft))
    unbiased, surrogate = estimates(50_000, target, draft)
    assert torch.allclose(surrogate, torch.tensor(exact_length(target, draft)))
    assert abs(z(unbiased, exact_length(target, draft))) < 4


def test_a_block_draft_that_reads_no_accepted_token_is_estimated_too():
    """q_i depends on i alone, as in a block drafter; p on the token before."""
    draft = np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1], [0.2, 0.8]])
    total = 0.0
    for k in range(1, K + 1):
        for text in itertools.product((0, 1), repeat=k):
            steps = zip((0, *text), text, draft, strict=False)
            total += np.prod([min(TARGET[b, y], q[y]) for b, y, q in steps])
    before, tokens = texts(200_000)
    log_p = torch.tensor(np.log(TARGET[before, tokens]))
    log_q = torch.tensor(np.log(draft[np.arange(K), tokens]))
    assert abs(z(accepted_length_estimate(log_p, log_q), total)) < 4
    # Negative control: without the minimum the ratio is an importance weight of mean 1.
    assert abs(z((log_q - log_p).exp().cumprod(-1).sum(-1), total)) > 20


def test_invalid_positions_and_a_token_the_draft_cannot_emit_end_the_sum():
    log_p = torch.tensor([[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]])
    log_q = torch.tensor([[-0.5, -torch.inf, -0.1], [-2.0, -0.5, -0.5]])
    valid = torch.tensor([[True, True, True], [True, True, False]])
    assert accept_prob_emitted(log_p, log_q)[0].tolist() == [1.0, 0.0, 1.0]
    found = accepted_length_estimate(log_p, log_q, valid).tolist()
    assert found == [1.0, pytest.approx(2 * np.exp(-1), rel=1e-6)]
