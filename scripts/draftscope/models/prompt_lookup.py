"""Prompt lookup: the draft without a model, known by its n-gram lengths alone.

The proposer itself, which continues the longest n-gram at the end of the text as it continued
before (Saxena 2023), is a drafter; here it only gets a record, so that a pair can name it as it
names a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.errors import UserError
from draftscope.models.loaded import Weights

REQUIRED = {"max_ngram", "min_ngram"}
OPTIONAL: set[str] = set()


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Record the longest and the shortest n-gram that is looked up.

    Raises:
        UserError: not 1 <= min_ngram <= max_ngram.
    """
    low, high = settings["min_ngram"], settings["max_ngram"]
    if not 1 <= low <= high:
        raise UserError(
            f"model {name}: min_ngram {low} and max_ngram {high} must be 1 <= min <= max"
        )
    return {
        "revision": f"prompt-lookup {low}-{high}",
        "max_ngram": high,
        "min_ngram": low,
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """There is nothing to load."""
    return Weights(None, None, None)
