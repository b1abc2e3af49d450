"""Acceptance rules: what becomes of a block, given the target's logits over it.

Every rule takes the block, the target's logits [k + 1, V] (row i predicts drafted token i, the
last row what follows the block), the target's law, a generator and a counter, and returns how
many drafted tokens stand and the token that follows them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.criteria import Criterion

if TYPE_CHECKING:
    from draftscope.drafters.model import Block, Drafter

Test = Callable[
    ["Block", Tensor, Mapping[str, float], np.random.Generator, Counter], tuple[int, int]
]


@dataclass(frozen=True)
class Rule:
    """A named rule; `lossless`: the emitted tokens are distributed as the target's own."""

    name: str
    lossless: bool
    test: Test


def _matching(drafted: list[int], wanted: list[int]) -> tuple[int, int]:
    accepted = 0
    while accepted < len(drafted) and drafted[accepted] == wanted[accepted]:
        accepted += 1
    return accepted, wanted[accepted]


def _greedy(block: Block, logits: Tensor, law, rng, counts) -> tuple[int, int]:
    """A token stands when it is the target's argmax (ties to the lowest id)."""
    peaks, best = logits.max(-1)
    if not all(map(math.isfinite, peaks.tolist())):
        sampling.law(logits, 0.0)  # raises, with the place of the fault
    return _matching(block.ids.tolist(), best.tolist())


def _speculative(block: Block, logits: Tensor, law, rng, counts) -> tuple[int, int]:
    """Speculative sampling: `sampling.verify`."""
    p = sampling.law(logits, **law)
    ids = block.ids.tolist()
    q = block.q
    if q is None:
        # A draft with more ids than the target may propose one that the target does not have.
        width = max(p.shape[-1], 1 + max(ids, default=0))
        q = torch.zeros(len(ids), width, dtype=p.dtype, device=p.device)
        q[range(len(ids)), ids] = 1.0
    return sampling.verify(ids, q, p, rng, counts)


def _sampler_match(block: Block, logits: Tensor, law, rng, counts) -> tuple[int, int]:
    """The target samples by itself; a drafted token stands when it is what was sampled.

    Accepts with probability sum_v p(v) q(v), at most the overlap, and needs no q; an argmax draft
    x, as block drafters propose it, with probability p(x).
    """
    p = sampling.law(logits, **law)
    wanted = sampling.draw(p, torch.tensor(sampling.uniforms(rng, len(p)), dtype=torch.float64))
    return _matching(block.ids.tolist(), wanted.tolist())


UNWARPED = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
# Cai et al., Medusa (arXiv 2401.10774), section 2.3.1.
MEDUSA = Criterion("typical", epsilon=0.1, delta=0.09)


def relaxed(criterion: Criterion, name: str | None = None) -> Rule:
    """A rule that accepts tokens the target finds probable enough. Not lossless.

    A token stands when its probability lies above the criterion's threshold; what follows the
    accepted ones is drawn from the target's law, its argmax under greedy decoding. Greedy decoding
    has no probabilities of its own, so there the criterion asks those of temperature 1.

    Args:
        criterion: one that tests single tokens and is not strict greedy.
        name: of the rule; the criterion's label unless given.

    Raises:
        ValueError: strict greedy is the rule "greedy", and tree coverage tests no single token.
    """
    if criterion.lossless:
        raise ValueError(f"{criterion.label} is no relaxed rule of a chain")

    def test(block: Block, logits: Tensor, law, rng, counts) -> tuple[int, int]:
        greedy = law["temperature"] == 0
        p = sampling.law(logits, **(UNWARPED if greedy else law))
        entropy = torch.special.entr(p).sum(-1)
        top = p.topk(min(criterion.depth, p.shape[-1]), -1).values
        threshold = criterion.threshold(top.double().cpu().numpy(), entropy.double().cpu().numpy())
        ids = block.ids.tolist()
        accepted = 0
        while accepted < len(ids) and ids[accepted] < p.shape[-1]:
            if not float(p[accepted, ids[accepted]]) > threshold[accepted]:
                break
            accepted += 1
        if greedy:
            return accepted, int(logits[accepted].argmax())
        return accepted, int(sampling.draw(p[accepted], sampling.uniforms(rng, 1)[0]))

    return Rule(name or criterion.label, lossless=False, test=test)


RULES = {
    rule.name: rule
    for rule in (
        Rule("greedy", True, _greedy),
        Rule("speculative_sampling", True, _speculative),
        Rule("sampler_match", True, _sampler_match),
        Rule("exact_match", True, _sampler_match),  # its name where the draft is an argmax
        relaxed(MEDUSA, "typical"),
    )
}


def rule_of(law: Mapping[str, float], drafter: Drafter | None = None) -> Rule:
    """The lossless rule that a decoding law calls for; a drafter may have one of its own."""
    sampled = getattr(drafter, "rule", "speculative_sampling")
    return RULES["greedy" if law["temperature"] == 0 else sampled]
