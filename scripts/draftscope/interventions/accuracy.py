"""Do arms answer differently? Accuracy of each, and the exact McNemar test between them.

Verification is lossless: whatever the draft, an emitted text has the target's law, so accuracies
cannot differ in law. In greedy decoding the texts themselves are equal, up to near-ties; in
sampling they are independent draws from one law, and a test that rejects at level a does so for a
share a of true null hypotheses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from draftscope.errors import UserError
from draftscope.statistics.contingency import mcnemar

ALL = "all"


def study(
    answers: Sequence[Mapping[str, Any]],
    control: str,
    temperatures: Mapping[str, float],
    confidence: float,
) -> list[dict[str, Any]]:
    """Rows of schema intervention_accuracy: each domain and all of them together.

    Args:
        answers: rows of schema intervention_answers; the first sample of each prompt counts.
        control: every other arm is compared with it.
        temperatures: of each mode.

    Raises:
        UserError: arms that answered different prompts.
    """
    first = [row for row in answers if row["sample"] == 0]
    rows = []
    for mode in dict.fromkeys(row["mode"] for row in first):
        own = [row for row in first if row["mode"] == mode]
        domains = list(dict.fromkeys(row["domain"] for row in own))
        for domain in domains if len(domains) == 1 else [*domains, ALL]:
            here = [row for row in own if domain in (row["domain"], ALL)]
            arms = {
                arm: {(r["domain"], r["prompt_id"]): r for r in here if r["arm"] == arm}
                for arm in dict.fromkeys(row["arm"] for row in here)
            }
            for arm, found in arms.items():
                if set(found) != set(arms[control]):
                    raise UserError(
                        f"arms {arm!r} and {control!r} answered different prompts of domain "
                        f"{domain!r} in mode {mode!r}"
                    )
                key = {"arm": arm, "domain": domain, "mode": mode}
                key["decoding"] = "sample" if temperatures[mode] > 0 else "greedy"
                other = None if arm == control else arms[control]
                rows.append(key | _compared(found, other, control, confidence))
    return rows


def _compared(
    own: Mapping[Any, Mapping], other: Mapping[Any, Mapping] | None, control: str, confidence: float
) -> dict[str, Any]:
    from statsmodels.stats.proportion import proportion_confint

    right, n = sum(row["correct"] for row in own.values()), len(own)
    low, high = proportion_confint(right, n, 1 - confidence, "wilson") if n else (None, None)
    row = {
        "prompts": n,
        "correct": right,
        "accuracy": right / n if n else None,
        "accuracy_lower": None if low is None else float(low),
        "accuracy_upper": None if high is None else float(high),
        **dict.fromkeys(("against", "only_own", "only_other", "chi2", "p", "same_text", "reason")),
    }
    if other is None:
        return row | {"reason": "the control"}
    table = np.zeros((2, 2), int)
    for name, mine in own.items():
        table[1 - int(mine["correct"]), 1 - int(other[name]["correct"])] += 1
    test = mcnemar(table)
    same = sum(mine["tokens_sha256"] == other[name]["tokens_sha256"] for name, mine in own.items())
    discordant = test.only_first + test.only_second
    return row | {
        "against": control,
        "only_own": test.only_first,
        "only_other": test.only_second,
        "chi2": (test.only_first - test.only_second) ** 2 / discordant if discordant else 0.0,
        "p": test.p,
        "same_text": same,
        "reason": test.reason,
    }
