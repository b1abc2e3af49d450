"""Load a checkpoint from a folder: safetensors, tokenizer and configuration, never code."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope import extras
from draftscope.checkpoints import load_tokenizer, local_files
from draftscope.errors import UserError
from draftscope.models import gptq_kernels
from draftscope.models.loaded import Weights

PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_INDEX = "model.safetensors.index.json"
_READ = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")


def check(folder: Path, name: str) -> None:
    """Check that a folder holds a loadable checkpoint, before any of it is read.

    generation_config.json may be missing: the end-of-text ids then come from config.json and
    the tokenizer.

    Raises:
        UserError: names the file that is missing or damaged, or what cannot be loaded.
    """
    if not folder.is_dir():
        raise UserError(f"model {name}: folder {folder} does not exist")
    if not (folder / "config.json").is_file():
        raise UserError(f"model {name}: {folder} lacks config.json")
    _check_weights(folder, name)
    if not any(
        (folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model")
    ) and not ((folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()):
        raise UserError(f"model {name}: {folder} lacks tokenizer.json")
    for file in _READ:
        if (folder / file).is_file():
            _object(folder / file, name)
    config = _object(folder / "config.json", name)
    _check_architecture(config, name)
    _check_backend(config, name)


def _object(path: Path, name: str) -> dict[str, Any]:
    """The JSON object in a file; libraries that read it would not say which file they choke on."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"model {name}: {path} is damaged, not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise UserError(
            f"model {name}: {path} holds no JSON object, but a {type(found).__name__}; fetch it again"
        )
    return found


def _check_weights(folder: Path, name: str) -> None:
    index = folder / _INDEX
    if index.is_file():
        shards = set((_object(index, name).get("weight_map") or {}).values())
        missing = sorted(shard for shard in shards if not (folder / shard).is_file())
        if missing:
            raise UserError(f"model {name}: {folder} lacks {missing[0]}, named in {index.name}")
    elif not list(folder.glob("*.safetensors")):
        pickles = sorted(file.name for file in folder.iterdir() if file.suffix in PICKLES)
        if pickles:
            raise UserError(
                f"model {name}: the weights in {folder} are pickle files ({pickles[0]}), which can "
                "run code; convert them to safetensors"
            )
        raise UserError(f"model {name}: {folder} lacks model.safetensors")

    _check_headers(folder, name)


def _check_headers(folder: Path, name: str) -> None:
    """Open every weight file: its header must cover the file, so a truncated one shows."""
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise UserError(
                f"model {name}: {file} ({file.stat().st_size} bytes) is truncated or damaged: {error}"
            ) from error


def _check_architecture(config: Mapping[str, Any], name: str) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = config.get("model_type", "")
    if kind not in CONFIG_MAPPING:
        raise UserError(
            f"model {name}: transformers has no architecture {kind!r}; models that need code of "
            "their own are not run"
        )


def _check_backend(config: Mapping[str, Any], name: str) -> None:
    """Refuse a quantized checkpoint before a queue does, when its backend is not installed."""
    method = _method(config)
    if method in extras.EXTRAS:
        extras.require(method, name)


def _method(config: Mapping[str, Any]) -> str | None:
    return (config.get("quantization_config") or {}).get("quant_method")


def load(
    folder: str | os.PathLike,
    name: str,
    dtype: torch.dtype | None,
    device: torch.device | str,
    attention: str,
) -> Weights:
    """Load a checkpoint without network access.

    Args:
        folder: holds config.json, safetensors and the tokenizer.
        name: for messages.
        dtype: data type of the floating-point weights; None takes the checkpoint's.
        device: "balanced" spreads the layers over all GPUs; anything else loads on the CPU
            and leaves the move to the caller.

    Raises:
        UserError: as `check`; also an attention implementation the model does not have.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    folder = Path(folder)
    check(folder, name)
    logging.disable_progress_bar()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if _method(config) == "gptq":
        source = gptq_kernels.loading(config, name, dtype, device)
    else:
        source = contextlib.nullcontext({"device_map": "balanced"} if device == "balanced" else {})
    try:
        with source as options:
            model, found = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype or "auto",
                attn_implementation=attention,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # `_check_complete` says which
                **options,
            )
    except (ValueError, ImportError) as error:
        if "attn" in str(error) or "attention" in str(error).lower():
            missing = isinstance(error, ImportError)
            reason = str(error).splitlines()[0] if missing else "its architecture has none such"
            raise UserError(
                f"model {name} cannot use attention {attention!r}: {reason}; 'eager' is always there"
            ) from error
        raise
    _check_complete(found, folder, name)
    _check_dtype(model, dtype, name)
    gptq_kernels.keep_weights(model)
    return Weights(model, load_tokenizer(folder), quantization(model), gptq_kernels.kernel(model))


def _check_complete(found: Mapping[str, Any], folder: Path, name: str) -> None:
    """Refuse weights that the files lack or hold in another shape: they would be random numbers."""
    for key, fault in (("missing_keys", "lack"), ("mismatched_keys", "hold in another shape")):
        if found.get(key):
            first = min(str(item[0] if isinstance(item, tuple) else item) for item in found[key])
            raise UserError(
                f"model {name}: the weights in {folder} {fault} {first}, which its config.json "
                f"describes ({len(found[key])} such tensors); they belong to another configuration"
            )


def _check_dtype(model: Any, dtype: torch.dtype | None, name: str) -> None:
    if dtype is None:
        return
    for key, value in model.named_parameters():
        if value.is_floating_point() and value.dtype != dtype:
            raise RuntimeError(f"model {name}: {key} is {value.dtype}, asked for {dtype}")


def quantization(model: Any) -> str | None:
    """Method, bits, group size and package versions of a quantized checkpoint; None for plain."""
    config = getattr(model.config, "quantization_config", None)
    if not config:
        return None
    get = config.get if isinstance(config, Mapping) else lambda key: getattr(config, key, None)
    method = str(getattr(get("quant_method"), "value", get("quant_method")))
    parts = [method] + [f"{get('bits')}-bit"] * bool(get("bits"))
    parts += [f"group {get('group_size')}"] * bool(get("group_size"))
    for package in extras.EXTRAS.get(method, ()):
        parts.append(f"{package.name} {importlib.metadata.version(package.name)}")
    return ", ".join(parts)


def file_sha256(path: str | os.PathLike) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def inventory(folder: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """Size in bytes and SHA-256 of every file that loading may read.

    No times: the record of the same files is the same record.
    """
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in local_files(folder)
    }


def check_inventory(folder: Path, record: Mapping[str, Any]) -> None:
    """Check that a folder holds the files of a record, with the content they had.

    Weights that nothing has touched since the record was written count as unchanged (their inode
    changes when they are written, moved or copied); others are hashed, and so is all that is small.

    Raises:
        UserError: names the first file that is missing, changed or new.
    """
    name, files = record["name"], record["files"]
    written = Path(record["location"]) / "model.json"
    resolved_ns = written.stat().st_mtime_ns if written.is_file() else 0
    again = "since it was resolved; delete its model.json and run again"
    for file, expected in files.items():
        path = folder / file
        if not path.is_file():
            raise UserError(f"model {name}: {path} is missing; delete its model.json and run again")
        status = path.stat()
        if status.st_size != expected["bytes"]:
            raise UserError(
                f"model {name}: file {path} has changed {again} ({status.st_size} bytes, "
                f"recorded {expected['bytes']})"
            )
        if path.suffix in (".safetensors", ".gguf") and status.st_ctime_ns <= resolved_ns:
            continue
        if file_sha256(path) != expected["sha256"]:
            raise UserError(f"model {name}: file {path} has changed {again}")
    new = [path for path in local_files(folder) if path.name not in files]
    if new:
        raise UserError(f"model {name}: file {new[0]} was added {again}")


def digest(items: Iterable[str]) -> str:
    """One SHA-256 over an ordered list of strings."""
    return hashlib.sha256("\n".join(items).encode()).hexdigest()
