"""The law that a test of siblings emits, summed over all draws: nothing is left to chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.lossless.judgement import Outcome, Subject, row
from draftscope.lossless.rule_level import CONTROL_FAMILY, families
from draftscope.tree.controls import SIBLING_FAULTS
from draftscope.tree.rules import TREE_RULES
from draftscope.tree.verify import SiblingTest

CHILDREN = 2
_ROUNDING = 1e-12  # of some thousand terms in float64


def exact_law(
    p: Tensor,
    q: Tensor,
    children: int,
    siblings: type[SiblingTest] = SiblingTest,
    fill: bool = False,
) -> np.ndarray:
    """Law [V] of the token that follows a node whose children are drawn without replacement.

    Args:
        p, q: [V] and [W], float64.
        children: how many are drawn; fewer where q has fewer ids, unless `fill`, when the draws
            go on uniformly over the others.
        siblings: the test of the children.
    """
    law = np.zeros(len(p))
    _add(law, p, q, children, siblings, fill, (), 1.0)
    return law


def _add(law, p, q, children, siblings, fill, rejected: tuple[int, ...], weight: float) -> None:
    """Add what follows after these children were drawn and rejected, which has this weight."""

    def test() -> SiblingTest:
        state = siblings(p, q)
        for token in rejected:
            state.chance(token)
            state.reject()
        return state

    left = q.numpy().copy()
    left[list(rejected)] = 0.0
    if not left.any() and fill:
        left[:] = 1.0
        left[list(rejected)] = 0.0
    if len(rejected) == children or not left.any():
        law += weight * test().rest.numpy()
        return
    for token in np.flatnonzero(left):
        drawn = weight * left[token] / left.sum()
        chance = test().chance(int(token))
        if chance > 0:
            law[token] += drawn * chance
        if chance < 1:
            following = (*rejected, int(token))
            _add(law, p, q, children, siblings, fill, following, drawn * (1 - chance))


def level1_trees(seed: int, level: float) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`: the test of two siblings on 30 tokens, exactly.

    The families are those of the chain's rule. `total_variation` is exact, and a rule is rejected
    where it is more than rounding.
    """
    pairs = {name: tuple(torch.tensor(x) for x in both) for name, both in families(seed).items()}
    right = TREE_RULES["without_replacement"].name
    runs = [(name, right, SiblingTest, True) for name in pairs]
    runs += [(CONTROL_FAMILY, name, fault, False) for name, fault in SIBLING_FAULTS.items()]
    rows = []
    for family, name, siblings, correct in runs:
        p, q = pairs[family]
        distance = float(abs(exact_law(p, q, CHILDREN, siblings) - p.numpy()).sum() / 2)
        outcome = Outcome(
            f"law of {CHILDREN} siblings, summed over all draws",
            total_variation=distance,
            rejected=distance > _ROUNDING,
        )
        rows.append(row(Subject(1, family, name, correct, None, None), outcome, level))
    return rows
