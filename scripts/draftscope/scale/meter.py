"""Run a command and say what it cost: seconds, CPU seconds, and the memory it held at its peak.

As a program (`python -m draftscope.scale.meter FILE COMMAND...`) it writes its answer to FILE. It
is the small process that starts the command: a child's peak is counted from before its program
begins, when it is still a copy of whoever started it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[2]
_KILOBYTE = 1 if sys.platform == "darwin" else 1024  # unit of ru_maxrss in bytes
_GIB = 1 << 30


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, seconds of CPU (children included), and GiB of the largest process."""

    wall_s: float
    cpu_s: float
    peak_gib: float
    printed: str = ""


class CommandFailed(Exception):
    """The command ended with another status than 0; the message is what it printed last."""


def measure(command: Sequence[str], folder: str | Path | None = None) -> Cost:
    """Run a command, in `folder`, and return what it cost and printed.

    Raises:
        CommandFailed: it did not end well.
    """
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "cost.json"
        paths = [str(LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(answer), *map(str, command)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"{' '.join(map(str, command))[:300]}\n{done.stdout[-3000:]}")
        return Cost(**json.loads(answer.read_text(encoding="utf-8")), printed=done.stdout)


def main() -> None:
    answer, *command = sys.argv[1:]
    start = time.perf_counter()
    status = subprocess.run(command, check=False).returncode
    wall = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {
        "wall_s": wall,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_gib": used.ru_maxrss * _KILOBYTE / _GIB,
    }
    Path(answer).write_text(json.dumps(cost), encoding="utf-8")
    sys.exit(status)


if __name__ == "__main__":
    main()
