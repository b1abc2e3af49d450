"""Remove the lock that a killed run left in this folder, unless a run is alive in it.

Snakemake locks its working folder and cannot tell a dead owner from a live one. Only this
machine's processes can be seen: on a file system shared with other machines, look there too and
use `snakemake --unlock` yourself.
"""

from __future__ import annotations

import argparse
import logging
import os
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
    for lock in locks:
        lock.unlink(missing_ok=True)
    log.info("removed the lock of a run that is no longer alive")


def runs_in(folder: Path) -> list[int]:
    """Processes of other Snakemake runs whose working folder this is."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            other = process.pid in ours or "snakemake" not in words or "python" not in words
            if not other and Path(process.cwd()) == folder:
                found.append(process.pid)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


if __name__ == "__main__":
    command(main)
