"""The losses of draft blocks against loops in plain numpy, and the identities that connect them."""

import math

import numpy as np
import pytest
import torch
from draftscope.losses import (
    LOSSES,
    block_loss,
    continuation_weights,
    dpace_loss,
    dpal_loss,
    expected_accepted_length,
    overlap,
)

B, K, V = 4, 5, 9
DECAY, SMOOTHING = 3.0, 0.5
DPAL = ["log_acceptance", "forward_kl", "renyi_half"]


def blocks(seed=0, width=V, dtype=torch.float64):
    """Logits [B, K, width], the target's log-probabilities at the first `width` of V ids, tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(B, K, V, generator=generator, dtype=dtype)
    log_p = torch.log_softmax(2 * torch.randn(B, K, V, generator=generator, dtype=dtype), -1)
    ids = torch.multinomial(log_p.exp().view(-1, V), 1, generator=generator).view(B, K)
    ids = ids.where(ids < width, -1)
    return logits[..., :width].clone().requires_grad_(), log_p[..., :width].clone(), ids


def all_valid():
    return torch.ones(B, K, dtype=torch.bool)


def ragged():
    lengths = torch.tensor([K, 3, 0, 1])
    return torch.arange(K) < lengths[:, None]


def position_term(kind, p, q, reach, shared):
    """What is compared at one position; None where there is no answer."""
    if kind == "cross_entropy":
        return -math.log(reach) if reach > 0 else None
    if kind == "log_acceptance":
        return -math.log(shared)
    if kind == "renyi_half":
        return -2 * math.log(np.sqrt(p * q).sum())
    inside = p / p.sum()
    return float((inside * np.log(inside / q)).sum())


def naive(name, logits, ids, valid, log_p):
    """Sum and normaliser by the definitions, one position at a time, nothing in log space."""
    total = normaliser = 0.0
    for z, y, ok, lp in zip(logits.detach(), ids, valid, log_p, strict=True):
        q = np.exp(z.numpy()) / np.exp(z.numpy()).sum(-1, keepdims=True)
        p = np.exp(lp.numpy())
        n = int(ok.sum())
        reach = [q[j, y[j]] if y[j] >= 0 else 0.0 for j in range(n)]
        shared = np.minimum(p, q).sum(-1)
        terms = [
            position_term(LOSSES[name].term, *each)
            for each in zip(p[:n], q[:n], reach, shared[:n], strict=True)
        ]
        if name in ("ce_decay", "forward_kl", "renyi_half"):
            weights = [math.exp(-j / DECAY) * (terms[j] is not None) for j in range(n)]
            normaliser += sum(weights)
        else:
            a = shared if name.startswith("dpal") else reach
            s = [(1 - SMOOTHING) * a[j] + SMOOTHING for j in range(n)]
            prefix = [math.prod(s[: j + 1]) for j in range(n)]
            both = [sum(prefix[j:]) for j in range(n)]
            weights = {
                "dpace_prefix": prefix,
                "dpace_suffix": [w / c for w, c in zip(both, prefix, strict=True)],
            }.get(name, both)
            normaliser += n > 0
        total += sum(w * (t or 0.0) for w, t in zip(weights, terms, strict=True))
    return total, normaliser


def evaluate(name, logits, ids, valid, log_p):
    return block_loss(
        name, logits, ids=ids, valid=valid, log_p=log_p, decay=DECAY, smoothing=SMOOTHING
    )


@pytest.mark.parametrize("width", [V, 6])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_its_definition(name, width):
    logits, log_p, ids = blocks(seed=7, width=width)
    assert width == V or bool((ids == -1).any())
    for valid in (all_valid(), ragged()):
        found = evaluate(name, logits, ids, valid, log_p)
        expected = naive(name, logits, ids, valid, log_p)
        assert [float(x.detach()) for x in found] == pytest.approx(expected, rel=1e-10)
        assert found[0].requires_grad and not found[1].requires_grad
    # Negative control: another loss at the same arguments is another number.
    others = [n for n in LOSSES if n != name]
    values = {n: naive(n, logits, ids, all_valid(), log_p)[0] for n in others}
    mine = naive(name, logits, ids, all_valid(), log_p)[0]
    assert min(abs(v - mine) for v in values.values()) > 1e-3


def gradient(value, logits):
    return torch.autograd.grad(value, logits)[0]


def test_dpal_without_smoothing_descends_the_expected_accepted_length():
    logits, log_p, _ = blocks()
    loss = dpal_loss(logits, log_p, smoothing=0.0)
    length = expected_accepted_length(overlap(log_p.exp(), torch.softmax(logits, -1))).mean()
    assert torch.allclose(gradient(loss, logits), -gradient(length, logits), atol=1e-12)
    # Negative controls: smoothed weights and the other divergences have other gradients.
    length = expected_accepted_length(overlap(log_p.exp(), torch.softmax(logits, -1))).mean()
    truth = gradient(length, logits)
    for arguments in ({}, {"smoothing": 0.0, "divergence": "forward_kl"}):
        other = gradient(dpal_loss(logits, log_p, **arguments), logits)
        assert (other + truth).abs().max() > 1e-2


def test_its_gradient_is_a_finite_difference_of_the_expected_accepted_length():
    logits, log_p, _ = blocks(seed=3)
    found = gradient(dpal_loss(logits, log_p, smoothing=0.0), logits)
    p, z, step = log_p.exp().numpy(), logits.detach().numpy(), 1e-6

    def length(moved):
        q = np.exp(moved) / np.exp(moved).sum(-1, keepdims=True)
        return np.minimum(p, q).sum(-1).cumprod(-1).sum(-1).mean()

    for place in [(0, 0, 0), (1, 2, 3), (2, 4, 8), (3, 1, 5)]:
        up, down = z.copy(), z.copy()
        up[place] += step
        down[place] -= step
        assert float(found[place]) == pytest.approx(
            -(length(up) - length(down)) / (2 * step), abs=1e-8
        )


def test_dpace_without_smoothing_descends_the_product_of_confidences():
    logits, _, ids = blocks()
    confidence = torch.softmax(logits, -1).gather(-1, ids[..., None])[..., 0]
    length = gradient(expected_accepted_length(confidence).mean(), logits)
    assert torch.allclose(
        gradient(dpace_loss(logits, ids, smoothing=0.0), logits), -length, atol=1e-12
    )
    for part in ({"prefix": False}, {"suffix": False}):  # negative control: the ablations do not
        other = gradient(dpace_loss(logits, ids, smoothing=0.0, **part), logits)
        assert (other + length).norm() > 0.02 * length.norm()


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_all_are_dpace_where_the_target_is_a_point_mass(smoothing):
    logits, spread, ids = blocks(seed=1)
    sure = torch.full_like(spread, -torch.inf).scatter(-1, ids[..., None], 0.0)
    valid = ragged()
    pace = dpace_loss(logits, ids, valid, smoothing)
    slope = gradient(pace, logits)
    for divergence in DPAL:
        loss = dpal_loss(logits, sure, valid, smoothing, divergence)
        assert float(loss.detach()) == pytest.approx(float(pace.detach()), rel=1e-12)
        assert torch.allclose(gradient(loss, logits), slope, atol=1e-12)
        # Negative controls: a target that is not sure, another smoothing.
        for other in (
            dpal_loss(logits, spread, valid, smoothing, divergence),
            dpal_loss(logits, sure, valid, smoothing + 0.25, divergence),
        ):
            assert abs(float((other - pace).detach())) > 1e-2


def test_the_public_losses_are_those_the_trainer_calls():
    logits, log_p, ids = blocks(seed=2)
    pairs = {
        "dpace": dpace_loss(logits, ids, ragged()),
        "dpace_prefix": dpace_loss(logits, ids, ragged(), suffix=False),
        "dpace_suffix": dpace_loss(logits, ids, ragged(), prefix=False),
        "dpal": dpal_loss(logits, log_p, ragged()),
        "dpal_forward_kl": dpal_loss(logits, log_p, ragged(), divergence="forward_kl"),
        "dpal_renyi_half": dpal_loss(logits, log_p, ragged(), divergence="renyi_half"),
    }
    for name, value in pairs.items():
        total, count = evaluate(name, logits, ids, ragged(), log_p)
        assert float(value.detach()) == pytest.approx(float((total / count).detach()))
    assert float(dpace_loss(logits, ids, ragged() & False).detach()) == 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_sums_of_chunks_are_the_whole(name):
    logits, log_p, ids = blocks(seed=4)
    whole = evaluate(name, logits, ids, ragged(), log_p)
    parts = [
        evaluate(name, logits[s], ids[s], ragged()[s], log_p[s])
        for s in (slice(0, 1), slice(1, 3), slice(3, 4))
    ]
    for i in (0, 1):
        total = sum(float(part[i].detach()) for part in parts)
        assert total == pytest.approx(float(whole[i].detach()))


def test_weights_are_detached():
    """The gradient is that of the terms with the weights as constants, not of the product."""
    logits, log_p, _ = blocks(seed=5)
    a = overlap(log_p.exp(), torch.softmax(logits, -1))
    smooth = 0.5 + 0.5 * a
    weights = smooth.cumprod(-1).flip(-1).cumsum(-1).flip(-1)
    assert torch.allclose(weights, continuation_weights(a, 0.5))
    found = gradient(dpal_loss(logits, log_p), logits)
    constant = gradient(-(weights.detach() * a.log()).sum(-1).mean(), logits)
    assert torch.allclose(found, constant, atol=1e-12)
    a = overlap(log_p.exp(), torch.softmax(logits, -1))
    through = (0.5 + 0.5 * a).cumprod(-1).flip(-1).cumsum(-1).flip(-1)
    assert (gradient(-(through * a.log()).sum(-1).mean(), logits) - found).abs().max() > 1e-2
