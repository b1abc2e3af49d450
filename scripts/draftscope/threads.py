"""How the threads of one job wait for each other."""

from __future__ import annotations

import os


def share_cores() -> None:
    """Let waiting threads give up their core after a moment; call it before torch is imported.

    By default they spin. Where anything else runs on the machine, a spinning thread keeps the
    core from the very thread it waits for, and a step of a small model takes ten times as long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
