"""The trend within texts beside the pooled one, and how many prompts are alive."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where
from draftscope.position.trend_tables import MODEL_WORD


def trend(
    model: pd.DataFrame, survival: pd.DataFrame, *, margin: float, confidence: float
) -> plt.Figure:
    """Slopes of three models by configuration, slopes by length reached, and survivorship.

    Args:
        model: schema position_model, as a frame.
        survival: schema position_survival, as a frame.
    """
    slopes = where(model, term="log2_position")
    looks = series(list(MODEL_WORD))
    names = list(dict.fromkeys(zip(slopes["label"], slopes["mode"], strict=True)))
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11.0, 0.55 * max(3, len(names)) + 1.9), width_ratios=[1.25, 1, 1]
    )
    _slopes(left, where(slopes, reached=0), looks, names, margin)
    configurations = series([f"{label}/{mode}" for label, mode in names])
    _by_length(middle, slopes[slopes["model"] == "position"], configurations, margin)
    _alive(right, survival, configurations)
    handles = [
        Line2D([], [], label=MODEL_WORD[n], **(k.line() | {"linestyle": ""}))
        for n, k in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=3, title="(a)")
    handles = [Line2D([], [], label=name, **look.line()) for name, look in configurations.items()]
    if handles:
        figure.legend(handles=handles, loc="outside upper right", ncols=2, title="(b), (c)")
    figures.caption(
        figure,
        f"Change of acceptance by a doubling of the position; bars: {confidence:.0%} intervals from "
        f"resampling prompts; shaded: the margin of {margin:g} that counts as none. (a) All texts, by "
        "three models: pooled has one intercept and mixes position with which texts are long, the others "
        "compare each text with itself. (b) Within texts, only those that reach a length and up to it, so "
        "that every position has the same texts. (c) Prompts with a text of at least each length. Loop "
        "problems removed throughout.",
    )
    return figure


def _slopes(
    axis: plt.Axes,
    rows: pd.DataFrame,
    looks: dict[str, Series],
    names: list[tuple[str, str]],
    margin: float,
) -> None:
    axis.set_title("(a) Slope by model", loc="left")
    if rows["estimate"].notna().sum() == 0:
        figures.empty(axis, "no text to compare with itself")
        return
    axis.axvspan(-margin, margin, color="#dddddd", lw=0, zorder=0)
    axis.axvline(0, color="#777777", lw=0.8, zorder=1)
    for y, (label, mode) in enumerate(names):
        own = where(rows, label=label, mode=mode)
        for shift, (model, look) in zip(
            np.linspace(-0.25, 0.25, len(looks)), looks.items(), strict=True
        ):
            row = where(own, model=model)
            if len(row):
                _estimate(axis, row.iloc[0], y + shift, look)
    axis.set_yticks(range(len(names)), [f"{label}/{mode}" for label, mode in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.grid(axis="x")
    axis.set_xlabel("Change of acceptance by a doubling")


def _estimate(axis: plt.Axes, row: pd.Series, y: float, look: Series) -> None:
    if pd.isna(row["estimate"]):
        return
    if pd.notna(row["estimate_lower"]):
        axis.plot([row["estimate_lower"], row["estimate_upper"]], [y, y], color=look.color, lw=1.4)
    axis.plot(row["estimate"], y, **(look.line() | {"linestyle": ""}))


def _by_length(axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series], margin: float) -> None:
    axis.set_title("(b) Slope by length reached", loc="left")
    rows = rows[(rows["reached"] > 0) & rows["estimate"].notna()]
    if rows.empty:
        figures.empty(axis, "no text reaches any of the lengths")
        return
    axis.axhspan(-margin, margin, color="#dddddd", lw=0, zorder=0)
    axis.axhline(0, color="#777777", lw=0.8, zorder=1)
    lengths = sorted(set(rows["reached"]))
    shifts = np.linspace(-0.2, 0.2, len(looks)) if len(looks) > 1 else [0.0]
    for shift, (name, look) in zip(shifts, looks.items(), strict=True):
        label, mode = name.split("/", 1)
        line = where(rows, label=label, mode=mode).sort_values("reached")
        x = np.array([lengths.index(n) for n in line["reached"]]) + shift
        axis.plot(x, line["estimate"], **(look.line() | {"linestyle": ""}))
        bars = line["estimate_lower"].notna().to_numpy()
        ends = line.loc[bars, ["estimate_lower", "estimate_upper"]].to_numpy()
        axis.vlines(x[bars], ends[:, 0], ends[:, 1], color=look.color, lw=1.2)
    axis.set_xticks(range(len(lengths)), [f"{n:,}" for n in lengths])
    axis.grid(axis="y")
    axis.set_xlabel("Length reached (tokens)")


def _alive(axis: plt.Axes, survival: pd.DataFrame, looks: dict[str, Series]) -> None:
    axis.set_title("(c) Prompts alive", loc="left")
    if survival.empty:
        figures.empty(axis, "no configuration")
        return
    for name, look in looks.items():
        label, mode = name.split("/", 1)
        line = where(survival, label=label, mode=mode).sort_values("reached")
        axis.plot(line["reached"], line["prompts"], **look.line())
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.grid(axis="y")
    axis.set_xlabel("Length reached (tokens)")
