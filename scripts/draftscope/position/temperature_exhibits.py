"""Table 3, the slopes over temperature, and their figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.lines import Line2D

from draftscope.exhibits import figures
from draftscope.exhibits.captioned import Table
from draftscope.exhibits.figures import Series, series, where
from draftscope.position.type_tables import intervals_note

SUBSET = "loops_removed"
GROUP_WORD = {
    "all": "all positions",
    "reflection": "reflection",
    "published": "published triggers",
}
Settings = Mapping[str, Any]


def own(values: pd.DataFrame, subset: str = SUBSET) -> pd.DataFrame:
    """The values of each text under its own law."""
    return values[(values["mode"] == values["law"]) & (values["subset"] == subset)]


def by_temperature(values: pd.DataFrame, settings: Settings) -> Table:
    """Table 3: each temperature on its own text, loop problems removed.

    Args:
        values: schema position_temperatures, as a frame.
    """
    rows = []
    for mode, part in own(values).groupby("mode", sort=False):
        row: dict[str, Any] = {"mode": mode, "temperature": part["temperature"].iloc[0]}
        row |= {"prompts": int(part["prompts"].max())}
        reasons: dict[str, str] = {}
        for name, group, quantity in _COLUMNS:
            found = where(part, group=group, quantity=quantity).iloc[0]
            if group != "all" and quantity == "def2":
                row[f"{group}_tokens"] = int(found["positions"])
            row |= {name: _number(found["value"]), f"{name}_lower": _number(found["lower"])}
            row |= {f"{name}_upper": _number(found["upper"])}
            if isinstance(found["reason"], str):
                reasons.setdefault(f"{GROUP_WORD[group]}: {found['reason']}", name)
        rows.append(row | {"reason": "; ".join(reasons) or None})
    names = ["mode", "temperature", "prompts"]
    for name, group, quantity in _COLUMNS:
        if group != "all" and quantity == "def2":
            names.append(f"{group}_tokens")
        names += [name, f"{name}_lower", f"{name}_upper"]
    frame = pd.DataFrame(rows, columns=[*names, "reason"])
    headers = {name: _HEADERS.get(name, name) for name, _, _ in _COLUMNS}
    for name, _, _ in _COLUMNS:
        headers |= {f"{name}_{end}": f"{headers[name]} {end}" for end in ("lower", "upper")}
    headers |= {f"{group}_tokens": f"{GROUP_WORD[group]}: tokens" for group in list(GROUP_WORD)[1:]}
    formats: dict[str, Any] = {"temperature": "g"}
    notes = [
        (
            f"Each mode on its own text, the first {settings['max_new_tokens']} tokens of each, under its "
            "own law. MAL: emitted tokens a round with the bonus or correction token, tokens / expected "
            f"rounds at draft length {settings['draft_length']}. def2: q(argmax p). alpha: overlap of p and "
            "q, the expectation of min(1, p/q) of a drafted token."
        ),
        (
            "Reflection: tokens in one of the triggers of the configuration; published triggers: in one "
            "that the published study names. Positions whose token the scored law excludes are left out "
            "of def2 and alpha."
        ),
        intervals_note(settings),
    ]
    caption = f"Table 3. Acceptance by temperature (pair {_pair(values)}), loop problems removed"
    return Table(frame, caption, notes, formats, headers)


_COLUMNS = (
    ("mal", "all", "mal"),
    ("def2", "all", "def2"),
    ("alpha", "all", "alpha"),
    ("reflection_def2", "reflection", "def2"),
    ("reflection_alpha", "reflection", "alpha"),
    ("published_def2", "published", "def2"),
    ("published_alpha", "published", "alpha"),
)
_HEADERS = {
    "mal": "MAL",
    "reflection_def2": "reflection: def2",
    "reflection_alpha": "reflection: alpha",
    "published_def2": "published triggers: def2",
    "published_alpha": "published triggers: alpha",
}


def same_positions(slopes: pd.DataFrame, settings: Settings) -> Table:
    """How def2 and alpha move with the temperature of the law on positions that stay the same.

    Args:
        slopes: schema position_slopes, as a frame.
    """
    chosen = where(slopes, subset=SUBSET)
    rows = []
    for (mode, group), part in chosen.groupby(["mode", "group"], sort=False):
        row: dict[str, Any] = {"text": mode, "positions of": GROUP_WORD[group]}
        row |= {"prompts": int(part["prompts"].max()), "positions": int(part["positions"].max())}
        reasons = []
        for quantity in ("def2", "alpha", "difference"):
            found = where(part, quantity=quantity).iloc[0]
            row |= {
                f"{quantity}{end}": _number(found[f"slope{end}"])
                for end in ("", "_lower", "_upper")
            }
            if isinstance(found["reason"], str) and found["reason"] not in reasons:
                reasons.append(found["reason"])
        rows.append(row | {"reason": "; ".join(reasons) or None})
    names = ["text", "positions of", "prompts", "positions"]
    for quantity in ("def2", "alpha", "difference"):
        names += [quantity, f"{quantity}_lower", f"{quantity}_upper"]
    frame = pd.DataFrame(rows, columns=[*names, "reason"])
    formats = {name: "+.3f" for name in names[4:]}
    headers = {"difference": "alpha minus def2"}
    for quantity in ("def2", "alpha", "difference"):
        word = headers.get(quantity, quantity)
        headers |= {f"{quantity}_{end}": f"{word} {end}" for end in ("lower", "upper")}
    listed = ", ".join(f"{name} (T = {t:g})" for name, t in settings["temperatures"].items())
    notes = [
        (
            "Slope: least-squares change by one unit of temperature, over the temperatures above 0 of the "
            f"sweep ({listed}), of the mean over the same positions of one text, scored under each law."
        ),
        (
            "def2 is the draft's probability of the target's most likely token: a higher temperature "
            "spreads q and lowers it whether or not the draft follows the target. alpha, the overlap of "
            "p and q under the same law, is what acceptance is. Where the two slopes differ, a fall of "
            "def2 is what is visible, not what is accepted."
        ),
        intervals_note(settings),
    ]
    caption = (
        f"def2 and alpha against temperature on the same positions (pair {_pair(slopes)}), loop problems "
        "removed"
    )
    return Table(frame, caption, notes, formats, headers)


def curves(values: pd.DataFrame, settings: Settings) -> plt.Figure:
    """Own text and law at each temperature; then each text under every law."""
    figure, axes = plt.subplots(1, 3, figsize=(10.4, 3.3), sharey=True)
    quantities = series(["def2", "alpha"])
    _own_panel(axes[0], own(values), quantities)
    texts = series(list(dict.fromkeys(values["mode"])))
    for place, quantity in enumerate(("def2", "alpha")):
        axis = axes[1 + place]
        chosen = where(values, subset=SUBSET, group="all", quantity=quantity)
        axis.set_title(f"({chr(98 + place)}) {quantity}, same positions", loc="left")
        _lines(axis, chosen, texts, "mode")
    axes[0].set_ylabel("Mean over positions")
    for axis in axes:
        axis.set_xlabel("Temperature of the law")
    handles = [Line2D([], [], label=name, **look.line()) for name, look in quantities.items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, title="(a)")
    handles = [Line2D([], [], label=f"text: {n}", **look.line()) for n, look in texts.items()]
    if handles:
        figure.legend(handles=handles, loc="outside upper right", ncols=4, title="(b), (c)")
    confidence = settings["confidence"]
    figures.caption(
        figure,
        f"Pair {_pair(values)}, loop problems removed; bars: {confidence:.0%} intervals from resampling "
        "prompts. (a) Each temperature on its own text. Thin lines: tokens in triggers of reflection. "
        "(b), (c) Each text scored under the law of every temperature, so that the positions of a line "
        "stay the same: def2 is q(argmax p), which falls as q spreads; alpha is the overlap of p and q.",
    )
    return figure


def _own_panel(axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series]) -> None:
    axis.set_title("(a) each on its own text", loc="left")
    whole = where(rows, group="all")
    _lines(axis, whole[whole["quantity"].isin(list(looks))], looks, "quantity")
    for quantity, look in looks.items():
        line = where(rows, group="reflection", quantity=quantity).sort_values("temperature")
        line = line[line["value"].notna()]
        axis.plot(
            line["temperature"], line["value"], color=look.color, linestyle=look.linestyle, lw=0.8
        )


def _lines(axis: plt.Axes, rows: pd.DataFrame, looks: dict[str, Series], key: str) -> None:
    if rows["value"].notna().sum() == 0:
        figures.empty(axis, "no text that does not loop")
        return
    for name, look in looks.items():
        line = where(rows, **{key: name}).sort_values("temperature")
        line = line[line["value"].notna()]
        axis.plot(line["temperature"], line["value"], **look.line())
        bars = line[line["lower"].notna()]
        axis.vlines(bars["temperature"], bars["lower"], bars["upper"], color=look.color, lw=1.1)
    axis.grid(axis="y")


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _pair(frame: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(frame["pair"])) if len(frame) else "none"
