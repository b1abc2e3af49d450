"""A checkpoint in a folder on this machine; its revision is the hash of its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import folder_of, load_tokenizer
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import Weights, tokenizer_sha256

REQUIRED = {"path"}
OPTIONAL: set[str] = set()


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Check the folder and hash its files.

    Raises:
        UserError: a file is missing, or the weights are pickles.
    """
    path = Path(settings["path"])
    checkpoint.check(path, name)
    files = checkpoint.inventory(path)
    content = checkpoint.digest(f"{file} {entry['sha256']}" for file, entry in files.items())
    return {
        "path": str(settings["path"]),
        "revision": f"sha256:{content}",
        "tokenizer_sha256": tokenizer_sha256(load_tokenizer(path)),
        "files": files,
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load from the recorded path.

    Raises:
        UserError: a file is missing, new or has changed since it was resolved.
    """
    path = folder_of(record)
    checkpoint.check_inventory(path, record)
    return checkpoint.load(path, record["name"], dtype, device, attention)
