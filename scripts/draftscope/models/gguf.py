"""A GGUF file on this machine, converted once to safetensors in float32.

GGUF stores blocks of low-bit integers; transformers dequantizes them. The converted model
computes in the data type of the run, with the values the quantized file holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import CONVERTED, folder_of, load_tokenizer
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.loaded import Weights, tokenizer_sha256
from draftscope.writing import whole_folder

REQUIRED = {"path", "sha256", "tokenizer_probes"}
OPTIONAL: set[str] = set()


def resolve(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Verify and convert the file; see `convert`."""
    path = Path(settings["path"])
    if not path.is_file():
        raise UserError(f"model {name}: GGUF file {path} does not exist")
    record = convert(name, path, settings, folder)
    return record | {"path": settings["path"], "sha256": settings["sha256"]}


def original(record: Mapping[str, Any], folder: Path) -> Path:
    """The GGUF file that a record was made from, for an engine that runs it as it is.

    Args:
        folder: where it may be put, if it has to be fetched again.

    Raises:
        UserError: the file is gone or has changed.
    """
    path = Path(record["path"])
    if not path.is_file():
        raise UserError(f"model {record['name']}: GGUF file {path} does not exist")
    verify(record["name"], path, record)
    return path


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the converted checkpoint beside the record."""
    folder = folder_of(record)
    checkpoint.check_inventory(folder, record)
    weights = checkpoint.load(folder, record["name"], dtype, device, attention)
    return Weights(weights.model, weights.tokenizer, record["quantization"])


def convert(name: str, path: Path, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Convert a GGUF file to `folder/weights`, whole or not at all; returns the record.

    Args:
        settings: `sha256` the file must have; `tokenizer_probes`, texts and the ids that the
            converted tokenizer must encode them as.

    Raises:
        UserError: the file is truncated or another one, or a probe disagrees.
    """
    verify(name, path, settings)
    final = folder / CONVERTED
    with whole_folder(final) as target:
        quantization = _write_checkpoint(path, target)
        tokenizer = load_tokenizer(target)
        check_probes(name, tokenizer, settings["tokenizer_probes"])
    return {
        "revision": f"sha256:{settings['sha256']}",
        "quantization": quantization,
        "tokenizer_sha256": tokenizer_sha256(tokenizer),
        "files": checkpoint.inventory(final),
    }


def verify(name: str, path: Path, settings: Mapping[str, Any]) -> None:
    """Compare the checksum of a file with the registry's.

    Raises:
        UserError: names the file, what was expected and what was found.
    """
    found = checkpoint.file_sha256(path)
    if found != settings["sha256"]:
        raise UserError(
            f"model {name}: {path.name} has {path.stat().st_size} bytes and SHA-256 {found}, "
            f"expected {settings['sha256']}"
        )


def check_probes(name: str, tokenizer: Any, probes: Mapping[str, list[int]]) -> None:
    """Check that a tokenizer encodes each probe text as the registry says.

    Raises:
        UserError: no probe at all, or one that disagrees (text, ids found, ids expected).
    """
    if not probes:
        raise UserError(
            f"model {name}: give at least one of tokenizer_probes, a text with the ids of the "
            "original tokenizer; conversions of tokenizers go wrong silently"
        )
    for text, expected in probes.items():
        found = list(tokenizer.encode(text, add_special_tokens=False))
        if found != list(expected):
            raise UserError(
                f"model {name}: the converted tokenizer encodes {text!r} as {found}, "
                f"expected {list(expected)}"
            )


def _write_checkpoint(path: Path, target: Path) -> str:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    metadata = _metadata(path)
    options = {"gguf_file": path.name, "local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **options)
    _restore_pre_tokenizer(tokenizer, metadata["tokenizer.ggml.pre"])
    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **options)
    # The weights are plain float32 now; a quantization configuration left in place would make
    # `save_pretrained` ask the GGUF quantizer for its format.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return f"{metadata['general.file_type']}, dequantized"


def _restore_pre_tokenizer(tokenizer: Any, name: str) -> None:
    """Put back the digit splitting that the conversion drops.

    A GGUF file names its pre-tokenizer; transformers converts the vocabulary and merges but
    not that name. "smollm" isolates every digit before the byte-level split, which decides,
    for instance, whether two spaces before a digit are one token or two.
    """
    from tokenizers import pre_tokenizers

    if name == "smollm":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )


def _metadata(path: Path) -> dict[str, str]:
    from gguf import GGUFReader, LlamaFileType

    fields = GGUFReader(path).fields
    pre, kind = fields.get("tokenizer.ggml.pre"), fields.get("general.file_type")
    quantization = LlamaFileType(kind.contents()).name if kind else "unknown"
    return {
        "tokenizer.ggml.pre": pre.contents() if pre else "",
        "general.file_type": quantization.removeprefix("MOSTLY_"),
    }
