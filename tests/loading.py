"""Load tiny models from their folders, and prompts from ids."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from draftscope import models
from tiny import tiny_model_folder


def load_tiny(
    folder: Path, name: str = "tiny", dtype: str = "float32", attention: str = "sdpa"
) -> models.LoadedModel:
    """A model saved by `tiny.tiny_model_folder`, on the CPU."""
    settings = {"kind": "local", "path": str(folder)}
    record = models.resolve(name, settings, folder / "record")
    return models.load(record, "cpu", dtype, attention)


def disturbed(
    folder: Path, name: str = "draft", noise: float = 0.1, **settings
) -> models.LoadedModel:
    """A tiny model with other weights: its greedy tokens are often the first's, not always.

    Args:
        noise: standard deviation of what is added, in standard deviations of each weight.
        settings: of `tiny.tiny_model_folder`.
    """
    other = load_tiny(tiny_model_folder(folder, **settings), name)
    generator = torch.Generator().manual_seed(3)
    for weight in other.model.parameters():
        step = torch.randn(weight.shape, generator=generator)
        weight.data += noise * weight.std().nan_to_num() * step
    return other


def rendered(*token_ids: int) -> SimpleNamespace:
    """A rendered prompt of these ids."""
    return SimpleNamespace(token_ids=list(token_ids), text="", sha256="0" * 64)
