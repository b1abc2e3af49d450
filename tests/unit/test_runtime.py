"""What a job sets before torch is loaded is in force when it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
PREPARED = "from draftscope import runtime\nruntime.prepare(2)\n"


def spins(code: str, **more: str) -> str | None:
    """How long OpenMP says that waiting threads spin; None: it did not say."""
    environment = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **more}
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=SCRIPTS, env=environment, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    found = [line.split("'")[1] for line in told.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    return found[0] if found else None


def test_waiting_threads_give_up_their_core():
    usual = spins("import torch")  # of torch alone: what it lacks is not the fault of the runtime
    if usual is None:
        pytest.skip("torch of this machine runs on another OpenMP than GNU's, which does not say")
    assert usual != "10000" == spins(PREPARED + "import torch")
    assert spins(PREPARED + "import torch", GOMP_SPINCOUNT="77") == "77"  # who knows better
    assert spins("import torch\n" + PREPARED) == usual  # too late
