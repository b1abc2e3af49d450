"""Two logs on the same prompts: what differs, how surely, and how many prompts would settle it.

Differences are the second log's (B) minus the first's (A), prompt by prompt. Macro is their mean over
prompts; micro is the difference of the two pooled ratios, with prompts resampled in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftscope.acceptance.stated import few_differ, stated
from draftscope.acceptance.sums import MEASURES, Sums
from draftscope.errors import UserError
from draftscope.statistics import (
    Interval,
    bootstrap,
    bootstrap_columns,
    equivalence,
    paired_differences,
    prompts_needed,
    sign_test,
    smallest_difference,
    wilcoxon,
)

# Beyond that many prompts the answer is: not by this measure.
MOST_PROMPTS = 10**7


@dataclass(frozen=True)
class Plan:
    """How to compare.

    Attributes:
        measures: names, in the order of the output.
        margins: measure -> largest difference that does not matter, for a test of equivalence.
        effects: measure -> difference that the number of prompts is asked for; where none is
            given, the one that was seen.
        level: two-sided; intervals have 1 - level confidence.
    """

    measures: tuple[str, ...] = MEASURES
    margins: Mapping[str, float] | None = None
    effects: Mapping[str, float] | None = None
    level: float = 0.05
    power: float = 0.8
    seed: int = 0


@dataclass(frozen=True)
class Comparison:
    """Attributes:
    rows: one a measure, draft position and pooling.
    missing: measure -> why it cannot be compared.
    prompts: on both sides, in the order of their names.
    only_first, only_second: prompts that were left out.
    """

    rows: list[dict[str, Any]]
    missing: dict[str, str]
    prompts: list[str]
    only_first: list[str]
    only_second: list[str]


def compare(first: Sums, second: Sums, plan: Plan) -> Comparison:
    """Compare two logs prompt by prompt.

    Raises:
        UserError: no prompt stands in both.
    """
    one, other = set(first.prompt_ids.tolist()), set(second.prompt_ids.tolist())
    both = sorted(one & other)
    if not both:
        raise UserError(
            f"the logs share no prompt: one has {min(one)}, the other {min(other)}; was the same "
            "field taken as the prompt's name?"
        )
    names = np.asarray(both, object)
    first, second = first.of(names), second.of(names)
    rows, missing = [], {}
    for measure in plan.measures:
        keys = [key for key in first.keys((measure,)) if key in second.values]
        if not keys:
            lacks = second.missing if measure in first.missing | second.missing else {}
            missing[measure] = (
                first.missing.get(measure)
                or lacks.get(measure)
                or "no round counts for it in one of the logs"
            )
        for key in keys:
            rows += _rows(key, first.values[key], second.values[key], plan)
    return Comparison(rows, missing, both, sorted(one - other), sorted(other - one))


def _rows(
    key: tuple[str, int | None],
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    plan: Plan,
) -> list[dict[str, Any]]:
    """The micro and the macro row of one measure."""
    metric, position = key
    held = (first[1] > 0) & (second[1] > 0)
    # A prompt with nothing to measure on one side is no pair, for either pooling.
    (above_a, below_a), (above_b, below_b) = (
        (above[held], below[held]) for above, below in (first, second)
    )
    shared = {"metric": metric, "position": position}
    gone = {"prompts": len(above_a), "unpaired": int((~held).sum())}
    options = {"confidence": 1 - plan.level, "rng": plan.seed}
    differences = paired_differences(above_b / below_b, above_a / below_a)
    sign, ranks = sign_test(differences), wilcoxon(differences)
    few = few_differ(sign.up + sign.down, sign.ties)
    if few:
        # Resamples that hold each of them as often as the log have next to no spread.
        options["method"] = "student"
    macro = stated(bootstrap(differences, **options))
    (micro,) = map(
        stated,
        bootstrap_columns(
            above_b[:, None], below_b[:, None], (above_a[:, None], below_a[:, None]), **options
        ),
    )
    why = None
    if few:
        why = f"Student t: only {sign.up + sign.down} prompts differ"
        if sign.p >= plan.level:
            why += "; undecided, as the sign test does not agree"
    agreed = not few or sign.p < plan.level
    seen = _mean(above_a / below_a), _mean(above_b / below_b)
    rows = [
        shared
        | {
            "pooling": "micro",
            "first": _ratio(above_a, below_a),
            "second": _ratio(above_b, below_b),
        }
        | _interval(micro)
        | gone
        | dict.fromkeys(("up", "down", "ties", "p_sign", "p_wilcoxon"))
        | _verdict(micro, agreed, None, None)
        | dict.fromkeys(("smallest", "effect", "prompts_needed", "margin", "p_equivalence"))
        | {"reason": why or micro.reason or "tests are of the macro difference"},
        shared
        | {"pooling": "macro", "first": seen[0], "second": seen[1]}
        | _interval(macro)
        | gone
        | {"up": sign.up, "down": sign.down, "ties": sign.ties}
        | {"p_sign": sign.p, "p_wilcoxon": ranks.p},
    ]
    margin = (plan.margins or {}).get(metric)
    equal = None
    if margin is not None and macro.low is not None:
        equal = equivalence(differences, margin, plan.level, rng=plan.seed)
    rows[1] |= _verdict(macro, agreed, equal.p if equal else None, plan.level)
    rows[1] |= _power(differences, macro.estimate, rows[1]["verdict"], metric, plan)
    rows[1] |= {"margin": margin, "p_equivalence": equal.p if equal else None}
    rows[1] |= {"reason": why or macro.reason or sign.reason}
    return rows


def _verdict(
    found: Interval, agreed: bool, p_equivalence: float | None, level: float | None
) -> dict[str, str]:
    """In words: which side is higher, whether they are equivalent, or that it is undecided.

    Args:
        agreed: the sign test finds a direction too, or need not be asked.
    """
    if found.low is None:
        word = "undecided"
    elif agreed and (found.low > 0 or found.high < 0):
        word = "B higher" if found.low > 0 else "B lower"
    elif found.degenerate:
        word = "equal"
    else:
        word = "undecided"
    if p_equivalence is not None and p_equivalence < level:
        word = "equivalent" if word == "undecided" else f"{word}, within the margin"
    return {"verdict": word}


def _power(
    differences: np.ndarray, seen: float | None, verdict: str, metric: str, plan: Plan
) -> dict[str, Any]:
    """What these prompts could find, and how many an undecided comparison would take."""
    effect = (plan.effects or {}).get(metric, seen)
    needed = None
    if verdict == "undecided" and effect is not None and len(differences) > 1:
        spread = float(np.std(differences, ddof=1))
        # Normal approximation, to leave out what no search can settle.
        if (
            spread > 1e-12 * max(1.0, abs(effect))
            and abs(effect) / spread > 2.8 / MOST_PROMPTS**0.5
        ):
            needed = prompts_needed(differences, effect, plan.level, plan.power)
    return {
        "smallest": smallest_difference(differences, plan.level, plan.power),
        "effect": effect if verdict == "undecided" else None,
        "prompts_needed": needed,
    }


def _interval(found) -> dict[str, float | None]:
    return {"difference": found.estimate, "low": found.low, "high": found.high}


def _ratio(above: np.ndarray, below: np.ndarray) -> float | None:
    return float(above.sum() / below.sum()) if below.sum() else None


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def sentences(comparison: Comparison, plan: Plan) -> Sequence[str]:
    """What the macro rows say, in words, with what the numbers of prompts assume."""
    lines = []
    for row in comparison.rows:
        if row["pooling"] != "macro":
            continue
        name = row["metric"] + (f"[{row['position']}]" if row["position"] else "")
        text = f"{name}: {row['verdict']}"
        if row["margin"] is not None:
            p = row["p_equivalence"]
            text += f" (margin {row['margin']:g}, " + (
                "not tested)" if p is None else f"p of equivalence {p:.3g})"
            )
        if row["verdict"] == "undecided":
            text += f"; {_settle(row, plan)}"
        if row["smallest"] is not None:
            text += (
                f"; with {row['prompts']} prompts a difference of {row['smallest']:.3g} is found "
                f"with power {plan.power:g}"
            )
        lines.append(text)
    return lines


def _settle(row: Mapping[str, Any], plan: Plan) -> str:
    if row["effect"] is None or row["smallest"] is None:
        return "too few prompts to say how many would settle it"
    given = row["metric"] in (plan.effects or {})
    which = f"{row['effect']:.3g}" if given else f"as large as seen, {row['effect']:.3g},"
    if row["prompts_needed"] is None:
        return f"no number of prompts up to {MOST_PROMPTS:,} settles a difference {which}".rstrip(
            ","
        )
    return f"{row['prompts_needed']:,} prompts would settle a difference {which} if it is real"
