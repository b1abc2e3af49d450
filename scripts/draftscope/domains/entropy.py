"""Entropy against acceptance: correlations, binned curves, and the paradox taken apart.

The paradox: the domain of highest entropy may have the highest acceptance although within every
domain acceptance falls with entropy. Whether it does is a difference with an interval; why is a
decomposition (Kitagawa 1955, J. Am. Stat. Assoc. 50) over bins of entropy that are the same in
all domains. The difference of two means over bins is the sum of a part from how the nodes are
spread over the bins, at equal curves, and a part from the curves, at equal spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from draftscope.domains import as_published
from draftscope.domains.changes import adjust
from draftscope.domains.measures import (
    Ratios,
    Settings,
    domains,
    explained,
    named,
    outcome,
)
from draftscope.domains.observations import Log
from draftscope.domains.schemas import ALL, CORRECTED, OUTCOMES, PUBLISHED
from draftscope.statistics.bins import value_bins
from draftscope.statistics.dependence import rhos_by_prompt, spearman_influences
from draftscope.statistics.functions import jackknife
from draftscope.statistics.intervals import bootstrap, bootstrap_columns
from draftscope.statistics.sign import sign_test

Row = dict[str, Any]
ONE_DOMAIN = "one domain: nothing to compare"
ONE_BIN = "all nodes have one entropy: nothing to take apart"
NO_NODES = "a domain has no such node"


def correlations(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_correlations`, as published and prompt by prompt."""
    # Depth, rank and what the ancestors' ranks were, as one category.
    category = (log.depth * log.base + log.rank) * 2 + log.below
    given = {"within_prompt": None, "within_prompt_partial": category}
    cells, rhos, nodes = [], [], []
    for name in OUTCOMES:
        value, held = outcome(log, name)
        for whose, entropy in (("target", log.target_entropy), ("draft", log.draft_entropy)):
            for measure, categories in given.items():
                cells.append((name, whose, measure))
                own = None if categories is None else categories[held]
                x, y, prompt = entropy[held], value[held], log.prompt[held]
                rhos.append(rhos_by_prompt(x, y, prompt, len(log.prompt_ids), own))
                nodes.append(np.bincount(prompt, minlength=len(log.prompt_ids)))
    every, counts = np.stack(rhos, axis=1), np.stack(nodes, axis=1)
    rows = []
    for domain, prompts in domains(log):
        rows += [_pooled(log, domain, whose, settings) for whose in ("target", "draft")]
        own, count = every[prompts], counts[prompts].sum(0)
        held = ~np.isnan(own)
        options = settings.options("correlations", domain)
        intervals = bootstrap_columns(np.where(held, own, 0.0), held, **options)
        for column, ((name, whose, measure), interval) in enumerate(
            zip(cells, intervals, strict=True)
        ):
            undefined = len(prompts) - interval.n
            reason = interval.reason
            if undefined and not interval.n:
                reason = f"undefined in all {undefined} prompts (constant, or too few nodes)"
            rows.append(
                {
                    "domain": domain,
                    "measure": measure,
                    "protocol": CORRECTED,
                    "outcome": name,
                    "entropy": whose,
                    "prompts": interval.n,
                    "undefined": undefined,
                    "nodes": int(count[column]),
                    "p": sign_test(own[:, column]).p if interval.n else None,
                }
                | named("rho", interval)
                | explained(interval)
                | {"reason": reason}
            )
    adjust(rows, "measure", "outcome", "entropy")
    return rows


def _pooled(log: Log, domain: str, whose: str, settings: Settings) -> Row:
    """Rho over nodes as published, with the interval over prompts that it should have had."""
    entropy = log.target_entropy if whose == "target" else log.draft_entropy
    one = None if domain == ALL else domain
    found = as_published.correlation(log, one, entropy)
    nodes, prompts = as_published.of_domain(log, one), log.prompts_of(one)
    values = np.zeros(0)
    if found.rho is not None:
        place = np.searchsorted(prompts, log.prompt[nodes])
        one_each = spearman_influences(entropy[nodes], log.alpha[nodes], place, len(prompts))
        values = found.rho + len(prompts) * one_each
    interval = bootstrap(values, **settings.options("pooled", domain, whose)).within(-1.0, 1.0)
    return {
        "domain": domain,
        "measure": "pooled",
        "protocol": PUBLISHED,
        "outcome": "alpha",
        "entropy": whose,
        "prompts": len(prompts),
        "undefined": 0,
        "nodes": found.n,
        "p": found.p,
        **named("rho", interval),
        **explained(interval),
        "reason": found.reason or interval.reason,
    }


def entropy_bins(log: Log, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Bin of each node, [nodes], and lower and upper edge of each bin, [bins, 2].

    Bins hold equal numbers of nodes of whole trees of all domains. Equal values share a bin, so
    many equal values leave fewer bins; empty ones are left out.
    """
    whole = log.whole
    bins = value_bins(np.where(whole, log.target_entropy, np.nan), settings.entropy_bins)
    used = np.unique(bins[bins >= 0])
    lower = np.array([log.target_entropy[bins == number].min() for number in used])
    upper = np.array([log.target_entropy[bins == number].max() for number in used])
    # A node of a cut tree goes where its entropy lies.
    place = np.searchsorted(lower, log.target_entropy, side="right") - 1
    return np.maximum(place, 0), np.stack([lower, upper], axis=1).reshape(-1, 2)


def curves(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_curves`: mean outcome in each bin of target entropy."""
    bins, edges = entropy_bins(log, settings)
    rows = []
    for name in OUTCOMES if len(edges) else ():
        value, counts = outcome(log, name)
        sums = log.sums(value, counts, bins, len(edges))
        entropies = log.sums(log.target_entropy, counts, bins, len(edges)).total
        for domain, prompts in domains(log):
            table = Ratios(**settings.options("curves", domain, name))
            part = sums.of(prompts)
            for number, (lower, upper) in enumerate(edges):
                nodes = int(part.count[:, number].sum())
                total = entropies[prompts, number].sum()
                row = {
                    "domain": domain,
                    "outcome": name,
                    "bin": number,
                    "lower_edge": float(lower),
                    "upper_edge": float(upper),
                    "entropy": float(total / nodes) if nodes else None,
                    "nodes": nodes,
                }
                table.add(row, part.total[:, number], part.count[:, number], 1.0)
            rows += table.finish()
    return rows


def paradox(log: Log, settings: Settings) -> list[Row]:
    """Rows of `domains_paradox`: the domain of highest entropy against each other domain."""
    every = np.ones(len(log.tree), dtype=bool)
    sums = log.sums(log.target_entropy, every)
    with np.errstate(invalid="ignore"):
        means = [
            sums.of(prompts).total.sum() / sums.of(prompts).count.sum()
            for prompts in map(log.prompts_of, log.domains)
        ]
    if not np.isfinite(means).any():
        return []
    highest = log.domains[int(np.nanargmax(means))]
    others = [domain for domain in log.domains if domain != highest]
    rows = []
    for name in OUTCOMES:
        for other in [*others, ALL]:
            key = {"highest": highest, "other": other, "outcome": name}
            against = others if other == ALL else [other]
            rows.append(key | _decomposed(log, settings, name, highest, against))
    adjust(rows, "outcome")
    return rows


_PARTS = ("entropy_difference", "difference", "composition", "at_equal_entropy")


def _decomposed(log: Log, settings: Settings, name: str, highest: str, others: list[str]) -> Row:
    bins, edges = entropy_bins(log, settings)
    value, counts = outcome(log, name)
    groups = max(len(edges), 1)
    held = log.sums(value, counts, bins, groups)
    every = np.ones(len(log.tree), dtype=bool)
    entropy = log.sums(log.target_entropy, every)
    first = log.prompts_of(highest)
    second = [log.prompts_of(domain) for domain in others]
    prompts = np.concatenate([first, *second])
    side = np.repeat([0, 1], [len(first), len(prompts) - len(first)])
    # [prompts, side, bins + 1, (count, total)]; the last place holds the entropy of all nodes
    totals = np.zeros((len(prompts), 2, groups + 1, 2))
    at = np.arange(len(prompts))
    totals[at, side, :groups, 0] = held.count[prompts]
    totals[at, side, :groups, 1] = held.total[prompts]
    totals[at, side, groups] = np.stack([entropy.count[prompts, 0], entropy.total[prompts, 0]], -1)
    found = jackknife(totals, _kitagawa, log.prompt_domain[prompts], confidence=settings.confidence)
    row: Row = {}
    for part, each in zip(_PARTS, found, strict=True):
        row |= named(part, each.interval)
    counted = totals.sum(0)[:, :groups, 0]
    both = (counted > 0).all(0)
    row |= {
        "bins": int(both.sum()),
        "outside": float(counted[:, ~both].sum() / counted.sum()) if counted.sum() else None,
        "p": found[1].p,
    } | explained(found[1].interval)
    if not others:
        row["reason"] = ONE_DOMAIN
    elif not counted.sum(1).all():
        row["reason"] = NO_NODES
    elif len(edges) < 2 and row["reason"] is None:
        row["reason"] = ONE_BIN
    return row


def _kitagawa(sums: np.ndarray) -> np.ndarray:
    """Differences of entropy and outcome, and the parts of the second, [..., 4].

    A bin that one side has no nodes in has no curve to compare there: both curves are taken as
    equal, so that it counts as a difference of composition.
    """
    count, total = sums[..., :-1, 0], sums[..., :-1, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = count / count.sum(-1, keepdims=True)
        curve = np.where(count > 0, total / count, np.nan)
        mean = total.sum(-1) / count.sum(-1)
        entropy = sums[..., -1, 1] / sums[..., -1, 0]
    curve = np.where(np.isnan(curve), np.nan_to_num(curve[..., ::-1, :]), curve)
    change, middle = curve[..., 0, :] - curve[..., 1, :], curve.mean(-2)
    composition = ((share[..., 0, :] - share[..., 1, :]) * middle).sum(-1)
    at_equal = (share.mean(-2) * change).sum(-1)
    return np.stack(
        [entropy[..., 0] - entropy[..., 1], mean[..., 0] - mean[..., 1], composition, at_equal],
        axis=-1,
    )
