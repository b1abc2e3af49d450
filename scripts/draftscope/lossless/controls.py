"""Acceptance rules that are wrong on purpose: what a test of losslessness must catch.

Each is speculative sampling with one fault that real loops have had. A test that passes them is
no evidence for a loop that it passes too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.live.rules import Rule

Draw = Callable[[Tensor, Tensor, float], int]  # p and q at the rejected position, a uniform

MILD_SHARE = 0.02


def _rule(
    name: str,
    correction: Draw | None = None,
    bonus: Draw | None = None,
    one_uniform: bool = False,
    accept_all: bool = False,
) -> Rule:
    def test(block, logits, law, rng: np.random.Generator, counts) -> tuple[int, int]:
        p = sampling.law(logits, **law)
        ids = block.ids.tolist()
        uniforms = rng.random(len(ids) + 1)
        if one_uniform:
            uniforms[:] = uniforms[0]
        last = float(uniforms[-1])
        for i, x in enumerate(ids):
            q = block.q[i]
            if accept_all or uniforms[i] * float(q[x]) < float(p[i, x]):
                continue
            draw = correction or _from_residual
            return i, draw(p[i], q, last)
        q = block.q[-1] if len(ids) else p[0]
        return len(ids), (bonus or _from_target)(p[-1], q, last)

    return Rule(name, lossless=False, test=test)


def _from_residual(p: Tensor, q: Tensor, uniform: float) -> int:
    return int(sampling.draw(sampling.residual(p, q), uniform))


def _from_target(p: Tensor, q: Tensor, uniform: float) -> int:
    return int(sampling.draw(p, uniform))


def _from_draft(p: Tensor, q: Tensor, uniform: float) -> int:
    return int(sampling.draw(q, uniform))


def _unnormalized(p: Tensor, q: Tensor, uniform: float) -> int:
    """The inverse CDF of (p - q)_+ as it is; uniforms beyond its mass give the last id."""
    steps = (p - q).clamp_min(0).cumsum(-1)
    return min(int(torch.searchsorted(steps, uniform, right=True)), len(p) - 1)


def _mild(p: Tensor, q: Tensor, uniform: float) -> int:
    mixed = (1 - MILD_SHARE) * sampling.residual(p, q) + MILD_SHARE * q
    return int(sampling.draw(mixed, uniform))


GROSS = {
    rule.name: rule
    for rule in (
        _rule("accept_everything", accept_all=True),
        _rule("residual_not_normalized", correction=_unnormalized),
        _rule("correction_from_target", correction=_from_target),
        _rule("correction_from_draft", correction=_from_draft),
        _rule("bonus_from_draft", bonus=_from_draft),
        _rule("one_uniform", one_uniform=True),
    )
}
MILD = _rule("residual_slightly_wrong", correction=_mild)
CONTROL = _rule("no_fault")  # the same code without a fault: it has to pass
