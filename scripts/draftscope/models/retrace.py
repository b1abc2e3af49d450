"""A DFlash drafter with a ReTrace memory, trained here together and kept whole, beside its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from draftscope.drafters.dflash import DFlash
from draftscope.drafters.retrace import PART, VARIANTS, ReTrace
from draftscope.models import dflash
from draftscope.models.dflash import assemble, resolve
from draftscope.models.loaded import LoadedModel, Weights

if TYPE_CHECKING:
    import numpy as np

__all__ = ["OPTIONAL", "REQUIRED", "assemble", "load_weights", "resolve", "save"]

REQUIRED = {"target", "base", "variant", "train"}
OPTIONAL = {"loss"}


def save(
    name: str,
    network: DFlash,
    memory: ReTrace,
    vocabulary: np.ndarray | Sequence[int],
    folder: Path,
    target: LoadedModel,
    base: Mapping[str, Any],
    how: str,
) -> dict[str, Any]:
    """Write drafter and memory to `folder/weights`; returns the record's part.

    Args:
        base: record of the DFlash drafter that training started from.
        Others as `dflash.save`.
    """
    started = {"name": base["name"], "revision": base["revision"]}
    more = {"trained_from": started, "variant": memory.variant}
    return dflash.save(name, network, vocabulary, folder, target, how, {PART: memory}, more)


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load drafter and memory beside the record; errors as those of kind dflash."""
    variant = record["variant"]
    if variant not in VARIANTS:
        raise dflash.damaged(record, f"the record's variant {variant} is none of {VARIANTS}")
    with torch.device("meta"):
        memory = ReTrace(record["shape"]["width"], variant)
    return Weights(dflash.load_network(record, dtype, {PART: memory}), None, None)
