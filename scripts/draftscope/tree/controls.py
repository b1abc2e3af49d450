"""Tests of trees that are wrong on purpose: what the equivalence test must catch.

Each is the test of children drawn without replacement with one fault.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.lossless.controls import MILD_SHARE
from draftscope.tree.candidates import Candidates, candidates
from draftscope.tree.draft import Drafted, TreeDraft
from draftscope.tree.rules import TREE_RULES, TreeRule
from draftscope.tree.verify import SiblingTest, Walk, sampled_walk


class _ResidualKept(SiblingTest):
    """After a rejection the next child is tested against p again."""

    def reject(self) -> None:
        pass


class _NotRenormalized(SiblingTest):
    """After a tried child the draft's other probabilities stay as they were."""

    def chance(self, token: int) -> float:
        chance = super().chance(token)
        if len(self._tried) == 1:
            return chance
        self.q = self._first.index_fill(0, torch.tensor(self._tried[:-1]), 0.0)
        return min(1.0, float(self.rest[token]) / float(self.q[token]))


class _FirstLaws(SiblingTest):
    """Every child is tested by min(1, p / q); then (p - q)_+ is what is left, once."""

    def __init__(self, p: Tensor, q: Tensor | None, counts=None) -> None:
        super().__init__(p, q, counts)
        self._p = p

    def chance(self, token: int) -> float:
        self._tried.append(token)
        return min(1.0, float(self._p[token]) / float(self._first[token]))

    def reject(self) -> None:
        self.rest = sampling.residual(self._p, self._first)


class _MildlyWrong(SiblingTest):
    """A small share of what is left after a rejection comes from the draft."""

    def reject(self) -> None:
        super().reject()
        self.rest = (1 - MILD_SHARE) * self.rest + MILD_SHARE * self._first


def _sampled(
    drafted: Drafted, p: Tensor, uniforms, siblings: type[SiblingTest] = SiblingTest
) -> Walk:
    tree = drafted.tree
    return sampled_walk(
        tree.token_ids.tolist(), tree.parents.tolist(), drafted.q, p, uniforms, None, siblings
    )


def _rule(name: str, siblings: type[SiblingTest], one_uniform: bool = False) -> TreeRule:
    def test(drafted: Drafted, logits: Tensor, law, rng: np.random.Generator, counts) -> Walk:
        p = sampling.law(logits, **law)
        uniforms = rng.random(len(p))
        if one_uniform:
            uniforms[:-1] = uniforms[0]
        return _sampled(drafted, p, uniforms, siblings)

    return TreeRule(name, lossless=False, drawn=True, test=test)


def _bonus_from_draft(drafted: Drafted, logits: Tensor, law, rng, counts) -> Walk:
    """What follows a whole path is drawn from the draft's last law on it."""
    p = sampling.law(logits, **law)
    uniforms = rng.random(len(p))
    walk = _sampled(drafted, p, uniforms)
    parents = drafted.tree.parents.tolist()
    if not walk.path or walk.path[-1] in parents:
        return walk
    q = drafted.q[parents[walk.path[-1]] + 1]
    return Walk(walk.path, int(sampling.draw(q, uniforms[-1])))


class ChosenDraft(TreeDraft):
    """Takes its most probable children where it is asked to draw them."""

    def _draw(self, laws: Tensor, logits: Tensor, most: int) -> Candidates:
        return candidates(logits, most)


SIBLING_FAULTS = {
    "residual_not_updated": _ResidualKept,
    "draft_not_renormalized": _NotRenormalized,
    "residual_slightly_wrong": _MildlyWrong,
}
TREE_GROSS = {
    rule.name: rule
    for rule in (
        _rule("residual_not_updated", _ResidualKept),
        _rule("draft_not_renormalized", _NotRenormalized),
        _rule("first_laws_one_uniform", _FirstLaws, one_uniform=True),
        TreeRule("bonus_from_draft", False, True, _bonus_from_draft),
    )
}
# The right test, of the children of a `ChosenDraft`.
CHOSEN_AS_DRAWN = TreeRule("chosen_as_drawn", False, True, TREE_RULES["without_replacement"].test)
TREE_MILD = _rule("residual_slightly_wrong", _MildlyWrong)
