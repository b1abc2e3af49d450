"""Load tiny models from their folders, and prompts from ids."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from draftscope import models


def load_tiny(folder: Path, name: str = "tiny", dtype: str = "float32") -> models.LoadedModel:
    """A model saved by `tiny.tiny_model_folder`, on the CPU."""
    settings = {"kind": "local", "path": str(folder)}
    return models.load(models.resolve(name, settings, folder / "record"), "cpu", dtype)


def rendered(*token_ids: int) -> SimpleNamespace:
    """A rendered prompt of these ids."""
    return SimpleNamespace(token_ids=list(token_ids), text="", sha256="0" * 64)
