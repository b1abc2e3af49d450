"""What to speculate in each domain: the best chain and the best trees for a budget.

Rates are those of the real walk, conditional on the parent being accepted. The shapes found are
best for them, so with few prompts their own estimate is a little high; `in_log` counts the same
shape in the trees of the log, where these hold it. The speed of a shape takes a target pass over
its nodes to cost as much as one over a single token.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from draftscope.domains.best_tree import Path, best_trees, worth
from draftscope.domains.measures import Ratios, Settings, domains, explained, named
from draftscope.domains.observations import Log, Sums
from draftscope.statistics.functions import bootstrap_function
from draftscope.statistics.intervals import Interval

Row = dict[str, Any]
NO_RATES = "no rate is measured: no reached nodes in whole trees"
PLAIN = "plain decoding is best"


class Rates:
    """Reached and accepted nodes by depth and rank, and the rates that shapes are built from.

    Attributes:
        sums: counts are reached nodes, totals accepted ones, [prompts, depths * ranks].
        source: of each rate used, [budget depth, ranks]: the depth it was measured at, from 1; 0
            for a rank that counts as never accepted.
    """

    def __init__(self, log: Log, settings: Settings, prompts: np.ndarray) -> None:
        self.depths = max(log.deepest, 1)
        self.ranks = int(log.rank.max(initial=1))
        rows = log.reached & log.whole
        group = (log.depth - 1) * self.ranks + log.rank - 1
        self.sums: Sums = log.sums(log.accepted, rows, group, self.depths * self.ranks).of(prompts)
        reached = self.sums.count.sum(0).reshape(self.depths, self.ranks)
        enough = reached >= settings.fewest_reached
        deepest = max(settings.budget_depth, self.depths)
        self.source = np.zeros((deepest, self.ranks), dtype=np.int64)
        for depth in range(deepest):
            for rank in range(self.ranks):
                above = np.flatnonzero(enough[: depth + 1, rank])
                self.source[depth, rank] = above[-1] + 1 if len(above) else 0

    def of(self, sums: np.ndarray) -> np.ndarray:
        """The rates of sums [..., depths * ranks, 2] of (accepted, reached), [..., depth, rank]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = (sums[..., 0] / sums[..., 1]).reshape(*sums.shape[:-2], self.depths, self.ranks)
        taken = np.take_along_axis(
            np.broadcast_to(rate, (*rate.shape[:-2], self.depths, self.ranks)),
            np.broadcast_to(np.maximum(self.source - 1, 0), (*rate.shape[:-2], *self.source.shape)),
            axis=-2,
        )
        return np.where(self.source > 0, taken, 0.0)

    @property
    def totals(self) -> np.ndarray:
        return np.stack([self.sums.total, self.sums.count], axis=-1)

    def extrapolated(self, tree: list[Path]) -> bool:
        """Whether the tree uses a rate that was measured at another depth."""
        return any(
            self.source[depth, rank - 1] != depth + 1
            for path in tree
            for depth, rank in enumerate(path)
        )


def path_rates(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_path_rates`, for the depths of the log; beyond, the last rate is used."""
    rows = []
    for domain, prompts in domains(log):
        rates = Rates(log, settings, prompts)
        used = rates.of(rates.totals.sum(0)) if len(prompts) else np.zeros_like(rates.source)
        table = Ratios(**settings.options("path_rates", domain))
        for depth in range(1, log.deepest + 1):
            for rank in range(1, rates.ranks + 1):
                source = int(rates.source[depth - 1, rank - 1])
                column = (depth - 1) * rates.ranks + rank - 1
                above, below = rates.sums.total[:, column], rates.sums.count[:, column]
                row = {
                    "domain": domain,
                    "depth": depth,
                    "rank": rank,
                    "reached": int(below.sum()),
                    "accepted": int(above.sum()),
                    "used": float(used[depth - 1, rank - 1]) if source else None,
                    "source": "none" if not source else "measured" if source == depth else "deeper",
                }
                table.add(row, above, below, 1.0)
        for row in table.finish():
            rows.append(row | {f"rate{end}": row.pop(f"value{end}")
                               for end in ("", "_lower", "_upper")})  # fmt: skip
    return rows


def budgets(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_budgets`: what is best for each budget of nodes and cost of drafting."""
    found = []
    for domain, prompts in domains(log):
        rates = Rates(log, settings, prompts)
        if not (rates.source > 0).any():
            found.append(_nothing(domain))
            continue
        chosen = _choose(rates.of(rates.totals.sum(0)), settings)
        shapes = sorted({tuple(tree) for *_, tree in chosen})
        intervals = _intervals(rates, shapes, settings.options("budgets", domain))
        counted = {tree: _in_log(log, tree, prompts) for tree in shapes}
        for kind, rule, budget, cost, tree in chosen:
            interval = intervals[tuple(tree)]
            depth = max(map(len, tree), default=0)
            row = {
                "domain": domain,
                "kind": kind,
                "rule": rule,
                "cost_ratio": cost,
                "budget": budget,
                "nodes": len(tree),
                "depth": depth,
                "paths": json.dumps(tree),
                "prompts": interval.n,
                "in_log": counted[tuple(tree)],
                "extrapolated": rates.extrapolated(tree),
            }
            row |= named("tokens_per_round", interval) | explained(interval)
            for end in ("", "_lower", "_upper"):
                tokens = row[f"tokens_per_round{end}"]
                known = cost is not None and tokens is not None
                row[f"speedup{end}"] = tokens / (1 + depth * cost) if known else None
            if not tree:
                row["reason"] = PLAIN
            found.append(row)
    return found


def _choose(rates: np.ndarray, settings: Settings) -> list[tuple]:
    """(kind, rule, budget, cost ratio, tree) of each question, [depth, rank] rates at hand."""
    depths, most = len(rates), max(settings.node_budgets, default=0)
    # best[d][n]: the best tree of n nodes no deeper than d
    best = [best_trees(rates[:depth], most) for depth in range(depths + 1)]
    chosen: list[tuple] = []
    chains = [[(1,) * length for length in range(1, depth + 1)] for depth in range(depths + 1)]
    for cost in settings.cost_ratios:
        chosen.append(("chain", "cost", depths, cost, _fastest(rates, chains, cost)))
    for budget in settings.node_budgets:
        if budget <= depths:
            chosen.append(("chain", "nodes", budget, None, chains[budget]))
        chosen.append(("tree", "nodes", budget, None, best[depths][budget][1]))
        for cost in settings.cost_ratios:
            trees = [by_nodes[budget][1] for by_nodes in best]
            chosen.append(("tree", "cost", budget, cost, _fastest(rates, trees, cost)))
    return chosen


def _fastest(rates: np.ndarray, trees: list[list[Path]], cost: float) -> list[Path]:
    """The tree of most tokens a time (Leviathan et al. 2023, theorem 3.8); the first of equals."""
    speeds = [
        (1 + worth(rates, tree)) / (1 + max(map(len, tree), default=0) * cost) for tree in trees
    ]
    return trees[int(np.argmax(np.array(speeds) >= max(speeds) - 1e-12))]


def _intervals(rates: Rates, shapes: list[tuple[Path, ...]], options: Row) -> dict[tuple, Interval]:
    def tokens(sums: np.ndarray) -> np.ndarray:
        own = rates.of(sums)
        return np.stack([1.0 + worth(own, tree) for tree in shapes], axis=-1)

    found = bootstrap_function(rates.totals, tokens, **options)
    return dict(zip(shapes, found, strict=True))


def _in_log(log: Log, tree: tuple[Path, ...], prompts: np.ndarray) -> float | None:
    """Mean accepted + 1 of this shape in the whole trees of the log; None if one lacks a node."""
    member = np.isin(log.tree_prompt, prompts) & log.tree_whole
    if (log.path < 0).any() or not member.any():
        return None
    if max((max(path) for path in tree), default=0) >= log.base:
        return None
    codes = [sum(r * log.base**power for power, r in enumerate(path[::-1])) for path in tree]
    held = member[log.tree] & np.isin(log.path, codes)
    if held.sum() < member.sum() * len(tree):
        return None
    return 1.0 + float(log.accepted[held].sum() / member.sum())


def _nothing(domain: str) -> Row:
    row = dict.fromkeys(("cost_ratio", "in_log"))
    for name in ("tokens_per_round", "speedup"):
        row |= dict.fromkeys((name, f"{name}_lower", f"{name}_upper"))
    return row | {
        "domain": domain, "kind": "tree", "rule": "nodes", "budget": 0, "nodes": 0, "depth": 0,
        "paths": "[]", "prompts": 0, "extrapolated": False, "method": "none", "reason": NO_RATES,
    }  # fmt: skip
