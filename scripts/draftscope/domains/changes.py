"""Differences within prompts: with depth at equal rank, and along the text.

Depth among reached nodes. A text of 60 tokens of which 33 are accepted, in random order, has a
rate of .55, but after an accepted token one accepted token fewer is left for the others: 32 / 59.
Averaging such rates text by text therefore finds a fall with depth in texts without any (the
bias of Miller and Sanjurjo 2018, Econometrica 86, for streaks). Pooling texts instead finds a
rise, since texts that accept more reach deeper. So a reached node at depth d is compared with
its text's other positions at depth 1, the d - 1 positions before it left out: in a text whose
order is random that difference has mean zero exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from draftscope import records
from draftscope.domains.measures import Settings, domains, explained, measured, named
from draftscope.domains.observations import Log, Sums
from draftscope.domains.schemas import ALL, MEASURES
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.statistics.multiple import holm

Row = dict[str, Any]
NO_NODES = "no prompt has nodes on both sides of the difference"
NOT_DENSE = "not defined: the log has not a tree at every position of the texts"
# The log's float32: the same prediction from two trees differs by some 1e-7 in alpha.
_ROUNDING = 1e-5
REACHED = ("alpha_chain_reached", "walk_chain", "walk_level")


def by_depth(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_changes`: each depth against depth 1."""
    groups = max(log.deepest, 1)
    sums = {name: log.sums(*measured(log, name), log.depth - 1, groups) for name in MEASURES}
    compared: list[tuple[str, str, Sums]] = []
    for name in MEASURES:
        if name in REACHED:
            compared += [(name, how, each) for how, each in _matched(log, name).items()]
        else:
            own = _rate(sums[name])
            change = own - own[:, :1]
            held = ~np.isnan(change)
            total = np.where(held, change, 0.0)
            compared.append((name, "prompt", Sums(held.astype(float), total, total)))
    cells = [(*each, depth) for each in compared for depth in range(2, log.deepest + 1)]
    rows = []
    for domain, prompts in domains(log):
        above = [part.total[prompts, depth - 1] for _, _, part, depth in cells]
        below = [part.count[prompts, depth - 1] for _, _, part, depth in cells]
        found = _intervals(above, below, settings.options("changes", domain))
        plain = {
            name: _against_first(sums[name].of(prompts), settings, domain) for name in MEASURES
        }
        for (name, how, _, depth), top, n, interval in zip(cells, above, below, found, strict=True):
            part = sums[name].of(prompts)
            change = top[n > 0]
            change[np.abs(change) < 1e-9] = 0.0
            rows.append(
                {
                    "domain": domain,
                    "measure": name,
                    "protocol": MEASURES[name][0],
                    "first_depth": 1,
                    "depth": depth,
                    "comparison": how,
                    "nodes": int(part.count[:, depth - 1].sum()),
                    "prompts": interval.n,
                    "left_out": len(prompts) - interval.n,
                    "up": int((change > 0).sum()),
                    "down": int((change < 0).sum()),
                    "ties": int((change == 0).sum()),
                    "p": _p(change),
                }
                | named("pooled", plain[name][depth - 2])
                | named("difference", interval)
                | explained(interval)
            )
            if not n.any():
                rows[-1]["reason"] = NOT_DENSE if part.count.any() and how != "prompt" else NO_NODES
    adjust(rows, "measure", "comparison", "depth")
    return rows


def by_position(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_positions`: late trees against early ones."""
    deepest, edge = log.deepest, settings.position_edge
    late = (log.tree_step[log.tree] >= edge).astype(np.int64)
    columns = 2 * (deepest + 1)  # early and late of each depth; all depths at the place of 0
    sums = {}
    for name in MEASURES:
        part = log.sums(*measured(log, name), 2 * log.depth + late, columns)
        for each in (part.count, part.total, part.square):
            each[:, 0], each[:, 1] = each[:, 2::2].sum(1), each[:, 3::2].sum(1)
        sums[name] = part
    cells = [(name, depth) for name in MEASURES for depth in range(deepest + 1)]
    rows = []
    for domain, prompts in domains(log):
        sides = []
        for name, depth in cells:
            part = sums[name].of(prompts)
            two = slice(2 * depth, 2 * depth + 2)
            both = (part.count[:, two] > 0).all(1, keepdims=True)
            sides.append((part.total[:, two] * both, part.count[:, two] * both))
        found = _intervals(
            [above[:, 1] for above, _ in sides],
            [below[:, 1] for _, below in sides],
            settings.options("positions", domain),
            ([above[:, 0] for above, _ in sides], [below[:, 0] for _, below in sides]),
        )
        plain = {name: _halves(sums[name].of(prompts), settings, domain) for name in MEASURES}
        for (name, depth), (above, below), interval in zip(cells, sides, found, strict=True):
            part, two = sums[name].of(prompts), slice(2 * depth, 2 * depth + 2)
            counts, spreads = part.count.sum(0)[two], part.spread()[two]
            early, late, pooled = (each[depth] for each in plain[name])
            rows.append(
                {
                    "domain": domain,
                    "depth": depth,
                    "measure": name,
                    "protocol": MEASURES[name][0],
                    "edge": edge,
                    "early_nodes": int(counts[0]),
                    "late_nodes": int(counts[1]),
                    "early_spread": records.none_if_nan(spreads[0]),
                    "late_spread": records.none_if_nan(spreads[1]),
                    "prompts": interval.n,
                    "left_out": len(prompts) - interval.n,
                    "p": _p(linearized(above[:, 1], below[:, 1], above[:, 0], below[:, 0])),
                }
                | named("early", early)
                | named("late", late)
                | named("pooled", pooled)
                | named("difference", interval)
                | explained(interval)
            )
            if not interval.n:
                rows[-1]["reason"] = NO_NODES
    adjust(rows, "measure", "depth")
    return rows


def _against_first(part: Sums, settings: Settings, domain: str) -> list[Interval]:
    """Plain mean of each depth from 2 on, less that of depth 1, over all prompts."""
    first = [np.repeat(each[:, :1], each.shape[1] - 1, axis=1) for each in (part.total, part.count)]
    later = part.total[:, 1:], part.count[:, 1:]
    return bootstrap_columns(*later, tuple(first), **settings.options("pooled", domain))


def _halves(
    part: Sums, settings: Settings, domain: str
) -> tuple[list[Interval], list[Interval], list[Interval]]:
    """Plain means of early and late nodes and late less early, over all prompts, by depth."""
    early, late = ((part.total[:, side::2], part.count[:, side::2]) for side in (0, 1))
    options = settings.options("halves", domain)
    means = [
        [interval.within(most=1.0) for interval in bootstrap_columns(*side, **options)]
        for side in (early, late)
    ]
    return *means, bootstrap_columns(*late, early, **options)


def adjust(rows: list[Row], *keys: str) -> None:
    """Holm over the domains of each combination of keys, in place; `ALL` is in no family."""
    families: dict[tuple, list[Row]] = {}
    for row in rows:
        row |= {"holm_p": None, "family": 0}
        if ALL not in (row.get("domain"), row.get("other")):
            families.setdefault(tuple(row[key] for key in keys), []).append(row)
    for family in families.values():
        adjusted = holm([row["p"] for row in family])
        for row, p in zip(family, adjusted.p, strict=True):
            row |= {"holm_p": p, "family": adjusted.n}


def linearized(above, below, above_minus, below_minus) -> np.ndarray:
    """What each prompt with values adds to a difference of two ratios of sums, centered on it."""
    held = (below > 0) | (below_minus > 0)
    if not held.any() or not below.sum() or not below_minus.sum():
        return np.zeros(0)
    first, second = above.sum() / below.sum(), above_minus.sum() / below_minus.sum()
    share = (above - first * below) / below.sum() - (
        above_minus - second * below_minus
    ) / below_minus.sum()
    return first - second + share[held] * held.sum()


def _matched(log: Log, name: str) -> dict[str, Sums]:
    """Reached nodes less what depth 1 has for them: the text's other positions, or the same one.

    Sums by prompt and depth; nothing where the log has not a tree at every position.
    """
    groups = max(log.deepest, 1)
    value, rows = measured(log, name)
    starts, lengths = np.unique(log.tree_text, return_index=True, return_counts=True)[1:]
    if (log.tree_step != np.arange(len(log.tree_step)) - np.repeat(starts, lengths)).any():
        nothing = np.zeros((len(log.prompt_ids), groups))
        return {how: Sums(nothing, nothing, nothing) for how in ("text", "position")}
    first = np.zeros(len(log.tree_step))
    if name == "walk_level":
        first = (log.tree_accepted >= 1).astype(float)
    else:
        top = log.chain & (log.depth == 1)
        first[log.tree[top]] = value[top]
    before = np.append(0.0, np.cumsum(first))
    tree, steps = log.tree[rows], log.depth[rows] - 1
    text = log.tree_text[tree]
    whole = before[starts[text] + lengths[text]] - before[starts[text]]
    passed = before[tree + steps] - before[tree]
    left = lengths[text] - steps
    reference = {
        "text": (whole - passed) / np.maximum(left, 1),
        "position": first[tree + steps],
    }
    sums = {}
    for how, expected in reference.items():
        difference = np.zeros(len(value))
        difference[rows] = value[rows] - expected
        difference[np.abs(difference) < _ROUNDING] = 0.0
        sums[how] = log.sums(difference, rows, log.depth - 1, groups)
    return sums


def _intervals(above, below, options, minus=None) -> list[Interval]:
    if not above:
        return []
    stacked = [np.stack(each, axis=1) for each in (above, below)]
    if minus is not None:
        minus = tuple(np.stack(each, axis=1) for each in minus)
    found = bootstrap_columns(*stacked, minus, **options)
    # Differences of equal rates leave rounding behind.
    return [
        replace(each, estimate=0.0, low=0.0, high=0.0)
        if each.degenerate and abs(each.estimate) < 1e-9
        else each
        for each in found
    ]


def _p(values: np.ndarray) -> float | None:
    """Student's t over prompts; None without spread."""
    if len(values) < 2 or np.ptp(values) <= 1e-12:
        return None
    return float(stats.ttest_1samp(values, 0.0).pvalue)


def _rate(sums: Sums) -> np.ndarray:
    """The prompts' own means, NaN where a prompt has no node, [prompts, groups]."""
    with np.errstate(invalid="ignore"):
        return sums.total / np.where(sums.count > 0, sums.count, np.nan)
