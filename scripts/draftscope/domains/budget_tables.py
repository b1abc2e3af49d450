"""What to speculate: rates along the accepted path, and the best chain and tree for a budget."""

from __future__ import annotations

import json
from collections import Counter

from draftscope.domains.layout import (
    LENGTH,
    SHARE,
    intervals,
    nothing,
    table,
)
from draftscope.domains.lookup import Statistics, number
from draftscope.exhibits.captioned import Table


def path_rates(found: Statistics) -> Table:
    """Acceptance by depth and rank, given that the parent was accepted."""
    rows = [
        {
            "domain": row["domain"],
            "depth": row["depth"],
            "rank": row["rank"],
            "prompts": row["prompts"],
            "reached": row["reached"],
            "accepted": row["accepted"],
            **number(row, "rate", "rate"),
            "used": row["used"],
            "source": row["source"],
            "reason": row["reason"],
        }
        for row in found.rows("path_rates")
    ]
    return table(
        rows or [nothing("domain")],
        {
            "domain": ("domain", None),
            "depth": ("depth", None),
            "rank": ("rank", None),
            "prompts": ("prompts", None),
            "reached": ("reached", None),
            "accepted": ("accepted", None),
            "rate": ("rate", SHARE),
            "used": ("rate that the budgets use", SHARE),
            "source": ("from", None),
        },
        "Acceptance of a node given that its parent was accepted, by depth and rank",
        [
            (
                "A node is accepted when it is the target's own next token, so that the rates of "
                "siblings add up to at most 1. Deeper: not measured at this depth, the rate of the "
                "next depth above stands in; none: the rank counts as never accepted."
            ),
            intervals(found.settings),
        ],
    )


def budgets(found: Statistics) -> Table:
    """The best chain and the best tree of each domain, for each budget and cost of drafting."""
    rows = [
        {
            "domain": row["domain"],
            "kind": row["kind"],
            "rule": "most speed" if row["rule"] == "cost" else "most tokens",
            "budget": row["budget"],
            "nodes": row["nodes"],
            "depth": row["depth"],
            "shape": shape(row["paths"]),
            **number(row, "tokens_per_round", "tokens"),
            "in_log": row["in_log"],
            "cost_ratio": row["cost_ratio"],
            **number(row, "speedup", "speedup"),
            "reason": row["reason"],
        }
        for row in found.rows("budgets")
    ]
    return table(
        rows or [nothing("domain")],
        {
            "domain": ("domain", None),
            "kind": ("kind", None),
            "rule": ("best for", None),
            "budget": ("at most nodes", None),
            "nodes": ("nodes", None),
            "depth": ("depth", None),
            "shape": ("children by depth", None),
            "tokens": ("tokens a round", LENGTH),
            "in_log": ("counted in the log", LENGTH),
            "cost_ratio": ("c", ".2f"),
            "speedup": ("speedup predicted", ".2f"),
        },
        "Speculation budgets: the best chain and the best tree of each domain",
        [
            (
                "Found from the measured rates by depth and rank, as in Sequoia (arXiv 2402.12374). "
                "Tokens a round count the target's own token. Counted in the log: the same shape in "
                "the trees of this run, without the assumption that a rate depends on depth and "
                "rank alone; none where the trees do not hold the shape."
            ),
            (
                "Children by depth: 2 / 2, 1 stands for two nodes below the root, of which the "
                "first has two children and the second one. c: time of a draft step / time of a "
                "target pass; the speedup is predicted, takes a pass over the tree to cost as much "
                "as one over a token, and was not timed."
            ),
            intervals(found.settings),
        ],
    )


def shape(text: str | None) -> str:
    """Rank paths as JSON, shown as the number of children of each node that has some, by depth."""
    paths = [tuple(path) for path in json.loads(text)] if text else []
    if not paths:
        return "plain decoding"
    levels = []
    for depth in range(1, max(map(len, paths)) + 1):
        parents = Counter(path[:-1] for path in sorted(paths) if len(path) == depth)
        levels.append(", ".join(map(str, parents.values())))
    return " / ".join(levels)
