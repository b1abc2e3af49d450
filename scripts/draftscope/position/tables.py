"""Tables of the position study, each with the published protocol beside the corrected one."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from draftscope.exhibits.captioned import METHODS, Table

METRIC_NOTE = (
    "def1 is accepted / draft length of a round; alpha is min(1, q(y)/p(y)) of the emitted token, "
    "over all positions. Under greedy decoding alpha is 1 where the draft's most likely token is "
    "the emitted one and 0 elsewhere."
)


def paired_halves(
    paired: pd.DataFrame, *, draft_length: int, confidence: float, resamples: int, method: str
) -> Table:
    """Table 1: paired difference between halves, loop problems removed.

    Args:
        paired: schema position_paired, as a frame.
    """
    rows = paired[paired["subset"] == "loops_removed"]
    frame = pd.DataFrame(
        {
            "configuration": _names(rows),
            "metric": rows["metric"],
            "prompts": rows["prompts"],
            "difference": rows["difference"],
            "lower": rows["difference_lower"],
            "upper": rows["difference_upper"],
            "up": rows["up"],
            "down": rows["down"],
            "ties": rows["ties"],
            "p": rows["p"],
            "holm_p": rows["holm_p"],
            "published_difference": rows["published"],
            "published_lower": rows["published_lower"],
            "published_upper": rows["published_upper"],
            "published_up": rows["published_up"],
            "published_down": rows["published_down"],
            "published_p": rows["published_p"],
            "reason": rows["reason"],
        }
    )
    small = ("difference", "lower", "upper")
    formats = {name: "+.3f" for name in (*small, *(f"published_{name}" for name in small))}
    formats |= {name: ".2g" for name in ("p", "holm_p", "published_p")}
    headers = {"holm_p": "p (Holm)"}
    headers |= {
        f"published_{name}": f"as published: {name}" for name in (*small, "up", "down", "p")
    }
    family = int(rows["family"].max()) if len(rows) else 0
    notes = [
        METRIC_NOTE,
        (
            "Difference: second minus first half of the generated tokens within each prompt, prompts "
            "weighted equally. Ties are prompts with no difference; they enter the mean and are dropped "
            "by the exact two-sided sign test."
        ),
        _full_rounds(draft_length),
        (
            f"Intervals: {confidence:.0%}, prompts resampled {resamples:,} times; lower and upper: "
            f"{_methods(rows, method)}; as published: percentile bootstrap, cut rounds counted as "
            "full ones."
        ),
        (
            f"Holm's adjustment is over the {family} tests of this table; the published p-values are "
            "not adjusted."
        ),
        *(_left_out(row) for row in _records(rows)),
    ]
    caption = (
        f"Table 1. Paired difference in acceptance between the halves of each text at draft "
        f"length {draft_length}, loop problems removed{_domain(rows)}"
    )
    return Table(frame, caption, notes, formats, headers)


def _full_rounds(draft_length: int) -> str:
    """The rule by which rounds count: see `statistics.observations`."""
    return (
        f"Full rounds: a round counts if it was offered {draft_length} drafts (offered = gamma = "
        f"{draft_length}) and, in a text of n tokens that ended with an end-of-text token, starts at a "
        f"position (from 0) with start + {draft_length} <= n. In such a text a round with start + "
        f"{draft_length} > n is left out whatever it accepted: of these rounds only failures would "
        "stay full, since an accepted end of text shortens the offer. The rounds left out are the "
        "others, and all rounds count in the columns as published."
    )


def _left_out(row: Mapping) -> str:
    name = _name(row)
    undefined = not row["prompts"] and not row["full_rounds"] and row["metric"] != "def1"
    if undefined or not row["prompts_total"]:
        return f"{name}, {row['metric']}: {row['reason']}."
    observed = (
        f"{row['full_rounds']:,} full rounds used, {row['cut_rounds']:,} rounds left out"
        if row["metric"] == "def1"
        else f"{row['positions']:,} positions used"
    )
    return (
        f"{name}, {row['metric']}: {row['prompts']} of {row['prompts_total']} prompts; left out "
        f"{row['left_out_loops']} as loop problems, {row['left_out_short']} with an empty half; "
        f"{observed}."
    )


def pooled_halves(
    pooled: pd.DataFrame, *, draft_length: int, confidence: float, resamples: int, method: str
) -> Table:
    """Table 2: rounds of all prompts pooled, before and after loops are removed.

    Args:
        pooled: schema position_pooled, as a frame.
    """
    pooled = pooled[pooled["metric"].isin(["def1", "alpha"])]
    keys = ["label", "pair", "domain", "mode", "metric"]
    subsets = {"all": "all", "loops_removed": "removed", "spans_cut": "cut"}
    rows = []
    for _, group in pooled.groupby(keys, sort=False):
        by_subset = {row["subset"]: row for row in _records(group)}
        first = by_subset["all"]
        row = {"configuration": _name_in(pooled, first), "metric": first["metric"]}
        reasons = []
        for subset, short in subsets.items():
            own = by_subset[subset]
            row |= {
                f"prompts_{short}": own["prompts"],
                f"difference_{short}": own["difference"],
                f"lower_{short}": own["difference_lower"],
                f"upper_{short}": own["difference_upper"],
            }
            if isinstance(own["reason"], str):
                reasons.append(f"{_SUBSET_WORD[subset]}: {own['reason']}")
        row |= {f"published_{short}": by_subset[s]["published"] for s, short in _PUBLISHED.items()}
        rows.append(row | {"reason": "; ".join(reasons) or None})
    columns = ["configuration", "metric"]
    for short in subsets.values():
        columns += [f"{name}_{short}" for name in ("prompts", "difference", "lower", "upper")]
    columns += [*(f"published_{short}" for short in _PUBLISHED.values()), "reason"]
    frame = pd.DataFrame(rows, columns=columns)
    formats = {c: "+.3f" for c in columns if c.split("_")[0] in _SIGNED}
    headers = {
        f"{name}_{short}": f"{_SUBSET_WORD[subset]}: {name}"
        for subset, short in subsets.items()
        for name in ("prompts", "difference", "lower", "upper")
    }
    headers |= {
        f"published_{short}": f"as published: {_SUBSET_WORD[subset]}"
        for subset, short in _PUBLISHED.items()
    }
    splits = [row for row in _records(pooled) if row["subset"] == "loops_removed"]
    notes = [
        METRIC_NOTE,
        (
            "Difference: mean of the observations that start at or after the median start of the "
            "pool, minus the mean of those before it. Long texts weigh more, and late positions hold "
            "only prompts with long texts, so this difference mixes position with which prompts are "
            "long; Table 1 does not."
        ),
        (
            f"Intervals: {confidence:.0%}, prompts resampled {resamples:,} times with the split held "
            f"fixed, {_methods(pooled, method)}. The published pooled differences have no interval. "
            "As published: cut rounds counted as full ones."
        ),
        _full_rounds(draft_length),
        (
            f"Cut: each text up to where its repetition starts, no prompt left out; def1 then counts "
            f"full rounds with start + {draft_length} <= that position."
        ),
        *(
            f"{_name(row)}, {row['metric']}: "
            f"{_split(row['split'])}, "
            f"{row['observations']:,} {'full rounds' if row['metric'] == 'def1' else 'positions'} "
            "(loops removed)."
            for row in splits
        ),
    ]
    caption = (
        f"Table 2. Pooled difference in acceptance between late and early positions at draft "
        f"length {draft_length}, before and after removal of loops{_domain(pooled)}"
    )
    return Table(frame, caption, notes, formats, headers)


def _split(position: float | None) -> str:
    return "no split" if position is None else f"split at token {position:g}"


_SUBSET_WORD = {"all": "full", "loops_removed": "loops removed", "spans_cut": "cut"}
_PUBLISHED = {"all": "all", "loops_removed": "removed"}
_SIGNED = ("difference", "lower", "upper", "published")


def _records(frame: pd.DataFrame) -> list[dict]:
    """Rows as dictionaries with None where pandas holds NaN."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _name(row: Mapping) -> str:
    return f"{row['label']}/{row['mode']}"


def _name_in(frame: pd.DataFrame, row: Mapping) -> str:
    return _name(row) if frame["domain"].nunique() == 1 else f"{row['domain']}, {_name(row)}"


def _names(rows: pd.DataFrame) -> list[str]:
    return [_name_in(rows, row) for row in _records(rows)]


def _domain(rows: pd.DataFrame) -> str:
    if not len(rows):
        return ""
    pairs = rows.drop_duplicates("label")
    names = "; ".join(f"{r['label']} = {r['pair']}" for r in _records(pairs))
    domains = list(dict.fromkeys(rows["domain"]))
    return f" ({'domain' if len(domains) == 1 else 'domains'} {', '.join(domains)}; {names})"


def _methods(rows: pd.DataFrame, method: str) -> str:
    used = [m for m in dict.fromkeys(rows["method"]) if m not in (method, "none")]
    text = METHODS[method]
    return f"{text} ({METHODS[used[0]]} where the reason column says so)" if used else text
