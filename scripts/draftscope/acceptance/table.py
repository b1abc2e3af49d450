"""Measures of acceptance of logs, with intervals over prompts, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from draftscope.acceptance.logs import Log
from draftscope.acceptance.stated import stated
from draftscope.acceptance.sums import MEASURES, WHOLE, Sums
from draftscope.exhibits.captioned import METHODS, Table
from draftscope.exhibits.measures import DEFINITIONS, DEFINITIONS_BY_POSITION
from draftscope.statistics import Interval, bootstrap_columns

ALL, UNKNOWN = "all", "not known"
LENGTHS = tuple(name for name in WHOLE if name.endswith(("length", "offered")))


def measure(logs: Sequence[tuple[str, Log]], **options: Any) -> list[dict[str, Any]]:
    """A row a log, measure, draft position and pooling.

    Args:
        logs: with the names they have in the table.
        options: passed to `statistics.bootstrap_columns` (confidence, resamples, rng).
    """
    rows = []
    for name, log in logs:
        sums = log.sums
        shared = {
            "run": name,
            "rule": log.condition.get("rule") or UNKNOWN,
            "draft_length": UNKNOWN if sums.draft_length is None else sums.draft_length,
        }
        size = {"requests": sums.requests, "rounds": sums.rounds}
        for (metric, position), pooling, found in intervals(sums, **options):
            rows.append(
                shared
                | {"metric": metric, "position": position or ALL, "pooling": pooling}
                | {"value": found.estimate, "low": found.low, "high": found.high}
                | {"prompts": found.n}
                | size
                | {"reason": found.reason}
            )
        for metric, reason in sums.missing.items():
            gone = dict.fromkeys(("value", "low", "high"))
            keys = {"metric": metric, "position": ALL, "pooling": "micro, macro"}
            rows.append(shared | keys | gone | {"prompts": 0} | size | {"reason": reason})
    return rows


def intervals(sums: Sums, **options: Any):
    """(measure, position), pooling and interval of everything that a log gives."""
    keys = list(sums.keys(MEASURES))
    if not keys:
        return
    above, below = (np.stack([sums.values[key][side] for key in keys], 1) for side in (0, 1))
    held = below > 0
    own = np.divide(above, below, out=np.zeros_like(above), where=held)
    micro = bootstrap_columns(above, below, **options)
    macro = bootstrap_columns(own, 1.0 * held, **options)
    for key, pooled, mean in zip(keys, micro, macro, strict=True):
        for pooling, found in (("micro", pooled), ("macro", mean)):
            found = stated(_possible(key[0], found))
            if not found.n:
                reason = "no round offered that position" if key[1] else "no round counts for it"
                found = replace(found, reason=reason)
            yield key, pooling, found


def _possible(metric: str, found: Interval) -> Interval:
    """The interval cut to values that the measure can have: rates end at 0 and 1."""
    return found.within(0.0, np.inf if metric in LENGTHS else 1.0)


def shown(rows: Sequence[dict[str, Any]], confidence: float) -> Table:
    """The rows as a table with its definitions."""
    return Table(
        pd.DataFrame(rows),
        "Measures of acceptance, by log",
        [
            (
                f"Intervals: {100 * confidence:g}%, {METHODS['studentized']}, resampling prompts. "
                "Micro: ratio of the sums over all rounds. Macro: mean of the prompts' own ratios."
            ),
            DEFINITIONS,
            (
                "Engine acceptance length: 1 + accepted a round, over the rounds that engines count, "
                "those with a draft; the last round of a text may emit fewer."
            ),
            DEFINITIONS_BY_POSITION,
        ],
        dict.fromkeys(("value", "low", "high"), ".3f"),
        {"draft_length": "K"},
    )
