"""A real Slurm of one node, as the tests see it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tiny_project import Project

STARTER = Path(__file__).parent / "cluster/start-slurm.sh"
# The profile as it is, but asking for news every second, on a file system that does not lag.
PROFILE = (
    *("--workflow-profile", "workflow/profiles/slurm"),
    *("--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"),
    *("--max-status-checks-per-second", "10", "--latency-wait", "5"),
)


@dataclass(frozen=True)
class Slurm:
    """The cluster; all its jobs are ours."""

    folder: Path

    def start(self) -> str | None:
        """Why there can be no Slurm on this machine; None, and it runs.

        It ends with this process at the latest, even if that is killed.
        """
        answer = self._ask("start", str(os.getpid()))
        if answer.returncode == 3:
            return answer.stderr.strip()
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return None

    def do(self, action: str) -> None:
        answer = self._ask(action)
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def _ask(self, action: str, *more: str) -> subprocess.CompletedProcess:
        command = [str(STARTER), action, str(self.folder), *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def jobs(self, *states: str) -> dict[str, str]:
        """Jobs in one of these states: id -> the rule and wildcards that Snakemake noted."""
        lines = ask("squeue", "--noheader", "--format=%i|%k", f"--states={','.join(states)}")
        return dict(line.strip().split("|", 1) for line in lines.splitlines())

    def describe(self, job: str) -> str:
        """All that Slurm knows of a job."""
        return ask("scontrol", "show", "job", job)

    def memory(self, job: str) -> str:
        """What a job asked for."""
        return ask("squeue", "--noheader", "--states=all", "--format=%m", f"--jobs={job}").strip()

    def age(self, job: str) -> float:
        """Seconds since a job that runs was started."""
        started = re.search(r"StartTime=(\S+)", self.describe(job))[1]
        return (datetime.now() - datetime.fromisoformat(started)).total_seconds()

    def held(self, project: Project, count: int) -> dict[str, str]:
        """The running jobs, once `count` of them have come as far as to be held up."""
        until(lambda: len(list(project.folder.glob("hold.*"))) >= count)
        return self.jobs("RUNNING")


def ask(*command: str) -> str:
    """What a command of Slurm prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def until(condition: Callable[[], object], seconds: float = 240):
    """What the condition gives, once that is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
    return value


def finish(project: Project, process: subprocess.Popen, seconds: float) -> str:
    """Wait for a run that must end well; what Snakemake logged."""
    try:
        status = process.wait(seconds)
    finally:
        log = max(
            (project.folder / ".snakemake/log").glob("*.log"), key=lambda p: p.stat().st_mtime
        )
        printed = log.read_text(encoding="utf-8")
    assert status == 0, printed[-6000:]
    return printed
