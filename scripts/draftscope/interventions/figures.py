"""Figures of the interventions: lengths by arm, where arms differ, and what distillation gained."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

SPREAD = 0.16  # between series that stand at one place


def lengths(
    means: pd.DataFrame, differences: pd.DataFrame, *, control: str, confidence: float
) -> plt.Figure:
    """Figure 6: acceptance length of each arm, and its paired difference to the control.

    One column a mode; expected lengths, all prompts and loop problems removed.

    Args:
        means, differences: schemas intervention_lengths and intervention_differences.
    """
    modes = list(dict.fromkeys(means["mode"]))
    figure, axes = plt.subplots(
        2, max(len(modes), 1), figsize=(3.6 * max(len(modes), 1) + 0.4, 5.2), squeeze=False
    )
    looks = series(["all", "loops_removed"])
    for column, mode in enumerate(modes or ["no mode"]):
        above, below = axes[:, column]
        own = where(means, mode=mode, estimator="expected")
        arms = list(dict.fromkeys(own["arm"]))
        _places(above, own, arms, "mean", looks)
        above.set_title(f"({chr(97 + column)}) {mode}: length", loc="left")
        kept = where(differences, mode=mode, estimator="expected", against=control)
        rows = pd.concat([kept, _against_base(differences, mode, control)])
        rows = rows.assign(name=rows["arm"] + " −\n" + rows["against"])
        _places(below, rows, list(dict.fromkeys(rows["name"])), "difference", looks, "name")
        below.axhline(0, color="#777777", linewidth=0.8)
        below.set_title(f"({chr(97 + len(modes) + column)}) {mode}: difference", loc="left")
    axes[0, 0].set_ylabel("Acceptance length\n(tokens a round)")
    axes[1, 0].set_ylabel("Paired difference\n(tokens a round)")
    _legend(figure, looks, {"all": "all prompts", "loops_removed": "loop problems removed"})
    figures.caption(
        figure,
        "Expected acceptance length of each arm on the same texts, and paired differences between "
        f"arms. Points: means over prompts; bars: {confidence:.0%} intervals from resampling prompts. "
        "The intervals of lengths show how prompts differ; whether arms differ is told by the paired "
        "differences alone.",
    )
    return figure


def _against_base(differences: pd.DataFrame, mode: str, control: str) -> pd.DataFrame:
    return where(differences, mode=mode, estimator="expected", against="base", arm=control)


def diagnostics(frame: pd.DataFrame, *, control: str, confidence: float) -> plt.Figure:
    """Figure 8: difference in acceptance to the control at triggers and by the target's entropy.

    Args:
        frame: schema intervention_diagnostics.
    """
    modes = list(dict.fromkeys(frame["mode"]))
    figure, axes = plt.subplots(
        2, max(len(modes), 1), figsize=(4.0 * max(len(modes), 1) + 0.4, 5.6), squeeze=False
    )
    arms = [arm for arm in dict.fromkeys(frame["arm"]) if arm != control]
    looks = series(arms)
    for column, mode in enumerate(modes or ["no mode"]):
        for row, factor in enumerate(("tokens", "entropy")):
            axis = axes[row, column]
            own = where(frame, mode=mode, factor=factor).sort_values("place", kind="stable")
            own = own[own["arm"] != control]
            drawn = own[own["difference"].notna()]
            number = row * max(len(modes), 1) + column
            axis.set_title(
                f"({chr(97 + number)}) {mode}: "
                f"{'by token' if factor == 'tokens' else 'by entropy of the target'}",
                loc="left",
            )
            if drawn.empty:
                figures.empty(axis, "no position")
                continue
            levels = list(dict.fromkeys(own["level"]))
            for place, (arm, look) in enumerate(looks.items()):
                line = where(drawn, arm=arm)
                at = np.array([levels.index(level) for level in line["level"]], float)
                shift = SPREAD * (place - (len(looks) - 1) / 2)
                _errors(axis, at + shift, line, "difference", look)
            sizes = own.drop_duplicates("level").set_index("level")["positions"]
            axis.set_xticks(
                range(len(levels)), [_tick(level, int(sizes[level]), factor) for level in levels]
            )
            axis.set_xlim(-0.6, len(levels) - 0.4)
            axis.axhline(0, color="#777777", linewidth=0.8)
            axis.grid(axis="y")
    for axis in axes[1]:
        axis.set_xlabel("Entropy of the target (nats)", fontsize=8)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"Acceptance minus {control}", fontsize=8)
    _legend(figure, looks, {arm: arm for arm in arms})
    prompts = int(frame["prompts"].max()) if len(frame) else 0
    figures.caption(
        figure,
        f"Where arms accept more or less than {control}: mean over positions of min(1, q(y)/p(y)) at "
        f"the emitted token, minus that of {control} at the same positions, on {prompts} prompts. Bars: "
        f"{confidence:.0%} intervals from resampling prompts; below each level its positions. Entropy "
        "is the target's at temperature 1, in bins with equal numbers of positions.",
    )
    return figure


def _tick(level: str, positions: int, factor: str) -> str:
    name = level if factor == "tokens" else level.removesuffix(" nats").replace(" to ", "–")
    return f"{name}\n{positions:,}"


def distillation(
    history: pd.DataFrame, match: pd.DataFrame, *, model: str, confidence: float
) -> plt.Figure:
    """What training gained: held-out KL along it, and greedy match by domain before and after.

    Args:
        history: schema training_history; match: schema distillation_match.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.3))
    look = series(["untrained", "distilled"])
    left.plot(history["tokens"] / 1000, history["held_out_kl"], **look["distilled"].line())
    kept = history[history["best"]].iloc[0]
    left.axvline(kept["tokens"] / 1000, color="#777777", linewidth=0.8, linestyle=":")
    left.annotate(
        "kept",
        (kept["tokens"] / 1000, float(history["held_out_kl"].max())),
        textcoords="offset points",
        xytext=(-4, -2),
        ha="right",
        va="top",
        fontsize=8,
    )
    left.set_xlabel("Generated tokens visited (thousands)")
    left.set_ylabel("Held-out KL (nats)")
    left.set_ylim(bottom=0)
    left.grid(axis="y")
    left.set_title(f"(a) {model}", loc="left")
    rows = where(match, subset="loops_removed")
    domains = list(dict.fromkeys(rows["domain"]))
    for place, (name, own) in enumerate(look.items()):
        drawn = rows[rows[name].notna()]
        at = np.array([domains.index(domain) for domain in drawn["domain"]], float)
        _errors(right, at + SPREAD * (place - 0.5), drawn, name, own, label=name)
    right.set_xticks(range(len(domains)), domains)
    right.set_xlim(-0.6, max(len(domains), 1) - 0.4)
    right.set_ylabel("Greedy match")
    right.set_ylim(bottom=min(0, right.get_ylim()[0]))
    right.grid(axis="y")
    right.legend(loc="best")
    right.set_title("(b) by domain, loop problems removed", loc="left")
    figures.caption(
        figure,
        "(a) KL(p, q) on held-out training prompts along training, at temperature 1; dotted: the "
        "weights that were kept. (b) Share of generated tokens that are the draft's most probable "
        f"token, on evaluation prompts, mean over prompts with {confidence:.0%} intervals.",
    )
    return figure


def _places(
    axis: plt.Axes,
    rows: pd.DataFrame,
    names: list[str],
    value: str,
    looks: Mapping[str, Series],
    column: str = "arm",
) -> None:
    drawn = rows[rows[value].notna()]
    if drawn.empty:
        figures.empty(axis, "no prompt with text")
        return
    for place, (subset, look) in enumerate(looks.items()):
        line = where(drawn, subset=subset)
        at = np.array([names.index(name) for name in line[column]], float)
        _errors(axis, at + SPREAD * (place - (len(looks) - 1) / 2), line, value, look)
    axis.set_xticks(range(len(names)), names)
    axis.set_xlim(-0.6, len(names) - 0.4)
    axis.grid(axis="y")


def _errors(
    axis: plt.Axes, at: np.ndarray, rows: pd.DataFrame, value: str, look: Series, label: str = ""
) -> None:
    """Points with intervals, where there are intervals; a series is never a line between names."""
    points = rows[value].to_numpy(float)
    low, high = (rows[f"{value}_{end}"].to_numpy(float) for end in ("lower", "upper"))
    bars = np.vstack([points - low, high - points])
    bars = np.where(np.isnan(bars), 0.0, np.maximum(bars, 0.0))
    style = look.line() | {"linestyle": "none"}
    axis.errorbar(at, points, yerr=bars, capsize=2.5, elinewidth=1.1, label=label or None, **style)


def _legend(figure: plt.Figure, looks: Mapping[str, Series], names: Mapping[str, str]) -> None:
    handles = [
        plt.Line2D([], [], **(look.line() | {"linestyle": "none"}), label=names[name])
        for name, look in looks.items()
    ]
    if handles:
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles))
