"""The published analysis, for its own columns: plain means over nodes, and nothing else.

Source: "Acceptance Dynamics Across Cognitive Domains in Speculative Decoding" (arXiv 2604.14682):
alpha = min(1, p/q) at T=1 (equation 1), the target's entropy (2), the expected accepted length
as a sum of products of per-depth means (3), Spearman's rho over all nodes of a domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftscope.domains.observations import Log
from draftscope.statistics.dependence import Correlation, spearman


@dataclass(frozen=True)
class Mean:
    """A plain mean over nodes with the standard deviation over them; None where there is none."""

    nodes: int
    value: float | None
    spread: float | None


def mean(values: np.ndarray) -> Mean:
    n = len(values)
    return Mean(
        n, float(values.mean()) if n else None, float(values.std(ddof=1)) if n > 1 else None
    )


def chains(depth_means: Sequence[float]) -> np.ndarray:
    """Chance of "a fully accepted chain" of each length: products of per-depth means (Table III).

    Depths are taken as independent, which they are not: prompts and places that accept one
    token accept the next one more often.
    """
    return np.cumprod(np.asarray(depth_means, dtype=float), axis=-1)


def expected_length(depth_means: Sequence[float]) -> float:
    """E[L], the sum of the chains (equation 3), without the bonus or correction token."""
    return float(chains(depth_means).sum())


def of_domain(log: Log, domain: str | None) -> np.ndarray:
    """Rows of the nodes of a domain, cut trees included; of all domains with None."""
    if domain is None:
        return np.ones(len(log.tree), dtype=bool)
    return log.prompt_domain[log.prompt] == log.domains.index(domain)


def rate(log: Log, domain: str | None) -> Mean:
    """Mean alpha over all nodes (Table I)."""
    return mean(log.alpha[of_domain(log, domain)])


def profile(log: Log, domain: str | None) -> list[Mean]:
    """Mean alpha of each depth, from 1 (Table IV)."""
    rows = of_domain(log, domain)
    return [mean(log.alpha[rows & (log.depth == depth)]) for depth in range(1, log.deepest + 1)]


def halves(log: Log, domain: str | None, depth: int, edge: int) -> tuple[Mean, Mean]:
    """Mean alpha of the trees before generated position `edge` and from it on (Table V).

    Args:
        depth: depth of the nodes; 0 for all.
    """
    rows = of_domain(log, domain) & ((log.depth == depth) | (depth == 0))
    late = log.tree_step[log.tree] >= edge
    return mean(log.alpha[rows & ~late]), mean(log.alpha[rows & late])


def correlation(log: Log, domain: str | None, entropy: np.ndarray) -> Correlation:
    """Spearman's rho of entropy and alpha over nodes, p as if they were independent (Table VI)."""
    rows = of_domain(log, domain)
    return spearman(entropy[rows], log.alpha[rows])
