"""Remove the lock that a killed run left in this folder, unless a run is alive in it.

Snakemake locks its working folder and cannot tell a dead owner from a live one. Seen are this
machine's processes and, where there is Slurm, your jobs of this folder: a killed run leaves them
alive. On a file system shared with other machines, look there too and use `snakemake --unlock`
yourself.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import shutil
import subprocess
from pathlib import Path

import psutil
from draftscope.errors import UserError, command

log = logging.getLogger(__name__)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    locks = list(Path(".snakemake/locks").glob("*.lock"))
    if not locks:
        return
    alive = runs_in(Path.cwd())
    if alive:
        raise UserError(
            f"another run is alive in this folder (process {', '.join(map(str, alive))}); "
            "wait for it, or stop it first"
        )
    jobs = slurm_jobs_of(Path.cwd())
    if jobs:
        raise UserError(
            f"Slurm still holds jobs of this folder ({', '.join(jobs)}): if a run is alive on "
            f"another machine, wait for it; if not, `scancel {' '.join(jobs)}` and try again, or "
            "let them end beside the next run after `snakemake --unlock`"
        )
    for lock in locks:
        lock.unlink(missing_ok=True)
    log.info("removed the lock of a run that is no longer alive")


def slurm_jobs_of(folder: Path) -> list[str]:
    """Ids of this user's Slurm jobs, waiting or running, that were submitted from this folder."""
    if shutil.which("squeue") is None:
        return []
    question = ["squeue", "--noheader", f"--user={getpass.getuser()}", "--format=%i|%Z"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("Slurm does not answer, so that jobs of a killed run cannot be seen: %s", error)
        return []
    lines = (line.strip().split("|", 1) for line in answer.stdout.splitlines() if "|" in line)
    return sorted((job for job, where in lines if Path(where) == folder), key=_job_number)


def _job_number(job: str) -> int:
    return int(job.split("_")[0])  # a job of an array is number_index


def runs_in(folder: Path) -> list[int]:
    """Processes of other Snakemake runs whose working folder this is.

    The Snakemake inside a job does not count: it takes no lock, and outlives a run that was killed.
    """
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            other = process.pid in ours or "snakemake" not in line or "python" not in line
            if not other and "--nolock" not in line and Path(process.cwd()) == folder:
                found.append(process.pid)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


if __name__ == "__main__":
    command(main)
