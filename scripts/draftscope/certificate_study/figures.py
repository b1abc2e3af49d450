"""Figures of the certificates study."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from draftscope.certificate_study.lookup import Row, Statistics
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series

LOG2 = float(np.log(2))
# Of the main criteria, so many are told apart in one panel.
SHOWN = 5


def _kinds(found: Statistics) -> list[str]:
    """Main criteria for a panel: strict first, one of each kind before a second of any."""
    kind = {row["criterion"]: row["kind"] for row in found.rows("values")}
    seen: set[str] = set()
    first, later = [], []
    for label in found.labels():
        (later if kind.get(label) in seen else first).append(label)
        seen.add(kind.get(label))
    return [*first, *later][:SHOWN]


def _bars(axis: plt.Axes, rows: list[Row], places: list[float], name: str, look: Series) -> None:
    for row, place in zip(rows, places, strict=True):
        if row[f"{name}_lower"] is not None:
            axis.vlines(place, row[f"{name}_lower"], row[f"{name}_upper"], color=look.color, lw=1)


def certificates(found: Statistics) -> plt.Figure:
    """Figure 1: how much KL positions tolerate, by criterion: p5, p25, median, mean."""
    labels, targets = found.labels(), found.targets
    domains = {target: _first_domain(found, target) for target in targets}
    figure, axes = plt.subplots(
        1, len(targets), figsize=(3.9 * len(targets) + 1.2, 0.28 * len(labels) + 1.1),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for axis, target in zip(axes.flat, targets, strict=True):
        rows = found.rows("values", target=target, domain=domains[target])
        by_label = {row["criterion"]: row for row in rows}
        for place, label in enumerate(labels):
            row = by_label[label]
            ends = [row[name] for name in ("p5", "median")]
            if np.isfinite(ends).all():
                axis.hlines(place, *ends, color="#9a9a9a", lw=1.2)
        for name, look in series(["p5", "p25", "median", "mean"]).items():
            known = [
                (by_label[label][name], place)
                for place, label in enumerate(labels)
                if by_label[label][name] is not None and np.isfinite(by_label[label][name])
            ]
            style = look.line() | {"linestyle": "none"}
            axis.plot(*zip(*known, strict=True) if known else ([], []), **style, label=name)
        axis.axvline(LOG2, color="#777777", lw=0.9, ls=(0, (3, 2)))
        axis.set_title(f"{target}, {domains[target]}", loc="left")
        axis.set_xlabel("Certificate (nats)")
        axis.grid(axis="x")
        axis.set_xlim(left=0)
    axes[0, 0].set_yticks(range(len(labels)), labels)
    axes[0, 0].invert_yaxis()
    _legend(figure, axes[0, 0], 4)
    figures.caption(
        figure,
        "Exact certificates over the target's positions: a draft with a smaller KL(p || q) there is "
        "never rejected. Dashed: log 2, the ceiling of criteria on one token. The mean leaves out "
        "positions where nothing can be rejected.",
    )
    return figure


def _first_domain(found: Statistics, target: str) -> str:
    return found.rows("values", target=target)[0]["domain"]


def calibration(found: Statistics) -> plt.Figure:
    """Figure 2: acceptance against KL over certificate; below 1 it has to be 1."""
    pairs = found.distinct("bins", "pair")
    labels = _kinds(found)
    looks = series(labels)
    figure, axes = plt.subplots(
        1, len(pairs), figsize=(3.6 * len(pairs) + 0.6, 3.2), sharey=True, squeeze=False
    )
    for axis, pair in zip(axes.flat, pairs, strict=True):
        axis.axvspan(1e-3, 1, color="#e8f1ea", zorder=0)
        for shift, label in zip(np.geomspace(0.92, 1.09, len(labels)), labels, strict=True):
            rows = [
                row
                for row in found.rows("bins", pair=pair, criterion=label, by="ratio")
                if row["accepted"] is not None
            ]
            places = [_middle(row) * shift for row in rows]
            axis.plot(*_broken(rows, places, "accepted"), **looks[label].line(), label=label)
            _bars(axis, rows, places, "accepted", looks[label])
        axis.axvline(1, color="#555555", lw=0.9, ls=(0, (3, 2)))
        axis.set_xscale("log")
        axis.set_xlim(1 / 48, 64)
        axis.set_xticks([1 / 16, 1 / 4, 1, 4, 16], ["1/16", "1/4", "1", "4", "16"])
        axis.minorticks_off()
        axis.set_ylim(-0.03, 1.05)
        axis.set_title(pair, loc="left")
        axis.set_xlabel("KL / certificate")
        axis.grid(axis="y")
    axes[0, 0].set_ylabel("Share accepted")
    _legend(figure, axes[0, 0])
    figures.caption(
        figure,
        "Positions in bins of the draft's KL over the certificate, all domains pooled; the first and "
        "the last bin hold everything beyond their edge. Left of 1 (shaded) acceptance is certain. Right of it a "
        "curve that stays high shows how conservative certificates are: they fear the worst draft at "
        f"that distance. Bars: {found.settings['confidence']:.0%} intervals from resampling prompts.",
    )
    return figure


def _broken(rows: list[Row], places: list[float], name: str) -> tuple[list[float], list[float]]:
    """Points of a line that is broken where a bin between two of them holds nothing."""
    across, up = [], []
    for number, (row, place) in enumerate(zip(rows, places, strict=True)):
        if number and row["bin"] > rows[number - 1]["bin"] + 1:
            across.append(place)
            up.append(np.nan)
        across.append(place)
        up.append(row[name])
    return across, up


def _middle(row: Row) -> float:
    """Where a bin of ratios is drawn: its geometric middle; half or double the edge at the ends."""
    low, high = row["lower_edge"], row["upper_edge"]
    if not low:
        return high / 1.5
    return low * 1.5 if np.isinf(high) else float(np.sqrt(low * high))


def by_margin(found: Statistics) -> plt.Figure:
    """Figure 3: certified and accepted by margin and by entropy, strict greedy."""
    pairs = found.distinct("bins", "pair")
    label = found.labels()[0]
    figure, axes = plt.subplots(
        2, len(pairs), figsize=(3.4 * len(pairs) + 0.6, 4.8), sharey=True, squeeze=False
    )
    looks = series(["accepted", "certified"])
    for column, pair in enumerate(pairs):
        for line, (by, words) in enumerate(
            (("margin", "Margin p(x0) - p(x1)"), ("entropy", "Entropy of the target (nats)"))
        ):
            axis = axes[line, column]
            rows = [
                row
                for row in found.rows("bins", pair=pair, criterion=label, by=by)
                if row["positions"]
            ]
            for name, look in looks.items():
                places = list(range(len(rows)))
                axis.plot(places, [row[name] for row in rows], **look.line(), label=name)
                _bars(axis, rows, places, name, look)
            axis.set_xticks(range(len(rows)), [_edges(row) for row in rows], fontsize=7)
            axis.set_ylim(-0.03, 1.05)
            axis.set_xlabel(words)
            axis.grid(axis="y")
        axes[0, column].set_title(pair, loc="left")
    for line in range(2):
        axes[line, 0].set_ylabel("Share of positions")
    _legend(figure, axes[0, 0])
    figures.caption(
        figure,
        f"{label.capitalize()}: what a certificate promises and what is accepted, by the target's "
        f"margin and entropy, all domains pooled. Bars: {found.settings['confidence']:.0%} intervals "
        "from resampling prompts.",
    )
    return figure


def _edges(row: Row) -> str:
    if np.isinf(row["upper_edge"]):
        return f">= {row['lower_edge']:g}"
    return f"{row['lower_edge']:g}-\n{row['upper_edge']:g}"


def tradeoff(found: Statistics) -> plt.Figure:
    """Figure 4: tokens a round gained by relaxed rules against log-likelihood lost, live."""
    rows = found.rows("relaxed", source="live")
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    looks = series(list(dict.fromkeys(row["rule"] for row in rows)))
    figure, axes = plt.subplots(
        1, max(len(domains), 1), figsize=(3.4 * max(len(domains), 1) + 0.6, 3.0), squeeze=False
    )
    if not domains:
        figures.empty(axes[0, 0], "no text was decoded")
    for axis, domain in zip(axes.flat, domains, strict=False):
        for row in rows:
            if row["domain"] != domain:
                continue
            look = looks[row["rule"]]
            style = look.line() | {"linestyle": "none"}
            label = row["rule"] if row["lossless"] else f"{row['rule']} (lossy)"
            axis.plot(row["acceptance_length"], row["log_p"], **style, label=label)
            _bars(axis, [row], [row["acceptance_length"]], "log_p", look)
            if row["acceptance_length_lower"] is not None:
                axis.hlines(
                    row["log_p"], row["acceptance_length_lower"], row["acceptance_length_upper"],
                    color=look.color, lw=1,
                )  # fmt: skip
        axis.set_title(domain, loc="left")
        axis.set_xlabel("Tokens a round")
        axis.grid()
    axes[0, 0].set_ylabel("Log-likelihood a token (nats)")
    _legend(figure, axes[0, 0])
    figures.caption(
        figure,
        "Live greedy decoding with relaxed rules: right is faster, down is less likely under the "
        "target. Greedy is the target's own text; the others are lossy. Bars: "
        f"{found.settings['confidence']:.0%} intervals from resampling prompts.",
    )
    return figure


def _legend(figure: plt.Figure, axis: plt.Axes, columns: int = 3) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(columns, len(handles)))
