"""Figures of the lossless study: speed, positions, phases, verify latency, round lengths."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where

PHASES = ("draft", "verify", "sample", "other")
HATCHES = ("", "///", "...", "xxx")
ROW = 4  # panels side by side


def _configurations(frame: pd.DataFrame, fewest: int = 1) -> list[tuple[str, str]]:
    """(pair, mode) with at least so many draft lengths of speculation, in the frame's order."""
    rows = frame[frame["draft_length"] > 0]
    groups = rows.groupby(["pair", "mode"], sort=False)["draft_length"].nunique()
    return [key for key, count in groups.items() if count >= fewest]


def _panels(count: int, width: float = 3.3, height: float = 3.0):
    """Axes for so many panels, `ROW` in a row; the places that are left stay empty."""
    across = min(max(count, 1), ROW)
    down = -(-max(count, 1) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(width * across + 0.6, height * down), squeeze=False
    )
    for axis in axes.flat[max(count, 1) :]:
        axis.set_axis_off()
    return figure, axes.flat[: max(count, 1)]


def speed(frame: pd.DataFrame, confidence: float) -> plt.Figure:
    """Figure 1: measured speedup against draft length, and what acceptance and cost predict.

    Args:
        frame: schema lossless_speed, as a frame.
    """
    keys = _configurations(frame, 3) or _configurations(frame)
    figure, axes = _panels(len(keys))
    names = {
        "speedup": "measured",
        "predicted": "predicted given c",
        "predicted_with_verify": "predicted given c and v",
        "predicted_iid": "predicted by pooled rate",
    }
    looks = series(list(names))
    if not keys:
        figures.empty(axes[0], "no configuration")
    for axis, (pair, mode) in zip(axes, keys, strict=False):
        own = where(frame, pair=pair, mode=mode).sort_values("draft_length")
        own = own[own["draft_length"] > 0]
        for name, label in names.items():
            line = own[own[name].notna()]
            axis.plot(line["draft_length"], line[name], **looks[name].line(), label=label)
        bars = own[own["speedup_lower"].notna()]
        axis.vlines(
            bars["draft_length"],
            bars["speedup_lower"],
            bars["speedup_upper"],
            color=looks["speedup"].color,
            lw=1.2,
        )
        axis.axhline(1, color="#777777", lw=0.8, zorder=0)
        axis.set_title(f"{pair}\n{mode}", loc="left")
        axis.set_xlabel("Draft length K")
        axis.set_xticks(own["draft_length"])
        axis.set_ylim(bottom=0)
        axis.grid(axis="y")
    for axis in axes[::ROW]:
        axis.set_ylabel("Speedup over plain decoding")
    _legend(figure, axes)
    prompts = int(frame["prompts"].max()) if len(frame) else 0
    figures.caption(
        figure,
        "Speedup: mean seconds a token of plain decoding through the same loop / that of "
        f"speculation, prompt reading included; bars: {confidence:.0%} intervals from resampling "
        f"{prompts} prompts. c: draft step / pass of plain decoding; v: pass over K + 1 tokens / "
        "pass of plain decoding, both measured in these rounds. The pooled rate is accepted / "
        "offered. Line at 1: no gain.",
    )
    return figure


def positions(frame: pd.DataFrame, draft_length: int, confidence: float) -> plt.Figure:
    """Figure 2: acceptance at each draft position, of all rounds and where reached.

    Args:
        frame: schema lossless_positions, as a frame.
    """
    rows = frame[frame["draft_length"] == draft_length]
    keys = list(dict.fromkeys(zip(rows["pair"], rows["mode"], strict=True)))
    looks = series([f"{pair}, {mode}" for pair, mode in keys])
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True)
    titles = {"position_rate": "(a) Of all rounds", "conditional_rate": "(b) Where reached"}
    shifts = np.linspace(-0.1, 0.1, max(len(keys), 1))
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        for shift, (pair, mode) in zip(shifts, keys, strict=False):
            own = where(rows, pair=pair, mode=mode).sort_values("position")
            own = own[own[column].notna()]
            look, x = looks[f"{pair}, {mode}"], own["position"] + shift
            axis.plot(x, own[column], **look.line(), label=f"{pair}, {mode}")
            bars = own[f"{column}_lower"].notna()
            axis.vlines(
                x[bars],
                own.loc[bars, f"{column}_lower"],
                own.loc[bars, f"{column}_upper"],
                color=look.color,
                lw=1.1,
            )
        axis.set_title(title, loc="left")
        axis.set_xlabel("Draft position")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylim(0, 1.02)
        axis.grid(axis="y")
    if not keys:
        figures.empty(axes[0], "no rounds at this draft length")
    axes[0].set_ylabel("Share accepted")
    _legend(figure, axes)
    figures.caption(
        figure,
        f"Draft length {draft_length}. Bars: {confidence:.0%} intervals from resampling prompts. "
        "(a) falls by construction, since a position counts only when all before it were "
        "accepted; (b) is the acceptance of the draft at the position itself.",
    )
    return figure


def phases(frame: pd.DataFrame) -> plt.Figure:
    """Figure 3: time a token by phase, stacked, plain decoding first.

    Args:
        frame: schema lossless_phases, as a frame.
    """
    keys = list(dict.fromkeys(zip(frame["pair"], frame["mode"], strict=True)))
    figure, axes = _panels(len(keys), width=2.6)
    looks = series(list(PHASES))
    if not keys:
        figures.empty(axes[0], "no configuration")
    for axis, (pair, mode) in zip(axes, keys, strict=False):
        own = where(frame, pair=pair, mode=mode)
        lengths = sorted(set(own["draft_length"]))
        below = np.zeros(len(lengths))
        for phase, hatch in zip(PHASES, HATCHES, strict=True):
            by_length = where(own, phase=phase).set_index("draft_length")["per_token"]
            height = 1000 * by_length.reindex(lengths, fill_value=0.0).to_numpy()
            axis.bar(
                range(len(lengths)),
                height,
                bottom=below,
                color=looks[phase].color,
                hatch=hatch,
                edgecolor="white",
                lw=0.4,
                label=phase,
            )
            below += height
        axis.set_xticks(range(len(lengths)), [str(length) for length in lengths])
        axis.set_title(f"{pair}\n{mode}", loc="left")
        axis.set_xlabel("Draft length K (0: plain)")
    for axis in axes[::ROW]:
        axis.set_ylabel("Milliseconds a token")
    _legend(figure, axes)
    figures.caption(
        figure,
        "Rounds after the first, which reads the prompt. Drawing the drafts counts as draft; "
        "sample: the target's law, the tests, the correction or bonus.",
    )
    return figure


def verify_latency(frame: pd.DataFrame) -> plt.Figure:
    """Figure 4: time of one pass against its tokens.

    Args:
        frame: schema lossless_latency, as a frame.
    """
    targets = list(dict.fromkeys(frame["target"]))
    looks = series(targets)
    figure, axis = plt.subplots(figsize=(4.6, 3.0))
    if not targets:
        figures.empty(axis, "nothing was timed")
    for target in targets:
        own = where(frame, target=target).sort_values("tokens")
        axis.plot(own["tokens"], 1000 * own["median"], **looks[target].line(), label=target)
        axis.vlines(
            own["tokens"],
            1000 * own["lower"],
            1000 * own["upper"],
            color=looks[target].color,
            lw=1.2,
        )
        base = own.iloc[0]
        axis.plot(
            own["tokens"],
            1000 * base["median"] * own["tokens"] / base["tokens"],
            color=looks[target].color,
            lw=0.8,
            ls=":",
        )
    axis.set_xlabel("Tokens of the pass")
    axis.set_ylabel("Milliseconds")
    if targets:
        axis.set_xticks(sorted(set(frame["tokens"])))
        axis.set_ylim(0, 1.25 * 1000 * float(frame["upper"].max()))
        axis.legend(loc="upper left")
    axis.grid(axis="y")
    context = int(frame["context"].max()) if len(frame) else 0
    figures.caption(
        figure,
        f"Median and quartiles, over a context of {context} tokens, logits of every token. "
        "Dotted: each token costing as much as the first, which is verification in series.",
    )
    return figure


def round_lengths(frame: pd.DataFrame, draft_length: int) -> plt.Figure:
    """Figure 5: rounds by accepted tokens, live beside replay of the same texts.

    Args:
        frame: schema lossless_replay, as a frame.
    """
    rows = frame[(frame["draft_length"] == draft_length) & (frame["texts"] > 0)]
    figure, axes = _panels(len(rows), width=2.4, height=2.8)
    looks = series(["live", "replay"])
    if not len(rows):
        figures.empty(axes[0], "no text could be replayed")
    for axis, row in zip(axes, rows.to_dict("records"), strict=False):
        for shift, name, column in (
            (-0.2, "live", "live_counts"),
            (0.2, "replay", "replayed_counts"),
        ):
            counts = np.asarray(row[column], dtype=float)
            _bars(axis, counts, shift, looks[name], name)
        axis.set_title(f"{row['pair']}\n{row['mode']}", loc="left")
        axis.set_xlabel("Accepted tokens")
        axis.set_xticks(range(draft_length + 1))
    for axis in axes[::ROW]:
        axis.set_ylabel("Rounds")
    _legend(figure, axes)
    figures.caption(
        figure,
        f"Draft length {draft_length}. Replay: the mean of all replays of the same texts, which "
        "is exact under greedy decoding and for drafts that copy from the text.",
    )
    return figure


def _bars(axis: plt.Axes, counts: np.ndarray, shift: float, look: Series, label: str) -> None:
    axis.bar(
        np.arange(len(counts)) + shift,
        counts,
        width=0.4,
        color=look.color if look.filled else "white",
        edgecolor=look.color,
        hatch="" if look.filled else "///",
        label=label,
    )


def _legend(figure: plt.Figure, axes) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(handles)))
