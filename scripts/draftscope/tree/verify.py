"""Which path of a token tree stands, and what follows it: the arithmetic alone.

A tree of n nodes hangs below a text: `token_ids` [n] and `parents` [n] (-1: the text itself),
parents before children, siblings with different tokens. Rows [n + 1, ...] belong to the contexts
of such a tree: row 0 to the text, row i + 1 to the path that ends with node i. V is the target's
vocabulary, W the draft's; an id that only one side knows has probability 0 on the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from draftscope.sampling import RESIDUAL_EPSILON, draw, residual


class Walk(NamedTuple):
    """Accepted nodes from the root down, and the token that follows them."""

    path: list[int]
    next_id: int


def children_of(parents: Sequence[int]) -> list[list[int]]:
    """Nodes below each row, [n + 1] lists, in the order of the tree."""
    below: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"node {node} has parent {parent}; parents come before children")
        below[parent + 1].append(node)
    return below


def _follow(
    token_ids: Sequence[int], below: Sequence[Sequence[int]], wanted: Callable[[int], int]
) -> Walk:
    """Down the tree along the tokens `wanted` of each row reached."""
    path, row = [], 0
    while True:
        token = wanted(row)
        node = next((child for child in below[row] if token_ids[child] == token), None)
        if node is None:
            return Walk(path, token)
        path.append(node)
        row = node + 1


def greedy_walk(token_ids: Sequence[int], parents: Sequence[int], best: Sequence[int]) -> Walk:
    """A node stands when it is the target's argmax; best [n + 1] holds the argmax of each row."""
    return _follow(token_ids, children_of(parents), best.__getitem__)


def point_mass_walk(
    token_ids: Sequence[int], parents: Sequence[int], p: Tensor, uniforms: Sequence[float]
) -> Walk:
    """The lossless test of children that were chosen, not drawn, such as the draft's top k.

    The draft of a chosen child x is a point mass. Of several, tried in any order, x is accepted
    with the chance r(x) that is left to it, else r(x) <- 0 and r is renormalised. That is a draw y
    from p which is followed where it is a child: a child is accepted with probability p(x), and
    the law of what is emitted is p whatever the children are. Here y is drawn.

    Args:
        p: target distributions [n + 1, V].
        uniforms: [n + 1]; row i uses uniform i.
    """
    return _follow(
        token_ids, children_of(parents), lambda row: int(draw(p[row], float(uniforms[row])))
    )


def without(q: Tensor, tried: Tensor) -> Tensor:
    """Rows of q [..., W] after the tokens `tried` [..., k]: zero there and renormalised.

    Where nothing of a row is left it is uniform over the ids that were not tried (Sequoia, Chen
    et al., arXiv 2402.12374, algorithm 2).

    Raises:
        ValueError: all ids of a row were tried.
    """
    rest = q.scatter(-1, tried, 0.0)
    mass = rest.sum(-1, keepdim=True)
    used_up = ~(mass > 0)
    if bool(used_up.any()):
        rest = torch.where(used_up, torch.ones_like(q).scatter_(-1, tried, 0.0), rest)
        mass = rest.sum(-1, keepdim=True)
        if not bool((mass > 0).all()):
            raise ValueError(f"all {q.shape[-1]} ids were tried")
    return rest / mass


def draw_children(q: Tensor, uniforms: Tensor, fill: bool = False) -> tuple[Tensor, Tensor]:
    """Ids drawn from each row of q [f, W] one after another without replacement.

    Once a row is used up it has fewer children than uniforms, which loses nothing: whether another
    child follows may depend on those before it. With `fill` its draws go on uniformly over the
    ids that are left, as `without` does, until there are none.

    Args:
        uniforms: [f, k], one a child.

    Returns:
        ids [f, k] in the order drawn, and booleans [f, k]: there is such a child. Those that
        there are stand first.
    """
    ids = torch.zeros(uniforms.shape, dtype=torch.long, device=q.device)
    exist = torch.zeros(uniforms.shape, dtype=torch.bool, device=q.device)
    support = (q > 0).sum(-1)
    for k in range(min(uniforms.shape[-1], q.shape[-1])):
        rest = without(q, ids[:, :k]) if k else q
        ids[:, k] = draw(rest, uniforms[:, k])
        exist[:, k] = True if fill else support > k
    return ids, exist


class SiblingTest:
    """The children of one node, put to the test in the order in which they were drawn.

    Sampling without replacement with residuals (Sequoia, arXiv 2402.12374, algorithm 2; the test
    of several candidates is SpecInfer's, Miao et al., arXiv 2305.09781, section 4.3): child x is
    accepted with probability min(1, r(x) / q(x)); after a rejection r <- norm((r - q)_+), and q
    is what the next child was drawn from, `without` those tried. If all fail the next token is
    drawn from r. Every r is a law of what is still to be emitted, given the rejections so far, so
    the emitted token is distributed as p whatever q is.

    Attributes:
        rest: r [V], at first p.
        q: [W] what the present child was drawn from.
    """

    def __init__(self, p: Tensor, q: Tensor | None, counts: Counter | None = None) -> None:
        self.rest = p
        self.q = q
        self._counts = counts
        self._first = q
        self._tried: list[int] = []

    def chance(self, token: int) -> float:
        """The probability with which the next child is accepted, given that it is reached.

        Raises:
            ValueError: one of its two probabilities is NaN.
        """
        if self._tried:
            self.q = without(self._first, torch.tensor(self._tried, device=self._first.device))
        self._tried.append(token)
        if self._counts is not None and not 0 <= token < len(self.rest):
            self._counts["unmappable"] += 1
        left, drawn = _at(self.rest, token), _at(self.q, token)
        if math.isnan(left) or math.isnan(drawn):
            raise ValueError(f"probability of drafted token {token} is NaN")
        return 1.0 if left >= drawn > 0 else left / drawn if drawn > 0 else float(left > 0)

    def reject(self) -> None:
        """The present child was rejected: take its share of the draft out of r."""
        width = self.rest.shape[-1]
        q = self.q[:width].to(self.rest)
        q = torch.nn.functional.pad(q, (0, width - q.shape[-1]))
        if self._counts is not None and not float((self.rest - q).clamp_min(0).sum()) > (
            RESIDUAL_EPSILON
        ):
            self._counts["empty_residual"] += 1
        self.rest = residual(self.rest, q)


def _at(row: Tensor, token: int) -> float:
    return float(row[token]) if 0 <= token < row.shape[-1] else 0.0


def sampled_walk(
    token_ids: Sequence[int],
    parents: Sequence[int],
    q: Sequence[Tensor | None],
    p: Tensor,
    uniforms: Sequence[float],
    counts: Counter | None = None,
    siblings: Callable[[Tensor, Tensor | None, Counter | None], SiblingTest] = SiblingTest,
) -> Walk:
    """The lossless test of children that were drawn without replacement.

    A tree without branches is tested as `sampling.verify` tests a chain, uniform for uniform.

    Args:
        token_ids: children of a node in the order in which they were drawn.
        q: n + 1 rows [W]: what the first child of a row was drawn from; those of rows without
            children are not read and may be None.
        p: target distributions [n + 1, V].
        uniforms: [n + 1]; node i uses uniform i, the token that follows the last one.
        counts: if given, "unmappable" counts drafted ids beyond V that were reached, and
            "empty_residual" rejections that left r as it was.
        siblings: how the children of a node are tested.

    Raises:
        ValueError: the shapes do not fit, or a probability that is needed is NaN.
    """
    n = len(token_ids)
    if len(parents) != n or len(q) != n + 1 or p.dim() != 2 or len(p) != n + 1:
        raise ValueError(f"a tree of {n} nodes needs {n} parents and {n + 1} rows of q and of p")
    below, path, row = children_of(parents), [], 0
    while True:
        test = siblings(p[row], q[row], counts)
        for child in below[row]:
            if float(uniforms[child]) < test.chance(token_ids[child]):
                path.append(child)
                break
            test.reject()
        else:
            return Walk(path, int(draw(test.rest, float(uniforms[n]))))
        row = path[-1] + 1
