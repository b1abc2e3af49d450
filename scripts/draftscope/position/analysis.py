"""Does acceptance change along a text? Paired halves, pooled rounds, curves and fifths.

The prompt is the unit of every interval and test. Rounds cut short by the end of a text accept
fewer by construction and stand late, so on their own they make a difference between halves; they
are left out and counted (see `statistics.observations`). The columns named `published` keep them,
as the published protocol does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from draftscope import records
from draftscope.errors import UserError
from draftscope.position import inputs
from draftscope.position.estimates import (
    CURVES,
    NO_HALVES,
    NO_SCORES,
    PAIRED_METRICS,
    Estimates,
    Rows,
    Settings,
    undefined,
)
from draftscope.position.schemas import METRICS, SUBSETS
from draftscope.statistics.multiple import holm
from draftscope.statistics.observations import Observations, exclude_loops
from draftscope.statistics.sums import PositionSums, Texts

__all__ = ["NO_HALVES", "NO_SCORES", "NO_TEXT", "Configuration", "Settings", "study"]
NO_TEXT = "no prompt has text: all were skipped"
_EXCLUDE = {"loops_removed": "problems", "spans_cut": "spans"}
# By metric and subset: sums of what counts, and of everything as published.
Found = dict[tuple[str, str], tuple[PositionSums, PositionSums]]


@dataclass(frozen=True)
class Configuration:
    """A pair on a domain in a mode, with the files that hold its measurements."""

    label: str
    pair: str
    draft: str
    domain: str
    mode: str
    temperature: float
    rounds: str
    loops: str
    scores: tuple[str, ...] = ()

    @property
    def decoding(self) -> str:
        return "sample" if self.temperature > 0 else "greedy"

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.rounds, self.loops, *self.scores)


def study(configurations: Sequence[Configuration], settings: Settings) -> Rows:
    """Rows of every schema of the study, by schema name; one configuration at a time.

    Raises:
        UserError: files that are missing, damaged, or of different runs.
    """
    names = ("paired", "pooled", "curves", "quintiles", "halves")
    rows: Rows = {f"position_{name}": [] for name in names}
    for configuration in configurations:
        for schema, added in measure(configuration, settings).items():
            rows[schema] += added
    adjust(rows["position_paired"])
    return rows


def measure(configuration: Configuration, settings: Settings) -> Rows:
    """Everything about one configuration; p-values are not adjusted yet."""
    loops = records.read(configuration.loops, "loops")
    inputs.require_one_run(
        configuration.paths, {"domain": configuration.domain, "mode": configuration.mode}
    )
    try:
        texts = Texts(loops)
    except ValueError as error:
        raise UserError(f"{configuration.loops}: {error}") from error
    rows: Rows = {}
    for metrics in (METRICS[:1], METRICS[1:]):
        blocks = _blocks(configuration, metrics, texts, settings.draft_length)
        found = _sums(metrics, blocks, texts, loops, settings.bin_width) if blocks else {}
        for metric, subset in itertools.product(metrics, SUBSETS):
            key = {
                "label": configuration.label,
                "pair": configuration.pair,
                "domain": configuration.domain,
                "mode": configuration.mode,
                "decoding": configuration.decoding,
                "draft_length": settings.draft_length,
                "metric": metric,
                "subset": subset,
            }
            if (metric, subset) not in found:
                if metric in PAIRED_METRICS:
                    rows.setdefault("position_paired", []).append(undefined(key, loops))
                continue
            estimates = Estimates(key, *found[metric, subset], settings)
            for schema, added in estimates.rows(loops).items():
                rows.setdefault(schema, []).extend(added)
    if not loops.num_rows:  # whatever else a statistic says of nothing, this is why
        for row in (row for added in rows.values() for row in added):
            row["reason"] = NO_TEXT
    return rows


def adjust(paired: list[dict[str, Any]]) -> None:
    """Holm's adjustment over the tests of one subset, in place: each is a table of its own."""
    for subset in SUBSETS:
        tests = [row for row in paired if row["subset"] == subset]
        adjusted = holm([row["p"] if row["prompts"] else None for row in tests])
        for row, p in zip(tests, adjusted.p, strict=True):
            row["holm_p"], row["family"] = p, adjusted.n


def _blocks(
    configuration: Configuration, metrics: Sequence[str], texts: Texts, draft_length: int
) -> inputs.Blocks | None:
    """What these metrics are counted from: def1 from rounds, the others from scores, if any."""
    if "def1" in metrics:
        return inputs.round_blocks(configuration.rounds, texts, draft_length)
    if not configuration.scores:
        return None
    return inputs.position_blocks(configuration.scores, texts, configuration.draft)


def _sums(
    metrics: Sequence[str], blocks: inputs.Blocks, texts: Texts, loops: pa.Table, bin_width: int
) -> Found:
    """What the estimates need of every round or position, with one block of them in memory."""
    found: Found = {}
    for metric, subset in itertools.product(metrics, SUBSETS):
        own = PositionSums(texts, bin_width if subset in CURVES else None)
        # Of positions everything counts; of rounds the published columns hold more.
        found[metric, subset] = own, PositionSums(texts) if metric == "def1" else own
    for fill in (PositionSums.add, PositionSums.add_sides):
        for metric, pair in (item for block in blocks() for item in block.items()):
            for subset in SUBSETS:
                # Sums of which there is one, not two, are filled once.
                for into, seen in dict(zip(found[metric, subset], pair, strict=True)).items():
                    fill(into, _subset(seen, loops, subset))
    return found


def _subset(seen: Observations, loops: pa.Table, subset: str) -> Observations:
    return seen if subset == "all" else exclude_loops(seen, loops, _EXCLUDE[subset])
