"""The exact certificate of each acceptance criterion, as a function of the target alone.

All take p [..., V], an array or a tensor, and return nats [...], in float64: every draft q with
KL(p || q) below that is accepted. Infinite: no draft can be rejected. 0: the target's own
distribution as the draft could be, as where its two most probable tokens tie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from draftscope.certificates.exact import DEPTH, covering, deepening, probabilities, single
from draftscope.criteria import Criterion


def strict(p: Any) -> np.ndarray:
    """Accept y = x0 only; closed form G(p(x0), p(x1)) (Corollary 4.7)."""
    return of_criterion(p, Criterion("strict"))


def additive(p: Any, t: float) -> np.ndarray:
    """Accept p(y) > p(x0) - t (Corollary 4.10)."""
    return of_criterion(p, Criterion("additive", t=t))


def multiplicative(p: Any, a: float) -> np.ndarray:
    """Accept p(y) > a p(x0) (Corollary 4.12)."""
    return of_criterion(p, Criterion("multiplicative", a=a))


def top_m_additive(p: Any, m: int, t: float) -> np.ndarray:
    """Accept y among the m most probable with p(y) > p(x0) - t (Corollary 4.14).

    Of tokens that tie at the edge of the m none is accepted. With m = 1 it is strict greedy.
    """
    return of_criterion(p, Criterion("top_m_additive", m=m, t=t))


def top_m_multiplicative(p: Any, m: int, a: float) -> np.ndarray:
    """Accept y among the m most probable with p(y) > a p(x0), as `top_m_additive`."""
    return of_criterion(p, Criterion("top_m_multiplicative", m=m, a=a))


def typical(p: Any, epsilon: float, delta: float) -> np.ndarray:
    """Accept p(y) > min(epsilon, delta exp(-H(p))) (Corollary 4.15; Medusa has .1 and .09).

    0 where the threshold reaches p(x0), so that x0 itself would be rejected; delta < 1 rules it out.
    """
    return of_criterion(p, Criterion("typical", epsilon=epsilon, delta=delta))


def tree(p: Any, m: int) -> np.ndarray:
    """The draft's m most probable tokens hold x0 (Theorem 5.1); m = 1 is strict greedy."""
    return of_criterion(p, Criterion("tree", m=m))


def of_criterion(p: Any, criterion: Criterion) -> np.ndarray:
    """The certificate of any criterion.

    Raises:
        ValueError: p is no distribution.
    """
    p = probabilities(p)
    entropy = special.entr(p).sum(-1).reshape(-1) if criterion.kind == "typical" else None

    def of_rows(places: np.ndarray, top: np.ndarray, whole: bool):
        return evaluate(criterion, top, None if entropy is None else entropy[places], whole)

    return deepening(p, max(DEPTH, criterion.depth), of_rows)


def evaluate(
    criterion: Criterion, top: np.ndarray, entropy: np.ndarray | None, whole: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The certificate from the largest probabilities alone.

    Args:
        top: [n, K] the largest probabilities, descending.
        entropy: [n] entropy of the whole distribution, nats; None where the criterion needs none.
        whole: `top` holds the whole vocabulary.

    Returns:
        Nats [n], and whether `top` was deep enough for them to be exact [n].
    """
    if criterion.kind == "tree":
        return covering(top, criterion.m, whole)
    value, enough = single(top, criterion.threshold(top, entropy), whole)
    if top.shape[-1] < criterion.depth and not whole:
        enough = np.zeros_like(enough)
    return value, enough


def rejected(p: Any, criterion: Criterion) -> np.ndarray:
    """The tokens that a criterion rejects as single proposals, booleans [..., V].

    Raises:
        ValueError: p is no distribution, or the criterion is tree coverage.
    """
    p = probabilities(p)
    top = np.sort(p, axis=-1)[..., ::-1]
    threshold = criterion.threshold(top, special.entr(p).sum(-1))
    out = p <= np.asarray(threshold)[..., None]
    if criterion.kind == "strict":
        # Of one token alone nothing can be rejected; a tie at the top leaves no token safe.
        return out if p.shape[-1] > 1 else np.zeros_like(out)
    return out
