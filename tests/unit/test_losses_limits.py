"""Losses of draft blocks where something is missing: masks, ids out of reach, narrow types."""

import math

import pytest
import torch
from draftscope.losses import LOSSES, block_loss, continuation_weights, dpal_loss, overlap

B, K, W = 3, 4, 6


def blocks(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(B, K, W, generator=generator).to(dtype).requires_grad_()
    log_p = torch.log_softmax(torch.randn(B, K, W + 2, generator=generator), -1)[..., :W].clone()
    ids = torch.randint(0, W, (B, K), generator=generator)
    return logits, log_p, ids, torch.ones(B, K, dtype=torch.bool)


def loss_and_gradient(name, logits, ids, valid, log_p):
    value, count = block_loss(name, logits, ids=ids, valid=valid, log_p=log_p, decay=4.0)
    return float(value.detach()), float(count), torch.autograd.grad(value, logits)[0]


@pytest.mark.parametrize("name", LOSSES)
def test_a_token_outside_the_draft_vocabulary_leaves_nothing_infinite(name):
    logits, log_p, ids, valid = blocks()
    ids[0, 1] = -1
    value, count, gradient = loss_and_gradient(name, logits, ids, valid, log_p)
    assert math.isfinite(value) and bool(gradient.isfinite().all())
    # Cross-entropy has no answer there; a distribution over the other ids has.
    assert bool(gradient[0, 1].eq(0).all()) == (LOSSES[name].term == "cross_entropy")
    assert count < B * K


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].needs_p])
def test_a_target_wholly_outside_the_draft_vocabulary_has_no_loss(name):
    logits, log_p, ids, valid = blocks()
    ids[0, 1], log_p[0, 1] = -1, -torch.inf
    value, count, gradient = loss_and_gradient(name, logits, ids, valid, log_p)
    assert math.isfinite(value) and bool(gradient.isfinite().all())
    assert bool(gradient[0, 1].eq(0).all()) and bool(gradient[0, 0].ne(0).any())
    if LOSSES[name].reduction == "weight sum":
        full = block_loss(name, *blocks()[:1], ids=ids, valid=valid, log_p=blocks()[1], decay=4.0)
        assert count == pytest.approx(float(full[1]) - math.exp(-1 / 4))


def test_a_target_out_of_reach_stands_in_the_products_of_overlaps_as_a_rejection():
    logits, log_p, *_ = blocks()
    log_p[:, 1] = -torch.inf
    a = overlap(log_p.exp(), torch.softmax(logits.detach(), -1))
    assert bool(a[:, 1].eq(0).all())
    terms = -a.log().where(a > 0, 0.0)
    for smoothing in (0.0, 0.5):
        found = dpal_loss(logits, log_p, smoothing=smoothing).detach()
        expected = (continuation_weights(a, smoothing) * terms).sum(-1).mean()
        assert float(found) == pytest.approx(float(expected), rel=1e-5)
        accepted = continuation_weights(a.where(a > 0, 1.0), smoothing)  # negative control
        assert float(found) < 0.95 * float((accepted * terms).sum(-1).mean())


def test_a_sure_rejection_lowers_the_weights_behind_it_and_before_it():
    """In the products it stands with a = 0: smoothed to alpha, or the end of the block."""
    logits, log_p, ids, valid = blocks()
    base = loss_and_gradient("dpace", logits, ids, valid, log_p)[2]
    ids[0, 1] = -1
    found = loss_and_gradient("dpace", logits, ids, valid, log_p)[2]
    ratio = found[0].abs().sum(-1) / base[0].abs().sum(-1)
    assert 0 < ratio[0] < 1 and ratio[1] == 0 and 0 < ratio[2] < 1
    assert torch.equal(found[1:], base[1:])
    value, _ = block_loss("dpace", logits, ids=ids, valid=valid, smoothing=0.0)
    assert bool(torch.autograd.grad(value, logits)[0][0, 2:].eq(0).all())


@pytest.mark.parametrize("name", LOSSES)
def test_invalid_positions_are_not_read(name):
    logits, log_p, ids, valid = blocks()
    valid[0, 2:], valid[2] = False, False
    clean = loss_and_gradient(name, logits, ids, valid, log_p)
    dirty = logits.detach().clone()
    dirty[~valid] = torch.nan
    ids[~valid], log_p[~valid] = 10**6, torch.nan
    found = loss_and_gradient(name, dirty.requires_grad_(), ids, valid, log_p)
    assert found[:2] == clean[:2] and torch.equal(found[2], clean[2])
    assert bool(found[2][~valid].eq(0).all())
    # Negative control: a valid position that is NaN is not hidden.
    dirty = logits.detach().clone()
    dirty[0, 0] = torch.nan
    broken = loss_and_gradient(name, dirty.requires_grad_(), ids, valid, log_p)
    assert math.isnan(broken[0])


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_without_a_valid_position_are_a_sum_of_nothing(name):
    logits, log_p, ids, valid = blocks()
    value, count, gradient = loss_and_gradient(name, logits, ids, valid & False, log_p)
    assert (value, count) == (0.0, 0.0) and bool(gradient.eq(0).all())


@pytest.mark.parametrize("name", LOSSES)
def test_a_logit_of_minus_infinity_is_an_id_outside_the_vocabulary(name):
    logits, log_p, ids, valid = blocks(seed=3)
    assert bool((ids == W - 1).any())
    masked = logits.detach().clone()
    masked[..., W - 1] = -torch.inf
    narrow = logits.detach()[..., : W - 1].clone().requires_grad_()
    found = loss_and_gradient(name, masked.requires_grad_(), ids, valid, log_p)
    ids = ids.where(ids < W - 1, -1)
    expected = loss_and_gradient(name, narrow, ids, valid, log_p[..., : W - 1])
    assert found[:2] == pytest.approx(expected[:2], rel=1e-5)
    assert torch.allclose(found[2][..., : W - 1], expected[2], atol=1e-6)
    assert bool(found[2][..., W - 1].eq(0).all())


@pytest.mark.parametrize("name", LOSSES)
def test_narrow_logits_are_computed_in_float32(name):
    logits, log_p, ids, valid = blocks(dtype=torch.bfloat16)
    wide = logits.detach().float().requires_grad_()
    narrow = loss_and_gradient(name, logits, ids, valid, log_p)
    exact = loss_and_gradient(name, wide, ids, valid, log_p)
    assert narrow[:2] == exact[:2]
    assert narrow[2].dtype == torch.bfloat16
    assert torch.equal(narrow[2], exact[2].to(torch.bfloat16))


@pytest.mark.parametrize("name", LOSSES)
def test_extreme_logits_and_targets_stay_finite(name):
    logits, log_p, ids, valid = blocks()
    sharp = (logits.detach() * 300).requires_grad_()
    log_p = torch.log_softmax(log_p * 300, -1)
    value, _, gradient = loss_and_gradient(name, sharp, ids, valid, log_p)
    assert math.isfinite(value) and bool(gradient.isfinite().all())


def saved_bytes(name, rows, width):
    """Bytes of the distinct tensors kept for the backward pass, in numbers of the logits."""
    logits = torch.randn(1, rows, width, requires_grad=True)
    log_p = torch.log_softmax(torch.randn(1, rows, width), -1)
    ids, kept = torch.zeros(1, rows, dtype=torch.long), {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    valid = torch.ones(1, rows, dtype=torch.bool)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = block_loss(name, logits, ids=ids, valid=valid, log_p=log_p, decay=4.0)
    kept.pop(log_p.untyped_storage().data_ptr(), None)  # the caller's own
    assert value[0].requires_grad
    return sum(kept.values()) / (rows * width * 4)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_keeps_few_numbers_for_its_gradient(name):
    """log q, and what one divergence needs: no one-hot target, no second softmax."""
    most = 1.1 if LOSSES[name].term == "cross_entropy" else 2.4
    assert saved_bytes(name, rows=8, width=5000) < most


def test_every_loss_has_a_source_and_a_reduction():
    assert set(LOSSES) >= {"ce_decay", "dpace", "dpace_prefix", "dpace_suffix", "dpal"}
    assert all(loss.source for loss in LOSSES.values())
    decayed = {n for n, loss in LOSSES.items() if loss.reduction == "weight sum"}
    assert decayed == {"ce_decay", "forward_kl", "renyi_half"}
    plain = {"ce_decay", "dpace", "dpace_prefix", "dpace_suffix"}
    assert {n for n, loss in LOSSES.items() if not loss.needs_p} == plain


def test_arguments_that_cannot_be_meant_are_refused():
    logits, log_p, ids, valid = blocks()
    with pytest.raises(ValueError, match="no loss is called 'dpla'; there are ce_decay"):
        block_loss("dpla", logits, ids=ids, valid=valid)
    with pytest.raises(ValueError, match="dpal needs log_p"):
        block_loss("dpal", logits, ids=ids, valid=valid)
    with pytest.raises(ValueError, match="needs a decay above 0"):
        block_loss("ce_decay", logits, ids=ids, valid=valid)
    with pytest.raises(ValueError, match=r"\[B, K\]"):
        block_loss("dpace", logits, ids=ids[:, :2], valid=valid)
    with pytest.raises(ValueError, match="smoothing"):
        block_loss("dpace", logits, ids=ids, valid=valid, smoothing=1.5)
    with pytest.raises(ValueError, match="divergence 'kl'"):
        dpal_loss(logits, log_p, divergence="kl")
