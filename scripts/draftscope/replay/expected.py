"""Expected counts of a speculative loop along a given trajectory, without sampling noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dtbsv

from draftscope.ends import offers


@dataclass(frozen=True)
class ExpectedRounds:
    """Expected counts given the emitted tokens.

    `acceptance_length` is tokens / E[rounds], which is not E[tokens / rounds]; None for an empty
    trajectory.
    """

    tokens: int
    rounds: float
    accepted: float
    offered: float

    @property
    def acceptance_length(self) -> float | None:
        return self.tokens / self.rounds if self.tokens else None


def expected_rounds(
    accept_prob: np.ndarray,
    gamma: int,
    *,
    budget: int | None = None,
    stop_reason: str = "budget",
    offered_limit: np.ndarray | None = None,
) -> ExpectedRounds:
    """Exact expectation over all rounds a loop could have run, by dynamic programming.

    With v(t) the probability that a round starts at position t and P(s, k) the probability that
    a round at s accepts k drafts,

        v(0) = 1,    v(t) = sum_k v(t - 1 - k) P(t - 1 - k, k),

    and every expected count is a sum of v(s) times the count expected of a round at s. The
    recursion is a unit lower triangular system with gamma + 1 bands, solved in O(n gamma).

    Args:
        accept_prob: [n] acceptance probability of a draft tested at each position, given the
            emitted token (`accept_prob_emitted`; 0 or 1 under greedy decoding).
        Others as in `greedy_rounds`.

    Raises:
        UserError: gamma is below 1.
        ValueError: a probability outside [0, 1]; shapes, budget and reason that contradict.
    """
    accept_prob = np.asarray(accept_prob, np.float64)
    tokens = len(accept_prob)
    offered = offers(tokens, gamma, budget, stop_reason, offered_limit)
    if not ((accept_prob >= 0) & (accept_prob <= 1)).all():
        raise ValueError("an acceptance probability is outside [0, 1]")
    if not tokens:
        return ExpectedRounds(0, 0.0, 0.0, 0.0)

    left = tokens - np.arange(tokens)
    most = np.minimum(offered, left)  # drafts that can be accepted: none past the last token
    at_least = np.zeros((gamma + 2, tokens))  # [k, s]: a round at s accepts k drafts or more
    at_least[0] = 1.0
    for count in range(1, min(gamma, tokens) + 1):
        ahead = tokens - count + 1
        product = at_least[count - 1, :ahead] * accept_prob[count - 1 :]
        at_least[count, :ahead] = np.where(most[:ahead] >= count, product, 0.0)

    bands = min(gamma + 1, tokens - 1)
    system = np.ones((bands + 1, tokens), order="F")
    system[1:] = np.diff(at_least, axis=0)[:bands]  # minus P(s, k)
    first = np.zeros(tokens)
    first[0] = 1.0
    starts = dtbsv(bands, system, first, lower=1, diag=1)

    # An accepted end-of-text token takes back what was offered beyond it.
    to_the_end = np.where(most == left, at_least[most, np.arange(tokens)], 0.0)
    return ExpectedRounds(
        tokens,
        float(starts.sum()),
        float(starts @ at_least[1:].sum(axis=0)),
        float(starts @ (offered - to_the_end * (offered - most))),
    )
