"""Overlap and divergences: against scipy, their bounds, gradients and degenerate values."""

import math

import numpy as np
import pytest
import torch
from draftscope.losses import (
    bhattacharyya,
    forward_kl,
    log_overlap,
    overlap,
    renyi_half,
    restricted_forward_kl,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr

DUST = 1e-9
INF = math.inf


@st.composite
def pairs(draw):
    """p and q over 2 to 8 ids, with zeros."""
    size = draw(st.integers(2, 8))
    weights = st.lists(st.floats(0.0, 1.0), min_size=size, max_size=size)
    p, q = (np.array(draw(weights.filter(lambda w: sum(w) > 1e-3))) for _ in range(2))
    return torch.tensor(p / p.sum()), torch.tensor(q / q.sum())


def random_logs(*shape, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return torch.log_softmax(logits, -1)


@given(pairs())
def test_values_are_those_of_the_definition(pair):
    p, q = pair
    a, bc = overlap(p, q), bhattacharyya(p, q)
    assert float(a) == pytest.approx(1 - float((p - q).abs().sum()) / 2)
    assert float(bc) == pytest.approx(float(np.sqrt(p.numpy() * q.numpy()).sum()))
    assert float(forward_kl(p.log(), q.log())) == pytest.approx(
        rel_entr(p.numpy(), q.numpy()).sum(), abs=DUST
    )
    assert float(log_overlap(p.log(), q.log()).exp()) == pytest.approx(float(a), abs=DUST)
    assert float((-renyi_half(p.log(), q.log()) / 2).exp()) == pytest.approx(float(bc), abs=DUST)


@given(pairs())
def test_overlap_lies_between_the_bounds_of_the_divergences(pair):
    p, q = pair
    a, bc = float(overlap(p, q)), float(bhattacharyya(p, q))
    renyi, kl = float(renyi_half(p.log(), q.log())), float(forward_kl(p.log(), q.log()))
    assert 1 - math.sqrt(max(0.0, 1 - bc**2)) <= a + 1e-7 and a <= bc + DUST
    assert a == 0 or -math.log(a) >= renyi / 2 - DUST
    assert renyi <= kl + DUST
    assert a >= 1 - math.sqrt(max(kl, 0) / 2) - 1e-7
    assert a >= 1 - math.sqrt(max(0.0, 1 - math.exp(-kl))) - 1e-7
    assert a >= math.exp(-kl) / 2 - DUST


def test_bounds_are_sharp_and_none_is_an_identity():
    """Negative control of the bounds: each is attained, and each is missed somewhere."""
    p, q = torch.tensor([1.0, 0.0]).double(), torch.tensor([0.3, 0.7]).double()
    assert float(-log_overlap(p.log(), q.log())) == pytest.approx(-math.log(0.3))
    assert float(renyi_half(p.log(), q.log())) == pytest.approx(-math.log(0.3))
    assert float(forward_kl(p.log(), q.log())) == pytest.approx(-math.log(0.3))
    log_p, log_q = random_logs(200, 6), random_logs(200, 6, seed=1)
    kl, renyi = forward_kl(log_p, log_q), renyi_half(log_p, log_q)
    assert float((kl - renyi).min()) > 1e-3
    assert float((-log_overlap(log_p, log_q) - renyi / 2).min()) > 1e-3
    # On two ids that p and q swap, the lower bound by BC is attained.
    p, q = torch.tensor([0.8, 0.2]).double(), torch.tensor([0.2, 0.8]).double()
    bc = float(bhattacharyya(p, q))
    assert float(overlap(p, q)) == pytest.approx(1 - math.sqrt(1 - bc**2))


def softmax_gradient(term, log_p, logits):
    logits = logits.clone().requires_grad_()
    term(log_p, torch.log_softmax(logits, -1)).sum().backward()
    return logits.grad


def test_gradients_are_their_closed_forms():
    log_p, logits = random_logs(40, 9), random_logs(40, 9, seed=3) + 1.5
    p, q = log_p.exp(), torch.softmax(logits, -1)
    a, below = overlap(p, q)[:, None], (q < p).double()
    closed = -(q / a) * (below - (q * below).sum(-1, keepdim=True))
    found = softmax_gradient(lambda x, y: -log_overlap(x, y), log_p, logits)
    assert torch.allclose(found, closed, atol=1e-12)
    # It is the gradient of TV over the overlap; without the division it is another (control).
    tv = softmax_gradient(lambda x, y: -overlap(x.exp(), y.exp()), log_p, logits)
    assert torch.allclose(found, tv / a, atol=1e-12) and (found - tv).abs().max() > 0.05
    assert torch.allclose(softmax_gradient(forward_kl, log_p, logits), q - p, atol=1e-12)
    tilted = torch.softmax((log_p + torch.log_softmax(logits, -1)) / 2, -1)
    assert torch.allclose(softmax_gradient(renyi_half, log_p, logits), q - tilted, atol=1e-12)


@pytest.mark.parametrize(
    "term", [lambda p, q: -log_overlap(p, q), renyi_half, forward_kl, restricted_forward_kl]
)
def test_gradients_are_finite_differences(term):
    log_p, logits = random_logs(5, 6)[:, :5], random_logs(5, 5, seed=4)
    found, step = softmax_gradient(term, log_p, logits), 1e-6
    for v in range(5):
        moved = torch.zeros(5, dtype=torch.float64)
        moved[v] = step
        up, down = (term(log_p, torch.log_softmax(logits + s * moved, -1)) for s in (1, -1))
        assert torch.allclose(found[:, v], (up - down) / (2 * step), atol=1e-7)


def test_probabilities_that_underflow_are_still_compared():
    log_p = torch.tensor([[0.0, -200.0]])
    log_q = torch.tensor([[-200.0, 0.0]]).requires_grad_()
    assert float(log_overlap(log_p, log_q).detach()) == pytest.approx(-200 + math.log(2))
    assert float(renyi_half(log_p, log_q).detach()) == pytest.approx(200 - 2 * math.log(2))
    log_overlap(log_p, log_q).sum().backward()
    assert log_q.grad.tolist() == [[pytest.approx(0.5, rel=1e-5), 0.0]]


def test_laws_without_a_common_id_have_a_stated_value_and_no_gradient():
    log_p = torch.tensor([[0.0, -INF], [-INF, -INF], [math.log(0.5), math.log(0.5)]])
    log_q = torch.tensor([[-INF, 0.0], [-0.5, -0.9], [-0.5, -0.9]])
    expected = {
        log_overlap: [-INF, -INF],
        renyi_half: [INF, INF],
        restricted_forward_kl: [INF, INF],
    }
    for term, values in expected.items():
        moved = log_q.clone().requires_grad_()
        found = term(log_p, moved)
        assert found.detach().tolist()[:2] == values
        found[torch.isfinite(found)].sum().backward()
        assert moved.grad[:2].eq(0).all() and moved.grad[2].isfinite().all()
        assert moved.grad[2].abs().sum() > 0
    assert forward_kl(log_p, log_q).tolist()[0] == INF


def test_restricted_divergence_renormalises_over_the_draft_vocabulary():
    log_p = torch.tensor([0.3, 0.2, 0.5]).double().log()
    q = torch.tensor([0.5, 0.5]).double()
    expected = rel_entr([0.6, 0.4], [0.5, 0.5]).sum()
    assert float(restricted_forward_kl(log_p[:2], q.log())) == pytest.approx(expected)
    # The same where the third id is there with q = 0; the plain divergence is infinite (control).
    wide = torch.tensor([0.5, 0.5, 0.0]).double().log()
    assert float(restricted_forward_kl(log_p, wide)) == pytest.approx(expected)
    assert float(forward_kl(log_p, wide)) == INF
    tiny = torch.tensor([-120.0, -121.0])
    share = torch.softmax(tiny.double(), -1).numpy()
    found = restricted_forward_kl(tiny, q.log().float())
    assert float(found) == pytest.approx(rel_entr(share, [0.5, 0.5]).sum(), rel=1e-4)
