"""Figures 3, 4 and 7 (token types, mismatches at triggers), and the trend within texts."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from draftscope.exhibits import figures
from draftscope.exhibits.figures import Series, series, where
from draftscope.tokens.names import NAMES

METRIC_LABEL = {
    "def2": "def2: q(argmax p)",
    "alpha": "alpha: min(1, q(y)/p(y))",
    "match": "match: the draft's token is emitted",
}
TOKENS = 8
NOT_ASKED = "no second draft in this experiment"


def labels(frame: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["label"]))


def by_type(types: pd.DataFrame, label: str, confidence: float) -> plt.Figure:
    """Figure 3: def2 and alpha by type, one series a mode.

    Args:
        types: schema position_types, as a frame.
        label: of the pair shown.
    """
    chosen = _shown_types(types, label)
    metrics = _metrics(chosen)
    looks = series(list(dict.fromkeys(types["mode"])))
    names = _type_names(chosen)
    figure, axes = plt.subplots(
        1,
        len(metrics),
        figsize=(3.4 * len(metrics) + 1.2, 0.30 * len(names) + 1.5),
        squeeze=False,
        sharey=True,
    )
    _type_panels(list(axes[0]), chosen, metrics, looks, names, 0)
    _legend(figure, looks)
    figures.caption(
        figure,
        f"Acceptance by the type of the token; pair {_pair(types, label)}, loop problems removed. Bars: "
        f"{confidence:.0%} intervals from resampling prompts. Numbers of tokens in brackets, by mode as "
        "in the legend. Types without a token are not drawn.",
    )
    return figure


def at_triggers(mismatches: pd.DataFrame, label: str, confidence: float) -> plt.Figure:
    """Figure 4: what the draft said instead of a trigger, and the probability that it moves.

    Args:
        mismatches: schema position_mismatches, as a frame.
    """
    chosen = where(mismatches, label=label)
    looks = series(list(dict.fromkeys(mismatches["mode"])))
    height = _height(chosen)
    figure = plt.figure(figsize=(10.4, height + 3.5))
    above, below = figure.subfigures(2, 1, height_ratios=[height, 3.5])
    _mismatch_panels(list(above.subplots(1, 3, width_ratios=[1.2, 1.2, 1])), chosen, looks, 0)
    _matrices(list(below.subplots(1, len(looks), squeeze=False)[0]), chosen, list(looks), 3)
    _legend(figure, looks)
    figures.caption(figure, _mismatch_caption(mismatches, label, confidence))
    return figure


def second_draft(types: pd.DataFrame, mismatches: pd.DataFrame, confidence: float) -> plt.Figure:
    """Figure 7: the two figures before, of the second draft."""
    looks = series(list(dict.fromkeys(types["mode"])))
    if len(labels(types)) < 2:
        figure, axis = plt.subplots(figsize=(6, 2))
        figures.empty(axis, NOT_ASKED)
        figures.caption(figure, "Token types and mismatches of a second draft: " + NOT_ASKED + ".")
        return figure
    label = labels(types)[1]
    chosen = _shown_types(types, label)
    metrics, names = _metrics(chosen), _type_names(chosen)
    said = where(mismatches, label=label)
    heights = [0.30 * len(names) + 1.0, _height(said), 3.5]
    figure = plt.figure(figsize=(10.4, sum(heights)))
    above, below, last = figure.subfigures(3, 1, height_ratios=heights)
    top = above.subplots(1, len(metrics), squeeze=False, sharey=True)
    _type_panels(list(top[0]), chosen, metrics, looks, names, 0)
    bottom = below.subplots(1, 3, width_ratios=[1.2, 1.2, 1])
    _mismatch_panels(list(bottom), said, looks, len(metrics))
    panels = list(last.subplots(1, len(looks), squeeze=False)[0])
    _matrices(panels, said, list(looks), len(metrics) + 3)
    _legend(figure, looks)
    without = "" if "alpha" in metrics else (
        " This draft has no distribution at each position; what is shown is whether its proposal, as if "
        "a round started there, is the emitted token."
    )  # fmt: skip
    figures.caption(
        figure,
        f"Above: acceptance by the type of the token; pair {_pair(types, label)}, loop problems "
        f"removed.{without} Bars: {confidence:.0%} intervals from resampling prompts. Below: "
        + _mismatch_caption(mismatches, label, confidence),
    )
    return figure


def _height(chosen: pd.DataFrame) -> float:
    """Of the panels about triggers, in inches: little where they only say that there is none."""
    return 3.5 if "type" in set(chosen["level"]) else 1.2


def _shown_types(types: pd.DataFrame, label: str) -> pd.DataFrame:
    chosen = where(types, label=label, subset="loops_removed", place="any")
    chosen = chosen[chosen["kind"].isin(["all", "type", "published"])]
    return chosen[chosen["positions"] > 0]


def _metrics(chosen: pd.DataFrame) -> list[str]:
    """def2 and alpha, or what there is of a draft without a distribution."""
    defined = [name for name in ("def2", "alpha") if _defined(chosen, name)]
    return defined or ["match"]


def _defined(chosen: pd.DataFrame, metric: str) -> bool:
    return bool(where(chosen, metric=metric)["value"].notna().any())


def _type_names(chosen: pd.DataFrame) -> list[tuple[str, str]]:
    present = set(zip(chosen["kind"], chosen["name"], strict=True))
    ordered = [("all", "all"), *(("type", name) for name in NAMES)]
    ordered += [key for key in present if key[0] == "published"]
    return [key for key in ordered if key in present] or [("all", "all")]


def _type_panels(
    axes: Sequence[plt.Axes],
    chosen: pd.DataFrame,
    metrics: Sequence[str],
    looks: dict[str, Series],
    names: Sequence[tuple[str, str]],
    first: int,
) -> None:
    shifts = np.linspace(-0.18, 0.18, len(looks)) if len(looks) > 1 else [0.0]
    counts = []
    for kind, name in names:
        rows = where(chosen, kind=kind, name=name, metric=metrics[0])
        by_mode = dict(zip(rows["mode"], rows["positions"], strict=True))
        listed = ", ".join(f"{by_mode.get(mode, 0):,}" for mode in looks)
        word = {"all": "all tokens", "published": "published triggers"}.get(kind, name)
        counts.append(f"{word} ({listed})")
    for place, (axis, metric) in enumerate(zip(axes, metrics, strict=True)):
        rows = where(chosen, metric=metric)
        if rows["value"].notna().sum() == 0:
            figures.empty(axis, "no token of any type in these texts")
            continue
        for shift, (mode, look) in zip(shifts, looks.items(), strict=True):
            for y, (kind, name) in enumerate(names):
                row = where(rows, mode=mode, kind=kind, name=name)
                if row.empty or pd.isna(row["value"].iloc[0]):
                    continue
                row = row.iloc[0]
                if pd.notna(row["lower"]):
                    axis.plot(
                        [row["lower"], row["upper"]], [y + shift] * 2, color=look.color, lw=1.3
                    )
                axis.plot(row["value"], y + shift, **(look.line() | {"linestyle": ""}))
        axis.set_yticks(range(len(names)), counts)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.grid(axis="both")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.set_title(f"({chr(97 + first + place)}) {metric}", loc="left")
        axis.set_xlabel(f"Mean over positions\n({METRIC_LABEL[metric]})")


def _mismatch_panels(
    axes: Sequence[plt.Axes], chosen: pd.DataFrame, looks: dict[str, Series], first: int
) -> None:
    by_kind, by_token, mass = axes
    titles = ("what kind of token", "which token", "probability (T = 1)")
    for place, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(f"({chr(97 + first + place)}) {title}", loc="left")
    types = where(chosen, level="type")
    if types.empty:
        reason = _reason(chosen)
        for axis in axes:
            figures.empty(axis, reason)
        return
    kinds = [name for name in (*NAMES, "none") if name in set(types["type"])]
    _bars(by_kind, types, looks, "type", kinds, "share")
    by_kind.set_xlabel("Share of mismatches")
    tokens = where(chosen, level="token")
    total = tokens.groupby("said")["positions"].sum().sort_values(ascending=False, kind="stable")
    _bars(by_token, tokens, looks, "said", list(total.index[:TOKENS]), "positions")
    by_token.set_xlabel("Mismatches")
    by_token.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    summary = chosen[(chosen["level"] == "summary") & (chosen["trigger"] == "all")]
    if summary["moved"].isna().all():
        figures.empty(mass, "the draft has no probabilities")
        return
    names = {"p": "target's, of\nthe trigger", "q": "draft's, of\nthe trigger", "moved": "moved"}
    shifts = np.linspace(-0.12, 0.12, len(looks)) if len(looks) > 1 else [0.0]
    for shift, (mode, look) in zip(shifts, looks.items(), strict=True):
        row = where(summary, mode=mode)
        if row.empty or pd.isna(row["moved"].iloc[0]):
            continue
        heights = [row[name].iloc[0] for name in names]
        mass.plot(np.arange(3) + shift, heights, **(look.line() | {"linestyle": ""}))
        mass.vlines(
            np.arange(3) + shift, 0, heights, color=look.color, lw=1.0, linestyle=look.linestyle
        )
    mass.set_xticks(range(3), list(names.values()))
    mass.set_xlim(-0.5, 2.5)
    mass.set_ylim(bottom=0)
    mass.grid(axis="y")


def _matrices(
    axes: Sequence[plt.Axes], chosen: pd.DataFrame, modes: Sequence[str], first: int
) -> None:
    """Which type the draft said instead of each type, one panel a mode."""
    rows = where(chosen, level="matrix")
    emitted = [name for name in NAMES if name in set(rows["trigger"])]
    said = [name for name in (*NAMES, "none") if name in set(rows["type"])]
    for place, (axis, mode) in enumerate(zip(axes, modes, strict=True)):
        axis.set_title(f"({chr(97 + first + place)}) {mode}: of every type", loc="left")
        own = where(rows, mode=mode)
        if own.empty:
            figures.empty(axis, "no mismatch in these texts")
            continue
        shares = own.pivot(index="trigger", columns="type", values="share")
        shares = shares.reindex(index=emitted, columns=said)
        axis.imshow(np.nan_to_num(shares.to_numpy()), cmap="Greys", vmin=0, vmax=1.4, aspect="auto")
        for y, x in zip(*np.nonzero(shares.notna().to_numpy()), strict=True):
            value = shares.iat[y, x]
            color = "white" if value > 0.7 else "black"
            axis.text(x, y, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)
        counts = own.groupby("trigger")["positions"].sum().to_dict()
        total = own.groupby("trigger")["triggers"].first().to_dict()
        names = [f"{name} ({counts.get(name, 0):,} of {total.get(name, 0):,})" for name in emitted]
        axis.set_yticks(range(len(emitted)), names)
        axis.set_xticks(range(len(said)), said, rotation=35, ha="right")
        axis.set_xlabel("Draft said")
    axes[0].set_ylabel("Emitted (mismatches)")


def _bars(
    axis: plt.Axes,
    rows: pd.DataFrame,
    looks: dict[str, Series],
    key: str,
    names: Sequence[str],
    value: str,
) -> None:
    shifts = np.linspace(-0.18, 0.18, len(looks)) if len(looks) > 1 else [0.0]
    for shift, (mode, look) in zip(shifts, looks.items(), strict=True):
        for y, name in enumerate(names):
            row = where(rows, mode=mode, **{key: name})
            if row.empty:
                continue
            row = row.iloc[0]
            axis.hlines(
                y + shift, 0, row[value], color=look.color, lw=1.0, linestyle=look.linestyle
            )
            axis.plot(row[value], y + shift, **(look.line() | {"linestyle": ""}))
            if value == "share" and pd.notna(row["share_lower"]):
                ends = [row["share_lower"], row["share_upper"]]
                axis.plot(ends, [y + shift] * 2, color=look.color, lw=2.4, alpha=0.35)
    axis.set_yticks(range(len(names)), [_plain(name) for name in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlim(left=0)
    axis.grid(axis="x")


def _plain(text: str) -> str:
    """A token as matplotlib can draw it: no formulas, and only characters that its font has."""
    font = get_font(findfont("DejaVu Sans"))
    shown = (c if font.get_char_index(ord(c)) else f"U+{ord(c):04X} " for c in text)
    return "".join(shown).replace("$", r"\$").strip() or text


def _reason(chosen: pd.DataFrame) -> str:
    summary = chosen[chosen["level"] == "summary"]
    found = summary["reason"].dropna()
    return str(found.iloc[0]) if len(found) else "no configuration"


def _mismatch_caption(mismatches: pd.DataFrame, label: str, confidence: float) -> str:
    chosen = where(mismatches, label=label, level="summary", trigger="all")
    counts = "; ".join(
        f"{row['mode']}: {row['positions']} of {row['triggers']}"
        for row in chosen.to_dict("records")
    )
    return (
        "What the draft's most likely token was where the text has the first token of a trigger and the "
        f"draft said another; pair {_pair(mismatches, label)}, loop problems removed. Mismatches of all "
        f"triggers: {counts or 'none'}. Bands of shares: {confidence:.0%} intervals from resampling "
        "prompts. Probabilities are means over the mismatches: of the trigger by target and by draft, and "
        "the total variation of the two, which is what the draft would have to move. Of every type: for the "
        "first tokens of words, numbers and phrases of each type, which type the draft said where it said "
        "another token; rows add up to 1. In brackets: mismatches looked at (at most 64 a text) and tokens."
    )


def _pair(frame: pd.DataFrame, label: str) -> str:
    pairs = frame.loc[frame["label"] == label, "pair"]
    return label if pairs.empty or pairs.iloc[0] == label else f"{label}: {pairs.iloc[0]}"


def _legend(figure: plt.Figure, looks: dict[str, Series]) -> None:
    handles = [
        Line2D([], [], label=name, **(look.line() | {"linestyle": ""}))
        for name, look in looks.items()
    ]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(4, len(handles)))
