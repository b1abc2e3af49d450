"""What a job sets before torch is loaded is in force when it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SHOWN = "{first}\nfrom draftscope import runtime\nruntime.prepare(2)\nimport torch"


def spins(first: str = "", **more: str) -> str | None:
    """How long OpenMP says that waiting threads spin; None: it did not say."""
    environment = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **more}
    told = subprocess.run(
        [sys.executable, "-c", SHOWN.format(first=first)],
        cwd=SCRIPTS, env=environment, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    found = [line.split("'")[1] for line in told.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    return found[0] if found else None


def test_waiting_threads_give_up_their_core():
    told = spins()
    if told is None:
        pytest.skip("torch of this machine runs on another OpenMP than GNU's, which does not say")
    assert told == "10000"
    assert spins(GOMP_SPINCOUNT="77") == "77"  # who knows better is listened to
    assert int(spins("import torch")) != 10000  # too late
