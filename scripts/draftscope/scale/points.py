"""Points of the curve: what a run of a given size costs to analyse, and a plan of given jobs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from draftscope.scale import plan, run, study
from draftscope.scale.synthetic import Size


def analysis(prompts: int, folder: Path) -> dict[str, Any]:
    """Write a synthetic run of so many prompts, analyse it, and remove it.

    Returns:
        trajectories, rounds, positions; wall_s and cpu_s of all steps together, peak_gib of the
        largest process, and `steps` with those of each.
    """
    try:
        written = run.write(folder / "run", Size(prompts))
        costs = study.run(study.steps(written, folder / "analysis"))
        return study.row(written, costs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def planning(size: plan.Plan, folder: Path, root: Path) -> dict[str, Any]:
    """Plan an experiment with the project's workflow.

    Returns:
        jobs, wall_s, cpu_s, peak_gib.

    Raises:
        RuntimeError: Snakemake planned fewer jobs than the experiment has.
    """
    cost, jobs = plan.dry_run(plan.write(size, folder), root)
    planned = {rule: jobs.get(rule, 0) for rule in size.jobs}
    if any(planned[rule] < count for rule, count in size.jobs.items()):
        raise RuntimeError(f"planned {planned}, expected {size.jobs}")
    return {
        "jobs": jobs["total"],
        "wall_s": round(cost.wall_s, 2),
        "cpu_s": round(cost.cpu_s, 2),
        "peak_gib": round(cost.peak_gib, 3),
    }
