"""Expected accepted length from the target's own trajectories: an unbiased estimate, and a product.

At the token y_i that the target emitted, b_i = min(1, q_i(y_i) / p_i(y_i)). As y is drawn from p,
E[prod_{i<=k} b_i] = sum over y_1..y_k of prod min(p_i, q_i), which is the probability that at
least k drafts are accepted. The overlap a_i = sum_v min(p_i, q_i) averages b_i over the last token
alone: a product of overlaps along a trajectory drawn from p weighs the prefixes as p does,
where acceptance has tilted them towards what p and q share. So it is exact for one draft (K = 1),
or where a_i is the same after every prefix, and otherwise a surrogate that misses E[L].
"""

from __future__ import annotations

from torch import Tensor

from draftscope.losses.expected import expected_accepted_length


def accept_prob_emitted(log_p: Tensor, log_q: Tensor) -> Tensor:
    """b = min(1, q(y) / p(y)) at emitted tokens, [...].

    Args:
        log_p, log_q: log-probabilities of the emitted tokens, [...]; q may be 0 (-inf), p not.
    """
    return (log_q - log_p).clamp(max=0).exp()


def accepted_length_estimate(log_p: Tensor, log_q: Tensor, valid: Tensor | None = None) -> Tensor:
    """sum_k prod_{i<=k} min(1, q(y_i) / p(y_i)): unbiased for E[L], without the bonus, [...].

    Unbiased over trajectories y drawn from p, for a draft that reads nothing but the text before
    the block and the tokens before i (a block drafter reads the former alone).

    Args:
        log_p, log_q: log-probabilities of the emitted tokens, [..., K]; each q given the emitted
            tokens before it where the draft reads them.
        valid: bool [..., K], a prefix of each block; positions behind it add nothing.
    """
    return expected_accepted_length(accept_prob_emitted(log_p, log_q), valid)


def accepted_length_surrogate(overlaps: Tensor, valid: Tensor | None = None) -> Tensor:
    """sum_k prod_{i<=k} a_i of the overlaps along one trajectory, [...]; what D-PAL's weights use.

    Less noisy than `accepted_length_estimate`, and biased: see the module.
    """
    return expected_accepted_length(overlaps, valid)
