"""How a compute job uses its machine; call it before anything imports torch or transformers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import warnings

from draftscope import devices

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def prepare(threads: int) -> None:
    """Go offline, claim GPUs, fix number and manners of CPU threads, prefer deterministic kernels.

    The number of threads moves floating-point sums, so it is a setting and not what the machine
    happens to have. Where no deterministic kernel exists, the usual one runs.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # By default a thread that waits for another spins. Where anything else runs on the machine, it
    # keeps the core from the very thread it waits for, and a step takes many times as long; so
    # threads give their core up after a moment. Read once, when torch loads OpenMP.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    keep_freed_memory()
    claim_gpus()
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Only uninitialised memory that is read would change a result, and none is.
    torch.utils.deterministic.fill_uninitialized_memory = False
    warnings.filterwarnings("ignore", message=".*does not have a deterministic implementation.*")


def claim_gpus() -> None:
    """Take the GPUs that the rule was given, which it says in DRAFTSCOPE_GPUS."""
    devices.claim(int(os.environ.get("DRAFTSCOPE_GPUS", "0")))


def keep_freed_memory() -> bool:
    """Let the C library reuse freed blocks instead of handing them back; true if it can.

    Every step makes and frees blocks of [rows, vocabulary] floats, megabytes each. By default
    glibc maps each of them anew, and on a CPU the page faults cost more than the arithmetic: a
    draw from 16 laws of 49k tokens took ten times as long.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        # 32 MiB is the highest threshold that glibc takes.
        return bool(mallopt(_M_MMAP_THRESHOLD, 32 << 20) and mallopt(_M_TRIM_THRESHOLD, 1 << 30))
    return False
