"""The machine that a measurement was made on, in words."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe(device: str = "cpu", threads: int | None = None) -> str:
    """Processor, cores, threads and device.

    Args:
        threads: of the measured work; None where each process has its own number.
    """
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    parts = [name, f"{os.cpu_count()} cores"]
    if threads is not None:
        parts.append(f"{threads} threads")
    return ", ".join([*parts, device])
