"""Figures of the position study: acceptance by position, by half and by quintile."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

METRIC_LABEL = {
    "def1": "accepted / draft length, full rounds",
    "alpha": "min(1, q(y)/p(y)), all positions",
    "def2": "q(argmax p), all positions",
}
SUBSET_LABEL = {
    "all": "all prompts",
    "loops_removed": "loop problems removed",
    "spans_cut": "repeated spans cut out",
}


def acceptance_by_position(
    curves: pd.DataFrame,
    *,
    metric: str = "def1",
    confidence: float,
    support_prompts: int,
    draft_length: int,
) -> plt.Figure:
    """Figure 1: mean acceptance by position, with the number of prompts that reach it below.

    Panels: the first pair on all prompts and with loop problems removed, then every other pair
    with loop problems removed; one block of rows a domain, one line a decoding mode.

    Args:
        curves: schema position_curves, as a frame.
    """
    rows = curves[curves["metric"] == metric]
    labels, domains = list(dict.fromkeys(curves["label"])), list(dict.fromkeys(curves["domain"]))
    looks = series(list(dict.fromkeys(curves["mode"])))
    panels = [(label, "loops_removed") for label in labels] or [("no pair", "loops_removed")]
    panels.insert(0, (panels[0][0], "all"))
    domains = domains or ["no domain"]
    figure, axes = plt.subplots(
        2 * len(domains),
        len(panels),
        figsize=(2.9 * len(panels) + 0.5, 3.3 * len(domains) + 0.5),
        gridspec_kw={"height_ratios": [3, 1] * len(domains)},
        squeeze=False,
    )
    for block, domain in enumerate(domains):
        above, below = axes[2 * block], axes[2 * block + 1]
        for place, (label, subset) in enumerate(panels):
            chosen = where(rows, domain=domain, label=label, subset=subset)
            _curve(above[place], chosen, looks, support_prompts)
            _alive(below[place], chosen, looks)
            _share_x(above[place], below[place], chosen)
            name = _pair_name(curves, label)
            prefix = f"({chr(97 + block * len(panels) + place)}) "
            above[place].set_title(f"{prefix}{name}\n{domain}, {SUBSET_LABEL[subset]}", loc="left")
        above[0].set_ylabel(f"Mean acceptance\n({METRIC_LABEL[metric]})", fontsize=8)
        below[0].set_ylabel("Prompts\nalive", fontsize=8)
        _same_y(above)
        _same_y(below, from_zero=True)
    for axis in axes[-1]:
        axis.set_xlabel("Position in the generated text (tokens)")
    _legend(figure, looks)
    longest = int(rows["alive"].max()) if len(rows) else 0
    figures.caption(
        figure,
        f"Acceptance by position at draft length {draft_length}. Points: mean of all that starts in a "
        f"bin, at its middle; bands: {confidence:.0%} intervals from resampling prompts. Lower "
        f"panels: prompts whose text reaches the bin (at most {longest}). Bins with observations "
        f"from fewer than {support_prompts} prompts are not drawn above. Later bins hold only the "
        "prompts whose text is that long, so the curve mixes position with which prompts survive; "
        "the paired differences do not.",
    )
    return figure


def _curve(
    axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series], support_prompts: int
) -> None:
    drawn = rows[rows["supported"] & rows["mean"].notna()]
    if drawn.empty:
        reason = (
            f"fewer than {support_prompts} prompts in every bin"
            if len(rows)
            else "no observation in this panel"
        )
        figures.empty(axis, reason)
        return
    for mode, look in looks.items():
        line = drawn[drawn["mode"] == mode].sort_values("start")
        if line.empty:
            continue
        middle = (line["start"] + line["stop"] - 1) / 2
        axis.plot(middle, line["mean"], **look.line())
        axis.fill_between(
            middle, line["mean_lower"], line["mean_upper"], color=look.color, alpha=0.18, lw=0
        )
        # Edges of the bands in the line's own style keep them apart in grey.
        for edge in ("mean_lower", "mean_upper"):
            axis.plot(middle, line[edge], color=look.color, linestyle=look.linestyle, lw=0.5)
    axis.grid(axis="y")


def _alive(axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series]) -> None:
    if rows.empty:
        figures.empty(axis, "none")
        return
    for mode, look in looks.items():
        line = rows[rows["mode"] == mode].sort_values("start")
        if len(line):
            edges = [*line["start"], line["stop"].iloc[-1]]
            axis.stairs(line["alive"], edges, color=look.color, linestyle=look.linestyle, lw=1.3)
    axis.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axis.grid(axis="y")


def _share_x(above: plt.Axes, below: plt.Axes, rows: pd.DataFrame) -> None:
    if rows.empty:
        return
    span = (0, rows["stop"].max())
    for axis in (above, below):
        if axis.has_data():
            axis.set_xlim(span[0] - 0.02 * span[1], 1.02 * span[1])
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if above.has_data():
        above.tick_params(labelbottom=False)


def _same_y(axes: Sequence[plt.Axes], from_zero: bool = False) -> None:
    filled = [axis for axis in axes if axis.has_data()]
    if not filled:
        return
    low = 0.0 if from_zero else min(axis.get_ylim()[0] for axis in filled)
    high = max(axis.get_ylim()[1] for axis in filled)
    for number, axis in enumerate(filled):
        axis.set_ylim(low, high)
        if number and axis is not axes[0]:
            axis.tick_params(labelleft=False)


def _pair_name(frame: pd.DataFrame, label: str) -> str:
    pairs = frame.loc[frame["label"] == label, "pair"]
    if pairs.empty:
        return label
    return label if pairs.iloc[0] == label else f"{label}: {pairs.iloc[0]}"


def _first_reason(rows: pd.DataFrame) -> str:
    present = rows["reason"].dropna() if len(rows) else []
    return str(present.iloc[0]) if len(present) else ""


def _legend(figure: plt.Figure, looks: dict[str, Series]) -> None:
    if looks:
        handles = [Line2D([], [], label=name, **look.line()) for name, look in looks.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=min(4, len(handles)))


def halves(
    paired: pd.DataFrame, half_means: pd.DataFrame, *, metric: str = "def1", confidence: float
) -> plt.Figure:
    """Figure 2: the two halves and their paired difference, before and after removal of loops.

    Args:
        paired: schema position_paired, as a frame.
        half_means: schema position_halves, as a frame.
    """
    paired = paired[paired["metric"] == metric]
    half_means = half_means[half_means["metric"] == metric]
    keys = list(dict.fromkeys(zip(paired["domain"], paired["label"], paired["mode"], strict=True)))
    looks = series([name for name in SUBSET_LABEL if name in set(paired["subset"])])
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.6, 0.62 * max(2, len(keys)) + 1.5), width_ratios=[1, 1]
    )
    if not keys:
        figures.empty(left, "no configuration")
        figures.empty(right, "no configuration")
    offsets = dict(zip(looks, np.linspace(-0.25, 0.25, max(len(looks), 1)), strict=False))
    for row, (domain, label, mode) in enumerate(keys):
        own = where(paired, domain=domain, label=label, mode=mode)
        own_means = where(half_means, domain=domain, label=label, mode=mode)
        for subset, look in looks.items():
            y = row + offsets[subset]
            difference = where(own, subset=subset).iloc[0]
            means = where(own_means, subset=subset).set_index("half")["mean"]
            _half_pair(left, means, y, look)
            _difference(right, difference, y, look)
    names = [_row_name(paired, *key) for key in keys]
    for axis in (left, right):
        if keys:
            axis.set_yticks(range(len(keys)), names if axis is left else [""] * len(keys))
            axis.set_ylim(len(keys) - 0.5, -0.5)
            axis.grid(axis="x")
            axis.xaxis.set_major_locator(MaxNLocator(5))
    right.axvline(0, color="#777777", lw=0.8, zorder=0)
    left.set_title("(a) Mean of each half", loc="left")
    right.set_title("(b) Second minus first half", loc="left")
    left.set_xlabel(f"Mean acceptance\n({METRIC_LABEL[metric]})")
    right.set_xlabel(f"Mean paired difference\nwith {confidence:.0%} interval")
    handles = [
        Line2D([], [], label=SUBSET_LABEL[name], **(look.line() | {"linestyle": "-"}))
        for name, look in looks.items()
    ]
    handles += [
        Line2D([], [], color="#555555", marker="|", ls="", ms=8, label="first half"),
        Line2D([], [], color="#555555", marker=">", ls="", ms=5, label="second half"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    sizes = "; ".join(
        f"{_row_name(paired, *key).replace(chr(10), ' ')}: "
        + ", ".join(str(n) for n in _sizes(paired, key, list(looks)))
        for key in keys
    )
    order = ", ".join(SUBSET_LABEL[name] for name in looks)
    figures.caption(
        figure,
        f"Second minus first half of each prompt's generated text, prompts weighted equally; "
        f"bars: {confidence:.0%} intervals from resampling prompts. Full rounds only. "
        f"In each row, from the top: {order}; prompts in that order: {sizes or 'none'}.",
    )
    return figure


def _half_pair(axis: plt.Axes, means: pd.Series, y: float, look: Series) -> None:
    if means.isna().any() or len(means) < 2:
        return
    ends = [means["first"], means["second"]]
    axis.plot(ends, [y, y], color=look.color, linestyle=look.linestyle, lw=1.4)
    axis.plot(ends[0], y, marker="|", color=look.color, ms=9, mew=1.6)
    axis.plot(ends[1], y, marker=">" if ends[1] >= ends[0] else "<", color=look.color, ms=5)


def _difference(axis: plt.Axes, row: pd.Series, y: float, look: Series) -> None:
    if pd.isna(row["difference"]):
        # At the same height as the marks it replaces, in data coordinates.
        axis.annotate(
            f"no value: {row['reason']}", (0, y), xytext=(3, 0), textcoords="offset points",
            fontsize=6.5, va="center", color="#555555",
        )  # fmt: skip
        return
    if pd.notna(row["difference_lower"]):
        axis.plot(
            [row["difference_lower"], row["difference_upper"]], [y, y], color=look.color, lw=1.4
        )
    axis.plot(row["difference"], y, **(look.line() | {"linestyle": ""}))


def _row_name(frame: pd.DataFrame, domain: str, label: str, mode: str) -> str:
    name = f"{label}/{mode}"
    return name if frame["domain"].nunique() == 1 else f"{domain}\n{name}"


def _sizes(paired: pd.DataFrame, key: tuple[str, str, str], subsets: Sequence[str]) -> list[int]:
    domain, label, mode = key
    rows = where(paired, domain=domain, label=label, mode=mode)
    by_subset = rows.set_index("subset")["prompts"]
    return [int(by_subset[name]) for name in subsets]


def quintiles(
    frame: pd.DataFrame,
    *,
    metric: str = "def1",
    subset: str = "loops_removed",
    confidence: float,
) -> plt.Figure:
    """Figure 5: acceptance by fifth of the text, and the change from the first fifth.

    Args:
        frame: schema position_quintiles, as a frame.
    """
    rows = frame[(frame["metric"] == metric) & (frame["subset"] == subset)]
    panels = list(dict.fromkeys(zip(frame["domain"], frame["label"], strict=True)))
    panels = panels or [("no domain", "no pair")]
    looks = series(list(dict.fromkeys(frame["mode"])))
    figure, axes = plt.subplots(
        2, len(panels), figsize=(2.7 * len(panels) + 0.7, 4.6), sharex=False, squeeze=False
    )
    counts = []
    for place, (domain, label) in enumerate(panels):
        chosen = where(rows, domain=domain, label=label)
        for axis, value in ((axes[0][place], "mean"), (axes[1][place], "change")):
            _fifths(axis, chosen, looks, value)
        axes[0][place].set_title(
            f"({chr(97 + place)}) {_pair_name(frame, label)}\n{domain}, {SUBSET_LABEL[subset]}",
            loc="left",
        )
        counts += [
            f"{label}/{mode} {int(part['prompts'].iloc[0])}"
            for mode, part in chosen.groupby("mode", sort=False)
        ]
        axes[1][place].set_xlabel("Fifth of the generated text")
    axes[0][0].set_ylabel(f"Mean acceptance\n({METRIC_LABEL[metric]})", fontsize=8)
    axes[1][0].set_ylabel("Change from the\nfirst fifth, paired", fontsize=8)
    _same_y(axes[0])
    _same_y(axes[1])
    _legend(figure, looks)
    figures.caption(
        figure,
        f"Acceptance by fifth of each prompt's text (fifth floor(5 i / n) + 1 of position i among "
        f"n tokens), full rounds only, prompts weighted equally. Bars: {confidence:.0%} intervals "
        "from resampling prompts; above they include the spread between prompts, below only the "
        f"change within a prompt. Prompts with a value in all five: {', '.join(counts) or 'none'}.",
    )
    return figure


def _fifths(axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series], value: str) -> None:
    if rows[value].notna().sum() == 0:
        figures.empty(axis, _first_reason(rows) or "no observation in this panel")
        return
    shifts = np.linspace(-0.08, 0.08, len(looks)) if len(looks) > 1 else [0.0]
    for shift, (mode, look) in zip(shifts, looks.items(), strict=True):
        line = rows[(rows["mode"] == mode) & rows[value].notna()].sort_values("quintile")
        x = line["quintile"] + 1 + shift
        axis.plot(x, line[value], **look.line())
        bars = line[f"{value}_lower"].notna()
        axis.vlines(
            x[bars], line.loc[bars, f"{value}_lower"], line.loc[bars, f"{value}_upper"],
            color=look.color, lw=1.2,
        )  # fmt: skip
    if value == "change":
        axis.axhline(0, color="#777777", lw=0.8, zorder=0)
    axis.set_xticks(range(1, 6))
    axis.grid(axis="y")
