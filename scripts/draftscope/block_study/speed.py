"""Measured speed of the arms: each text against plain decoding of the same prompt in the same run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from draftscope import records
from draftscope.block_study import counts
from draftscope.block_study.lengths import EMPTY, Design, domains_of
from draftscope.block_study.schemas import ALL, SUBSETS
from draftscope.errors import UserError
from draftscope.lossless.speed import text_times

LOGARITHM, ONE = "logarithm", "one"


@dataclass(frozen=True)
class Timed:
    """The timings of one training of an arm in a domain and mode."""

    arm: str
    training: int
    domain: str
    mode: str
    temperature: float
    timings: str


def table(
    sources: Sequence[Timed], draft_length: int, looped: Collection[tuple[str, str, str]] = ()
) -> pd.DataFrame:
    """One row a source and prompt: its times, and the logarithm of its speedup.

    Args:
        looped: domain, mode and prompt of loop problems.

    Raises:
        UserError: a source without plain decoding, or of other prompts.
    """
    parts, first = [], {}
    for source in sources:
        part = _prompts(source, draft_length)
        own = set(part["prompt_id"])
        other, prompts = first.setdefault((source.domain, source.mode), (source, own))
        if own != prompts:
            raise UserError(f"{source.timings} and {other.timings} hold different prompts")
        parts.append(part)
    frame = counts.in_order(pd.concat(parts, ignore_index=True))
    keys = zip(frame["domain"], frame["mode"], frame["prompt_id"], strict=True)
    return frame.assign(looped=[key in looped for key in keys])


def _prompts(source: Timed, draft_length: int) -> pd.DataFrame:
    texts = text_times(records.read(source.timings, "live_timings").to_pandas())
    found = {}
    for name, gamma in (("plain", 0), ("own", draft_length)):
        rows = texts[(texts["draft_length"] == gamma) & (texts["total"] > 0)]
        if rows.empty:
            raise UserError(f"{source.timings} has no text of draft length {gamma}")
        numbers = [name for name in rows.columns if name not in ("prompt_id", "sample")]
        found[name] = rows.groupby("prompt_id")[numbers].sum()
    both = found["own"].join(found["plain"].add_suffix("_plain"), how="inner").reset_index()
    pace, plain = (both[f"total{end}"] / both[f"tokens{end}"] for end in ("", "_plain"))
    both[LOGARITHM], both[ONE] = np.log(plain / pace), 1.0
    for name in ("arm", "training", "domain", "mode", "temperature"):
        both[name] = getattr(source, name)
    return both


def study(frame: pd.DataFrame, design: Design) -> dict[str, list[dict[str, Any]]]:
    """Rows of block_speed (speed) and block_speed_differences.

    The speedup of a prompt is the time a token of plain decoding takes over that of the arm, both of
    whole texts, the prompt's reading included; means over prompts are geometric, so that of two arms
    the ratio of speedups is the speedup of the ratio.

    Args:
        frame: as `table` gives it.
    """
    rows: dict[str, list[dict[str, Any]]] = {"speed": [], "speed_differences": []}
    for mode in dict.fromkeys(frame["mode"]):
        for domain in domains_of(frame):
            for subset in SUBSETS:
                _subset(frame, (mode, domain, subset), design, rows)
    return rows


def _subset(
    frame: pd.DataFrame,
    place: tuple[str, str, str],
    design: Design,
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    mode, domain, subset = place
    whole = counts.only(frame, domain, mode, "all", ALL)
    kept = counts.only(frame, domain, mode, subset, ALL)
    found = counts.layout(kept, LOGARITHM, ONE, "macro")
    if found and len(set(found[1])) < whole["domain"].nunique():
        found = None
    crossed = design.crossed(*found) if found else None
    arms = list(dict.fromkeys(whole["arm"]))
    for arm in arms:
        key = _key(whole[whole["arm"] == arm], arm, place, design)
        level = crossed.level(arm, design.confidence) if crossed else EMPTY
        rows["speed"].append(
            key
            | {"prompts": crossed.prompts if crossed else 0}
            | _exponents("speedup", level)
            | _rates(kept[kept["arm"] == arm])
            | {"reason": level.reason}
        )
    for arm, against, _ in design.compared(arms):
        key = _key(whole[whole["arm"] == arm], arm, place, design)
        ratio = crossed.difference(arm, against, design.confidence) if crossed else EMPTY
        rows["speed_differences"].append(
            key
            | {"against": against, "prompts": crossed.prompts if crossed else 0}
            | _exponents("ratio", ratio)
            | {"standard_error": ratio.standard_error, "degrees": ratio.degrees}
            | {"p": ratio.p, "reason": ratio.reason}
            | {"separated": None if ratio.low is None else ratio.separated}
        )


def _key(
    own: pd.DataFrame, arm: str, place: tuple[str, str, str], design: Design
) -> dict[str, Any]:
    mode, domain, subset = place
    return {
        "arm": arm,
        "subset": subset,
        "domain": domain,
        "mode": mode,
        "temperature": float(own["temperature"].iloc[0]),
        "draft_length": design.draft_length,
        "trainings": 0 if arm in design.baselines else int(own["training"].nunique()),
    }


def _exponents(name: str, found: Any) -> dict[str, float | None]:
    """An estimate of logarithms and its ends, as ratios."""
    ends = {
        name: found.estimate,
        "lower": found.low,
        "upper": found.high,
        "prompts_lower": found.prompts_low,
        "prompts_upper": found.prompts_high,
    }
    return {key: None if value is None else float(np.exp(value)) for key, value in ends.items()}


def _rates(own: pd.DataFrame) -> dict[str, float | None]:
    """Tokens a second and times a round, over all prompts and trainings."""

    def ratio(above: str, below: str) -> float | None:
        total = float(own[below].sum())
        return float(own[above].sum()) / total if total else None

    return {
        "plain_rate": ratio("tokens_plain", "total_plain"),
        "rate": ratio("tokens", "total"),
        "length": float((own["tokens"] / own["rounds"]).mean()) if len(own) else None,
        "plain_step": ratio("later_verify_plain", "later_tokens_plain"),
        "verify": ratio("later_verify", "later_rounds"),
        "draft": ratio("later_draft", "later_rounds"),
    }
