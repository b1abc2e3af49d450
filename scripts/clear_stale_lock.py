"""Remove what a killed run left in this folder, unless a run is alive in it: locks, half files.

Snakemake locks its working folder and cannot tell a dead owner from a live one. Seen are this
machine's processes and, where there is Slurm, your jobs of this folder: a killed run leaves them
alive. On a file system shared with other machines, look there too and use `snakemake --unlock`
yourself. Half files have names of their own, which nothing reads; they only take room.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
from draftscope.errors import UserError, command
from draftscope.writing import UNFINISHED

log = logging.getLogger(__name__)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    locks = list(Path(".snakemake/locks").glob("*.lock"))
    unfinished = list(Path("results").rglob(f".*{UNFINISHED}"))
    if not locks and not unfinished:
        return
    alive = runs_in(Path.cwd())
    if locks and alive:
        raise UserError(
            f"another run is alive in this folder (process {', '.join(map(str, alive))}); "
            "wait for it, or stop it first"
        )
    workers, jobs = workers_in(Path.cwd()), slurm_jobs_of(Path.cwd())
    if not locks and (alive or workers or jobs):
        return  # the files may be theirs, and nothing is in the way of another run
    if jobs:
        raise UserError(
            f"Slurm still holds jobs of this folder ({', '.join(jobs)}): if a run is alive on "
            f"another machine, wait for it; if not, `scancel {' '.join(jobs)}` and try again, or "
            "let them end beside the next run after `snakemake --unlock`"
        )
    if workers:
        raise UserError(
            f"jobs of a run that was killed are still at work in this folder (process "
            f"{', '.join(map(str, workers))}): wait for them, or end them (`kill "
            f"{' '.join(map(str, workers))}`) and try again, or let them end beside the next run "
            "after `snakemake --unlock`"
        )
    for path in (*locks, *unfinished):
        path.unlink(missing_ok=True)
    if locks:
        log.info("removed the lock of a run that is no longer alive")
    if unfinished:
        log.info("removed %d files that were never finished", len(unfinished))


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
    return [
        pid
        for pid, words in pythons_in(folder)
        if "snakemake" in " ".join(words) and "--nolock" not in words
    ]


def workers_in(folder: Path) -> list[int]:
    """Processes of the project's scripts whose working folder this is: the jobs of a run."""
    return [
        pid
        for pid, words in pythons_in(folder)
        if any(Path(word).parts[:1] == ("scripts",) and word.endswith(".py") for word in words[1:3])
    ]


def pythons_in(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Other Python processes whose working folder this is, with their command lines."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            other = process.pid not in ours and "python" in " ".join(words[:1])
            if other and Path(process.cwd()) == folder:
                yield process.pid, words
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue


if __name__ == "__main__":
    command(main)
