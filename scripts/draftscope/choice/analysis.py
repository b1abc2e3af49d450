"""Compare drafts and draft lengths on the same prompts by the speed they predict.

A round costs v + gamma c target steps, where c is the time of one draft step and v that of one
verification pass (of gamma + 1 tokens), both divided by the time of one plain target step. The
predicted speedup over plain decoding is acceptance_length / (v + gamma c); with v = 1 and a
constant acceptance rate it is the formula of Leviathan et al. 2023, Theorem 3.8. Rounds are the
expected ones, so sampled decoding adds no replay noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from draftscope import records, seeds
from draftscope.choice import schema  # noqa: F401  (registers the file's schema)
from draftscope.errors import UserError
from draftscope.statistics.intervals import Interval, bootstrap_columns
from draftscope.statistics.multiple import holm
from draftscope.statistics.paired import paired_difference

SUBSETS = ("all", "loops_removed")
SUMS = ("tokens", "expected_rounds", "expected_accepted", "expected_offered")
NO_TEXT = "no prompt with text"
SKIPPED = "no prompt has text: all were skipped"


@dataclass(frozen=True)
class Candidate:
    """A pair on a domain in a mode, with its files; every draft length in them competes."""

    target: str
    pair: str
    draft: str
    domain: str
    mode: str
    expected: str
    loops: str


@dataclass(frozen=True)
class Settings:
    """Costs in target steps, and how to resample.

    Attributes:
        cost_ratios: draft -> c.
        verify_cost: v.
        negligible: a difference in speed, relative to the best, that does not matter.
        Others as in `statistics.intervals`.
    """

    cost_ratios: Mapping[str, float]
    confidence: float
    resamples: int
    method: str
    seed: int
    verify_cost: float = 1.0
    negligible: float = 0.01


def compare(candidates: Sequence[Candidate], settings: Settings) -> list[dict[str, Any]]:
    """Rows of schema choice, by target, domain and mode in the order given, then by rank.

    A domain and mode of which every prompt was skipped has no rows; see `without_text`.

    Raises:
        UserError: no cost ratio for a draft, a cost that is not possible, files of different
            prompts, conditions or texts.
    """
    if not settings.verify_cost > 0:
        raise UserError(f"verify_cost is {settings.verify_cost}; it must be above 0")
    groups: dict[tuple[str, str, str], list[Candidate]] = {}
    for candidate in candidates:
        cost = settings.cost_ratios.get(candidate.draft)
        if cost is None or cost < 0:
            problem = "has no entry for" if cost is None else f"is {cost} (below 0) for"
            raise UserError(f"choice.cost_ratios {problem} draft {candidate.draft!r}")
        key = (candidate.target, candidate.domain, candidate.mode)
        groups.setdefault(key, []).append(candidate)
    rows = []
    for key, members in groups.items():
        sums = _sums(members)
        for subset in SUBSETS:
            rows += _ranked(key, subset, members, sums, settings)
    for subset in SUBSETS:
        tests = [row for row in rows if row["subset"] == subset]
        adjusted = holm([row["p"] for row in tests])
        for row, p in zip(tests, adjusted.p, strict=True):
            row["holm_p"] = p
            if row["separation"] != "best":
                row["separation"] = _separation(row, 1 - settings.confidence, settings.negligible)
    return rows


def without_text(
    candidates: Sequence[Candidate], rows: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str]]:
    """Target, domain and mode of those that have no rows, in the order of the candidates."""
    named = dict.fromkeys((each.target, each.domain, each.mode) for each in candidates)
    there = {(row["target"], row["domain"], row["mode"]) for row in rows}
    return [key for key in named if key not in there]


def _sums(members: Sequence[Candidate]) -> pd.DataFrame:
    """Expected counts of all candidates, a row a trajectory, candidate (`place`) and draft length.

    Column `loop_problem` says whether the trajectory is one.
    """
    loops = records.read(members[0].loops, "loops").to_pandas()
    loops = loops[["prompt_id", "sample", "loop_problem"]]
    conditions, tables = {}, []
    for place, member in enumerate(members):
        table = records.read(member.expected, "expected")
        conditions[str(member.expected)] = records.condition(table)
        frame = table.to_pandas()[["prompt_id", "sample", "draft_length", *SUMS]]
        if frame.duplicated(["prompt_id", "sample", "draft_length"]).any():
            raise UserError(f"{member.expected} holds a prompt, sample and draft length twice")
        tables.append(frame.assign(place=place))
    may_differ = [key for key in set().union(*conditions.values()) if key not in _SAME]
    records.require_same_condition(conditions, may_differ)
    joined = pd.concat(tables).merge(loops, on=["prompt_id", "sample"], how="left")
    if joined["loop_problem"].isna().any():
        lost = joined.loc[joined["loop_problem"].isna(), "prompt_id"].iloc[0]
        raise UserError(f"{members[0].loops} does not list prompt {lost}")
    joined["loop_problem"] = joined["loop_problem"].astype(bool)
    keys = ["prompt_id", "sample"]
    texts = joined.groupby(keys)["tokens"].nunique()
    counts = joined.groupby(keys).size()
    if (texts > 1).any() or counts.nunique() > 1:
        odd = texts[texts > 1] if (texts > 1).any() else counts[counts < counts.max()]
        raise UserError(
            f"the candidates of {members[0].domain}, {members[0].mode} were not measured on the "
            f"same text: prompt {odd.index[0][0]}"
        )
    return joined


_SAME = ("target", "target_revision", "tokenizer_sha256", "law", "domain", "mode", "template")


def _ranked(
    key: tuple[str, str, str],
    subset: str,
    members: Sequence[Candidate],
    joined: pd.DataFrame,
    settings: Settings,
) -> list[dict[str, Any]]:
    used = joined if subset == "all" else joined[~joined["loop_problem"]]
    used = used[used["tokens"] > 0]
    settings_of = sorted(set(zip(joined["place"], joined["draft_length"], strict=True)))
    if not settings_of:
        return []
    by_prompt = used.groupby(["prompt_id", "place", "draft_length"])[list(SUMS)].sum()
    wide = by_prompt.unstack(["place", "draft_length"])
    tokens, rounds, accepted, offered = (
        np.column_stack([wide[(name, *setting)] for setting in settings_of]).astype(float)
        if len(wide)
        else np.zeros((0, len(settings_of)))
        for name in SUMS
    )
    costs = np.array(
        [
            settings.verify_cost + length * settings.cost_ratios[members[place].draft]
            for place, length in settings_of
        ]
    )
    options = {
        "method": settings.method,
        "confidence": settings.confidence,
        "resamples": settings.resamples,
    }

    def intervals(*ratios, **more) -> list[Interval]:
        rng = seeds.generator("choice", settings.seed, *key, subset)
        return bootstrap_columns(*ratios, **more, **options, rng=rng)

    lengths = intervals(tokens, rounds)
    own = np.divide(tokens, rounds, out=np.zeros_like(tokens), where=rounds > 0)
    macro = intervals(own, np.ones_like(own))
    rates = intervals(accepted, offered)
    speed = np.array([found.estimate or 0.0 for found in lengths]) / costs
    # Equal predictions: the shorter draft, then the one named first, which risks less.
    order = sorted(
        range(len(settings_of)), key=lambda i: (-speed[i], settings_of[i][1], settings_of[i][0])
    )
    best, times = order[0], rounds * costs
    differences = intervals(
        np.repeat(tokens[:, [best]], len(order), axis=1),
        np.repeat(times[:, [best]], len(order), axis=1),
        minus=(tokens, times),
    )
    prompts = joined["prompt_id"].nunique()
    rows = []
    for rank, place in enumerate(order, start=1):
        member, length = members[settings_of[place][0]], settings_of[place][1]
        found = lengths[place]
        row = {
            "target": key[0],
            "domain": key[1],
            "mode": key[2],
            "subset": subset,
            "pair": member.pair,
            "draft": member.draft,
            "draft_length": int(length),
            "prompts": len(wide),
            "prompts_left_out": prompts - len(wide),
            "tokens": int(tokens[:, place].sum()),
            **_named("acceptance_length", found),
            **_named("macro_acceptance_length", macro[place]),
            **_named("draft_acceptance_rate", rates[place]),
            "cost_ratio": float(settings.cost_ratios[member.draft]),
            "verify_cost": float(settings.verify_cost),
            **_named("speedup", found, costs[place]),
            "rank": rank,
            "holm_p": None,
            "method": found.method,
            "reason": found.reason if found.estimate is not None else NO_TEXT,
        }
        row["against_plain"] = _against_plain(row)
        rows.append(row | _comparison(place, best, own / costs, differences[place]))
    return rows


def _comparison(place: int, best: int, speeds: np.ndarray, difference: Interval) -> dict[str, Any]:
    if place == best:
        empty = dict.fromkeys(("difference", "difference_lower", "difference_upper", "p"))
        return empty | {"up": 0, "down": 0, "ties": 0, "separation": "best"}
    # The sign test takes each prompt's own speed; the interval is of the ratio of sums.
    sign = paired_difference(speeds[:, best], speeds[:, place], method="student").sign
    return _named("difference", difference) | {
        "up": sign.up,
        "down": sign.down,
        "ties": sign.ties,
        "p": sign.p if len(speeds) else None,
        "separation": "not separated",
    }


def _separation(row: Mapping[str, Any], level: float, negligible: float) -> str:
    """Clear only when interval and sign test say so, both in favor of the best.

    A difference that is surely too small to matter is called that, however certain its sign: with
    c = 0 a longer draft is never slower, and by next to nothing faster.
    """
    lower, upper, p = row["difference_lower"], row["difference_upper"], row["holm_p"]
    if lower is None or p is None:
        return "not separated"
    limit = negligible * (row["speedup"] + row["difference"])
    if max(abs(lower), abs(upper)) <= limit:
        return "negligible"
    return "clear" if lower > 0 and p <= level and row["up"] > row["down"] else "not separated"


def _against_plain(row: Mapping[str, Any]) -> str:
    lower, upper = row["speedup_lower"], row["speedup_upper"]
    if lower is None:
        return "not separated"
    return "faster" if lower > 1 else "slower" if upper < 1 else "not separated"


def _named(name: str, found: Interval, cost: float = 1.0) -> dict[str, float | None]:
    values = {name: found.estimate, f"{name}_lower": found.low, f"{name}_upper": found.high}
    return {key: None if value is None else float(value / cost) for key, value in values.items()}
