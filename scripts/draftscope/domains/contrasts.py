"""Pairs of domains: differences of their rates, whose prompts are different ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats

from draftscope.domains.changes import adjust
from draftscope.domains.measures import Settings, explained, measured, named
from draftscope.domains.observations import Log
from draftscope.domains.schemas import LENGTHS, MEASURES
from draftscope.statistics.intervals import bootstrap_columns

Row = dict[str, Any]


def contrasts(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_contrasts`."""
    sums = {name: log.sums(*measured(log, name)) for name in MEASURES}
    sums["joint"] = log.sums(log.tree_accepted, log.tree_whole, unit=log.tree_prompt)
    protocols = {name: protocol for name, (protocol, _) in (MEASURES | LENGTHS).items()}
    rows = []
    for first, second in combinations(log.domains, 2):
        prompts = np.concatenate([log.prompts_of(first), log.prompts_of(second)])
        is_first = log.prompt_domain[prompts] == log.domains.index(first)
        above = np.stack([each.total[prompts, 0] for each in sums.values()], axis=1)
        below = np.stack([each.count[prompts, 0] for each in sums.values()], axis=1).astype(float)
        own = is_first[:, None]
        intervals = bootstrap_columns(
            above * own,
            below * own,
            (above * ~own, below * ~own),
            **settings.options("contrasts", first, second),
        )
        for column, (name, interval) in enumerate(zip(sums, intervals, strict=True)):
            one, two = (
                _linearized(above[which, column], below[which, column])
                for which in (is_first, ~is_first)
            )
            # One prompt has no spread to compare with, however many the other domain has.
            if min(len(one), len(two)) == 1:
                reason = f"{first if len(one) == 1 else second} has one prompt: no interval"
                interval = _without(interval, reason)
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "measure": name,
                    "protocol": protocols[name],
                    "first_prompts": len(one),
                    "second_prompts": len(two),
                    "effect": _hedges(one, two),
                    "p": _welch(one, two),
                }
                | named("difference", interval)
                | explained(interval)
            )
    adjust(rows, "measure")
    return rows


def _linearized(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """A value of each prompt with nodes whose mean is the ratio of sums, and its error theirs."""
    held = below > 0
    above, below = above[held], below[held]
    if not held.any():
        return above
    ratio = above.sum() / below.sum()
    return ratio + (above - ratio * below) / below.mean()


def _welch(one: np.ndarray, two: np.ndarray) -> float | None:
    if min(len(one), len(two)) < 2 or max(np.ptp(one), np.ptp(two)) <= 1e-12:
        return None
    return float(stats.ttest_ind(one, two, equal_var=False).pvalue)


def _hedges(one: np.ndarray, two: np.ndarray) -> float | None:
    """Standardized difference with Hedges's correction for small samples (1981)."""
    freedom = len(one) + len(two) - 2
    if min(len(one), len(two)) < 2:
        return None
    pooled = np.sqrt(
        ((len(one) - 1) * one.var(ddof=1) + (len(two) - 1) * two.var(ddof=1)) / freedom
    )
    if pooled <= 1e-12:
        return None
    return float((one.mean() - two.mean()) / pooled * (1 - 3 / (4 * freedom - 1)))


def _without(interval, reason: str):
    return replace(interval, low=None, high=None, degenerate=False, reason=reason)
