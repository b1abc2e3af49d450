"""What a draft knows behind its first rejection: the rank of the target's tokens, and alignment.

The probes of ReTrace (arXiv:2608.29748, Table 1 and Figure 2): of drafted places strictly after a
round's first rejection, whose tokens are thrown away, how high the draft ranked what the target came
to write there, and how far its state points the way of the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from draftscope import records
from draftscope.block_study import counts
from draftscope.block_study.lengths import Design, domains_of
from draftscope.block_study.schemas import ALL

RANKS = (1, 2, 3, 4, 5, 10, 250, 5000)
COSINES = ("cosine_true", "cosine_random", "cosine_gap")


@dataclass(frozen=True)
class Probed:
    """The probes of one training of an arm in a domain and mode, schema probes."""

    arm: str
    training: int
    domain: str
    mode: str
    temperature: float
    probes: str


def table(sources: Sequence[Probed]) -> pd.DataFrame:
    """One row a source and prompt with a place in any training of its domain and mode.

    Returns:
        Columns arm, training, domain, mode, temperature, prompt_id, places; rank_r, places with a rank
        up to r; cosine_true, cosine_random and cosine_gap, sums over places.
    """
    parts = []
    for source in sources:
        frame = records.read(source.probes, "probes").to_pandas()
        frame["cosine_gap"] = frame["cosine_true"] - frame["cosine_random"]
        frame["places"] = 1
        for rank in RANKS:
            frame[f"rank_{rank}"] = (frame["rank"] <= rank).astype(int)
        sums = ["places", *(f"rank_{rank}" for rank in RANKS), *COSINES]
        part = frame.groupby("prompt_id")[sums].sum().reset_index()
        for name in ("arm", "training", "domain", "mode", "temperature"):
            part[name] = getattr(source, name)
        parts.append(part)
    whole = pd.concat(parts, ignore_index=True)
    whole["looped"] = False
    return _filled(whole, sources)


def _filled(frame: pd.DataFrame, sources: Sequence[Probed]) -> pd.DataFrame:
    """A prompt without a place in one training has one of zeros there: it weighs nothing in a ratio."""
    prompts = frame.groupby(["domain", "mode"])["prompt_id"].agg(lambda each: sorted(set(each)))
    keys = ["arm", "training", "domain", "mode", "temperature"]
    wanted = pd.DataFrame(
        [
            {**{name: getattr(source, name) for name in keys}, "prompt_id": prompt}
            for source in sources
            for prompt in prompts.get((source.domain, source.mode), [])
        ],
        columns=[*keys, "prompt_id"],
    )
    whole = wanted.merge(frame, how="left", on=[*keys, "prompt_id"])
    numbers = [name for name in frame.columns if name not in (*keys, "prompt_id", "looped")]
    whole[numbers] = whole[numbers].fillna(0)
    whole["looped"] = False
    return counts.in_order(whole)


def study(frame: pd.DataFrame, design: Design) -> list[dict[str, Any]]:
    """Rows of schema retrace_probes; places of a training are pooled (micro)."""
    measures = [("coverage", rank, f"rank_{rank}") for rank in RANKS]
    measures += [(name, None, name) for name in COSINES]
    rows = []
    for mode in dict.fromkeys(frame["mode"]):
        for domain in domains_of(frame):
            kept = counts.only(frame, domain, mode, "all", ALL)
            for measure, rank, column in measures:
                found = counts.layout(kept, column, "places", "micro")
                crossed = design.crossed(*found) if found else None
                for arm in dict.fromkeys(kept["arm"]):
                    own = kept[kept["arm"] == arm]
                    row = {
                        "arm": arm,
                        "domain": domain,
                        "mode": mode,
                        "temperature": float(own["temperature"].iloc[0]),
                        "trainings": int(own["training"].nunique()),
                        "prompts": int(own[own["places"] > 0]["prompt_id"].nunique()),
                        "measure": measure,
                        "rank": rank,
                        "places": int(own["places"].sum()),
                        **dict.fromkeys(("value", "lower", "upper")),
                        "reason": "a training has no place behind a rejection in some domain",
                    }
                    if crossed and arm in crossed.values:
                        level = crossed.level(arm, design.confidence)
                        row |= {"value": level.estimate, "reason": level.reason}
                        if level.low is not None:
                            least = 0.0 if rank else -2.0
                            most = 1.0 if rank else 2.0
                            row |= {
                                "lower": float(np.clip(level.low, least, most)),
                                "upper": float(np.clip(level.high, least, most)),
                            }
                    rows.append(row)
    return rows
