"""Level 1: the acceptance rule alone, on four families of p and q over 30 tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from draftscope import sampling, seeds
from draftscope.drafters.model import Block
from draftscope.live.rules import RULES, Rule
from draftscope.lossless.controls import GROSS, MILD
from draftscope.lossless.judgement import Subject, goodness_of_fit, row

VOCABULARY = 30
LAW = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
DRAFTS = 2  # enough that a round has a second test and a bonus
CONTROL_FAMILY = "mismatched concentration"
GROSS_SHARE = 5  # a gross fault needs no more than this fraction of the trials


def families(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name -> (p, q), each [30]: the four kinds of pairs of the published study."""
    rng = seeds.generator("families", seed)
    uniform = rng.dirichlet(np.ones(VOCABULARY), 2)
    ranks = 1 / np.arange(1, VOCABULARY + 1) ** 1.5
    heavy = [rng.permutation(ranks) * np.exp(rng.normal(size=VOCABULARY)) for _ in range(2)]
    close = uniform[0] * np.exp(0.05 * rng.normal(size=VOCABULARY))
    return {
        "uniform-Dirichlet": (uniform[0], uniform[1]),
        "heavy-tailed": tuple(x / x.sum() for x in heavy),
        "near-identical": (uniform[0], close / close.sum()),
        CONTROL_FAMILY: (
            rng.dirichlet(np.full(VOCABULARY, 0.5)),
            rng.dirichlet(np.full(VOCABULARY, 5.0)),
        ),
    }


def emitted(
    rule: Rule, p: np.ndarray, q: np.ndarray, trials: int, rng: np.random.Generator
) -> np.ndarray:
    """Counts [V] of `trials` emitted tokens.

    p and q are the same at every position, so under a lossless rule all tokens of a round,
    corrections and bonuses among them, are independent draws from p.
    """
    logits = torch.from_numpy(p).log().expand(DRAFTS + 1, -1)
    drafts = torch.from_numpy(q).expand(DRAFTS, -1)
    counts, unused, done = np.zeros(len(p)), Counter(), 0
    while done < trials:
        ids = sampling.draw(drafts, torch.from_numpy(rng.random(DRAFTS)))
        accepted, following = rule.test(Block(ids, drafts), logits, LAW, rng, unused)
        for token in [*ids[:accepted].tolist(), following][: trials - done]:
            counts[token] += 1
            done += 1
    return counts


def level1(trials: int, seed: int, level: float) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`: the rule on each family, and the controls.

    Args:
        trials: emitted tokens of each family; gross controls take a fifth of them.
        level: p-values below it reject.
    """
    pairs = families(seed)
    runs = [(name, RULES["speculative_sampling"], True, trials) for name in pairs]
    few = max(trials // GROSS_SHARE, 1)
    runs += [(CONTROL_FAMILY, rule, False, few) for rule in GROSS.values()]
    runs += [(CONTROL_FAMILY, MILD, False, trials)]
    rows = []
    for family, rule, correct, count in runs:
        rng = seeds.generator("level 1", seed, family, rule.name)
        p, q = pairs[family]
        outcome = goodness_of_fit(emitted(rule, p, q, count, rng), p, level)
        rows.append(row(Subject(1, family, rule.name, correct, count, count), outcome, level))
    return rows
