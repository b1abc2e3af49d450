"""Comparisons and tables as text for a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from draftscope.acceptance.compare import Comparison, Plan
from draftscope.acceptance.logs import Log
from draftscope.acceptance.sums import BY_POSITION
from draftscope.acceptance.table import ALL, UNKNOWN
from draftscope.exhibits.tables import show
from draftscope.statistics.resampling import FEWEST


def measures(rows: Sequence[Mapping[str, Any]], positions: bool) -> str:
    """The rows of `table.measure`; measures that are missing stand below, with the reason."""
    found = [row for row in rows if row["value"] is not None]
    if not positions:
        found = [row for row in found if row["metric"] not in BY_POSITION]
    columns = ["run", "K", "metric", "pooling", "value", "interval", "prompts", "rounds"]
    lines = [
        [
            row["run"],
            show(row["draft_length"]),
            _metric(row),
            row["pooling"],
            show(row["value"]),
            _interval(row),
            show(row["prompts"]),
            show(row["rounds"]),
        ]
        for row in found
    ]
    gone = dict.fromkeys(
        f"{row['run']}: no {_metric(row)}: {row['reason']}"
        for row in rows
        if row["value"] is None and (positions or row["position"] in (None, ALL))
    )
    return "\n".join([aligned(columns, lines), *gone])


def heading(
    first: Log, second: Log, differs: Mapping[str, tuple[Any, Any]], found: Comparison
) -> Iterator[str]:
    """What is compared, what differs, and which prompts are left out."""
    for name, log in (("A", first), ("B", second)):
        sums = log.sums
        yield (
            f"{name}: {log.path}, {len(sums.prompt_ids)} prompts, {sums.requests} texts, "
            f"{sums.rounds} rounds, draft length {UNKNOWN if sums.draft_length is None else sums.draft_length}"
        )
    for key, (one, other) in differs.items():
        yield f"differs as allowed: {key}: {one!r} / {other!r}"
    for name, prompts in (("A", found.only_first), ("B", found.only_second)):
        if prompts:
            more = f" and {len(prompts) - 5} more" if len(prompts) > 5 else ""
            yield f"left out, only in {name}: {', '.join(prompts[:5])}{more}"


def comparison(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of a comparison, one a measure and pooling."""
    columns = ["metric", "pooling", "A", "B", "B - A", "interval", "prompts"]
    columns += ["up/down/ties", "p sign", "p Wilcoxon", "verdict"]
    lines = []
    for row in rows:
        tested = row["p_sign"] is not None
        lines.append(
            [
                _metric(row),
                row["pooling"],
                show(row["first"]),
                show(row["second"]),
                show(row["difference"], "+.4f"),
                _interval(row, "+.4f"),
                show(row["prompts"]),
                f"{row['up']}/{row['down']}/{row['ties']}" if tested else show(None),
                show(row["p_sign"], ".3g"),
                show(row["p_wilcoxon"], ".3g"),
                row["verdict"],
            ]
        )
    return aligned(columns, lines)


def notes(plan: Plan, differs: Collection[str] = ()) -> list[str]:
    """What the numbers of a comparison mean; `differs` are the conditions that do."""
    by_length = (
        "def1, draft_acceptance_rate, verify_rate and accepted_per_emitted change with the draft "
        "length by construction; acceptance_length says what a round brings."
    )
    return [
        *([by_length] if "draft_length" in differs else []),
        (
            f"Intervals: {100 * (1 - plan.level):g}%, bootstrap-t over prompts; Student t below "
            f"{FEWEST}, or where fewer differ (a direction among ties then needs the sign test too). Tests are of the macro difference; each p-value is that of a single test, "
            "so name the measure before you look."
        ),
        (
            "Numbers of prompts: two-sided paired t test, differences spread as measured, prompts "
            "drawn as these were. A difference as large as the one seen may be far from the real "
            "one: give --effect where you know what matters."
        ),
    ]


def say(lines: Sequence[str]) -> None:
    """Print lines; a reader that has seen enough (`| head`) is no fault."""
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, as wide as they need to be."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [columns, *rows]
    )


def _metric(row: Mapping[str, Any]) -> str:
    return row["metric"] + (f"[{row['position']}]" if row["position"] not in (None, ALL) else "")


def _interval(row: Mapping[str, Any], style: str = ".3f") -> str:
    if row["low"] is None or row["high"] is None:
        return row["reason"] or show(None)
    constant = " constant" if row["reason"] == "constant" else ""
    return f"[{show(row['low'], style)}, {show(row['high'], style)}]{constant}"
