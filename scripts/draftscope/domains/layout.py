"""How tables of the domains study are put together: columns with formats, notes that repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from draftscope.domains.lookup import Row
from draftscope.exhibits.captioned import METHODS, Table

AS_PUBLISHED, CORRECTED = "as published: ", "corrected: "
SHARE, LENGTH, CHANGE, CORRELATION, P = ".3f", ".3f", "+.3f", "+.3f", ".2g"
CHAIN_NOTE = (
    "Rank-1 chain: the path of the draft's first choices. Reached: the real walk accepted the "
    "parent. Accepted: the walk, which follows the target's greedy text, took the node."
)
UNDEFINED = "a dash stands where a value is not defined"
Columns = Mapping[str, tuple[str, str | None]]


def table(rows: Sequence[Row], columns: Columns, caption: str, notes: Sequence[str]) -> Table:
    """A table from rows; the ends of intervals take the format of their number.

    Args:
        columns: name -> (heading, number format or None). A number `x` may be followed in the
            rows by `x_lower` and `x_upper`, and `reason` may end a row.
    """
    names, formats, headers = [], {}, {}
    for name, (heading, style) in columns.items():
        ends = [f"{name}{end}" for end in ("_lower", "_upper") if f"{name}{end}" in rows[0]]
        names += [name, *ends]
        headers |= {name: heading} | dict(zip(ends, ("lower", "upper"), strict=False))
        if style:
            formats |= dict.fromkeys([name, *ends], style)
    frame = pd.DataFrame([{n: row.get(n) for n in (*names, "reason")} for row in rows])
    frame["reason"] = frame["reason"].astype(object)
    missing = frame[names].isna().any(axis=1) & frame["reason"].isna()
    frame.loc[missing, "reason"] = UNDEFINED
    for name in names:
        values = [row.get(name) for row in rows]
        if all(value is None or type(value) is int for value in values):
            frame[name] = pd.array(values, dtype="Int64")  # counts stay counts beside a missing one
    return Table(frame, caption, list(notes), formats, headers)


def intervals(settings: Mapping[str, Any], more: str = "") -> str:
    """How the intervals in brackets were made."""
    return (
        f"Intervals: {settings['confidence']:.0%}, prompts resampled "
        f"{settings['resamples']:,} times, {METHODS[settings['method']]}{more}. The published "
        "study has no intervals; those beside its numbers are ours, by prompt."
    )


def holm(rows: Sequence[Mapping[str, Any]], over: str = "domains") -> str:
    family = max((row.get("family") or 0 for row in rows), default=0)
    return (
        f"p: the prompt as the unit; Holm's adjustment over the {family} {over}. Rows of domains "
        "pooled are in no such family, and their p is not adjusted."
    )


def adjusted(row: Mapping[str, Any]) -> float | None:
    """p by Holm, or the plain one of a row that belongs to no family."""
    return row.get("holm_p") if row.get("family") else row.get("p")


def nothing(name: str) -> Row:
    """The row of a table that would have none."""
    return {name: "none", "reason": "nothing of this could be computed"}
