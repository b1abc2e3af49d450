"""Bigrams counted in the target's own texts of training prompts: a draft without a model.

What proposes is a drafter; here it only gets a record, so that a pair can name it as it names a
model. The record names the target whose texts were counted, at its revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.errors import UserError
from draftscope.models.loaded import Weights

REQUIRED = {"target", "train"}
OPTIONAL: set[str] = set()


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Refuse: bigrams are counted by `scripts/count_bigrams.py`, in texts of their target."""
    raise UserError(f"model {name} is counted, not fetched: scripts/count_bigrams.py makes it")


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """There is nothing to load into a model."""
    return Weights(None, None, None)
