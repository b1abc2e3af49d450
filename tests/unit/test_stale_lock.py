"""The lock of a killed run: removed, unless something may still be alive in the folder."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/clear_stale_lock.py"


@pytest.fixture
def clear(tmp_path):
    """Run the script in a locked folder, with a Slurm that answers as told."""
    folder = tmp_path / "a run"
    lock = folder / ".snakemake/locks/0.input.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    squeue = tmp_path / "bin/squeue"
    squeue.parent.mkdir()

    def run(answer: str) -> tuple[subprocess.CompletedProcess, bool]:
        squeue.write_text(f"#!/bin/sh\n{answer}\n")
        squeue.chmod(0o755)
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            cwd=folder,
            env=os.environ | {"PATH": f"{squeue.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done, lock.exists()

    return run


def test_case_64_jobs_of_this_folder_in_slurm_keep_the_lock(clear, tmp_path):
    done, locked = clear(f"echo '71|/elsewhere'; echo '72|{tmp_path}/a run'")
    assert locked and done.returncode == 2
    assert done.stderr.startswith("error: Slurm still holds jobs of this folder (72)")
    assert "scancel 72" in done.stderr and done.stderr.count("\n") == 1


def test_case_64_a_lock_without_any_run_is_removed(clear):
    done, locked = clear("echo '71|/elsewhere'")
    assert not locked and done.returncode == 0, done.stderr


def test_case_63_a_job_that_outlives_its_run_keeps_the_lock(clear, tmp_path):
    script = tmp_path / "a run/scripts/generate.py"
    script.parent.mkdir()
    script.write_text("import time; print(flush=True); time.sleep(60)")
    command = [sys.executable, "scripts/generate.py", "--output", "x"]
    with subprocess.Popen(command, cwd=tmp_path / "a run", stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        done, locked = clear("true")
        process.kill()
    assert locked and done.returncode == 2
    assert f"at work in this folder (process {process.pid}): wait for them, or end" in done.stderr
    assert f"`kill {process.pid}`" in done.stderr and done.stderr.count("\n") == 1


def test_case_63_half_files_go_with_the_lock_and_without_it_but_not_from_under_a_job(
    clear, tmp_path
):
    half = tmp_path / "a run/results/tiny/rounds/.cold.parquet.abcd1234.part"
    whole = half.with_name("cold.parquet")
    half.parent.mkdir(parents=True)
    whole.touch()
    for answer, left in ((f"echo '72|{tmp_path}/a run'", True), ("true", False)):
        half.touch()
        clear(answer)
        assert half.exists() == left
    half.touch()  # and now there is no lock
    done, _ = clear(f"echo '72|{tmp_path}/a run'")
    assert half.exists() and done.returncode == 0 and not done.stderr
    done, _ = clear("true")
    assert not half.exists() and "removed 1 files that were never finished" in done.stderr
    assert whole.exists()


def test_case_64_a_slurm_that_does_not_answer_is_said_and_is_no_obstacle(clear):
    done, locked = clear("exit 1")
    assert not locked and done.returncode == 0
    assert "Slurm does not answer" in done.stderr


def test_case_64_the_snakemake_inside_a_job_is_no_run(clear, tmp_path):
    program = ["-c", "import time; print(flush=True); time.sleep(60)", "snakemake"]
    run = [sys.executable, *program]
    job = ["sh", "-c", f"{shlex.join([*run, '--nolock'])}; true"]
    for command, expected in ((run, True), (job, False)):
        with subprocess.Popen(command, cwd=tmp_path / "a run", stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            done, locked = clear("true")
            for child in psutil.Process(process.pid).children():
                child.kill()
            process.kill()
        assert locked == expected, done.stderr
