"""The node log as counts in the cells of five factors, prompt by prompt, for the models.

Every factor is a category, so nodes that agree in all of them and in their prompt are one row
with a weight. A million nodes become some ten thousand rows, and nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from draftscope.domains.entropy import entropy_bins
from draftscope.domains.measures import Settings, outcome
from draftscope.domains.observations import Log
from draftscope.domains.schemas import FACTORS


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts of an outcome in the cells that occur.

    Attributes:
        levels: factor -> names of its levels; the first is the reference.
        codes: level of each factor in each cell, [cells, factors], factors as in `FACTORS`.
        trials, successes: nodes and total outcome, [prompts, cells].
        prompts: indices of the prompts, those with a node, [prompts].
        domain: domain of each of them, as its level of the factor domain, [prompts].
    """

    levels: dict[str, list[str]]
    codes: np.ndarray
    trials: np.ndarray
    successes: np.ndarray
    prompts: np.ndarray
    domain: np.ndarray

    def columns(self, factor: str, at: np.ndarray | int | None = None) -> np.ndarray:
        """Indicator columns of the factor's levels but the first, [cells, levels - 1].

        Args:
            at: the level of each cell, or of all of them; the cells' own when not given.
        """
        own = self.codes[:, list(FACTORS).index(factor)] if at is None else at
        own = np.broadcast_to(own, len(self.codes))
        return (own[:, None] == np.arange(1, len(self.levels[factor]))).astype(float)

    def units(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(successes, trials) of each prompt, and its domain, for leaving them out one by one.

        Domains with more than `most` prompts have theirs put together in that many groups.

        Returns:
            Sums of shape [units, cells, 2] and the domain of each unit, [units].
        """
        both = np.stack([self.successes, self.trials], axis=-1)
        group, strata = np.zeros(len(both), dtype=int), []
        for domain in range(len(self.levels["domain"])):
            rows = np.flatnonzero(self.domain == domain)
            groups = min(len(rows), most)
            group[rows] = len(strata) + np.arange(len(rows)) % max(groups, 1)
            strata += [domain] * groups
        units = np.zeros((len(strata), *both.shape[1:]))
        np.add.at(units, group, both)
        return units, np.array(strata)


def collect(log: Log, settings: Settings, name: str) -> Cells:
    """The cells of an outcome; levels that no node has are left out."""
    value, rows = outcome(log, name)
    bins, edges = entropy_bins(log, settings)
    prompt = log.prompt[rows]
    rank = np.minimum(log.rank[rows], 99) + 100 * log.below[rows]
    raw = {
        "domain": (log.prompt_domain[prompt], lambda code: log.domains[code]),
        "depth": (log.depth[rows], str),
        "rank": (rank, _rank_name),
        "entropy": (bins[rows], lambda code: f"{edges[code, 0]:.3g} to {edges[code, 1]:.3g}"),
        "position": (
            (log.tree_step[log.tree[rows]] >= settings.position_edge).astype(int),
            lambda code: ("early", "late")[code],
        ),
    }
    levels, codes = {}, []
    for factor in FACTORS:
        found, code = np.unique(raw[factor][0], return_inverse=True)
        levels[factor] = [raw[factor][1](level) for level in found]
        codes.append(code)
    shape = tuple(len(each) for each in levels.values())
    flat = np.ravel_multi_index(codes, shape) if len(prompt) else np.zeros(0, dtype=np.int64)
    used, cell = np.unique(flat, return_inverse=True)
    held, unit = np.unique(prompt, return_inverse=True)
    size = len(held) * len(used)
    place = unit * len(used) + cell
    places = np.stack(np.unravel_index(used, shape), axis=1) if len(used) else np.zeros((0, 5), int)
    domains = np.unique(log.prompt_domain[held], return_inverse=True)[1]
    return Cells(
        levels,
        places,
        np.bincount(place, minlength=size).reshape(len(held), len(used)).astype(float),
        np.bincount(place, value[rows], size).reshape(len(held), len(used)),
        held,
        domains,
    )


def _rank_name(code: int) -> str:
    below, rank = divmod(code, 100)
    return f"{rank} below another rank" if below else str(rank)
