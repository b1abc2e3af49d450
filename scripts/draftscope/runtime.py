"""How a compute job uses its machine; call it before anything imports transformers."""

from __future__ import annotations

import os
import warnings


def prepare(threads: int) -> None:
    """Go offline, fix the number of CPU threads, and prefer deterministic kernels.

    The number of threads moves floating-point sums, so it is a setting and not what the machine
    happens to have. Where no deterministic kernel exists, the usual one runs.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Only uninitialised memory that is read would change a result, and none is.
    torch.utils.deterministic.fill_uninitialized_memory = False
    warnings.filterwarnings("ignore", message=".*does not have a deterministic implementation.*")
