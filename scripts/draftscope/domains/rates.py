"""Rates, lengths and depth profiles of each domain, with intervals over prompts."""

from __future__ import annotations

from typing import Any

import numpy as np

from draftscope import records
from draftscope.domains import as_published
from draftscope.domains.measures import Ratios, Settings, domains, explained, measured, named
from draftscope.domains.observations import Log, Sums
from draftscope.domains.schemas import LENGTHS, MEASURES, PUBLISHED, RATES, SURVIVALS
from draftscope.statistics.functions import bootstrap_function
from draftscope.statistics.intervals import bootstrap_columns

Row = dict[str, Any]
NOT_DENSE = "not defined: the log has no tree at some position that a round starts from"


def rates(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_rates`."""
    sums = {name: log.sums(*measured(log, name)) for name in MEASURES}
    sums["walk_nodes"] = log.sums(log.accepted, log.whole)
    every = np.ones(len(log.tree), dtype=bool)
    sums["target_entropy"] = log.sums(log.target_entropy, every)
    first = (log.depth == 1) & (log.rank == 1)
    sums["target_entropy_text"] = log.sums(log.target_entropy, first)
    sums["walk_first"] = log.sums(log.accepted, first & log.whole)
    trees = _count(log, np.ones(len(log.tree_step), dtype=bool))
    cut = _count(log, ~log.tree_whole)
    rows = []
    for domain, prompts in domains(log):
        table = Ratios(**settings.options("rates", domain))
        for name in RATES:
            base = name.removesuffix("_macro")
            part = sums[base].of(prompts)
            everywhere = base in ("alpha", "target_entropy", "target_entropy_text")
            row = {
                "domain": domain,
                "measure": name,
                "protocol": RATES[name][0],
                "trees": int((trees if everywhere else trees - cut)[prompts].sum()),
                "cut_trees": int(cut[prompts].sum()) if everywhere else 0,
                "nodes": int(part.count.sum()),
                "spread": records.none_if_nan(part.spread()[0]),
            }
            above, below = part.total[:, 0], part.count[:, 0]
            if base != name:
                held = below > 0
                above = np.divide(above, below, out=np.zeros_like(above), where=held)
                below = held.astype(float)
            table.add(row, above, below, np.inf if base.startswith("target_entropy") else 1.0)
        rows += table.finish()
    return rows


def depths(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_depths`: each measure at each depth, and the chances of getting there."""
    sums = {name: _by_depth(log, *measured(log, name)) for name in MEASURES}
    trees = _count(log, log.tree_whole)[:, None] * np.ones(log.deepest)
    for name, rows in (("chain_joint", log.chain), ("path_joint", True)):
        got = _by_depth(log, log.accepted, log.accepted & log.whole & rows).total
        sums[name] = Sums(trees, got, got)
    found = []
    for domain, prompts in domains(log):
        table = Ratios(**settings.options("depths", domain))
        for name, (protocol, _) in (MEASURES | SURVIVALS).items():
            if name == "chain_product":
                continue
            part = sums[name].of(prompts)
            for depth in range(1, log.deepest + 1):
                column = depth - 1
                row = {
                    "domain": domain,
                    "depth": depth,
                    "measure": name,
                    "protocol": protocol,
                    "nodes": int(part.count[:, column].sum()),
                    "spread": records.none_if_nan(part.spread()[column]),
                }
                table.add(row, part.total[:, column], part.count[:, column], 1.0)
        found += table.finish() + _products(domain, sums["alpha"].of(prompts), settings)
    return found


def lengths(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_lengths`.

    The tokens of a round are the accepted ones and the target's own, the bonus or correction
    token, which the published E[L] leaves out.
    """
    alpha = _by_depth(log, *measured(log, "alpha"))
    whole, every = log.tree_whole, np.ones(len(log.tree_step), dtype=bool)
    rounds = _rounds(log)
    chain = np.bincount(log.tree, log.accepted & log.chain, len(log.tree_step))
    counted = {
        "chain": (chain, whole),
        "joint": (log.tree_accepted, whole),
        "rounds": (log.tree_accepted, None if rounds is None else rounds & whole),
        "rounds_all": (log.tree_accepted, rounds),
    }
    found = []
    for domain, prompts in domains(log):
        found.append(_product_length(domain, alpha.of(prompts), settings))
        table = Ratios(**settings.options("lengths", domain))
        for name in LENGTHS:
            if name == "product":
                continue
            value, rows = counted[name.removesuffix("_macro")]
            row = {"domain": domain, "measure": name, "protocol": LENGTHS[name][0]}
            if rows is None:
                table.add(row | {"trees": 0, "left_out": 0}, *np.zeros((2, len(prompts))))
                continue
            among = rounds if name == "rounds" else rows if name == "rounds_all" else every
            above, below = _tree_sums(log, value, rows, prompts)
            row["trees"] = int(below.sum())
            row["left_out"] = int(_count(log, among)[prompts].sum() - below.sum())
            if name.endswith("_macro"):
                held = below > 0
                above = np.divide(above, below, out=np.zeros_like(above), where=held)
                below = held.astype(float)
            table.add(row, above, below)
        emitted = None
        if rounds is not None:
            emitted = _tree_sums(log, log.tree_emitted, rounds, prompts)
        for row in table.finish():
            if row["measure"].startswith("rounds") and rounds is None:
                row["reason"] = NOT_DENSE
            _add_bonus(row)
            if row["measure"] == "rounds_all" and emitted is not None:
                options = settings.options("lengths", domain)
                (own,) = bootstrap_columns(*(each[:, None] for each in emitted), **options)
                row |= named("tokens_per_round", own)
            found.append(row)
    return found


def _products(domain: str, alpha: Sums, settings: Settings) -> list[Row]:
    intervals = bootstrap_function(
        np.stack([alpha.total, alpha.count], axis=-1),
        lambda sums: as_published.chains(sums[..., 0] / sums[..., 1]),
        **settings.options("depths", domain),
    )
    return [
        {
            "domain": domain,
            "depth": depth,
            "measure": "chain_product",
            "protocol": PUBLISHED,
            "prompts": interval.n,
            "nodes": int(alpha.count[:, depth - 1].sum()),
            "spread": None,
        }
        | named("value", interval.within(most=1.0))
        | explained(interval)
        for depth, interval in enumerate(intervals, start=1)
    ]


def _product_length(domain: str, alpha: Sums, settings: Settings) -> Row:
    (interval,) = bootstrap_function(
        np.stack([alpha.total, alpha.count], axis=-1),
        lambda sums: as_published.chains(sums[..., 0] / sums[..., 1]).sum(-1, keepdims=True),
        **settings.options("lengths", domain),
    )
    row = {
        "domain": domain,
        "measure": "product",
        "protocol": PUBLISHED,
        "prompts": interval.n,
        "trees": int(alpha.count[:, 0].sum()) if alpha.count.size else 0,
        "left_out": 0,
    }
    return _add_bonus(row | named("value", interval.within()) | explained(interval))


def _add_bonus(row: Row) -> Row:
    for end in ("", "_lower", "_upper"):
        value = row[f"value{end}"]
        row[f"tokens_per_round{end}"] = None if value is None else value + 1.0
    return row


def _by_depth(log: Log, value: np.ndarray, rows: np.ndarray) -> Sums:
    return log.sums(value, rows, log.depth - 1, max(log.deepest, 1))


def _count(log: Log, trees: np.ndarray) -> np.ndarray:
    """Trees of each prompt among the flagged ones [trees]."""
    return np.bincount(log.tree_prompt[trees], minlength=len(log.prompt_ids)).astype(float)


def _tree_sums(log: Log, value, trees, prompts) -> tuple[np.ndarray, np.ndarray]:
    sums = log.sums(value, trees, unit=log.tree_prompt)
    return sums.total[prompts, 0], sums.count[prompts, 0].astype(float)


def _rounds(log: Log) -> np.ndarray | None:
    """Trees that real speculative decoding offers: the next starts where the last one ended.

    None when the log lacks the tree that a round would start from.
    """
    visited = np.zeros(len(log.tree_step), dtype=bool)
    starts = np.unique(log.tree_text, return_index=True)[1]
    ends = np.append(starts[1:], len(log.tree_text))
    at = starts
    while len(at):
        visited[at] = True
        step = log.tree_step[at] + log.tree_emitted[at]
        later = at + log.tree_emitted[at]  # with a tree at every position, that far on
        inside = later < ends
        at, ends, step = later[inside], ends[inside], step[inside]
        if (log.tree_step[at] != step).any():
            return None
    return visited if (log.tree_step[starts] == 0).all() else None
