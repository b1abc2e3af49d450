"""Losses of draft blocks: a weighted sum over positions of one of the losses of `LOSSES`.

B blocks of K positions; W ids that the draft may emit, all of the target's V or fewer. Every
loss is one log-softmax of the logits and arithmetic in log space; weights are detached.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from draftscope.losses.divergences import log_overlap, renyi_half, restricted_forward_kl
from draftscope.losses.expected import continuation_weights
from draftscope.losses.registry import LOSSES, Loss

SMOOTHING = 0.5  # D-PACE's default; D-PAL's is not published


def block_loss(
    name: str,
    logits: Tensor,
    *,
    ids: Tensor,
    valid: Tensor,
    log_p: Tensor | None = None,
    decay: float | None = None,
    smoothing: float = SMOOTHING,
) -> tuple[Tensor, Tensor]:
    """Sum of the weighted losses of some blocks and what divides it, two scalars.

    Sums and normalisers of several calls add up; the loss is their ratio. Reduction as
    published: "weight sum" divides by the sum of the weights (DFlash's code), "blocks" by the
    number of blocks with a valid position. D-PACE's code divides by the number of texts, which
    for a fixed number of blocks a text differs by that constant factor; D-PAL's reduction is not
    published and is taken to be D-PACE's.

    A position without a loss is left out of the sum and of the weight sum, and its gradient is 0:
    an invalid one (its logits and log_p are not read); under cross-entropy one whose token the
    draft cannot emit; under the others one where p has no mass on the draft's ids. A valid one
    still stands in the products of the continuation weights, with a = 0.

    Args:
        name: key of `LOSSES`.
        logits: [B, K, W]; computed in float32 or, if they are, float64. A logit of -inf takes an
            id out of the draft's vocabulary.
        ids: the target's own tokens as indices into the W ids, int64 [B, K]; -1 is a token that
            the draft cannot emit.
        valid: bool [B, K].
        log_p: log-probabilities of the target at the W ids, [B, K, W], normalised over all V ids,
            detached. Overlap and Renyi divergence take them as they are, forward KL restricts p
            to the draft's ids and renormalises it. Unused by losses that do not need p.
        decay: gamma of the weights exp(-(k - 1) / gamma); of "decay" losses alone.
        smoothing: alpha of the continuation weights; of the others alone.

    Raises:
        ValueError: unknown name, shapes that disagree, a missing log_p or decay, decay <= 0,
            smoothing outside [0, 1].
    """
    loss = LOSSES.get(name)
    if loss is None:
        raise ValueError(f"no loss is called {name!r}; there are {', '.join(LOSSES)}")
    _check(loss, name, logits, ids, valid, log_p, decay)
    return _weighted_sum(loss, logits, ids, valid, log_p, decay, smoothing)


def dpace_loss(
    logits: Tensor,
    ids: Tensor,
    valid: Tensor | None = None,
    smoothing: float = SMOOTHING,
    prefix: bool = True,
    suffix: bool = True,
) -> Tensor:
    """D-PACE (arXiv:2605.18810): mean over blocks of sum_j w_j (-log q_j(y_j)), a scalar.

    w are the continuation weights of (1 - alpha) q(y) + alpha, detached. Arguments as
    `block_loss` and `continuation_weights`; 0 where no position is valid.
    """
    loss = Loss("cross_entropy", "confidence", "", prefix, suffix)
    return _mean(loss, logits, ids, valid, None, smoothing)


def dpal_loss(
    logits: Tensor,
    log_p: Tensor,
    valid: Tensor | None = None,
    smoothing: float = SMOOTHING,
    divergence: Literal["log_acceptance", "forward_kl", "renyi_half"] = "log_acceptance",
) -> Tensor:
    """D-PAL: mean over blocks of sum_j w_j d_j, a scalar.

    w are the continuation weights of (1 - alpha) a + alpha with a_j = sum_v min(p_j, q_j),
    detached; d_j is -log a_j, KL(p_j, q_j) or the Renyi divergence of order 1/2. Where p is a
    point mass each of them is D-PACE. Arguments as `block_loss`; 0 where no position is valid.
    """
    if divergence not in ("log_acceptance", "forward_kl", "renyi_half"):
        raise ValueError(f"divergence {divergence!r} is not log_acceptance, forward_kl, renyi_half")
    ids = torch.full(logits.shape[:-1], -1, device=logits.device)
    return _mean(Loss(divergence, "overlap", ""), logits, ids, valid, log_p, smoothing)


def _mean(
    loss: Loss,
    logits: Tensor,
    ids: Tensor,
    valid: Tensor | None,
    log_p: Tensor | None,
    smoothing: float,
) -> Tensor:
    if valid is None:
        valid = torch.ones(logits.shape[:-1], dtype=torch.bool, device=logits.device)
    _check(loss, "the loss", logits, ids, valid, log_p, None)
    total, count = _weighted_sum(loss, logits, ids, valid, log_p, None, smoothing)
    return total / count.clamp(min=1)


def _weighted_sum(
    loss: Loss,
    logits: Tensor,
    ids: Tensor,
    valid: Tensor,
    log_p: Tensor | None,
    decay: float | None,
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """See `block_loss`."""
    width = logits.shape[-1]
    rows = valid.reshape(-1).nonzero().squeeze(-1)
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    log_q = torch.log_softmax(_rows(logits.reshape(-1, width), rows), -1)
    if loss.needs_p:
        log_p = _rows(log_p.detach().reshape(-1, width), rows).to(log_q.dtype)
    log_confidence = _at(log_q, ids.reshape(-1)[rows])

    if loss.term == "cross_entropy":
        terms = -log_confidence
    elif loss.term == "log_acceptance":
        terms = -log_overlap(log_p, log_q)
    elif loss.term == "renyi_half":
        terms = renyi_half(log_p, log_q)
    else:
        terms = restricted_forward_kl(log_p, log_q)
    counted = ~torch.isposinf(terms.detach())  # a NaN is a fault upstream and stays one
    terms = terms.where(counted, 0.0)

    if loss.weighting == "decay":
        position = torch.arange(valid.shape[1], device=valid.device).expand(valid.shape)
        weights = torch.exp(-position.reshape(-1)[rows].to(terms.dtype) / decay)
        return (weights * terms).sum(), (weights * counted).sum()
    if loss.weighting == "confidence":
        log_accept = log_confidence.detach()
    elif loss.term == "log_acceptance":
        log_accept = -terms.detach().where(counted, torch.inf)
    else:
        log_accept = log_overlap(log_p, log_q.detach())
    accept = log_q.new_zeros(valid.numel()).index_copy(0, rows, log_accept.exp().clamp(max=1))
    weights = continuation_weights(
        accept.view(valid.shape), smoothing, loss.prefix, loss.suffix, valid
    )
    return (weights.reshape(-1)[rows] * terms).sum(), valid.any(-1).sum()


def _rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a matrix; itself, not a copy, where they are all."""
    return matrix if len(rows) == len(matrix) else matrix.index_select(0, rows)


def _at(log_q: Tensor, ids: Tensor) -> Tensor:
    """log q of one id a row, [rows]; -inf, without a gradient, where the id is -1."""
    inside = ids >= 0
    return log_q.gather(-1, ids.clamp(min=0)[:, None])[:, 0].where(inside, -torch.inf)


def _check(
    loss: Loss,
    name: str,
    logits: Tensor,
    ids: Tensor,
    valid: Tensor,
    log_p: Tensor | None,
    decay: float | None,
) -> None:
    if logits.ndim != 3 or ids.shape != logits.shape[:2] or valid.shape != logits.shape[:2]:
        raise ValueError(
            f"logits {list(logits.shape)}, ids {list(ids.shape)} and valid {list(valid.shape)} "
            "are not [B, K, W], [B, K], [B, K]"
        )
    if loss.needs_p and (log_p is None or log_p.shape != logits.shape):
        what = "no log_p" if log_p is None else f"log_p {list(log_p.shape)}"
        raise ValueError(f"{name} needs log_p {list(logits.shape)}, got {what}")
    if loss.weighting == "decay" and not (decay is not None and decay > 0):
        raise ValueError(f"{name} needs a decay above 0, got {decay}")
