"""One tiny Llama in transformers and in llama.cpp, and how tests read it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import tiny_gguf
import torch
from draftscope import models
from tiny import tiny_model_folder, tiny_tokenizer

needs_llama = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason="llama-cpp-python is not installed: run `make llama`",
)
IDS = torch.tensor([(i * 37) % 300 + 3 for i in range(130)])


def resolve_all(root: Path) -> Path:
    """Of one tiny Llama: transformers' folder, the GGUF file, and records of several kinds."""
    tokenizer = tiny_tokenizer(specials=("<s>", "<|endoftext|>", "<pad>"))
    tiny_model_folder(root / "source", tokenizer=tokenizer)
    path = tiny_gguf.write_gguf(root / "source", root / "tiny.gguf")
    base = models.resolve("base", tiny_gguf.row(path, ["x  10"], tokenizer), root / "base")
    copy = {"kind": "round_to_nearest", "base": "base", "bits": 4, "group_size": 16}
    models.resolve("copy", copy, root / "copy", base)
    return root


def load_all(folder: Path) -> dict[str, models.LoadedModel]:
    """Base and copy in transformers; f32, q8_0 and copy_f32 in llama.cpp."""
    for name, base, file_type in (
        ("f32", "base", None),
        ("q8_0", "base", "q8_0"),
        ("copy_f32", "copy", None),
    ):
        row = {"kind": "llama_cpp", "base": base, "file_type": file_type}
        models.resolve(name, row, folder / name, folder / base / "model.json")
    names = ("base", "copy", "f32", "q8_0", "copy_f32")
    return {name: models.load(folder / name / "model.json", "cpu") for name in names}


def in_parts(decoder, ids: torch.Tensor, size: int) -> torch.Tensor:
    """Logits of every position, read so many tokens at a time."""
    decoder.reset()
    return torch.cat([decoder.extend(part, len(part)) for part in ids.split(size)])
