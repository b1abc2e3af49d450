"""What to speculate: rates along the accepted path, and the best chain and tree for a budget."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from draftscope.domains.layout import (
    LENGTH,
    SHARE,
    intervals,
    nothing,
    table,
)
from draftscope.domains.lookup import ABSENT, Row, Statistics, number, reasons
from draftscope.exhibits.captioned import Table

FOUND_NOTE = (
    "Found from the rates of this run by depth and rank, as Sequoia does (arXiv 2402.12374). Tokens a "
    "round count the target's own token. Children by depth: 2 / 2, 1 stands for two nodes below the "
    "root, of which the first has two children and the second one."
)
NOT_HELD = "the trees of this run do not hold the shape"


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
    """The best chain and the best tree of each domain by their number of nodes."""
    rows = []
    for domain in found.domains:
        sizes = {row["budget"] for row in found.rows("budgets", domain=domain, rule="nodes")}
        for size in sorted(sizes):
            chain, tree = (
                found.row("budgets", domain=domain, rule="nodes", kind=kind, budget=size)
                for kind in ("chain", "tree")
            )
            if chain.get("reason") == ABSENT:
                chain = {"reason": "longer than the chains that are looked at"}
            uncounted = any(
                row.get("tokens_per_round") is not None and row.get("in_log") is None
                for row in (chain, tree)
            )
            rows.append(
                {
                    "domain": domain,
                    "nodes": size,
                    **number(chain, "tokens_per_round", "chain"),
                    "chain_in_log": chain.get("in_log"),
                    "shape": shape(tree.get("paths")),
                    **number(tree, "tokens_per_round", "tree"),
                    "in_log": tree.get("in_log"),
                    "extrapolated": bool(tree.get("extrapolated")),
                    "reason": reasons(
                        chain=chain, tree=tree, count={"reason": NOT_HELD if uncounted else None}
                    ),
                }
            )
    return table(
        rows or [nothing("domain")],
        {
            "domain": ("domain", None),
            "nodes": ("nodes", None),
            "chain": ("chain: tokens a round", LENGTH),
            "chain_in_log": ("counted", LENGTH),
            "shape": ("best tree: children by depth", None),
            "tree": ("tree: tokens a round", LENGTH),
            "in_log": ("counted", LENGTH),
            "extrapolated": ("rates from above", None),
        },
        "Speculation budgets: the best chain and the best tree of each domain, by nodes",
        [
            FOUND_NOTE,
            (
                "Counted: the same shape in the trees of this run, without the assumption that a "
                "rate depends on depth and rank alone. Rates from above: the tree is deeper than "
                "those of this run, and takes the rates of their deepest level."
            ),
            intervals(found.settings),
        ],
    )


def speeds(found: Statistics) -> Table:
    """The fastest chain and tree of each domain by what a draft step costs."""
    rows = []
    for domain in found.domains:
        own = found.rows("budgets", domain=domain, rule="cost")
        for cost in sorted({row["cost_ratio"] for row in own}):
            chain, tree = (_largest(own, kind, cost) for kind in ("chain", "tree"))
            rows.append(
                {
                    "domain": domain,
                    "cost_ratio": cost,
                    "chain_length": chain.get("depth"),
                    **number(chain, "speedup", "chain"),
                    "budget": tree.get("budget"),
                    "shape": shape(tree.get("paths")),
                    **number(tree, "speedup", "tree"),
                    "tokens": tree.get("tokens_per_round"),
                    "reason": reasons(chain=chain, tree=tree),
                }
            )
    return table(
        rows or [nothing("domain")],
        {
            "domain": ("domain", None),
            "cost_ratio": ("c", ".2f"),
            "chain_length": ("fastest chain", None),
            "chain": ("its speedup", ".2f"),
            "budget": ("nodes at most", None),
            "shape": ("fastest tree: children by depth", None),
            "tree": ("its speedup", ".2f"),
            "tokens": ("its tokens a round", LENGTH),
        },
        "The fastest chain and tree of each domain, by the cost of a draft step",
        [
            FOUND_NOTE,
            (
                "c: time of a draft step / time of a target pass; a tree of depth d takes d draft "
                "steps. The speedup over plain decoding is predicted, not timed, and takes a pass "
                "over the whole tree to cost as much as one over a single token. Plain decoding: "
                "nothing is faster."
            ),
            intervals(found.settings),
        ],
    )


def _largest(rows: Sequence[Row], kind: str, cost: float) -> Row:
    """The answer for the largest tree that is allowed."""
    own = [row for row in rows if row["kind"] == kind and row["cost_ratio"] == cost]
    return max(own, key=lambda row: row["budget"], default={"reason": ABSENT})


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
