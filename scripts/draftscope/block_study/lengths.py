"""Acceptance lengths of the arms and their differences, with trainings and prompts in the interval."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from draftscope.block_study import counts
from draftscope.block_study.schemas import ALL, POOLINGS, SUBSETS
from draftscope.statistics import planning
from draftscope.statistics.crossed import Crossed, Estimate
from draftscope.statistics.multiple import holm

NOTHING = "no prompt with rounds"


@dataclass(frozen=True)
class Design:
    """Who is compared with whom.

    Attributes:
        references: arms that every other one is compared with.
        baselines: labels of drafts that are not trained; every arm is compared with each.
        paired: training s of every arm starts where that of the others does.
        effect: difference in tokens a round that is worth finding.
    """

    draft_length: int
    references: Sequence[str]
    baselines: Collection[str] = ()
    paired: bool = False
    confidence: float = 0.95
    effect: float = 0.1

    def crossed(self, values: Mapping[str, np.ndarray], strata: Sequence[str]) -> Crossed:
        fixed = [arm for arm in values if arm in self.baselines]
        return Crossed(values, strata, fixed, self.paired)

    def compared(self, arms: Sequence[str]) -> list[tuple[str, str, str]]:
        """Arm, what it is compared with, and whether that is a reference or a baseline; no pair twice."""
        trained = [arm for arm in arms if arm not in self.baselines]
        roles = [*((name, "reference") for name in self.references if name in arms)]
        roles += [(name, "baseline") for name in arms if name in self.baselines]
        found: dict[tuple[str, str], str] = {}
        for name, role in roles:
            for arm in trained:
                if arm != name and (name, arm) not in found:
                    found[arm, name] = role
        return [(*pair, role) for pair, role in found.items()]


def domains_of(frame: pd.DataFrame) -> list[str]:
    """The domains in their order, and all of them together where there are several."""
    own = [name for name in dict.fromkeys(frame["domain"]) if name != ALL]
    return [*own, ALL] if len(own) > 1 else own


def study(frame: pd.DataFrame, design: Design) -> dict[str, list[dict[str, Any]]]:
    """Rows of block_lengths (lengths), block_differences and block_needed.

    Args:
        frame: as `counts.table` gives it.
    """
    rows: dict[str, list[dict[str, Any]]] = {"lengths": [], "differences": [], "needed": []}
    for mode in dict.fromkeys(frame["mode"]):
        for domain in domains_of(frame):
            for subset in SUBSETS:
                whole = counts.only(frame, domain, mode, "all", ALL)
                kept = counts.only(frame, domain, mode, subset, ALL)
                temperature = float(whole["temperature"].iloc[0])
                key = {"domain": domain, "mode": mode, "temperature": temperature}
                key |= {"draft_length": design.draft_length, "subset": subset}
                lost = _prompts(whole) - _prompts(kept)
                arms = list(dict.fromkeys(whole["arm"]))
                trainings = {a: _trainings(whole, a, design) for a in arms}
                for pooling in POOLINGS:
                    found = counts.layout(kept, "emitted", "rounds", pooling)
                    # A domain without a prompt left would drop out of the mean of domains unseen.
                    if found and len(set(found[1])) < whole["domain"].nunique():
                        found = None
                    own = key | {"pooling": pooling}
                    crossed = design.crossed(*found) if found else None
                    for arm in arms:
                        row = {"arm": arm, "trainings": trainings[arm], "left_out_loops": lost}
                        rows["lengths"].append(own | row | _length(crossed, arm, design))
                    for arm, against, role in design.compared(arms):
                        row = {"arm": arm, "against": against, "role": role}
                        row |= {"trainings": trainings[arm]}
                        rows["differences"].append(
                            own | row | _difference(crossed, arm, against, design)
                        )
                        if (subset, pooling, role) == ("all", "macro", "reference"):
                            here = {name: row[name] for name in ("arm", "against", "trainings")}
                            here |= {"domain": domain, "mode": mode}
                            rows["needed"] += needed(crossed, here, design)
    _adjust(rows["differences"])
    return rows


def _prompts(frame: pd.DataFrame) -> int:
    return len(frame[["domain", "prompt_id"]].drop_duplicates())


def _trainings(frame: pd.DataFrame, arm: str, design: Design) -> int:
    return 0 if arm in design.baselines else int(frame[frame["arm"] == arm]["training"].nunique())


def ends(found: Estimate) -> dict[str, Any]:
    """The columns of an interval."""
    return {
        "lower": found.low,
        "upper": found.high,
        "prompts_lower": found.prompts_low,
        "prompts_upper": found.prompts_high,
        "standard_error": found.standard_error,
        "degrees": found.degrees,
        "reason": found.reason,
    }


EMPTY = Estimate(None, None, None, None, None, None, None, None, NOTHING)


def _length(crossed: Crossed | None, arm: str, design: Design) -> dict[str, Any]:
    known = crossed is not None and arm in crossed.values
    found = crossed.level(arm, design.confidence) if known else EMPTY
    cut = ends(found)
    # A round emits at least one token and at most all drafts and a bonus.
    for name in ("lower", "upper", "prompts_lower", "prompts_upper"):
        if cut[name] is not None:
            cut[name] = min(max(cut[name], 1.0), design.draft_length + 1.0)
    return {"prompts": crossed.prompts if crossed else 0, "length": found.estimate, **cut}


def _difference(crossed: Crossed | None, arm: str, against: str, design: Design) -> dict[str, Any]:
    known = crossed is not None and {arm, against} <= set(crossed.values)
    found = crossed.difference(arm, against, design.confidence) if known else EMPTY
    row = {"prompts": crossed.prompts if crossed else 0, "difference": found.estimate}
    row |= ends(found) | {"p": found.p, "holm_p": None}
    row |= {"separated": None if found.low is None else found.separated}
    return row | gain(crossed if known else None, arm, against, design)


def gain(
    crossed: Crossed | None, arm: str, against: str, design: Design
) -> dict[str, float | None]:
    """Ratio of two lengths - 1, in percent, with the interval of its logarithm.

    Each arm's values are divided by its mean, so that a difference of them is that of the logarithms
    (delta method).
    """
    none = dict.fromkeys(("gain", "gain_lower", "gain_upper"))
    if crossed is None:
        return none
    levels = {name: crossed.level(name).estimate for name in crossed.values}
    own, other = levels[arm], levels[against]
    if not own or not other:
        return none
    scaled = {name: v / levels[name] for name, v in crossed.values.items() if levels[name]}
    found = crossed.like(scaled).difference(arm, against, design.confidence)
    logarithm = math.log(own / other)
    row = none | {"gain": 100 * (own / other - 1)}
    if found.standard_error is None:
        return row
    if found.degrees is None:
        return row | {"gain_lower": row["gain"], "gain_upper": row["gain"]}
    half = found.standard_error * stats.t.ppf((1 + design.confidence) / 2, found.degrees)
    low, high = (100 * (math.exp(logarithm + side * half) - 1) for side in (-1, 1))
    return row | {"gain_lower": low, "gain_upper": high}


def needed(crossed: Crossed | None, key: Mapping[str, Any], design: Design) -> list[dict[str, Any]]:
    """Rows of block_needed of one comparison: for the difference seen, and for the one asked for."""
    if crossed is not None and not {key["arm"], key["against"]} <= set(crossed.values):
        crossed = None
    spread = crossed.spread(key["arm"], key["against"]) if crossed else None
    seen = crossed.difference(key["arm"], key["against"]) if crossed else EMPTY
    prompts = crossed.prompts if crossed else 0
    rows = []
    for target, effect in (("seen", seen.estimate), ("asked", design.effect)):
        row = dict(key) | {"prompts": prompts, "target": target, "effect": effect}
        row |= dict.fromkeys(
            ("training_sd", "prompt_sd", "rest_sd", "smallest", "trainings_needed",
             "prompts_needed", "factor_needed")
        )  # fmt: skip
        row["reason"] = seen.reason
        if spread is not None and effect is not None:
            level = 1 - design.confidence
            found = planning.needed(spread, effect, max(key["trainings"], 2), prompts, level=level)
            row |= {
                "training_sd": math.sqrt(spread.training),
                "prompt_sd": math.sqrt(spread.prompts),
                "rest_sd": math.sqrt(spread.rest),
                "smallest": found.smallest,
                "trainings_needed": found.trainings,
                "prompts_needed": found.prompts,
                "factor_needed": found.factor,
            }
            missing = [name for name in row if row[name] is None and name != "reason"]
            row["reason"] = "a dash: no number of that kind" if missing else None
        rows.append(row)
    return rows


def _adjust(rows: list[dict[str, Any]]) -> None:
    """Holm's adjustment over the arms and modes of one comparison."""
    families: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("against", "domain", "subset", "pooling"))
        families.setdefault(key, []).append(row)
    for family in families.values():
        adjusted = holm([row["p"] for row in family]).p
        for row, p in zip(family, adjusted, strict=True):
            row["holm_p"] = p
