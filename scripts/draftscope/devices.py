"""One job, one GPU: how jobs that share a machine divide its devices.

Snakemake counts GPUs but does not say which is whose, and every process of a machine starts on the
first it sees. A job therefore takes a lock on each device that it uses; the system releases it with
the process, however that ends. A scheduler that hands out devices by itself leaves nothing to
choose, and nothing is locked.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import time
from pathlib import Path

log = logging.getLogger(__name__)

# Files that stay open, and so locked, until this process ends.
_held: list[int] = []


def visible_devices(devices: Path = Path("/dev")) -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    Without that variable, the indices of all devices that the NVIDIA driver shows; CUDA itself must
    not be asked, since it reads the variable once and for all.
    """
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None:
        return [name for name in told.replace(" ", "").split(",") if name]
    nodes = [path for path in devices.glob("nvidia*") if path.name[len("nvidia") :].isdigit()]
    return [str(index) for index in range(len(nodes))]


def claim(
    count: int, visible: list[str] | None = None, folder: Path | None = None, wait_s: float = 1.0
) -> list[str]:
    """Reserve `count` GPUs for the rest of this process, waiting for them if need be.

    Call it before CUDA is used. Sets CUDA_VISIBLE_DEVICES where there was a choice.

    Args:
        count: GPUs that the job was given; 0 claims none.
        visible: the devices to choose from; `visible_devices()` if not given.
        folder: of the lock files, on this machine and not on a shared file system. Only the jobs of
            one user see each other.
        wait_s: seconds between attempts.

    Returns:
        The devices claimed; all the visible ones, unlocked, where they are not more than `count`.
    """
    visible = visible_devices() if visible is None else visible
    if count < 1 or len(visible) <= count:
        return visible
    folder = folder or Path(tempfile.gettempdir()) / f"draftscope-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = False
    while True:
        # One job chooses at a time: two that each hold half of what they need would wait for ever.
        with open(folder / "choosing.lock", "w") as choosing:
            fcntl.flock(choosing, fcntl.LOCK_EX)
            locks = {name: _lock(folder / f"{name}.lock") for name in visible}
            free = {name: lock for name, lock in locks.items() if lock is not None}
            mine = list(free)[:count]
            for name, lock in free.items():
                if len(mine) == count and name in mine:
                    _held.append(lock)
                else:
                    os.close(lock)
        if len(mine) == count:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
            log.info("this job uses GPU %s of %s", ",".join(mine), ",".join(visible))
            return mine
        if not told:
            log.info("waiting: %d of %d GPUs free, %d needed", len(mine), len(visible), count)
            told = True
        time.sleep(wait_s)


def _lock(path: Path) -> int | None:
    """The open, locked file; None if another process holds it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
