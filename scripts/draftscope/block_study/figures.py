"""Figures of the studies of block drafters: differences, measured speed, probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from draftscope.block_study.lengths import domains_of
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

WITH_SEEDS = "intervals over trainings and prompts"


def _words(mode: str, temperature: float) -> str:
    return f"{mode} (T = {temperature:g})"


def differences(frame: pd.DataFrame, *, against: str, number: str, confidence: float) -> plt.Figure:
    """Difference of each arm to another, a row an arm, one panel a mode; with seeds and without.

    Args:
        frame: schema block_differences.
    """
    own = where(frame, against=against, subset="all", pooling="macro")
    figure, axes, looks = _forest(own, f"no arm beside {against}", 0.0)
    for axis, rows, look, y in _points(own, axes, looks):
        _bars(axis, rows, "difference", look, y)
        alone = rows["prompts_lower"].notna().to_numpy()
        axis.hlines(
            y[alone],
            rows["prompts_lower"][alone],
            rows["prompts_upper"][alone],
            color=look.color,
            linewidth=3.6,
            alpha=0.3,
        )
    for axis in axes:
        axis.set_xlabel(f"Difference to {against} (tokens a round)")
    figures.caption(
        figure,
        f"Figure {number}. Acceptance length of each arm minus that of {against}, means over prompts. "
        f"Thin bars: {confidence:.0%} {WITH_SEEDS}; broad pale bars: prompts alone, for these very "
        "weights. Where only the broad bar is clear of 0, another training might not be.",
    )
    return figure


def _forest(
    frame: pd.DataFrame, reason: str, zero: float
) -> tuple[plt.Figure, np.ndarray, dict[str, Series]]:
    """A panel a mode with a row an arm; a look for each domain."""
    modes, arms = (list(dict.fromkeys(frame[name])) for name in ("mode", "arm"))
    domains = domains_of(frame) if len(frame) else []
    columns, rows = max(len(modes), 1), max(len(arms), 1)
    height = 1.3 + rows * (0.16 * len(domains) + 0.14)
    figure, axes = plt.subplots(
        1, columns, figsize=(3.4 * columns + 0.9, height), squeeze=False, sharey=True, sharex=True
    )
    if not modes:
        figures.empty(axes[0, 0], reason)
        return figure, axes[0], {}
    for column, (axis, mode) in enumerate(zip(axes[0], modes, strict=True)):
        temperature = float(where(frame, mode=mode)["temperature"].iloc[0])
        axis.set_title(f"({chr(97 + column)}) {_words(mode, temperature)}", loc="left")
        axis.axvline(zero, color="#777777", linewidth=0.8)
        axis.set_yticks(range(len(arms)), arms)
        axis.set_ylim(len(arms) - 0.5, -0.5)
    looks = series(domains)
    _legend(figure, looks)
    return figure, axes[0], looks


def _points(
    frame: pd.DataFrame, axes: np.ndarray, looks: Mapping[str, Series]
) -> Iterator[tuple[plt.Axes, pd.DataFrame, Series, np.ndarray]]:
    """Panel, rows, look and heights of each domain in each mode."""
    arms = list(dict.fromkeys(frame["arm"]))
    step = 0.72 / max(len(looks), 1)
    for axis, mode in zip(axes, dict.fromkeys(frame["mode"]), strict=False):
        for place, (domain, look) in enumerate(looks.items()):
            rows = where(frame, mode=mode, domain=domain).set_index("arm").reindex(arms)
            yield axis, rows, look, np.arange(len(arms)) + (place - (len(looks) - 1) / 2) * step


def _bars(
    axis: plt.Axes,
    rows: pd.DataFrame,
    name: str,
    look: Series,
    y: np.ndarray,
    upright: bool = False,
) -> None:
    """Points with the intervals that they have, lying, or upright with `y` along the other axis."""
    drawn = rows[name].notna().to_numpy()
    rows, y = rows[drawn], y[drawn]
    style = look.line() | {"linestyle": "none", "linewidth": 1.2, "capsize": 2}
    low = (rows[name] - rows["lower"]).fillna(0).clip(lower=0)
    high = (rows["upper"] - rows[name]).fillna(0).clip(lower=0)
    if upright:
        axis.errorbar(y, rows[name], yerr=[low, high], **style)
    else:
        axis.errorbar(rows[name], y, xerr=[low, high], **style)


def _legend(figure: plt.Figure, looks: Mapping[str, Series]) -> None:
    handles = [
        plt.Line2D([], [], label=name, **(look.line() | {"linestyle": "none"}))
        for name, look in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(max(len(looks), 1), 6))


def speed(frame: pd.DataFrame, *, number: str, confidence: float) -> plt.Figure:
    """Measured speedup of each arm, a row an arm, one panel a mode.

    Args:
        frame: schema block_speed.
    """
    own = where(frame, subset="all")
    figure, axes, looks = _forest(own, "nothing was timed", 1.0)
    for axis, rows, look, y in _points(own, axes, looks):
        _bars(axis, rows, "speedup", look, y)
    for axis in axes:
        axis.set_xlabel("Speed / plain decoding")
    figures.caption(
        figure,
        f"Figure {number}. Measured speed of each arm over plain decoding of the same prompts, geometric "
        f"means. Bars: {confidence:.0%} {WITH_SEEDS}. Below 1 the arm is slower.",
    )
    return figure


def probes(frame: pd.DataFrame, *, number: str, confidence: float) -> plt.Figure:
    """Behind the first rejection: coverage by rank, and cosines; a line or a pair a domain and mode.

    Args:
        frame: schema retrace_probes.
    """
    domains = domains_of(frame) if len(frame) else []
    modes = list(dict.fromkeys(frame["mode"]))
    looks = series(domains)
    figure, axes = plt.subplots(
        2, max(len(modes), 1), figsize=(4.0 * max(len(modes), 1), 5.4), squeeze=False, sharey="row"
    )
    for column, (above, below) in enumerate(axes.T):
        if not modes:
            figures.empty(above, "no rejection")
            figures.empty(below, "no rejection")
            continue
        here = where(frame, mode=modes[column])
        temperature = float(here["temperature"].iloc[0])
        above.set_title(f"({chr(97 + column)}) {_words(modes[column], temperature)}", loc="left")
        below.set_title(f"({chr(97 + len(modes) + column)})", loc="left")
        for domain in domains:
            rows = where(here, domain=domain, measure="coverage")
            rows = rows[rows["value"].notna()].sort_values("rank")
            low, high = (rows["value"] - rows["lower"], rows["upper"] - rows["value"])
            above.errorbar(
                rows["rank"].astype(float),
                100 * rows["value"],
                yerr=100 * np.vstack([low.fillna(0).clip(lower=0), high.fillna(0).clip(lower=0)]),
                capsize=2,
                label=domain,
                **looks[domain].line(),
            )
            for place, measure in enumerate(("cosine_true", "cosine_random")):
                one = where(here, domain=domain, measure=measure)
                one = one[one["value"].notna()]
                shift = (domains.index(domain) - (len(domains) - 1) / 2) * 0.14
                _bars(below, one, "value", looks[domain], np.full(len(one), place + shift), True)
        above.set_xscale("log")
        above.set_xlabel("Rank up to")
        above.set_ylim(0, 103)
        below.axhline(0, color="#777777", linewidth=0.8)
        below.set_xticks([0, 1], ["target's own\ntext", "another\nprompt's text"])
        below.set_xlim(-0.6, 1.6)
    axes[0, 0].set_ylabel("Target's token covered (%)")
    axes[1, 0].set_ylabel("Cosine with the\ntarget's state")
    _legend(figure, looks)
    figures.caption(
        figure,
        f"Figure {number}. Drafted places strictly after the first rejection of their round, of the "
        "backbone. Above: share where the token that the target came to write has that rank or a higher "
        "one among the draft's logits. Below: cosine of the draft's final state with the state the "
        f"target wrote it from, and with one of another prompt's text. Bars: {confidence:.0%} "
        f"{WITH_SEEDS}.",
    )
    return figure
