"""How far may a draft be from the target before its proposal can be rejected? Exactly.

For a target p and a set R of tokens that would be rejected, the certificate is the infimum of
KL(p || q) over drafts q whose most probable token, or one of several, lies in R (Sharma, arXiv
2606.30265, Theorem 4.4). The nearest such draft pours probability like water: it lifts the most
probable token x* of R to a level c, shaved from all tokens above c, and keeps p elsewhere. Trees
(Theorem 5.1) lower x0 instead, to the level of the m most probable other tokens.

Everything works on the largest probabilities alone, in float64, vectorised over positions: a token
at or below the level plays no part. What was not enough to know the level is found out and said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

DEPTH = 64
DEEPER = 8  # times as deep, where the largest probabilities were not enough
LARGEST_BLOCK = 8_000_000
# Probabilities from a softmax in a narrow type do not add up to 1 exactly.
SUM_TOLERANCE = 1e-2

Evaluate = Callable[[np.ndarray, np.ndarray, bool], tuple[np.ndarray, np.ndarray]]


def probabilities(p: Any) -> np.ndarray:
    """An array or tensor [..., V] of distributions in float64.

    Raises:
        ValueError: no axis, an empty vocabulary, a negative or undefined number, or rows that do
            not add up to 1.
    """
    if hasattr(p, "detach"):
        p = p.detach().double().cpu().numpy()
    p = np.asarray(p, dtype=np.float64)
    if p.ndim < 1 or not p.shape[-1]:
        raise ValueError(f"p of shape {p.shape} holds no distribution over a vocabulary")
    total = p.sum(-1)
    # One comparison finds NaN and infinities as well.
    if not (np.abs(total - 1) <= SUM_TOLERANCE).all() or (p < 0).any():
        raise ValueError(
            "p holds a row that is no distribution: negative, undefined, or not of sum 1"
        )
    return p


def largest(p: np.ndarray, depth: int) -> np.ndarray:
    """The `depth` largest values of [n, V], descending."""
    width = p.shape[-1]
    if depth < width:
        p = np.partition(p, width - depth, axis=-1)[..., width - depth :]
    return np.sort(p, axis=-1)[..., ::-1]


def deepening(p: np.ndarray, depth: int, evaluate: Evaluate) -> np.ndarray:
    """A value for each row of [..., V] from as many of its largest probabilities as it takes.

    Args:
        depth: how many to begin with.
        evaluate: (places [n] of rows among all rows, their largest [n, K] descending, whether K is
            V) -> values [n] and whether each is final [n]; with all of V it is.
    """
    width = p.shape[-1]
    flat = p.reshape(-1, width)
    values = np.empty(len(flat))
    step = max(1, LARGEST_BLOCK // width)
    for start in range(0, len(flat), step):
        places, deep = np.arange(start, min(start + step, len(flat))), min(max(depth, 1), width)
        block = flat[start : start + step]
        while len(places):
            value, enough = evaluate(places, largest(block, deep), deep == width)
            values[places[enough]] = value[enough]
            block, places, deep = block[~enough], places[~enough], min(width, DEEPER * deep)
    return values.reshape(p.shape[:-1])


def water_level(top: np.ndarray, lifted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The level c and the KL of lifting one token to it (Lemma 4.2).

    The level solves c - lifted = sum over tokens of (p - c)_+, that is the largest over k of
    (lifted + the k largest) / (k + 1).

    Args:
        top: [..., K] largest probabilities, descending.
        lifted: [...] probability of the token that is lifted.

    Returns:
        c [...] and KL(p || q) in nats [...], both final where the last of `top` is at most c.
    """
    above = np.cumsum(top, axis=-1) + lifted[..., None]
    level = np.maximum(lifted, (above / np.arange(2, top.shape[-1] + 2)).max(-1))
    c = level[..., None]
    # kl_div is a log(a / c) - a + c, whose parts add up to the KL since q moves mass only within
    # the set; its terms are not negative, so a KL near 0 does not drown in rounding.
    shaved = np.where(top > c, special.kl_div(top, c), 0.0).sum(-1)
    return level, shaved + special.kl_div(lifted, level)


def single(top: np.ndarray, threshold: np.ndarray, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """The certificate of a criterion that rejects every token with p at most a threshold.

    Args:
        top: [n, K] largest probabilities, descending.
        threshold: [n].
        whole: `top` holds the whole vocabulary.

    Returns:
        Nats [n], infinite where no token is rejected, and whether `top` was deep enough [n].
    """
    rejected = top <= threshold[:, None]
    found = rejected.any(-1)
    lifted = np.where(found, top[np.arange(len(top)), rejected.argmax(-1)], 0.0)
    level, value = water_level(top, lifted)
    # A vocabulary that is not all here holds further tokens, at most as probable as the last.
    enough = np.full(len(top), True) if whole else found & (top[:, -1] <= level)
    # Below 0 nothing can lie, however many tokens are missing.
    empty = threshold < 0
    return np.where(found, value, np.inf), enough | empty


def covering(top: np.ndarray, m: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """The certificate that the m most probable tokens of a draft hold x0 (Theorem 5.1).

    Rejected is a draft with at least m other tokens that are as probable as x0.

    Args, returns: as `single`.
    """
    if top.shape[-1] < m + 1:
        return np.full(len(top), np.inf), np.full(len(top), whole)
    level = tree_level(top, m)
    raised = top[:, 1 : m + 1]
    lifted = np.where(raised < level[:, None], special.kl_div(raised, level[:, None]), 0.0)
    return special.kl_div(top[:, 0], level) + lifted.sum(-1), np.full(len(top), True)


def tree_level(top: np.ndarray, m: int) -> np.ndarray:
    """The level r that solves p(x0) - r = sum over the m next tokens of (r - p)_+, [...].

    It is the least over j of (p(x0) + the j least of them) / (j + 1).
    """
    least_first = top[..., m:0:-1]
    sums = np.cumsum(np.concatenate([top[..., :1], least_first], axis=-1), axis=-1)
    return (sums / np.arange(1, m + 2)).min(-1)


def certificate(p: Any, rejected: Any) -> np.ndarray:
    """The certificate of any set of rejected tokens (Theorem 4.4), in nats.

    Args:
        p: target, [..., V].
        rejected: booleans that broadcast to it; true where the token would be rejected.

    Returns:
        [...]: a draft with KL(p || q) below it proposes no rejected token, whatever it does at
        ties; infinite where none is rejected, 0 where a most probable token of p is.

    Raises:
        ValueError: p is no distribution.
    """
    p = probabilities(p)
    mask = np.broadcast_to(np.asarray(rejected, dtype=bool), p.shape)
    best = np.where(mask, p, -1.0).max(-1)
    lifted = np.maximum(best, 0.0).reshape(-1)

    def of_rows(places: np.ndarray, top: np.ndarray, whole: bool):
        level, value = water_level(top, lifted[places])
        return value, np.full(len(top), whole) | (top[:, -1] <= level)

    return np.where(best < 0, np.inf, deepening(p, DEPTH, of_rows))


def active_size(p: Any, rejected: Any) -> np.ndarray:
    """|A| of Theorem 4.6, [...]: tokens that the nearest rejected draft puts at one level."""
    p = probabilities(p)
    _, star, level = _lifted(p, rejected)
    above = p > level[..., None]
    np.put_along_axis(above, star[..., None], True, -1)
    return above.sum(-1)


def worst_draft(p: Any, rejected: Any) -> np.ndarray:
    """The nearest draft whose most probable tokens include a rejected one, [..., V].

    Its KL(p || q) is the certificate. Rows without a rejected token come back as NaN: there no
    draft is rejected.

    Args:
        p, rejected: as in `certificate`.
    """
    p = probabilities(p)
    found, star, level = _lifted(p, rejected)
    q = np.minimum(p, level[..., None])
    np.put_along_axis(q, star[..., None], level[..., None], -1)
    return np.where(found[..., None], q, np.nan)


def _lifted(p: np.ndarray, rejected: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether a token is rejected, the most probable rejected one, and the level; [...] each."""
    mask = np.broadcast_to(np.asarray(rejected, dtype=bool), p.shape)
    star = np.where(mask, p, -1.0).argmax(-1)
    own = np.take_along_axis(p, star[..., None], -1)[..., 0]
    return mask.any(-1), star, water_level(np.sort(p, -1)[..., ::-1], own)[0]


def worst_tree_draft(p: Any, m: int) -> np.ndarray:
    """The nearest draft with m tokens as probable as x0, [..., V]; NaN where V is at most m."""
    p = probabilities(p)
    if p.shape[-1] <= m:
        return np.full(p.shape, np.nan)
    order = np.argsort(-p, axis=-1, kind="stable")[..., : m + 1]
    top = np.take_along_axis(p, order, -1)
    level = tree_level(top, m)[..., None]
    first = np.arange(m + 1) == 0
    q = p.copy()
    np.put_along_axis(q, order, np.where(first, level, np.maximum(top, level)), -1)
    return q
