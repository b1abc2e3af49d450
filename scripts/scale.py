"""Measure how time and memory of the analysis grow with the size of a run, and of the plan.

Each size is a synthetic run that is written, analysed step by step and removed; each plan is a
generated experiment of so many jobs that `snakemake -n` reads. Sizes and plans that the output
holds already and that are not measured now stay in it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from draftscope.errors import UserError, command

PLANS = {10_000: "TEN_THOUSAND", 50_000: "FIFTY_THOUSAND"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prompts",
        type=int,
        nargs="*",
        default=[56, 500, 5000],
        help="prompts of each size; 500 are 1.78 million rounds",
    )
    parser.add_argument("--jobs", type=int, nargs="*", default=list(PLANS), choices=list(PLANS))
    parser.add_argument("--folder", type=Path, help="where the runs are written (a few GB)")
    parser.add_argument("--output", type=Path, required=True, help="JSON to write")
    arguments = parser.parse_args()
    if wrong := [count for count in arguments.prompts if count < 2]:
        raise UserError(f"--prompts {wrong[0]}: a run has at least 2")

    from draftscope import records
    from draftscope.machine import describe
    from draftscope.scale import plan, points

    found = json.loads(arguments.output.read_text("utf-8")) if arguments.output.exists() else {}
    analyses = {row["prompts"]: row for row in found.get("analysis", [])}
    plans = {row["asked"]: row for row in found.get("plan", [])}
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        for prompts in arguments.prompts:
            busy = _load()
            row = points.analysis(prompts, Path(scratch) / str(prompts))
            analyses[prompts] = {"prompts": prompts, **row, **busy, "machine": describe()}
            _print(f"{row['rounds']:,} rounds", row)
            _write(records, arguments.output, analyses, plans)
        for asked in arguments.jobs:
            busy = _load()
            row = points.planning(getattr(plan, PLANS[asked]), Path(scratch) / f"plan{asked}", root)
            plans[asked] = {"asked": asked, **row, **busy, "machine": describe()}
            _print(f"plan of {row['jobs']:,} jobs", row)
            _write(records, arguments.output, analyses, plans)


def _load() -> dict:
    """How busy the machine is before a measurement."""
    return {"load_before": round(os.getloadavg()[0], 2)}


def _print(what: str, row: dict) -> None:
    cost = f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} s of CPU, {row['peak_gib']:.2f} GiB"
    print(f"{what}: {cost}", flush=True)


def _write(records, path: Path, analyses: dict, plans: dict) -> None:
    rows = {"analysis": analyses, "plan": plans}
    records.write_json(path, {name: [own[k] for k in sorted(own)] for name, own in rows.items()})


if __name__ == "__main__":
    command(main)
