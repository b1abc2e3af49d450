"""Acceptance length and predicted speedup by draft length, a panel a domain and mode."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from draftscope.choice.analysis import SKIPPED
from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

LABEL = {
    "acceptance_length": "Acceptance length\n(tokens a round)",
    "speedup": "Predicted speedup\n(plain decoding = 1)",
}
MEANING = {
    "acceptance_length": "Tokens a verification round yields, with the bonus or correction token: "
    "sum of tokens / sum of expected rounds.",
    "speedup": "Speed over plain decoding as predicted from acceptance length and the given costs, "
    "not timed. The gray line is plain decoding.",
}


def by_draft_length(
    frame: pd.DataFrame,
    value: str,
    *,
    confidence: float,
    without_text: Sequence[tuple[str, str, str]] = (),
) -> plt.Figure:
    """A value against draft length; a ring marks the best predicted speedup.

    Args:
        frame: schema choice, as a frame; the rows of all text are drawn.
        value: acceptance_length or speedup.
        without_text: target, domain and mode of which every prompt was skipped: an empty panel.
    """
    rows = frame[frame["subset"] == "all"]
    domains = [*rows["domain"], *(domain for _, domain, _ in without_text)]
    domains = list(dict.fromkeys(domains)) or ["no domain"]
    blocks = [*zip(rows["target"], rows["mode"], strict=True)]
    blocks += [(target, mode) for target, _, mode in without_text]
    blocks = list(dict.fromkeys(blocks)) or [("", "")]
    looks = series(list(dict.fromkeys(frame["draft"])))
    figure, axes = plt.subplots(
        len(blocks),
        len(domains),
        figsize=(2.1 * len(domains) + 1.0, 2.1 * len(blocks) + 0.6),
        squeeze=False,
        sharey=True,
    )
    several = len({target for target, _ in blocks}) > 1
    for line, (target, mode) in zip(axes, blocks, strict=True):
        for axis, domain in zip(line, domains, strict=True):
            chosen = where(rows, target=target, mode=mode, domain=domain)
            skipped = (target, domain, mode) in without_text
            _panel(axis, chosen, looks, value, SKIPPED if skipped else "no candidate")
            axis.set_title(", ".join(filter(None, (domain, mode, target if several else ""))))
        line[0].set_ylabel(LABEL[value], fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("Draft length (tokens)")
    if looks:
        handles = [Line2D([], [], label=name, **look.line()) for name, look in looks.items()]
        handles.append(_ring([], [], label="best predicted speedup"))
        figure.legend(handles=handles, loc="outside upper center", ncols=min(3, len(handles)))
    counts = ", ".join(
        f"{domain}/{mode} {int(group['prompts'].max())}"
        for (domain, mode), group in rows.groupby(["domain", "mode"], sort=False)
    )
    costs = ", ".join(
        f"{draft} {cost:g}"
        for draft, cost in rows.drop_duplicates("draft")[["draft", "cost_ratio"]].to_numpy()
    )
    figures.caption(
        figure,
        f"{MEANING[value]} Bars: {confidence:.0%} intervals from resampling prompts. Ring: "
        f"best predicted speedup of the panel at the given cost ratios c ({costs or 'none'}). "
        f"Prompts: {counts or 'none'}.",
    )
    return figure


def _panel(
    axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series], value: str, absent: str
) -> None:
    if rows[value].notna().sum() == 0:
        reasons = rows["reason"].dropna()
        figures.empty(axis, str(reasons.iloc[0]) if len(reasons) else absent)
        return
    lengths = sorted(rows["draft_length"].unique())
    # Intervals of drafts at one length must not cover each other.
    step = 0.02 * (lengths[-1] - lengths[0] or 1)
    shifts = step * (np.arange(len(looks)) - (len(looks) - 1) / 2)
    for shift, (draft, look) in zip(shifts, looks.items(), strict=True):
        line = rows[rows["draft"] == draft].sort_values("draft_length")
        x = line["draft_length"] + shift
        axis.plot(x, line[value], **look.line())
        bars = line[f"{value}_lower"].notna()
        axis.vlines(
            x[bars],
            line.loc[bars, f"{value}_lower"],
            line.loc[bars, f"{value}_upper"],
            color=look.color,
            lw=1.2,
        )
        best = line[line["rank"] == 1]
        if len(best):
            axis.add_line(_ring(best["draft_length"] + shift, best[value]))
    if value == "speedup":
        axis.axhline(1, color="#777777", lw=0.8, zorder=0)
    axis.set_xticks(lengths)
    axis.margins(x=0.1)
    axis.grid(axis="y")


def _ring(x, y, **more) -> Line2D:
    return Line2D(
        x, y, ls="", marker="o", ms=11, mfc="none", mec="#222222", mew=1.2, zorder=5, **more
    )
