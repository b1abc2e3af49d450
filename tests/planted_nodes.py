"""Node logs with planted effects, in the real schemas and the published shape of tree.

Every position of a text has an entropy and two uniform numbers; a reached node of rank 1 is
accepted when the first lies below its chance, a reached node of rank 2 when its sibling is not
accepted and the second does. Trees of one text overlap, so they share what happens at a position,
as real ones do. The chance is logistic in what is planted. Nodes whose parent is not accepted
stand in text of the draft's own making: `own_top` raises them where it is all the draft's first
choices, `own_other` lowers them elsewhere. That makes depth look like a gain in a mean over all
nodes, since the deepest nodes of the published shape hang below first choices only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from draftscope.schemas import SCHEMAS
from draftscope.tree.schemas import SHORT  # noqa: F401  registers nodes and trees
from scipy.special import expit

PARENTS = np.array([-1, -1, 0, 0, 1, 1, 2, 2])
DEPTHS = np.array([1, 1, 2, 2, 2, 2, 3, 3])
RANKS = np.array([1, 2, 1, 2, 1, 2, 1, 2])
CHAIN = np.array([1, 0, 1, 0, 0, 0, 1, 0], dtype=bool)
ENTROPIES = np.array([0.1, 0.8, 1.6, 3.0])


@dataclass(frozen=True)
class Planted:
    """Effects on the log odds of acceptance.

    Attributes:
        domains: name -> level of the domain at depth 1, rank 1, entropy 0.
        depth: what depths 1, 2 and 3 add.
        rank: what rank 2 adds.
        entropy: what a nat adds.
        spread: standard deviation between the prompts of a domain.
        mixture: name -> chances of `ENTROPIES`; equal ones when not given.
    """

    domains: Mapping[str, float]
    depth: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rank: float = 0.0
    entropy: float = 0.0
    spread: float = 0.5
    own_top: float = 0.0
    own_other: float = 0.0
    mixture: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def simulate(
    planted: Planted, prompts: int, tokens: int, rng: np.random.Generator
) -> dict[str, tuple[pa.Table, pa.Table]]:
    """Domain -> (nodes, trees): a tree at each of `tokens` positions of each prompt."""
    return {domain: _domain(planted, domain, prompts, tokens, rng) for domain in planted.domains}


def _domain(planted, domain, prompts, tokens, rng) -> tuple[pa.Table, pa.Table]:
    size = (prompts, tokens, len(PARENTS))
    place = np.minimum(np.arange(tokens)[:, None] + DEPTHS - 1, tokens - 1)
    mixture = planted.mixture.get(domain, (0.25,) * 4)
    text = rng.choice(ENTROPIES, (prompts, tokens), p=mixture)
    other = rng.choice(ENTROPIES, size, p=mixture)
    uniform = rng.random((2, prompts, tokens))
    level = planted.domains[domain] + planted.spread * rng.standard_normal((prompts, 1, 1))
    level = level + np.take(planted.depth, DEPTHS - 1) + np.where(RANKS == 2, planted.rank, 0.0)
    accepted, reached = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    entropy, chance = np.empty(size), np.empty(size)
    for node, parent in enumerate(PARENTS):
        if parent >= 0:
            reached[..., node] = accepted[..., parent]
        here = reached[..., node]
        entropy[..., node] = np.where(here, text[:, place[:, node]], other[..., node])
        own = planted.own_top if parent >= 0 and CHAIN[parent] else planted.own_other
        odds = level[..., node] + planted.entropy * entropy[..., node] + np.where(here, 0.0, own)
        chance[..., node] = np.clip(expit(odds), 1e-9, 1.0)
        below = uniform[RANKS[node] - 1][:, place[:, node]] < chance[..., node]
        if RANKS[node] == 2:
            below &= ~accepted[..., node - 1]
        accepted[..., node] = here & below
    # mean `chance`: the Beta law with parameters chance / (1 - chance) and 1
    log_alpha = np.log(rng.random(size)) * (1 - chance) / chance
    inside = np.broadcast_to(np.arange(tokens)[:, None] + DEPTHS <= tokens, size)
    prompt, step, node = np.nonzero(inside)
    log_q = np.full(len(node), -1.0)
    names = np.array([f"{domain}-{index:05}" for index in range(prompts)], dtype=object)
    nodes = {
        "prompt_id": names[prompt],
        "sample": np.zeros(len(node)),
        "step": step,
        "node": node,
        "parent": PARENTS[node],
        "depth": DEPTHS[node],
        "rank": RANKS[node],
        "token_id": node,
        "log_p": log_q + log_alpha[inside],
        "log_q": log_q,
        "target_entropy": entropy[inside],
        "draft_entropy": entropy[inside] + 0.1,
        "offered": np.ones(int(inside.sum()), bool),
        "parent_accepted": reached[inside],
        "accepted": accepted[inside],
    }
    prompt, step = (each.ravel() for each in np.indices((prompts, tokens)))
    path = (accepted & inside).sum(-1).ravel()
    last = step + path >= tokens
    trees = {
        "prompt_id": names[prompt],
        "sample": np.zeros(len(step)),
        "step": step,
        "nodes": inside.sum(-1).ravel(),
        "offered_depth": np.where(inside, DEPTHS, 0).max(-1).ravel(),
        "accepted": path,
        "emitted": np.minimum(path + 1, tokens - step),
        "cut": step + 3 > tokens,
        "end": np.where(last, "budget", "continue"),
    }
    return _table(nodes, "nodes"), _table(trees, "trees")


def _table(columns: Mapping[str, np.ndarray], schema: str) -> pa.Table:
    types = SCHEMAS[schema]
    arrays = [pa.array(columns[column.name]).cast(column.type) for column in types]
    return pa.Table.from_arrays(arrays, schema=types)
