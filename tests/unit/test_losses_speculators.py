"""Our losses against those of the `speculators` package, an implementation by other hands.

It needs an older transformers than this project, so it is not installed beside it. In an
environment of its own, with the packages of the extra `speculators` of pyproject.toml:

    python -m pytest tests/unit/test_losses_speculators.py

It has D-PACE's weights, DFlash's decay, cross-entropy, forward KL and -log overlap; it has no
Renyi divergence and no weights by overlap, and it divides by the number of valid positions.
"""

import pytest
import torch
from draftscope.losses import block_loss, continuation_weights, forward_kl, log_overlap

pytestmark = pytest.mark.slow  # its import alone takes many seconds

BLOCKS, SLOTS, WIDTH = 6, 8, 12  # slot 0 is the anchor, which predicts nothing


@pytest.fixture(scope="module")
def theirs():
    reason = "needs speculators 0.9.0, in an environment of its own"
    losses = pytest.importorskip("speculators.losses", reason=reason)
    eager = pytest.importorskip("speculators.losses.eager", reason=reason)
    return losses, eager


@pytest.fixture(scope="module")
def data():
    """Logits of draft and target [BLOCKS, SLOTS, WIDTH], mask of positions with a loss."""
    generator = torch.Generator().manual_seed(11)
    draft, target = 2 * torch.randn(2, BLOCKS, SLOTS, WIDTH, generator=generator)
    valid = torch.rand(BLOCKS, SLOTS, generator=generator) < 0.8
    valid[:, 0], valid[0] = False, True
    valid[0, 0], valid[1] = False, False
    return draft, target, valid


def flat(tensor):
    """As the package lays blocks out: one after another in a batch of one."""
    return tensor.reshape(1, BLOCKS * SLOTS, *tensor.shape[2:])


def ours(name, data, **arguments):
    """Sum of the loss and its gradient, without the anchors' slot."""
    draft, target, valid = data
    logits = draft[:, 1:].clone().requires_grad_()
    total, count = block_loss(
        name,
        logits,
        ids=target[:, 1:].argmax(-1),
        valid=valid[:, 1:],
        log_p=torch.log_softmax(target[:, 1:], -1),
        **arguments,
    )
    return total.detach(), count, torch.autograd.grad(total, logits)[0]


def of_package(losses, term, data, decay):
    draft, target, valid = data
    logits = draft.clone().requires_grad_()
    position = torch.arange(SLOTS).repeat(BLOCKS)[None]
    mean = losses.loss_function(flat(logits), flat(target), flat(valid), position, term, decay)
    total = mean * (valid.sum() + losses.utils._LOSS_REDUCTION_EPS)
    return total.detach(), torch.autograd.grad(total, logits)[0][:, 1:]


def dpace_decay(losses, data, alpha):
    def decay(position, elementwise_loss):
        return losses.dpace_loss_decay(
            position, flat(data[2]), SLOTS, alpha, elementwise_loss=elementwise_loss
        )

    return decay


@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_dpace_has_the_same_sum_and_gradient(theirs, data, alpha):
    losses, eager = theirs
    total, gradient = of_package(losses, eager.ce_loss, data, dpace_decay(losses, data, alpha))
    found, _, slope = ours("dpace", data, smoothing=alpha)
    assert torch.allclose(found, total, rtol=1e-5)
    assert torch.allclose(slope, gradient, atol=1e-5)
    # Negative controls: another smoothing and the ablations are not it.
    for name, smoothing in (("dpace", alpha + 0.1), ("dpace_prefix", alpha)):
        assert not torch.allclose(ours(name, data, smoothing=smoothing)[0], total, rtol=1e-2)


def test_continuation_weights_are_the_same_with_holes_in_the_mask(theirs, data):
    losses, _ = theirs
    valid = data[2]
    cross_entropy = torch.rand(BLOCKS, SLOTS, generator=torch.Generator().manual_seed(12)) * 3
    position = torch.zeros(1, BLOCKS * SLOTS)
    weights = losses.dpace_loss_decay(
        position, flat(valid), SLOTS, 0.4, elementwise_loss=flat(cross_entropy)
    ).view(BLOCKS, SLOTS)
    confidence = torch.exp(-cross_entropy)
    assert torch.allclose(continuation_weights(confidence, 0.4, valid=valid), weights, atol=1e-6)
    assert not torch.allclose(continuation_weights(confidence, 0.4), weights, atol=1e-2)


def test_decayed_cross_entropy_and_kl_are_the_same_but_for_the_divisor(theirs, data):
    losses, eager = theirs
    for name, term in (("ce_decay", eager.ce_loss), ("forward_kl", eager.kl_div_loss)):

        def decay(position, elementwise_loss):
            return losses.dflash_loss_decay(position, gamma=4.0)

        total, gradient = of_package(losses, term, data, decay)
        found, weight_sum, slope = ours(name, data, decay=4.0)
        assert torch.allclose(found, total, rtol=1e-5)
        assert torch.allclose(slope, gradient, atol=1e-5)
        expected = (torch.exp(-torch.arange(SLOTS - 1) / 4.0) * data[2][:, 1:]).sum()
        assert float(weight_sum) == pytest.approx(float(expected), rel=1e-5)
        assert not torch.allclose(ours(name, data, decay=3.0)[0], total, rtol=1e-2)


def test_divergences_and_their_gradients_are_the_same(theirs, data):
    _, eager = theirs
    draft, target, _ = data
    log_p = torch.log_softmax(target, -1)
    pairs = [
        (lambda q: forward_kl(log_p, q), eager.kl_div_loss),
        (lambda q: -log_overlap(log_p, q), eager.neg_log_acceptance_loss),
        (lambda q: 1 - log_overlap(log_p, q).exp(), eager.tv_loss),
    ]
    values = []
    for mine, other in pairs:
        logits = draft.clone().requires_grad_()
        value, expected = mine(torch.log_softmax(logits, -1)), other(logits, target)
        assert torch.allclose(value, expected, atol=1e-5)
        slope, gradient = (torch.autograd.grad(x.sum(), logits)[0] for x in (value, expected))
        assert torch.allclose(slope, gradient, atol=1e-5)
        values.append(value.detach())
    assert (values[0] - values[1]).abs().max() > 0.1  # negative control: they differ
