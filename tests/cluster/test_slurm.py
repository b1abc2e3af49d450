"""The workflow on a real Slurm: the same tables, and nothing lost when something dies."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from draftscope import records
from slurm_cluster import PROFILE, finish, until

pytestmark = pytest.mark.cluster

ONE_SHARD = "results/tiny/trajectories/tiny/small/warm/0000.parquet"


def release(project):
    (project.folder / "hold").unlink()


def trajectories(project) -> dict[str, list[dict]]:
    """Every file of generated text: its rows, by path. Fails on a file that is not whole."""
    folder = project.folder / "results/tiny/trajectories"
    return {
        str(path.relative_to(folder)): records.read(path, "trajectories").to_pylist()
        for path in sorted(path for path in folder.rglob("*") if path.is_file())
    }


def test_a_run_survives_scancel_and_gives_the_tables_of_a_local_run(slurm, project, local, submit):
    shutil.rmtree(project.folder / "results")
    shutil.rmtree(project.folder / ".snakemake")
    process = submit(*PROFILE)
    held = slurm.held(project, 1)
    (cancelled,) = held
    assert re.search(r"gres[:/]gpu[:=]1\b", slurm.describe(cancelled))
    subprocess.run(["scancel", cancelled], check=True)
    release(project)
    printed = finish(project, process, 600)
    assert f"SLURM-job '{cancelled}' failed, SLURM status is: 'CANCELLED'" in printed
    done = slurm.jobs("COMPLETED").items()
    (again,) = (job for job, what in done if what == held[cancelled])
    assert [slurm.memory(job) for job in (cancelled, again)] == ["4000M", "8000M"]
    assert project.tables() == local.tables()
    assert len(project.tables()) > 4


def test_jobs_that_outlive_a_killed_run_and_the_same_jobs_again_do_no_harm(
    slurm, project, local, submit
):
    first = submit(*PROFILE, "trajectories")
    old = slurm.held(project, 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    answer = subprocess.run(
        [sys.executable, "scripts/clear_stale_lock.py"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert f"jobs of this folder ({', '.join(sorted(old, key=int))})" in answer.stderr
    assert answer.stderr.count("\n") == 1
    project.run("--unlock")
    second = submit(*PROFILE, "trajectories")
    both = slurm.held(project, 2)
    assert len(both) == 2 and set(both.values()) == set(old.values())
    release(project)
    finish(project, second, 600)
    until(lambda: not slurm.jobs("RUNNING", "COMPLETING"))
    assert trajectories(project) == trajectories(local)


def test_a_node_that_disappears_costs_time_only(slurm, project, local, submit):
    process = submit(*PROFILE, ONE_SHARD)
    (job,) = slurm.held(project, 1)
    # A node that is back within BatchStartTimeout and 10 s of a job's start counts as one that has
    # yet to start the job, and is not missed for minutes.
    until(lambda: slurm.age(job) > 13)
    slurm.do("node-down")
    slurm.do("node-up")
    release(project)
    finish(project, process, 600)
    assert "Restarts=1" in slurm.describe(job)
    assert trajectories(project) == trajectories(local)


def test_case_65_a_job_that_ends_well_without_its_output_is_made_again(
    slurm, project, local, tmp_path, monkeypatch
):
    release(project)
    # The first job that is submitted does nothing, and that well.
    real = shutil.which("sbatch")
    fake = tmp_path / "bin/sbatch"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/bash\n"
        f'mkdir lost 2>/dev/null || exec {real} "$@"\n'
        'for word; do case $word in --wrap*) word=--wrap=true ;; esac; words+=("$word"); done\n'
        f'exec {real} "${{words[@]}}"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    before = slurm.jobs("COMPLETED").keys()
    printed = project.run(*PROFILE, ONE_SHARD)
    assert len(slurm.jobs("COMPLETED").keys() - before) == 2
    assert "MissingOutputException" in printed and Path(ONE_SHARD).name in printed
    assert trajectories(project) == trajectories(local)
