"""A draft that was trained here to predict what its target predicts, on the target's own text.

Its weights lie beside its record. The record names the target at its revision: a draft learnt
from one target is a draft of another one too, but not the draft that was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import CONVERTED, folder_of
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import Weights, tokenizer_sha256
from draftscope.writing import whole_folder

REQUIRED = {"base", "train"}
OPTIONAL = {"layers", "target"}


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Refuse: a trained model is made by `scripts/train_draft.py`, from texts of its target."""
    raise UserError(f"model {name} is trained, not fetched: scripts/train_draft.py makes it")


def save(
    name: str, model: Any, tokenizer: Any, folder: Path, base: Mapping[str, Any], how: str
) -> dict[str, Any]:
    """Write the weights to `folder/weights`, whole or not at all; returns the record's part.

    Args:
        how: what was done to the base, for the revision.
    """
    final = Path(folder) / CONVERTED
    with whole_folder(final) as target:
        model.save_pretrained(target, max_shard_size="1000GB")
        tokenizer.save_pretrained(target)
        checkpoint.check(target, name)
    files = checkpoint.inventory(final)
    weights = files["model.safetensors"]["sha256"]
    return {
        "revision": f"{base['revision']} {how} sha256:{weights}",
        "trained_from": {"name": base["name"], "revision": base["revision"]},
        "tokenizer_sha256": tokenizer_sha256(tokenizer),
        "files": files,
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the trained checkpoint beside the record.

    Raises:
        UserError: a file is missing or has changed.
    """
    folder = folder_of(record)
    checkpoint.check_inventory(folder, record)
    return checkpoint.load(folder, record["name"], dtype, device, attention)
