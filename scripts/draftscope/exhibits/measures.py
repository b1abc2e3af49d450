"""Every measure of acceptance of every loop, as one file and two tables.

The same rounds give different numbers under different definitions; here they stand side by side,
each under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from draftscope import columns, records
from draftscope.errors import UserError
from draftscope.exhibits.captioned import Table
from draftscope.metrics import grouped_metrics
from draftscope.schemas import field, register

TEXT, COUNT, SHORT = pa.string(), pa.int64(), pa.int16()
LOOP = ("pair", "domain", "mode", "rule", "draft_length")
WHOLE = (
    "def1",
    "draft_acceptance_rate",
    "accepted_per_emitted",
    "verify_rate",
    "accepted_length",
    "acceptance_length",
    "acceptance_length_where_offered",
)
TEXTS = ("prompt_id", "source", "rule")  # columns of few different texts, each held once
COLUMNS = (*TEXTS, "draft_length", "lossless", "offered", "accepted", "emitted")
BY_POSITION = ("position_rate", "conditional_rate")
# What a table of them has to say below it.
DEFINITIONS = (
    "def1: accepted / draft length, full rounds only. Draft acceptance rate: accepted / "
    "offered. Accepted per emitted; verify rate: emitted / (offered + 1). Accepted "
    "length: accepted a round, without the bonus or correction token; acceptance length: "
    "emitted a round, with it; where offered: only rounds that offered a draft."
)
DEFINITIONS_BY_POSITION = (
    "Position rate: accepted at the position / rounds, unconditional. Conditional rate: "
    "accepted / rounds that accepted all before it and offered it (reached)."
)

register(
    "measures",
    [
        field("pair", TEXT, "name in the registry of pairs"),
        field("domain", TEXT, "name in the registry of domains"),
        field("mode", TEXT, "name in the registry of decoding modes"),
        field("rule", TEXT, "acceptance rule of the loop"),
        field("draft_length", SHORT, "draft length (gamma)", "tokens"),
        field("metric", TEXT, "name of the measure"),
        field("position", SHORT, "draft position, from 1, of measures by position", nullable=True),
        field("pooling", TEXT, "micro: ratio of sums over rounds; macro: mean of prompts' ratios"),
        field("value", pa.float64(), "the measure; missing where nothing was counted",
              nullable=True),
        field("numerator", COUNT, "sum over rounds above the line"),
        field("denominator", COUNT, "sum over rounds below the line"),
        field("prompts", COUNT, "prompts with a ratio of their own", "prompts"),
        field("rounds", COUNT, "rounds of the loop", "rounds"),
        field("cut_rounds", COUNT, "of them, with fewer drafts offered than gamma", "rounds"),
    ],
)  # fmt: skip


def measure(configurations: Sequence[Mapping[str, str]], paths: Sequence[str | Path]) -> list[dict]:
    """Rows of the schema `measures`.

    Args:
        configurations: pair, domain and mode of each file.
        paths: Parquet of schema rounds, one a configuration.

    Raises:
        UserError: another number of files than of configurations, or a file without a round.
    """
    if len(paths) != len(configurations):
        raise UserError(f"{len(paths)} files of rounds for {len(configurations)} configurations")
    rows: list[dict[str, Any]] = []
    for named, path in zip(configurations, paths, strict=True):
        parts = list(columns.batches(path, "rounds", COLUMNS, coded=TEXTS))
        condition = records.condition(path)
        for key in ("domain", "mode"):
            if condition.get(key, named[key]) != named[key]:
                raise UserError(f"{path} holds {key} {condition[key]!r}, not {named[key]!r}")
        if not any(part.num_rows for part in parts):  # every prompt was skipped
            continue
        rounds = pa.concat_tables(parts).unify_dictionaries()
        for (rule, length), found in grouped_metrics(rounds, ("rule", "draft_length")).items():
            shared = {key: named[key] for key in ("pair", "domain", "mode")}
            shared |= {"rule": rule, "rounds": found.rounds, "cut_rounds": found.cut_rounds}
            rows += [shared | row | {"draft_length": length} for row in found.as_rows()]
    return rows


def whole_rounds(frame: pd.DataFrame) -> Table:
    """A row a loop and pooling, a column a measure.

    Args:
        frame: schema measures, as a frame.
    """
    own = frame[frame["metric"].isin(WHOLE)]
    wide = _wide(own, "metric", [*LOOP, "rounds", "cut_rounds", "pooling"], WHOLE)
    wide["reason"] = [
        "none of its rounds counts" if missing else None
        for missing in wide[list(WHOLE)].isna().any(axis=1)
    ]
    return Table(
        wide,
        "Every measure of acceptance, from the same rounds",
        [
            DEFINITIONS,
            (
                "Micro: ratio of the sums over all rounds. Macro: mean of the prompts' own ratios. "
                "def1, the draft acceptance rate and the verify rate fall with the draft length by "
                "construction."
            ),
        ],
        {**dict.fromkeys(WHOLE, ".3f")},
        {"draft_length": "K", "cut_rounds": "cut rounds"}
        | {name: name.replace("_", " ") for name in WHOLE if name != "def1"},
    )


def by_position(frame: pd.DataFrame) -> Table:
    """A row a loop and draft position; pooled over rounds.

    Args:
        frame: schema measures, as a frame.
    """
    own = frame[frame["metric"].isin(BY_POSITION) & (frame["pooling"] == "micro")]
    own = own.assign(reached=own["denominator"])
    conditional = own[own["metric"] == "conditional_rate"]
    keys = [*LOOP, "position"]
    wide = _wide(own, "metric", keys, BY_POSITION).merge(
        conditional[[*keys, "rounds", "reached"]], on=keys, how="left"
    )
    wide["position"] = wide["position"].astype("Int64")
    wide["reason"] = [
        "no round reached it" if missing else None for missing in wide["conditional_rate"].isna()
    ]
    return Table(
        wide,
        "Acceptance by draft position",
        [DEFINITIONS_BY_POSITION],
        dict.fromkeys(BY_POSITION, ".3f"),
        {"draft_length": "K", **{name: name.replace("_", " ") for name in BY_POSITION}},
    )


def _wide(frame: pd.DataFrame, across: str, keys: list[str], columns: Sequence) -> pd.DataFrame:
    """One row for each combination of `keys`, in the order in which they come first."""
    wide = frame.pivot(index=keys, columns=across, values="value").reindex(columns=columns)
    order = frame[keys].drop_duplicates()
    return order.merge(wide.reset_index(), on=keys, how="left").reset_index(drop=True)
