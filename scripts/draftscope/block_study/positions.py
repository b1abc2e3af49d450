"""Profiles of acceptance over the slots of a block: of all rounds, and of those that come so far."""

from __future__ import annotations

from typing import Any

import pandas as pd

from draftscope.block_study import counts
from draftscope.block_study.lengths import Design, domains_of
from draftscope.block_study.schemas import ALL, SUBSETS

KINDS = ("unconditional", "conditional")


def study(frame: pd.DataFrame, design: Design) -> list[dict[str, Any]]:
    """Rows of schema block_positions.

    Rates are pooled over the rounds of a training (micro): that of a slot which few rounds come to
    has no mean over prompts. Rounds at the end of a text offer fewer drafts; they count among all
    rounds, and in a conditional rate where the slot was offered.

    Args:
        frame: as `counts.table` gives it.
    """
    rows = []
    for mode in dict.fromkeys(frame["mode"]):
        for domain in domains_of(frame):
            for subset in SUBSETS:
                kept = counts.only(frame, domain, mode, subset, ALL)
                for position in range(1, design.draft_length + 1):
                    for kind in KINDS:
                        rows += _slot(frame, kept, (mode, domain, subset), position, kind, design)
    return rows


def _slot(
    frame: pd.DataFrame,
    kept: pd.DataFrame,
    place: tuple[str, str, str],
    position: int,
    kind: str,
    design: Design,
) -> list[dict[str, Any]]:
    mode, domain, subset = place
    below = "rounds" if kind == "unconditional" else f"tested_{position}"
    found = counts.layout(kept, f"accepted_{position}", below, "micro")
    crossed = design.crossed(*found) if found else None
    whole = counts.only(frame, domain, mode, "all", ALL)
    rows = []
    for arm in dict.fromkeys(whole["arm"]):
        own, here = whole[whole["arm"] == arm], kept[kept["arm"] == arm]
        row = {
            "arm": arm,
            "domain": domain,
            "mode": mode,
            "temperature": float(own["temperature"].iloc[0]),
            "draft_length": design.draft_length,
            "subset": subset,
            "position": position,
            "kind": kind,
            "trainings": 0 if arm in design.baselines else int(own["training"].nunique()),
            "prompts": crossed.prompts if crossed else 0,
            "rounds": int(here[below].sum()),
            **dict.fromkeys(("rate", "lower", "upper")),
            "reason": "a training has no round that comes to this slot in some domain",
        }
        if crossed and arm in crossed.values:
            level = crossed.level(arm, design.confidence)
            row |= {"rate": level.estimate, "reason": level.reason}
            if level.low is not None:
                row |= {"lower": max(level.low, 0.0), "upper": min(level.high, 1.0)}
        rows.append(row)
    return rows
