"""Acceptance rules of token trees: which path stands, given the target's logits over the nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from draftscope import sampling
from draftscope.tree.draft import Drafted
from draftscope.tree.verify import Walk, greedy_walk, point_mass_walk, sampled_walk

Test = Callable[[Drafted, Tensor, Mapping[str, float], np.random.Generator, Counter], Walk]


@dataclass(frozen=True)
class TreeRule:
    """A named rule.

    Attributes:
        lossless: the emitted tokens are distributed as the target's own.
        drawn: it takes children that were drawn without replacement; else the draft's most
            probable ones.
        test: of a drafted tree of n nodes, the target's logits [n + 1, V] over the text and the
            nodes, the target's law, a generator and a counter.
    """

    name: str
    lossless: bool
    drawn: bool
    test: Test


def _greedy(drafted: Drafted, logits: Tensor, law, rng, counts) -> Walk:
    """A node stands when it is the target's argmax (ties to the lowest id)."""
    peaks, best = logits.max(-1)
    if not all(map(math.isfinite, peaks.tolist())):
        sampling.law(logits, 0.0)  # raises, with the place of the fault
    tree = drafted.tree
    return greedy_walk(tree.token_ids.tolist(), tree.parents.tolist(), best.tolist())


def _without_replacement(drafted: Drafted, logits: Tensor, law, rng, counts) -> Walk:
    """Children drawn without replacement, tested with residuals: `verify.sampled_walk`."""
    tree, p = drafted.tree, sampling.law(logits, **law)
    uniforms = sampling.uniforms(rng, len(p))
    return sampled_walk(
        tree.token_ids.tolist(), tree.parents.tolist(), drafted.q, p, uniforms, counts
    )


def _point_mass(drafted: Drafted, logits: Tensor, law, rng, counts) -> Walk:
    """Chosen children: the target samples, and a child stands when it is what was sampled."""
    tree, p = drafted.tree, sampling.law(logits, **law)
    uniforms = sampling.uniforms(rng, len(p))
    return point_mass_walk(tree.token_ids.tolist(), tree.parents.tolist(), p, uniforms)


TREE_RULES = {
    rule.name: rule
    for rule in (
        TreeRule("greedy", True, False, _greedy),
        TreeRule("without_replacement", True, True, _without_replacement),
        TreeRule("point_mass", True, False, _point_mass),
    )
}


def tree_rule_of(law: Mapping[str, float]) -> TreeRule:
    """The lossless rule that a decoding law calls for, of children that the draft draws."""
    return TREE_RULES["greedy" if law["temperature"] == 0 else "without_replacement"]
