"""How much was generated, and what was skipped for which reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from draftscope import records

SHOWN_IDS = 5


def counts(paths: Sequence[str | Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was generated and what was skipped.

    Returns:
        One row a target, domain and mode with trajectories, skipped, tokens, ended (by end of
        text) and cut (by budget or context); and one row a target, domain and reason of skipping
        with modes, trajectories, prompts (each once, in however many modes), ids (the first few)
        and more (how many ids are not listed).
    """
    groups: dict[tuple[str, str, str], Counter[str]] = {}
    left_out: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for path in paths:
        table = records.read(path, "trajectories")
        condition = records.condition(table)
        group = tuple(str(condition.get(key) or "") for key in ("target", "domain", "mode"))
        total = groups.setdefault(group, Counter())
        kept = table.filter(pc.equal(table["status"], "ok"))
        total["trajectories"] += kept.num_rows
        total["skipped"] += table.num_rows - kept.num_rows
        total["tokens"] += pc.sum(pc.list_value_length(kept["token_ids"])).as_py() or 0
        stops = Counter(kept["stop_reason"].to_pylist())
        total["ended"] += stops["eos"]
        total["cut"] += kept.num_rows - stops["eos"]
        skipped = table.filter(pc.equal(table["status"], "skipped"))
        for row in skipped.select(["prompt_id", "reason"]).to_pylist():
            reason = row["reason"] or "no reason recorded"
            # One kind of reason is one row, whatever numbers it names.
            kind = (*group[:2], re.sub(r"\d+", "N", reason))
            left_out.setdefault(kind, []).append((group[2], row["prompt_id"], reason))
    names = ("target", "domain", "mode")
    fields = ("trajectories", "skipped", "tokens", "ended", "cut")
    return (
        [
            dict(zip(names, group, strict=True)) | {field: total[field] for field in fields}
            for group, total in groups.items()
        ],
        [_skipped(*kind, rows) for kind, rows in left_out.items()],
    )


def _skipped(
    target: str, domain: str, kind: str, rows: Sequence[tuple[str, str, str]]
) -> dict[str, Any]:
    """Rows are mode, prompt id and reason of each skipped trajectory."""
    modes, ids, reasons = (list(dict.fromkeys(column)) for column in zip(*rows, strict=True))
    return {
        "target": target,
        "domain": domain,
        "reason": reasons[0] if len(reasons) == 1 else kind,
        "modes": modes,
        "trajectories": len(rows),
        "prompts": len(ids),
        "ids": ids[:SHOWN_IDS],
        "more": max(len(ids) - SHOWN_IDS, 0),
    }
