"""Measures of acceptance as values of nodes, and tables of their ratios over prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope import seeds
from draftscope.domains.observations import Log
from draftscope.domains.schemas import ALL
from draftscope.statistics.intervals import Interval, bootstrap_columns


@dataclass(frozen=True)
class Settings:
    """How the study counts and resamples.

    Attributes:
        position_edge: trees at generated positions below it are early.
        entropy_bins: bins of target entropy with equal numbers of nodes.
        node_budgets: sizes of tree for which the best one is looked for.
        cost_ratios: time of a draft step / time of a target pass, for the speed of shapes.
        budget_depth: deepest level of a best shape. Below the log's deepest level its rates are
            those of the deepest level, and the row says so.
        fewest_reached: reached nodes that a rate needs to enter a best shape.
        Others as in `statistics.intervals`.
    """

    position_edge: int = 32
    entropy_bins: int = 8
    node_budgets: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    cost_ratios: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.5)
    budget_depth: int = 8
    fewest_reached: int = 20
    confidence: float = 0.95
    resamples: int = 10_000
    method: str = "studentized"
    seed: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Settings:
        """Settings from JSON values; lists become tuples.

        Raises:
            TypeError: an unknown key.
        """
        return cls(**{key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()})

    def options(self, *names: str) -> dict[str, Any]:
        """Options of the bootstrap; the names make the resamples of one table its own."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "rng": seeds.generator("domains", self.seed, *names),
        }


def measured(log: Log, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Value of each node and whether it counts, [nodes] each; names as in `schemas.MEASURES`."""
    if name == "alpha":
        return log.alpha, np.ones(len(log.alpha), dtype=bool)
    if name == "alpha_chain":
        return log.alpha, log.whole & log.chain
    if name == "alpha_chain_reached":
        return log.alpha, log.whole & log.chain & log.reached
    if name == "walk_chain":
        return log.accepted, log.whole & log.chain & log.reached
    if name == "walk_level":
        # The reached nodes of a level are siblings; the first of them stands for the level.
        reached = np.flatnonzero(log.reached & log.whole)
        level = log.tree[reached] * (log.deepest + 1) + log.depth[reached]
        first = np.zeros(len(log.tree), dtype=bool)
        first[reached[np.unique(level, return_index=True)[1]]] = True
        return log.tree_accepted[log.tree] >= log.depth, first
    raise ValueError(f"unknown measure {name!r}")


def outcome(log: Log, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Value of each node and whether it counts, [nodes] each: whole trees only.

    Names as in `schemas.OUTCOMES` and `schemas.MODELLED_OUTCOMES`.
    """
    if name == "alpha":
        return log.alpha, log.whole
    rows = log.whole & log.reached
    return log.accepted, rows & log.chain if name == "walk_chain" else rows


def domains(log: Log) -> list[tuple[str, np.ndarray]]:
    """Name and prompts of each domain, and of `ALL` when there are several."""
    named = [(domain, log.prompts_of(domain)) for domain in log.domains]
    return [*named, (ALL, log.prompts_of(None))]


def named(name: str, interval: Interval) -> dict[str, Any]:
    """The columns of an interval."""
    return {
        name: interval.estimate,
        f"{name}_lower": interval.low,
        f"{name}_upper": interval.high,
    }


def explained(interval: Interval) -> dict[str, Any]:
    """How the interval was made, or why there is none."""
    method = "none" if interval.low is None else interval.method
    return {"method": method, "reason": interval.reason}


class Ratios:
    """Rows of which each has a ratio of sums over prompts; one set of resamples serves all."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.rows: list[dict[str, Any]] = []
        self._above: list[np.ndarray] = []
        self._below: list[np.ndarray] = []
        self._most: list[float] = []

    def add(
        self, row: dict[str, Any], above: np.ndarray, below: np.ndarray, most: float = np.inf
    ) -> None:
        """A row, with the numerators and denominators of its value, [prompts] each.

        The value is not negative, and `most` is the largest it can be.
        """
        self.rows.append(row)
        self._most.append(most)
        self._above.append(above)
        self._below.append(below)

    def finish(self) -> list[dict[str, Any]]:
        """The rows with `value` and its interval, `prompts`, `method` and `reason`."""
        if not self.rows:
            return []
        above, below = np.stack(self._above, axis=1), np.stack(self._below, axis=1)
        intervals = bootstrap_columns(above, below, **self.options)
        return [
            row
            | {"prompts": interval.n}
            | named("value", interval.within(most=most))
            | explained(interval)
            for row, interval, most in zip(self.rows, intervals, self._most, strict=True)
        ]
