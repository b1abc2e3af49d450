"""Level 3: a real pair. The texts of the loop beside those of plain decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.errors import UserError
from draftscope.lossless.judgement import (
    Outcome,
    Subject,
    detectable,
    pearson,
    permutation,
    row,
    two_sample,
)

PERMUTATIONS = 2000
SECOND = 1  # the first token may come from the pass over the prompt alone and prove little


def level3(
    trajectories: Sequence[Mapping[str, Any]],
    draft_length: int,
    pair: str,
    seed: int,
    level: float,
    rule: str = "speculative_sampling",
    correct: bool = True,
    permutations: int = PERMUTATIONS,
) -> list[dict[str, Any]]:
    """Rows of the schema `lossless_equivalence`: three tests of one pair.

    The pooled two-sample test is the published one. The two others exchange the methods of whole
    texts within each prompt: the same counts, and the total variation of the second token's
    distributions, mean over prompts, which tests the conditional law and not the frequencies.

    Args:
        trajectories: rows of the schema `live_trajectories`; draft length 0 is plain decoding.
        draft_length: of the loop under test.
        correct: False for a rule that is wrong on purpose.

    Raises:
        UserError: a method has no text.
    """
    usable = [
        t
        for t in trajectories
        if t["status"] == "ok" and len(t["token_ids"]) and t["draft_length"] in (0, draft_length)
    ]
    methods = np.array([t["draft_length"] == draft_length for t in usable], bool)
    if not methods.any() or methods.all():
        missing = "plain decoding" if methods.any() else f"draft length {draft_length}"
        raise UserError(f"pair {pair}: there is no live text of {missing} to compare")
    prompts = [t["prompt_id"] for t in usable]
    counts = _counts([t["token_ids"] for t in usable])
    texts, tokens = int(methods.sum()), int(counts[methods].sum())
    subject = Subject(3, pair, rule, correct, texts, tokens)
    own, plain = counts[methods].sum(0), counts[~methods].sum(0)
    outcomes = [
        two_sample(own, plain, level),
        _permuted_counts(counts, prompts, methods, permutations, seed, level),
        _second_token(usable, prompts, methods, permutations, seed),
    ]
    return [row(subject, outcome, level) for outcome in outcomes]


def _counts(texts: Sequence[Sequence[int]]) -> np.ndarray:
    """Counts [texts, tokens that occur]."""
    flat = np.concatenate([np.asarray(text, np.int64) for text in texts])
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    ids, column = np.unique(flat, return_inverse=True)
    counts = np.zeros((len(texts), len(ids)))
    np.add.at(counts, (owner, column), 1)
    return counts


def _permuted_counts(counts, prompts, methods, permutations, seed, level) -> Outcome:
    name = "token counts, methods permuted within prompts"
    # Bins come from both methods together, so that a permutation cannot change them.
    total = counts.sum(0)
    rare = total < 2 * 5
    bins = np.concatenate((counts[:, ~rare], counts[:, rare].sum(1, keepdims=True)), axis=1)
    bins = bins[:, bins.sum(0) > 0]
    if bins.shape[1] < 2:
        return Outcome(name, reason="one bin after pooling")

    def statistic(labels: np.ndarray) -> float:
        return pearson(bins[labels].sum(0), bins[~labels].sum(0))

    observed, p, null = permutation(
        statistic, prompts, methods, permutations, seeds.generator("level 3", seed, "counts")
    )
    own, plain = bins[methods].sum(0), bins[~methods].sum(0)
    sizes = np.array([own.sum(), plain.sum()])
    freedom = bins.shape[1] - 1
    # Tokens of a text depend on one another: as many as the null statistic says are worth less.
    worth = min(1.0, freedom / null.mean()) if null.mean() > 0 else 1.0
    return Outcome(
        name,
        observed,
        None,
        p,
        detectable(freedom, worth * sizes.prod() / sizes.sum(), level),
        float(abs(own / sizes[0] - plain / sizes[1]).sum() / 2),
        reason="detectable is an approximation: n reduced by the spread of the permutations",
    )


def _second_token(usable, prompts, methods, permutations, seed) -> Outcome:
    name = "total variation at the second token, methods permuted within prompts"
    kept = [i for i, t in enumerate(usable) if len(t["token_ids"]) > SECOND]
    second = np.array([usable[i]["token_ids"][SECOND] for i in kept], np.int64)
    labels, groups = methods[kept], np.array(prompts)[kept]
    both = [g for g in dict.fromkeys(groups) if 0 < labels[groups == g].sum() < (groups == g).sum()]
    inside = np.isin(groups, both)
    second, labels, groups = second[inside], labels[inside], groups[inside]
    if not len(second):
        return Outcome(name, reason="no prompt has a second token in both methods")
    ids, column = np.unique(second, return_inverse=True)
    names, place = np.unique(groups, return_inverse=True)
    cells = (len(names), len(ids))

    def statistic(chosen: np.ndarray) -> float:
        tables = []
        for mask in (chosen, ~chosen):
            table = np.zeros(cells)
            np.add.at(table, (place[mask], column[mask]), 1)
            tables.append(table / table.sum(1, keepdims=True))
        return float(abs(tables[0] - tables[1]).sum(1).mean() / 2)

    observed, p, null = permutation(
        statistic, groups.tolist(), labels, permutations, seeds.generator("level 3", seed, "second")
    )
    return Outcome(
        name,
        observed,
        None,
        p,
        None,
        max(0.0, observed - float(null.mean())),
        reason=f"total variation above the {null.mean():.3f} that chance gives; power not computed",
    )
