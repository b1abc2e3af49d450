"""Overlap and divergences of a target's p and a draft's q, one number a position, [..., V] -> [...].

Values in nats. The forms in log space take log-probabilities (-inf for a probability of 0), are
exact where a probability underflows, and let the gradient through log_q; ids with p = 0 or q = 0
leave neither a NaN nor an infinite gradient behind.
"""

from __future__ import annotations

import torch
from torch import Tensor


def overlap(p: Tensor, q: Tensor) -> Tensor:
    """sum_v min(p, q) = 1 - TV(p, q): the probability that a draw of q is accepted.

    Leviathan et al. 2023 (arXiv:2211.17192), theorem 3.5.
    """
    return torch.minimum(p, q).sum(-1)


def log_overlap(log_p: Tensor, log_q: Tensor) -> Tensor:
    """log of `overlap`; -inf, with a gradient of 0, where p and q share no id.

    With a = overlap and q = softmax(z): d(-log a)/dz_v = -(q_v / a)(1[q_v < p_v] - s),
    s = sum of q over the ids with q < p.
    """
    return _log_sum(torch.minimum(log_p, log_q))


def bhattacharyya(p: Tensor, q: Tensor) -> Tensor:
    """BC = sum_v sqrt(p q), in [0, 1]; 1 - BC <= TV <= sqrt(1 - BC^2)."""
    return (p.sqrt() * q.sqrt()).sum(-1)


def renyi_half(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Renyi divergence of order 1/2, -2 log BC; inf, with a gradient of 0, where BC is 0.

    2 log(1 / overlap) >= it, and it is at most `forward_kl` (van Erven and Harremoes 2014,
    arXiv:1206.2459, theorem 3).
    """
    return -2 * _log_sum((log_p + log_q) / 2)


def forward_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p, q) = sum_v p (log p - log q); inf where p > 0 and q = 0. Ids with p = 0 add nothing."""
    p = log_p.exp()
    return (p * (log_p - log_q).where(p > 0, 0.0)).sum(-1)


def restricted_forward_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p', q) where p' is p restricted to the draft's vocabulary and renormalised there.

    q cannot reach the rest of p, where KL(p, q) is infinite.

    Args:
        log_p: [..., W], normalised over the target's whole vocabulary. Without any mass here the
            value is inf and its gradient 0.
        log_q: [..., W]; an id with q = 0 counts as outside the draft's vocabulary.
    """
    if bool(torch.isneginf(log_q).any()):
        log_p = log_p.masked_fill(torch.isneginf(log_q), -torch.inf)
    log_mass = log_p.logsumexp(-1)
    reached = ~torch.isneginf(log_mass)
    value = forward_kl(log_p - log_mass.where(reached, 0.0)[..., None], log_q)
    return value.where(reached, torch.inf)


def _log_sum(values: Tensor) -> Tensor:
    """logsumexp over the last dimension whose gradient is 0, not NaN, where all values are -inf."""
    empty = torch.isneginf(values.detach().amax(-1))
    if bool(empty.any()):
        values = values.masked_fill(empty[..., None], 0.0)
    return values.logsumexp(-1).where(~empty, -torch.inf)
