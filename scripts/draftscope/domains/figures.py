"""Figures of the domains study: rates, depth profiles, entropy, speculation budgets."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from draftscope.domains.lookup import Row, Statistics
from draftscope.domains.schemas import ALL
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series

_RATES = {
    "alpha": "as published: min(1, p/q), all nodes",
    "walk_chain": "corrected: accepted, rank-1 chain",
}
_LENGTHS = {
    "product": "as published: products of means",
    "joint": "corrected: counted, every token",
}


def _names(found: Statistics) -> list[str]:
    return [domain for domain in found.domains if domain != ALL]


def _drawn(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row.get(name) is not None]


def _bars(axis: plt.Axes, x: Sequence[float], rows: Sequence[Row], name: str, look: Series, **line):
    """Intervals as vertical lines, where there are any."""
    known = [i for i, row in enumerate(rows) if row.get(f"{name}_lower") is not None]
    ends = ([rows[i][f"{name}_{end}"] for i in known] for end in ("lower", "upper"))
    axis.vlines([x[i] for i in known], *ends, color=look.color, lw=1.2, **line)


def rates(found: Statistics) -> plt.Figure:
    """Figure 1: acceptance and accepted length by domain, published and corrected side by side."""
    names = _names(found)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.0))
    panels = (
        (axes[0], "rates", _RATES, "(a) Acceptance", "Share accepted"),
        (axes[1], "lengths", _LENGTHS, "(b) Accepted length", "Accepted tokens"),
    )
    for axis, file, measures, title, label in panels:
        looks = series(list(measures))
        for shift, (measure, words) in zip((-0.12, 0.12), measures.items(), strict=True):
            rows = [found.row(file, domain=name, measure=measure) for name in names]
            places = [i + shift for i, row in enumerate(rows) if row.get("value") is not None]
            rows, look = _drawn(rows, "value"), looks[measure]
            style = look.line() | {"linestyle": "none"}
            axis.plot(places, [row["value"] for row in rows], **style, label=words)
            _bars(axis, places, rows, "value", look)
        axis.set_xticks(range(len(names)), names)
        axis.set_xlim(-0.5, max(len(names), 1) - 0.5)
        axis.set_ylim(bottom=0)
        axis.set_title(title, loc="left")
        axis.set_ylabel(label)
        axis.grid(axis="y")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=1)
    figures.caption(
        figure,
        f"Bars: {found.settings['confidence']:.0%} intervals from resampling prompts, of both. "
        "(a) As published: mean over all nodes of the trees, reached or not. Corrected: of the nodes "
        "of the draft's first choices whose parent was accepted, the share that the greedy walk "
        "accepted. (b) As published: sum over depths of products of the depths' means. Corrected: "
        "mean length of the path that the walk accepted in the trees.",
    )
    return figure


_PROFILES = {
    "alpha": "(a) As published\nmin(1, p/q), all nodes",
    "alpha_chain": "(b) At equal rank\nmin(1, p/q), rank-1 chain",
    "walk_chain": "(c) Equal rank, parent accepted\nshare accepted",
}


def depth_profiles(found: Statistics) -> plt.Figure:
    """Figure 2: acceptance by depth as published, at equal rank, and where the parent is accepted."""
    names = _names(found)
    looks = series(names)
    figure, axes = plt.subplots(1, 3, figsize=(8.0, 3.0), sharey=True)
    shifts = np.linspace(-0.1, 0.1, max(len(names), 1))
    for axis, (measure, title) in zip(axes, _PROFILES.items(), strict=True):
        for shift, name in zip(shifts, names, strict=False):
            rows = _drawn(found.rows("depths", domain=name, measure=measure), "value")
            places = [row["depth"] + shift for row in rows]
            axis.plot(places, [row["value"] for row in rows], **looks[name].line(), label=name)
            _bars(axis, places, rows, "value", looks[name])
        axis.set_title(title, loc="left")
        axis.set_xlabel("Depth")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="y")
    axes[0].set_ylabel("Mean")
    _legend(figure, axes[0])
    figures.caption(
        figure,
        f"Bars: {found.settings['confidence']:.0%} intervals from resampling prompts. The nodes of "
        "(a) differ in rank from depth to depth, so its slope mixes depth with rank; those of (b) and "
        "(c) are the draft's first choices at every depth. (c) counts only nodes whose parent the "
        "greedy walk accepted, as a round of speculative decoding does.",
    )
    return figure


_CURVES = {
    "alpha": "(a) As published: min(1, p/q), all nodes",
    "walk_chain": "(b) Corrected: accepted, rank-1 chain",
}


def entropy_curves(found: Statistics) -> plt.Figure:
    """Figure 3: acceptance against target entropy by domain, in bins that all domains share."""
    names = _names(found)
    looks = series(names)
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.2), sharey=True)
    for axis, (outcome, title) in zip(axes, _CURVES.items(), strict=True):
        for name in names:
            rows = _drawn(found.rows("curves", domain=name, outcome=outcome), "value")
            rows = _drawn(rows, "entropy")
            places = [row["entropy"] for row in rows]
            axis.plot(places, [row["value"] for row in rows], **looks[name].line(), label=name)
            _bars(axis, places, rows, "value", looks[name], alpha=0.7)
        axis.set_title(title, loc="left")
        axis.set_xlabel("Target entropy at the node (nats)")
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlim(left=-0.05)
        axis.grid(axis="y")
    axes[0].set_ylabel("Mean of the bin")
    _legend(figure, axes[0])
    figures.caption(
        figure,
        "Points: mean outcome against mean entropy of a domain's nodes in a bin; bins hold equal "
        f"numbers of nodes of all domains. Bars: {found.settings['confidence']:.0%} intervals from "
        "resampling prompts. Where the curves coincide, domains differ in acceptance only because "
        "their entropies do.",
    )
    return figure


def budgets(found: Statistics) -> plt.Figure:
    """Figure 4: expected tokens a round of the best chain and the best tree, by nodes."""
    names = _names(found)
    looks = series(["chain", "tree"])
    columns = min(max(len(names), 1), 4)
    lines = -(-max(len(names), 1) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(1.75 * columns + 0.5, 2.4 * lines), sharey=True, squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        figures.empty(axis, "no domain")
    for axis, name in zip(axes.flat, names, strict=False):
        for kind, look in looks.items():
            rows = found.rows("budgets", domain=name, kind=kind, rule="nodes")
            rows = sorted(_drawn(rows, "tokens_per_round"), key=lambda row: row["budget"])
            places = [row["budget"] for row in rows]
            heights = [row["tokens_per_round"] for row in rows]
            # A short chain is the best tree: its dots have to show inside the tree's squares.
            above = 3 if kind == "chain" else 2
            axis.plot(places, heights, **look.line(), label=f"best {kind}", zorder=above)
            _bars(axis, places, rows, "tokens_per_round", look)
        axis.set_title(name, loc="left")
        axis.set_xlabel("Nodes")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axis.grid(axis="y")
    if axes[0, 0].get_ylim()[1] > 1:  # of all panels, once all of them are drawn
        axes[0, 0].set_ylim(bottom=1)
    axes[0, 0].set_ylabel("Tokens a round")
    _legend(figure, axes[0, 0])
    figures.caption(
        figure,
        "Expected tokens a round, the target's own token included, of the best shape with at most so "
        f"many nodes, from the rates by depth and rank. Bars: {found.settings['confidence']:.0%} "
        "intervals from resampling prompts, the shape held fixed.",
    )
    return figure


def _legend(figure: plt.Figure, axis: plt.Axes) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(handles)))
