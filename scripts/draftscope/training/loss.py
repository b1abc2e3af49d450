"""The loss of distillation: KL(p, q) at the positions of the target's own text, at temperature 1.

Hinton et al. 2015 (arXiv:1503.02531); on-policy for the target, as in DistillSpec (Zhou et al.
2023, arXiv:2310.08461, forward KL). V is the width of the target's head, W the draft's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

# Most numbers in one block of logits: 24 MB in float32, some ten such blocks at one time.
LARGEST_BLOCK = 6_000_000


def divergence(log_p: Tensor, logits: Tensor, masked: Tensor | None = None) -> Tensor:
    """KL(p, q) in nats over the ids that both sides have, [positions].

    Args:
        log_p: log-probabilities of the target [positions, V], finite.
        logits: of the draft [positions, W]; the gradient flows through them.
        masked: ids that the draft must not emit, int64.
    """
    common = min(log_p.shape[-1], logits.shape[-1])
    if masked is not None and len(masked):
        logits = logits.index_fill(-1, masked, -torch.inf)
    ratio = log_p[..., :common] - torch.log_softmax(logits.float(), -1)[..., :common]
    if masked is not None and len(masked):
        ratio = ratio.index_fill(-1, masked[masked < common], 0.0)
    return (log_p[..., :common].exp() * ratio).sum(-1)


def blocks(count: int, width: int) -> Iterator[slice]:
    """Slices of `count` positions whose logits of `width` numbers fit one block."""
    size = max(1, LARGEST_BLOCK // width)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def accumulate(
    hidden: Tensor,
    weights: Tensor,
    divide_by: float,
    width: int,
    compare: Callable[[Tensor, slice], Tensor],
) -> float:
    """Add the gradient of sum(weights * KL) / divide_by to the draft's parameters.

    The head runs block by block and its gradient is handed to the body once, so that a matrix of
    [positions, vocabulary] never exists.

    Args:
        hidden: last hidden states of the draft [positions, width of the body], with their graph.
        weights: [positions].
        width: of the wider head.
        compare: (hidden states of a block, its slice) -> KL [positions of the block].

    Returns:
        The value of the loss.
    """
    leaf = hidden.detach().requires_grad_()
    total = 0.0
    for block in blocks(len(hidden), width):
        loss = (weights[block] * compare(leaf[block], block)).sum() / divide_by
        loss.backward()
        total += float(loss.detach())
    hidden.backward(leaf.grad)
    return total


def mean_and_match(
    pairs: Sequence[tuple[Tensor, Tensor]],
) -> tuple[float, float]:
    """Mean of KL values and share of matches, from (KL, equal argmax) of each text, [positions]."""
    kl = torch.cat([each[0] for each in pairs]).double()
    match = torch.cat([each[1] for each in pairs]).double()
    return float(kl.mean()), float(match.mean())
