"""Figures of the studies of block drafters: lengths and differences, profiles, curves, speed, probes."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from draftscope.block_study.lengths import domains_of
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

WITH_SEEDS = "intervals over trainings and prompts"


def _words(mode: str, temperature: float) -> str:
    return f"{mode} (T = {temperature:g})"


def differences(
    frame: pd.DataFrame, *, against: str, subset: str = "all", number: str, confidence: float
) -> plt.Figure:
    """Difference of each arm to another by domain, one panel a mode; seeds in the interval and without.

    Args:
        frame: schema block_differences.
    """
    own = where(frame, against=against, subset=subset, pooling="macro")
    modes = list(dict.fromkeys(own["mode"]))
    arms = list(dict.fromkeys(own["arm"]))
    looks, domains = series(arms), domains_of(own) if len(own) else []
    figure, axes = _panels(len(modes), len(arms) * len(domains))
    step = 0.75 / max(len(arms), 1)
    for column, axis in enumerate(axes.flat):
        if not modes:
            figures.empty(axis, f"no arm beside {against}")
            continue
        here = where(own, mode=modes[column])
        temperature = float(here["temperature"].iloc[0])
        axis.set_title(f"({chr(97 + column)}) {_words(modes[column], temperature)}", loc="left")
        axis.axhline(0, color="#777777", linewidth=0.8)
        for place, arm in enumerate(arms):
            rows = where(here, arm=arm).set_index("domain").reindex(domains)
            x = np.arange(len(domains)) + (place - (len(arms) - 1) / 2) * step
            drawn = rows["difference"].notna().to_numpy()
            _bars(axis, x[drawn], rows[drawn], "difference", looks[arm], label=arm)
            alone = rows["prompts_lower"].notna().to_numpy()
            axis.vlines(
                x[alone],
                rows["prompts_lower"][alone],
                rows["prompts_upper"][alone],
                color=looks[arm].color,
                linewidth=3.6,
                alpha=0.3,
            )
        axis.set_xticks(range(len(domains)), domains)
        axis.set_xlim(-0.6, max(len(domains) - 0.4, 0.6))
    for axis in axes[:, 0]:
        axis.set_ylabel(f"Difference to {against}\n(tokens a round)")
    _legend(figure, looks)
    figures.caption(
        figure,
        f"Figure {number}. Acceptance length of each arm minus that of {against}, means over prompts. "
        f"Thin bars: {confidence:.0%} {WITH_SEEDS}; broad pale bars: prompts alone, for these very "
        "weights. Where only the broad bar is clear of 0, another training might not be.",
    )
    return figure


def _panels(modes: int, points: int) -> tuple[plt.Figure, np.ndarray]:
    """A panel a mode, side by side; above each other where many points want the page's width."""
    wide, count = min(max(3.6, 0.16 * points + 1.4), 8.0), max(modes, 1)
    rows, columns = (count, 1) if wide > 4.8 else (1, count)
    return plt.subplots(
        rows, columns, figsize=(wide * columns, 0.6 + 2.5 * rows), squeeze=False, sharey=True
    )


def _bars(
    axis: plt.Axes, x: np.ndarray, rows: pd.DataFrame, name: str, look: Series, label: str
) -> None:
    """Points with the intervals that they have."""
    style = look.line() | {"linestyle": "none", "linewidth": 1.2}
    low = (rows[name] - rows["lower"]).fillna(0).clip(lower=0)
    high = (rows["upper"] - rows[name]).fillna(0).clip(lower=0)
    axis.errorbar(x, rows[name], yerr=[low, high], capsize=2, label=label, **style)


def _legend(figure: plt.Figure, looks: Mapping[str, Series]) -> None:
    handles = [
        plt.Line2D([], [], label=name, **(look.line() | {"linestyle": "none"}))
        for name, look in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(max(len(looks), 1), 6))


def profiles(frame: pd.DataFrame, *, number: str, confidence: float) -> plt.Figure:
    """Acceptance by slot of the block: unconditional above, conditional below, one column a mode.

    Args:
        frame: schema block_positions.
    """
    domain = domains_of(frame)[-1] if len(frame) else ""
    own = where(frame, domain=domain, subset="all")
    modes, arms = (list(dict.fromkeys(own[name])) for name in ("mode", "arm"))
    looks = series(arms)
    figure, axes = plt.subplots(
        2, max(len(modes), 1), figsize=(3.9 * max(len(modes), 1), 5.2), squeeze=False, sharex=True,
        sharey="row",
    )  # fmt: skip
    for row, (kind, word) in enumerate(
        (("unconditional", "of all rounds"), ("conditional", "of rounds that reach it"))
    ):
        for column, axis in enumerate(axes[row]):
            if not modes:
                figures.empty(axis, "no rounds")
                continue
            here = where(own, mode=modes[column], kind=kind)
            temperature = float(here["temperature"].iloc[0])
            letter = chr(97 + row * len(modes) + column)
            axis.set_title(f"({letter}) {_words(modes[column], temperature)}, {word}", loc="left")
            for arm in arms:
                rows = where(here, arm=arm)
                rows = rows[rows["rate"].notna()].sort_values("position")
                axis.plot(rows["position"], rows["rate"], label=arm, **looks[arm].line())
                has = rows["lower"].notna()
                axis.fill_between(
                    rows["position"][has],
                    rows["lower"][has],
                    rows["upper"][has],
                    color=looks[arm].color,
                    alpha=0.12,
                    linewidth=0,
                )
            axis.set_ylim(bottom=0)
            axis.xaxis.get_major_locator().set_params(integer=True)
        axes[row, 0].set_ylabel("Accepted / rounds" if row == 0 else "Accepted / reached")
    for axis in axes[1]:
        axis.set_xlabel("Slot of the block")
    figure.legend(
        handles=[plt.Line2D([], [], label=name, **look.line()) for name, look in looks.items()],
        loc="outside upper center",
        ncols=min(max(len(looks), 1), 6),
    )
    where_from = "mean of the domains" if domain == "all" else f"domain {domain}"
    figures.caption(
        figure,
        f"Figure {number}. Acceptance by slot of the block, {where_from}. Above, a slot counts only if "
        "all before it were accepted; below, of the rounds that come to it. Bands: "
        f"{confidence:.0%} {WITH_SEEDS}.",
    )
    return figure


def curves(histories: Mapping[tuple[str, int], pd.DataFrame], *, number: str) -> plt.Figure:
    """Learning curves: held-out acceptance length by step, a line a training.

    Args:
        histories: (arm, training) -> schema block_training_history.
    """
    arms = list(dict.fromkeys(arm for arm, _ in histories))
    looks = series(arms)
    columns = min(len(arms), 4) or 1
    rows = -(-len(arms) // columns) or 1
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.05 * columns + 0.6, 2.2 * rows + 0.4), squeeze=False, sharey=True
    )
    for axis in axes.flat[len(arms) :]:
        axis.set_axis_off()
    for axis, arm in zip(axes.flat, arms, strict=False):
        axis.set_title(arm, loc="left")
        for (name, _), history in histories.items():
            if name != arm:
                continue
            style = looks[arm].line() | {"marker": "none", "linewidth": 1.2}
            axis.plot(history["step"], history["held_out_tau"], **style)
            best = history[history["best"]]
            axis.plot(
                best["step"],
                best["held_out_tau"],
                **(looks[arm].line() | {"linestyle": "none"}),
            )
    for row in axes:
        row[0].set_ylabel("Held-out length\n(tokens a round)")
    for axis in axes.flat[: len(arms)]:
        axis.set_xlabel("Optimizer step")
    figures.caption(
        figure,
        f"Figure {number}. Learning curves: acceptance length of a greedy replay of texts of training "
        "prompts that no step visits, a line for each training. Marks: the weights that were kept.",
    )
    return figure


def speed(frame: pd.DataFrame, *, number: str, confidence: float) -> plt.Figure:
    """Measured speedup of each arm by domain, one panel a mode.

    Args:
        frame: schema block_speed.
    """
    frame = where(frame, subset="all")
    modes, arms = (list(dict.fromkeys(frame[name])) for name in ("mode", "arm"))
    looks, domains = series(arms), domains_of(frame) if len(frame) else []
    figure, axes = _panels(len(modes), len(arms) * len(domains))
    step = 0.75 / max(len(arms), 1)
    for column, axis in enumerate(axes.flat):
        if not modes:
            figures.empty(axis, "nothing was timed")
            continue
        here = where(frame, mode=modes[column])
        temperature = float(here["temperature"].iloc[0])
        axis.set_title(f"({chr(97 + column)}) {_words(modes[column], temperature)}", loc="left")
        axis.axhline(1, color="#777777", linewidth=0.8)
        for place, arm in enumerate(arms):
            rows = where(here, arm=arm).set_index("domain").reindex(domains)
            x = np.arange(len(domains)) + (place - (len(arms) - 1) / 2) * step
            _bars(axis, x, rows, "speedup", looks[arm], label=arm)
        axis.set_xticks(range(len(domains)), domains)
        axis.set_xlim(-0.6, max(len(domains) - 0.4, 0.6))
    for axis in axes[:, 0]:
        axis.set_ylabel("Speed / plain decoding")
    _legend(figure, looks)
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
                _bars(below, np.full(len(one), place + shift), one, "value", looks[domain], domain)
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
