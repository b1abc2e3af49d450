"""The analysis of a synthetic run, as the workflow runs it, step by step and measured."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from draftscope import records
from draftscope.scale.meter import LIBRARY, Cost, measure
from draftscope.scale.run import DOMAIN, TARGET, Configuration
from draftscope.scale.synthetic import TEMPERATURES

STATISTICS = ("paired", "pooled", "curves", "quintiles", "halves")
RESAMPLING = {"confidence": 0.95, "resamples": 10_000, "method": "studentized"}
COST_RATIO = 0.2


@dataclass(frozen=True)
class Step:
    """A script of the workflow with its arguments."""

    name: str
    command: list[str]


def steps(
    configurations: Sequence[Configuration], folder: Path, draft_length: int = 5, seed: int = 0
) -> list[Step]:
    """Statistics, tables and figures: every step that reads rounds, and those that draw from it.

    The settings are those of the published position study.

    Args:
        folder: for statistics, exhibits and the settings of each step.
    """
    statistics = {name: folder / "statistics" / f"{name}.parquet" for name in STATISTICS}
    measured = [option for name in STATISTICS for option in (f"--{name}", statistics[name])]
    rounds = ["--rounds", *(each.rounds for each in configurations)]
    loops = ["--loops", *(each.loops for each in configurations)]
    where = {"domain": DOMAIN, "target": TARGET}
    named = [where | {"pair": each.pair, "mode": each.mode} for each in configurations]
    drafts = [row | {"draft": row["pair"]} for row in named]
    position = [
        {key: row[key] for key in ("pair", "draft", "domain", "mode")}
        | {
            "label": each.draft.label,
            "temperature": TEMPERATURES[each.mode],
            "score_shards": len(each.scores),
        }
        for row, each in zip(drafts, configurations, strict=True)
    ]
    chosen = {"cost_ratios": {each.pair: COST_RATIO for each in configurations}}
    drawn = {"draft_length": draft_length, "bin_width": 500, "support_prompts": 25}
    return [
        _step(
            folder,
            "position_statistics",
            {"configurations": position, "seed": seed, **drawn, **RESAMPLING},
            [
                *rounds,
                *loops,
                "--scores",
                *(path for each in configurations for path in each.scores),
            ],
            measured,
        ),
        _step(
            folder,
            "position_exhibits",
            None,
            measured,
            ["--folder", folder / "exhibits/position"],
        ),
        _step(
            folder,
            "acceptance_measures",
            {"configurations": named},
            rounds,
            ["--output", folder / "statistics/measures.parquet"],
            ["--folder", folder / "exhibits/measures"],
        ),
        _step(
            folder,
            "draft_choice",
            {"candidates": drafts, "seed": seed, **chosen, **RESAMPLING},
            ["--expected", *(each.expected for each in configurations), *loops],
            ["--output", folder / "statistics/choice.parquet"],
            ["--folder", folder / "exhibits/choice"],
        ),
    ]


def _step(
    folder: Path, script: str, settings: dict[str, Any] | None, *arguments: Iterable[Any]
) -> Step:
    command = [sys.executable, str(LIBRARY / f"{script}.py")]
    if settings is not None:
        path = folder / "settings" / f"{script}.json"
        records.write_json(path, settings)
        command += ["--settings", str(path)]
    return Step(script, command + [str(value) for some in arguments for value in some])


def run(todo: Sequence[Step]) -> dict[str, Cost]:
    """Run the steps one after another; what each cost."""
    return {step.name: measure(step.command) for step in todo}


def row(configurations: Sequence[Configuration], costs: dict[str, Cost]) -> dict[str, Any]:
    """One point of the curve: how large the run is, and seconds and GiB of its analysis."""
    trajectories, rounds, _ = map(sum, zip(*(each.counts for each in configurations), strict=True))
    modes = {each.mode: each.counts[2] for each in configurations}
    return {
        "trajectories": trajectories,
        "rounds": rounds,
        "positions": sum(modes.values()),
        "wall_s": round(sum(cost.wall_s for cost in costs.values()), 2),
        "cpu_s": round(sum(cost.cpu_s for cost in costs.values()), 2),
        "peak_gib": round(max(cost.peak_gib for cost in costs.values()), 3),
        "steps": {
            name: {key: round(value, 3) for key, value in asdict(cost).items() if key != "printed"}
            for name, cost in costs.items()
        },
    }
