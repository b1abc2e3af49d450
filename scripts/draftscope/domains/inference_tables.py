"""What the two analyses conclude: claims, contrasts of domains, models, effects, the paradox."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from draftscope.domains.layout import (
    AS_PUBLISHED,
    CHAIN_NOTE,
    CHANGE,
    CORRECTED,
    SHARE,
    P,
    adjusted,
    holm,
    intervals,
    nothing,
    table,
)
from draftscope.domains.lookup import Row, Statistics, number, reasons
from draftscope.domains.schemas import ALL, FACTORS
from draftscope.exhibits.captioned import Table

_MEANING = {
    "alpha": "min(1, p/q), all nodes",
    "walk": "accepted, reached nodes",
    "walk_chain": "accepted, reached nodes of the rank-1 chain",
}


def _share(value: float) -> str:
    text = f"{value:.2%}"
    return "0.00%" if text == "-0.00%" else text


def findings(found: Statistics) -> Table:
    """In sentences: where the two analyses of this run disagree."""
    rows = found.rows("claims")
    verdicts = Counter(_verdict(row["agree"]) for row in rows)
    sentences = [
        (
            f"Of {len(rows)} conclusions from this run, the published analysis and the corrected one "
            f"agree on {verdicts['agree']} and disagree on {verdicts['disagree']}; "
            f"{verdicts['unresolved']} cannot be told at this size."
        )
    ]
    sentences += [f"{_about(row)}: {row['statement']}." for row in rows if row["agree"] is False]
    open_claims: dict[str, list[str]] = {}
    for row in rows:
        if row["agree"] is None:
            open_claims.setdefault(row["claim"], []).append(row["domain"])
    if open_claims:
        undecided = "; ".join(
            claim if names == [ALL] else f"{claim} ({', '.join(names)})"
            for claim, names in open_claims.items()
        )
        sentences.append(f"Not to be told at this size is whether {undecided}.")
    return Table(
        pd.DataFrame({"statement": sentences}),
        "Where the published analysis and the corrected one disagree about this run",
        [],
        {},
        {"statement": "finding"},
    )


def _about(row: Row) -> str:
    return row["claim"] if row["domain"] == ALL else f"{row['domain']}, {row['claim']}"


def claims(found: Statistics) -> Table:
    """What the published analysis concludes from this run, and what the corrected one does."""
    rows = [
        {
            "claim": row["claim"],
            "domain": row["domain"],
            "published": _answer(row["published"]),
            "published_value": row["published_value"],
            "corrected": _answer(row["corrected"]),
            **number(row, "corrected_value", "corrected_value"),
            "agree": _verdict(row["agree"]),
            "reason": row["reason"],
        }
        for row in found.rows("claims")
    ]
    return table(
        rows or [nothing("claim")],
        {
            "claim": ("claim", None),
            "domain": ("domain", None),
            "published": (f"{AS_PUBLISHED}holds", None),
            "published_value": ("number", SHARE),
            "corrected": (f"{CORRECTED}holds", None),
            "corrected_value": ("number", SHARE),
            "agree": ("the two", None),
        },
        "Conclusions of the published analysis and of the corrected one",
        [
            (
                "Both analyses read the same nodes of this run; the published study's own numbers "
                "stand in the scorecard. A corrected answer of unresolved means that the interval "
                "lies on both sides."
            ),
            intervals(found.settings),
        ],
    )


def _answer(value: bool | None) -> str:
    return "unresolved" if value is None else "yes" if value else "no"


def _verdict(value: bool | None) -> str:
    return "unresolved" if value is None else "agree" if value else "disagree"


def contrasts(found: Statistics) -> Table:
    """Every two domains compared, by what is published and by what the walk accepted."""
    pairs = dict.fromkeys((row["first"], row["second"]) for row in found.rows("contrasts"))
    rows, tests = [], []
    for first, second in pairs:
        alpha, walk, joint = (
            found.row("contrasts", first=first, second=second, measure=measure)
            for measure in ("alpha", "walk_chain", "joint")
        )
        tests.append(walk)
        rows.append(
            {
                "first": first,
                "second": second,
                **number(alpha, "difference", "alpha"),
                "alpha_p": alpha.get("p"),
                **number(walk, "difference", "walk_chain"),
                "effect": walk.get("effect"),
                "holm_p": adjusted(walk),
                **number(joint, "difference", "joint"),
                "joint_holm_p": adjusted(joint),
                "reason": reasons(alpha=alpha, walk=walk, length=joint),
            }
        )
    return table(
        rows or [nothing("first")],
        {
            "first": ("domain", None),
            "second": ("minus", None),
            "alpha": (f"{AS_PUBLISHED}mean min(1, p/q)", CHANGE),
            "alpha_p": ("p by prompt", P),
            "walk_chain": (f"{CORRECTED}rank-1 chain accepted", CHANGE),
            "effect": ("effect size g", "+.2f"),
            "holm_p": ("p (Holm)", P),
            "joint": (f"{CORRECTED}accepted length", CHANGE),
            "joint_holm_p": ("length: p (Holm)", P),
        },
        "Domains compared with each other",
        [
            (
                "g: the difference in units of the standard deviation of the prompts' own rates "
                "(Hedges). " + CHAIN_NOTE
            ),
            holm(tests, "pairs of domains, by measure"),
            intervals(found.settings),
        ],
    )


def factors(found: Statistics) -> Table:
    """What explains acceptance: task, depth, rank, entropy or position."""
    rows = [
        {
            "outcome": _MEANING[row["outcome"]],
            "factor": row["factor"],
            "parameters": row["parameters"],
            "alone": row["alone"],
            **number(row, "dropped", "dropped"),
            "by_chance": row["by_chance"],
            "largest_effect": row["largest_effect"],
            "p": row["p"],
            "permutation_p": row["permutation_p"],
            "permutation_p_adjusted": row["permutation_p_adjusted"],
            "reason": row["reason"] or _not_of_this_factor(row["factor"]),
        }
        for row in found.rows("models")
    ]
    return table(
        rows or [nothing("outcome")],
        {
            "outcome": ("outcome", None),
            "factor": ("factor", None),
            "parameters": ("coefficients", None),
            "alone": ("deviance explained alone", _share),
            "dropped": ("deviance lost without it", _share),
            "by_chance": ("of it by chance", _share),
            "largest_effect": ("largest effect", SHARE),
            "p": ("p, full model", P),
            "permutation_p": ("p by permutation, alone", P),
            "permutation_p_adjusted": ("p by permutation, adjusted", P),
        },
        "What explains acceptance: logistic models with errors clustered by prompt",
        [
            "; ".join(f"{name}: {meaning}" for name, meaning in FACTORS.items()) + ".",
            (
                "Lost without it: share of the null deviance that the full model loses when it does "
                "without the factor, less what chance gives. A factor with more levels explains "
                "more by chance alone; domain varies between prompts only, so its permutation test "
                "deals domains to whole prompts. Largest effect: greatest difference of mean "
                "chances between two levels, the other factors as they are."
            ),
            *(_comparison(row) for row in found.rows("comparisons")),
        ],
    )


def _not_of_this_factor(factor: str) -> str | None:
    if factor == "domain":
        return None
    return "domains can be dealt to prompts, other factors not"


def _comparison(row: Row) -> str:
    head = f"{_MEANING[row['outcome']].capitalize()}: deviance lost without {row['first']} minus"
    if row["difference"] is None:
        return f"{head} without {row['second']} is not known ({row['reason']})."
    ends = ""
    if row["difference_lower"] is not None:
        ends = f" [{_share(row['difference_lower'])}, {_share(row['difference_upper'])}]"
    p = "" if row["p"] is None else f", p {row['p']:.2g}"
    return f"{head} without {row['second']}: {_share(row['difference'])}{ends}{p}."


def effects(found: Statistics) -> Table:
    """Coefficients of the full model and what they mean in chances."""
    rows = [
        {
            "outcome": _MEANING[row["outcome"]],
            "factor": row["factor"],
            "level": f"{row['level']} against {row['reference']}",
            **number(row, "log_odds", "log_odds"),
            **number(row, "effect", "effect"),
            "holm_p": row["holm_p"],
            "reason": row["reason"],
        }
        for row in found.rows("coefficients")
    ]
    return table(
        rows or [nothing("outcome")],
        {
            "outcome": ("outcome", None),
            "factor": ("factor", None),
            "level": ("level", None),
            "log_odds": ("log odds", "+.2f"),
            "effect": ("difference of mean chances", CHANGE),
            "holm_p": ("p (Holm)", P),
        },
        "Effects in the full model",
        [
            (
                "Errors are clustered by prompt; Holm's adjustment is over the levels of a factor. "
                "A level whose nodes are all accepted, or all rejected, has an unbounded "
                "coefficient: its row says so instead of giving a number."
            )
        ],
    )


def paradox(found: Statistics) -> Table:
    """The domain of highest entropy: is it accepted more often, and why?"""
    rows, tests = [], []
    for row in found.rows("paradox"):
        tests.append(row)
        rows.append(
            {
                "highest": row["highest"],
                "other": "the others pooled" if row["other"] == ALL else row["other"],
                "outcome": _MEANING[row["outcome"]],
                **number(row, "entropy_difference", "entropy"),
                **number(row, "difference", "difference"),
                **number(row, "composition", "composition"),
                **number(row, "at_equal_entropy", "equal"),
                "outside": row["outside"],
                "holm_p": adjusted(row),
                "reason": row["reason"],
            }
        )
    return table(
        rows or [nothing("highest")],
        {
            "highest": ("highest entropy", None),
            "other": ("minus", None),
            "outcome": ("outcome", None),
            "entropy": ("entropy, nats", CHANGE),
            "difference": ("acceptance", CHANGE),
            "composition": ("due to the entropies", CHANGE),
            "equal": ("at equal entropy", CHANGE),
            "outside": ("nodes outside", ".1%"),
            "holm_p": ("p (Holm)", P),
        },
        "Does the domain of highest entropy have the highest acceptance?",
        [
            (
                "The difference in acceptance is split in two: what the two domains' entropies would "
                "give if acceptance depended on entropy alike in both, and what is left at equal "
                "entropy. Nodes outside lie in bins of entropy that only one of the two has. "
                "p: of the difference in acceptance. " + holm(tests, "tests")
            ),
            intervals(found.settings),
        ],
    )
