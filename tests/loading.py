"""Load tiny models and wrap hand-made logits as the library's `LoadedModel`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from draftscope.models.loaded import LoadedModel, Weights, assemble


def load_tiny(folder: Path, name: str = "tiny", dtype: torch.dtype = torch.float32) -> LoadedModel:
    """A model saved by `tiny.tiny_model_folder`, on the CPU."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    weights = Weights(model, AutoTokenizer.from_pretrained(folder), None)
    record = {"name": name, "kind": "local", "revision": "0"}
    return assemble(record, weights, torch.device("cpu"), "sdpa")


def rendered(*token_ids: int) -> SimpleNamespace:
    """A rendered prompt of these ids."""
    return SimpleNamespace(token_ids=list(token_ids), text="", sha256="0" * 64)
