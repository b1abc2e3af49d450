"""The tables an engineer comes for: the best draft and length, and all candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from draftscope.choice.analysis import SKIPPED
from draftscope.exhibits.captioned import METHODS, Table

TEXT_OF = {"all": "all", "loops_removed": "loops removed"}
PLAIN = "Speed is predicted, not timed"


def best(
    frame: pd.DataFrame,
    *,
    confidence: float,
    resamples: int,
    method: str,
    negligible: float,
    without_text: Sequence[tuple[str, str, str]] = (),
) -> Table:
    """The best candidate of each domain, mode and subset, with its runner-up.

    Args:
        frame: schema choice, as a frame.
        without_text: target, domain and mode of which every prompt was skipped.
    """
    several = frame["target"].nunique() > 1
    rows = []
    for _, group in frame.groupby(["target", "domain", "mode", "subset"], sort=False):
        first, *others = _records(group.sort_values("rank"))
        second = others[0] if others else {}
        row = {"target": first["target"]} if several else {}
        row |= _setting(first) | {
            "runner_up": second.get("draft"),
            "runner_up_length": second.get("draft_length"),
            "difference": second.get("difference"),
            "difference_lower": second.get("difference_lower"),
            "difference_upper": second.get("difference_upper"),
            "p": second.get("p"),
            "holm_p": second.get("holm_p"),
            "separation": second.get("separation", "no other candidate"),
            "reason": first["reason"] or ("" if second else "one candidate"),
        }
        rows.append(row)
    columns = (["target"] if several else []) + [*_COLUMNS, *_AGAINST, "reason"]
    table = pd.DataFrame(rows, columns=columns).astype({"runner_up_length": "Int64"})
    comparisons = int(frame.loc[frame["subset"] == "all", "holm_p"].notna().sum())
    notes = [
        *_notes(frame, confidence, resamples, method),
        (
            "Runner-up: the second highest predicted speedup among all drafts and draft lengths. "
            "Difference: predicted speedup of the best minus that of the runner-up, both as ratios of "
            "sums over the same resampled prompts."
        ),
        (
            "p: exact two-sided sign test of the difference in predicted speed, one value a prompt; "
            f"Holm's adjustment is over all {comparisons} comparisons of a candidate with the best of "
            "its domain and mode, for each kind of text."
        ),
        (
            f"Clear: the interval of the difference is above 0 and the adjusted p is at most "
            f"{1 - confidence:.2g}. Negligible: the whole interval is within {negligible:.1%} of the "
            "best's predicted speedup. Not separated: these prompts do not tell the two apart."
        ),
        (
            "The best is chosen on the same prompts, so its own predicted speedup is somewhat "
            "favorable."
        ),
        (
            "Against plain decoding: faster or slower when the interval of the predicted speedup "
            "excludes 1."
        ),
        *_missing(without_text),
    ]
    caption = f"Best draft and draft length by domain and decoding mode. {PLAIN}{_target(frame)}"
    return Table(table, caption, notes, _FORMATS, _HEADERS)


def candidates(
    frame: pd.DataFrame,
    *,
    confidence: float,
    resamples: int,
    method: str,
    negligible: float,
    without_text: Sequence[tuple[str, str, str]] = (),
) -> Table:
    """Every draft and draft length on all text, best first within a domain and mode."""
    several = frame["target"].nunique() > 1
    rows = [
        ({"target": row["target"]} if several else {})
        | _setting(row)
        | {"rank": row["rank"], "separation": row["separation"], "reason": row["reason"]}
        for row in _records(frame[frame["subset"] == "all"])
    ]
    columns = (["target"] if several else []) + [*_COLUMNS, "rank", "separation", "reason"]
    table = pd.DataFrame(rows, columns=columns).drop(columns="text")
    notes = [
        *_notes(frame, confidence, resamples, method),
        (
            "Separation: clear when the best candidate of the domain and mode is faster than this one "
            "by interval and by adjusted sign test, negligible when the interval of the difference is "
            f"within {negligible:.1%} of the best's predicted speedup."
        ),
        *_missing(without_text),
    ]
    caption = f"All drafts and draft lengths, by predicted speedup. {PLAIN}{_target(frame)}"
    formats = {name: text for name, text in _FORMATS.items() if name in table.columns}
    headers = {name: text for name, text in _HEADERS.items() if name in table.columns}
    return Table(table, caption, notes, formats, headers)


_COLUMNS = (
    "domain", "mode", "text", "draft", "draft_length", "prompts", "acceptance_length",
    "acceptance_length_lower", "acceptance_length_upper", "draft_acceptance_rate", "cost_ratio",
    "speedup", "speedup_lower", "speedup_upper", "against_plain",
)  # fmt: skip
_AGAINST = (
    "runner_up", "runner_up_length", "difference", "difference_lower", "difference_upper", "p",
    "holm_p", "separation",
)  # fmt: skip
_FORMATS = {
    "acceptance_length": ".2f",
    "acceptance_length_lower": ".2f",
    "acceptance_length_upper": ".2f",
    "draft_acceptance_rate": ".3f",
    "cost_ratio": ".3g",
    "speedup": ".2f",
    "speedup_lower": ".2f",
    "speedup_upper": ".2f",
    "difference": "+.3f",
    "difference_lower": "+.3f",
    "difference_upper": "+.3f",
    "p": ".2g",
    "holm_p": ".2g",
}
_HEADERS = {
    "draft_length": "draft length",
    "acceptance_length": "acceptance length",
    "acceptance_length_lower": "lower",
    "acceptance_length_upper": "upper",
    "draft_acceptance_rate": "draft acceptance rate",
    "cost_ratio": "c",
    "speedup": "predicted speedup",
    "speedup_lower": "lower",
    "speedup_upper": "upper",
    "against_plain": "against plain decoding",
    "runner_up": "runner-up",
    "runner_up_length": "its length",
    "difference_lower": "lower",
    "difference_upper": "upper",
    "holm_p": "p (Holm)",
    "separation": "separation",
}


def _setting(row: dict[str, Any]) -> dict[str, Any]:
    named = {"text": TEXT_OF[row["subset"]]}
    return {name: named[name] if name in named else row[name] for name in _COLUMNS}


def _notes(frame: pd.DataFrame, confidence: float, resamples: int, method: str) -> list[str]:
    verify = ", ".join(f"{v:g}" for v in sorted(frame["verify_cost"].unique())) or "not stated"
    left = frame.drop_duplicates(["target", "domain", "mode", "subset"])
    lost = [
        f"{row['domain']}/{row['mode']} {row['prompts_left_out']}"
        for row in _records(left[left["prompts_left_out"] > 0])
    ]
    return [
        (
            "Acceptance length: tokens a round with the bonus or correction token, sum of tokens / "
            "sum of expected rounds. Draft acceptance rate: sum of accepted / sum of offered drafts."
        ),
        (
            "Predicted speedup over plain decoding: acceptance length / (v + draft length x c), with c "
            "the time of a draft step and v that of a verification pass, both in plain target steps; "
            f"c and v (here v = {verify}) are given in the configuration, not measured here."
        ),
        (
            f"Lower, upper: {confidence:.0%} intervals, prompts resampled {resamples:,} times "
            f"({METHODS[method]})."
        ),
        f"Prompts left out as loop problems: {', '.join(lost) or 'none'}.",
    ]


def _missing(without_text: Sequence[tuple[str, str, str]]) -> list[str]:
    return [
        f"No row for {domain}/{mode} (target {target}): {SKIPPED}. The trajectories say why."
        for target, domain, mode in without_text
    ]


def _target(frame: pd.DataFrame) -> str:
    targets = list(dict.fromkeys(frame["target"]))
    return f" (target {targets[0]})" if len(targets) == 1 else ""


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries with None where pandas holds NaN."""
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
