"""One verdict a row: what a test says about a decoder, and what it could have found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from draftscope.statistics import chi_square
from draftscope.statistics.contingency import RARE

POWER = 0.9
POOLED = "pooled token counts, two-sample chi-square"


@dataclass(frozen=True)
class Subject:
    """What is tested: decoder or rule, on which level, and whether it has to pass."""

    level: int
    name: str
    rule: str
    correct: bool
    texts: int
    tokens: int


@dataclass(frozen=True)
class Outcome:
    """Result of a test.

    `detectable` is the total variation between the cells of the test that it finds with power
    .9; rare tokens share a cell, and what moves among them is not seen.
    """

    test: str
    statistic: float | None = None
    freedom: int | None = None
    p: float | None = None
    detectable: float | None = None
    total_variation: float | None = None
    rejected: bool | None = None
    reason: str | None = None


def row(subject: Subject, outcome: Outcome, level: float) -> dict[str, Any]:
    """A row of the schema `lossless_equivalence`; p-values below `level` reject."""
    rejected = outcome.rejected
    if rejected is None:
        rejected = outcome.p is not None and outcome.p < level
    return {
        "level": subject.level,
        "subject": subject.name,
        "rule": subject.rule,
        "test": outcome.test,
        "correct": subject.correct,
        "texts": subject.texts,
        "tokens": subject.tokens,
        "statistic": outcome.statistic,
        "freedom": outcome.freedom,
        "p": outcome.p,
        "level_of_test": level,
        "rejected": rejected,
        "detectable": outcome.detectable,
        "total_variation": outcome.total_variation,
        "reason": outcome.reason,
    }


def detectable(freedom: int, observations: float, level: float) -> float:
    """Every law whose cells are at least so far off, in total variation, is found with power .9.

    The noncentrality L that reaches the power is a chi-square distance of sqrt(L / n), and the
    total variation is at most half of that (Cauchy-Schwarz).
    """
    critical = stats.chi2.isf(level, freedom)
    noncentrality = float(special.chndtrinc(critical, freedom, 1 - POWER))
    return min(1.0, math.sqrt(noncentrality / observations) / 2)


def goodness_of_fit(counts: np.ndarray, chances: np.ndarray, level: float) -> Outcome:
    """Independent tokens, counts [V], against the law they must have, chances [V]."""
    found = chi_square(counts, chances, level, POWER)
    return Outcome(
        "goodness of fit",
        found.statistic,
        found.degrees,
        found.p,
        found.detectable_total_variation,
        float(abs(counts / counts.sum() - chances).sum() / 2),
        rejected=not found.fits(level),
        reason=found.reason or _reason(bool(found.impossible), _by_chance(chances, counts.sum())),
    )


def _by_chance(chances: np.ndarray, observations: float) -> float:
    """The total variation that so many draws from the law itself have on average."""
    return float(np.sqrt(chances * (1 - chances) / (2 * math.pi * observations)).sum())


def _reason(impossible: bool, by_chance: float) -> str:
    if impossible:
        return "a token of probability 0 was emitted"
    return f"of the total variation, chance alone gives {by_chance:.4f}"


def transitions_fit(counts: np.ndarray, chances: np.ndarray, level: float) -> Outcome:
    """Dependent tokens of a Markov chain, context by context.

    Given the token before, each token is a draw from a known law, so the chi-squares of the
    contexts add up (Anderson and Goodman 1957). The total variation is the mean over contexts.

    Args:
        counts: [V, V] how often each token followed each token.
        chances: [V, V] the law of the token that follows, a row a context.
    """
    statistic, freedom, impossible, distance, by_chance = 0.0, 0, False, 0.0, 0.0
    for seen, law in zip(counts, chances, strict=True):
        if not seen.sum():
            continue
        found = chi_square(seen, law, level, POWER)
        impossible |= bool(found.impossible)
        distance += abs(seen - law * seen.sum()).sum() / 2
        by_chance += seen.sum() * _by_chance(law, seen.sum())
        if found.statistic is not None:
            statistic, freedom = statistic + found.statistic, freedom + found.degrees
    name = "goodness of fit of transitions"
    if not freedom:
        return Outcome(name, rejected=impossible, reason="too few tokens in any context")
    p = float(stats.chi2.sf(statistic, freedom))
    return Outcome(
        name,
        statistic,
        freedom,
        p,
        detectable(freedom, counts.sum(), level),
        float(distance / counts.sum()),
        rejected=impossible or p < level,
        reason=_reason(impossible, by_chance / counts.sum()),
    )


def binned(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two rows of counts [2, bins]; tokens that expect fewer than five in either are one bin."""
    table = np.stack((first, second)).astype(float)
    table = table[:, table.sum(0) > 0]
    share = table.sum(1) / table.sum()
    order = np.argsort(table.sum(0), kind="stable")
    table = table[:, order]
    least = share.min() * table.sum(0)
    rare = int((least < RARE).sum())
    while 0 < rare < table.shape[1] and least[:rare].sum() < RARE:
        rare += 1
    if rare < 2:
        return table
    return np.concatenate((table[:, :rare].sum(1, keepdims=True), table[:, rare:]), axis=1)


def two_sample(first: np.ndarray, second: np.ndarray, level: float) -> Outcome:
    """The published test: counts of tokens, [V] a method, pooled over all texts.

    It sees the frequency of tokens alone and takes them for independent, which tokens of one
    text are not; the tests beside it do neither.
    """
    table = binned(first, second)
    name = POOLED
    freedom = table.shape[1] - 1
    if freedom < 1:
        return Outcome(name, reason="one bin after pooling")
    statistic = pearson(table[0], table[1])
    sizes = table.sum(1)
    return Outcome(
        name,
        statistic,
        freedom,
        float(stats.chi2.sf(statistic, freedom)),
        detectable(freedom, sizes.prod() / sizes.sum(), level),
        float(abs(table[0] / sizes[0] - table[1] / sizes[1]).sum() / 2),
    )


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's statistic of two rows of counts."""
    a, b = first.sum(), second.sum()
    both = first + second
    used = both > 0
    difference = first * math.sqrt(b / a) - second * math.sqrt(a / b)
    return float((difference[used] ** 2 / both[used]).sum())


def permutation(
    statistic: Callable[[np.ndarray], float],
    prompts: Sequence[Any],
    methods: Sequence[bool],
    permutations: int,
    rng: np.random.Generator,
) -> tuple[float, float, np.ndarray]:
    """A test that exchanges the methods of whole texts, within each prompt and nowhere else.

    Under losslessness the texts of a prompt are exchangeable between methods, however dependent
    the tokens of a text and however different the prompts.

    Args:
        statistic: of methods [texts] (True: the loop under test); large values reject.

    Returns:
        The statistic, its p-value (the observed labels among the permuted), and its permutation
        distribution [permutations].
    """
    labels = np.asarray(methods)
    groups = [np.flatnonzero(np.asarray(prompts) == prompt) for prompt in dict.fromkeys(prompts)]
    observed = statistic(labels)
    null = np.empty(permutations)
    for i in range(permutations):
        shuffled = labels.copy()
        for group in groups:
            shuffled[group] = rng.permutation(labels[group])
        null[i] = statistic(shuffled)
    at_least = int((null >= observed - 1e-9 * max(1.0, abs(observed))).sum())
    return observed, (at_least + 1) / (permutations + 1), null


def verdicts(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Who failed.

    Returns:
        rejected: correct decoders that a test rejected; pooled: those that only the published
        pooled test did, which is not valid where tokens of a text depend on one another; missed:
        controls that no test caught.
    """
    failed: dict[str, bool] = {}  # whether a valid test was among those that rejected
    for r in rows:
        if r["correct"] and r["rejected"]:
            name = f"{r['subject']}, {r['rule']}"
            failed[name] = failed.get(name, False) or r["test"] != POOLED
    controls: dict[str, bool] = {}
    for r in rows:
        if not r["correct"]:
            name = f"level {r['level']}, {r['rule']}"
            controls[name] = controls.get(name, False) or r["rejected"]
    missed = [name for name, caught in controls.items() if not caught]
    return {
        "rejected": [name for name, valid in failed.items() if valid],
        "pooled": [name for name, valid in failed.items() if not valid],
        "missed": missed,
    }
