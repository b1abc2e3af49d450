"""Expected accepted length of a block, and what each of its positions contributes.

A draft block of K positions is verified from the left, and position i is accepted with
probability a_i given that all before it were. L is the number accepted.
"""

from __future__ import annotations

import torch
from torch import Tensor


def expected_accepted_length(accept_prob: Tensor, valid: Tensor | None = None) -> Tensor:
    """E[L] = sum_k prod_{i<=k} a_i, without the bonus token, [...].

    Exact where a_i does not depend on which tokens were accepted before it (independent
    verification); for one trajectory of a model see `losses.estimators`.

    Args:
        accept_prob: a [..., K] in [0, 1].
        valid: bool [..., K]; invalid positions count as 1 in the products and are left out of the
            sum. None: all are valid.
    """
    if valid is None:
        return accept_prob.cumprod(-1).sum(-1)
    return (accept_prob.where(valid, 1.0).cumprod(-1) * valid).sum(-1)


@torch.no_grad()
def continuation_weights(
    accept_prob: Tensor,
    smoothing: float = 0.0,
    prefix: bool = True,
    suffix: bool = True,
    valid: Tensor | None = None,
) -> Tensor:
    """w_j = dE[L] / d log a_j = sum_{m>=j} prod_{i<=m} a_i, detached, [..., K].

    D-PACE (Wu et al. 2026, arXiv:2605.18810) writes it as the product of the cumulative confidence
    prod_{i<=j} a_i (`prefix`) and the continuation value 1 + sum_{m>j} prod_{j<i<=m} a_i
    (`suffix`); each alone is one of its ablations, neither gives weights of 1. Without smoothing
    the weights fall with j and the first is E[L].

    Args:
        accept_prob: a [..., K] in [0, 1].
        smoothing: alpha in [0, 1]; (1 - alpha) a + alpha stands for a, so that a position behind a
            sure rejection keeps a weight.
        valid: bool [..., K]; invalid positions count as 1 in the products, are left out of the
            sums and weigh 0. None: all are valid.

    Raises:
        ValueError: smoothing outside [0, 1].
    """
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing is {smoothing}; it lies in [0, 1]")
    if valid is None:
        valid = torch.ones_like(accept_prob, dtype=torch.bool)
    smooth = torch.lerp(accept_prob, torch.ones_like(accept_prob), smoothing).where(valid, 1.0)
    counted = valid.to(smooth.dtype)
    weights = counted
    if suffix:
        # From the right, without a division: a product of 0 has a continuation all the same.
        value = counted.clone()
        for j in range(value.shape[-1] - 2, -1, -1):
            value[..., j] += smooth[..., j + 1] * value[..., j + 1]
        weights = value * counted
    if prefix:
        weights = weights * smooth.cumprod(-1)
    return weights
