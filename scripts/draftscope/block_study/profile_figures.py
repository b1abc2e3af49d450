"""Figures over the slots of a block and over the steps of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd

from draftscope.block_study.figures import WITH_SEEDS
from draftscope.block_study.lengths import domains_of
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

KINDS = {"unconditional": "of all rounds", "conditional": "of rounds that reach it"}


def profiles(frame: pd.DataFrame, *, number: str, confidence: float) -> plt.Figure:
    """Acceptance by slot of the block, a panel an arm; of all rounds and of those that reach a slot.

    Args:
        frame: schema block_positions.
    """
    domain = domains_of(frame)[-1] if len(frame) else ""
    own = where(frame, domain=domain, subset="all")
    modes, arms = (list(dict.fromkeys(own[name])) for name in ("mode", "arm"))
    figure, axes = _grid(arms, "no rounds", 2.1, 2.0)
    looks = series([f"{mode}, {word}" for mode in modes for word in KINDS.values()])
    for axis, arm in zip(axes, arms, strict=False):
        for mode in modes:
            for kind, word in KINDS.items():
                rows = where(own, arm=arm, mode=mode, kind=kind)
                rows = rows[rows["rate"].notna()].sort_values("position")
                _band(axis, rows, looks[f"{mode}, {word}"])
        axis.set_xlabel("Slot of the block")
        axis.xaxis.get_major_locator().set_params(integer=True)
    for axis in axes[:1]:
        axis.set_ylim(bottom=0)  # of all panels, now that all is drawn
    figure.legend(
        handles=[plt.Line2D([], [], label=name, **look.line()) for name, look in looks.items()],
        loc="outside upper center",
        ncols=2,
    )
    figure.supylabel("Accepted", fontsize=9)
    where_from = "mean of the domains" if domain == "all" else f"domain {domain}"
    figures.caption(
        figure,
        f"Figure {number}. Acceptance by slot of the block, {where_from}. Of all rounds, a slot counts "
        "only if all before it were accepted; the other rate is of the rounds that come to it. Bands: "
        f"{confidence:.0%} {WITH_SEEDS}.",
    )
    return figure


def _band(axis: plt.Axes, rows: pd.DataFrame, look: Series) -> None:
    axis.plot(rows["position"], rows["rate"], **look.line())
    has = rows["lower"].notna()
    axis.fill_between(
        rows["position"][has],
        rows["lower"][has],
        rows["upper"][has],
        color=look.color,
        alpha=0.12,
        linewidth=0,
    )


def _grid(
    arms: Sequence[str], reason: str, wide: float, high: float
) -> tuple[plt.Figure, Sequence[plt.Axes]]:
    """A small panel for each arm, four beside each other."""
    columns = min(len(arms), 4) or 1
    rows = -(-len(arms) // columns) or 1
    figure, axes = plt.subplots(
        rows, columns, figsize=(wide * columns + 0.7, high * rows + 0.6), squeeze=False, sharey=True
    )
    flat = list(axes.flat)
    if not arms:
        figures.empty(flat[0], reason)
    for axis in flat[max(len(arms), 1) :]:
        axis.set_axis_off()
    for axis, arm in zip(flat, arms, strict=False):
        axis.set_title(arm, loc="left")
    return figure, flat[: len(arms)]


def curves(histories: Mapping[tuple[str, int], pd.DataFrame], *, number: str) -> plt.Figure:
    """Learning curves: held-out acceptance length by step, a line a training.

    Args:
        histories: (arm, training) -> schema block_training_history.
    """
    arms = list(dict.fromkeys(arm for arm, _ in histories))
    (look,) = series(["held out"]).values()
    figure, axes = _grid(arms, "nothing was trained", 2.05, 1.9)
    for axis, arm in zip(axes, arms, strict=False):
        for (name, _), history in histories.items():
            if name != arm:
                continue
            style = look.line() | {"marker": "none", "linewidth": 1.2}
            axis.plot(history["step"], history["held_out_tau"], **style)
            best = history[history["best"]]
            style = look.line() | {"linestyle": "none"}
            axis.plot(best["step"], best["held_out_tau"], **style)
        axis.set_xlabel("Optimizer step")
    figure.supylabel("Held-out length (tokens a round)", fontsize=9)
    figures.caption(
        figure,
        f"Figure {number}. Learning curves: acceptance length of a greedy replay of texts of training "
        "prompts that no step visits, a line for each training. Marks: the weights that were kept.",
    )
    return figure
