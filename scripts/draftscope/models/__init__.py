"""Models: resolve a registry row once (network allowed), load it anywhere (offline).

`resolve` turns a row of the registry into a folder with a `model.json`: what the model is, its
revision, and where its files are. `load` reads that record. Each kind of model has one module
here, imported by name when it is needed, so that a rule depends only on the kinds it uses.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from draftscope.checkpoints import max_positions, read_record
from draftscope.errors import UserError
from draftscope.models.loaded import LoadedModel, assemble, choose_device, choose_dtype
from draftscope.writing import write_json

KINDS = (
    "package_gguf",
    "gguf",
    "hub",
    "local",
    "round_to_nearest",
    "prompt_lookup",
    "bigram",
    "gptq",
    "llama_cpp",
    "layer_subset",
    "distilled",
    "lora",
    "dflash",
    "retrace",
)

__all__ = ["KINDS", "LoadedModel", "kind_module", "load", "read_record", "resolve", "write_record"]


def kind_module(kind: str) -> ModuleType:
    """The module that resolves and loads models of this kind.

    Raises:
        UserError: no such kind.
    """
    if kind not in KINDS:
        raise UserError(f"model kind {kind!r} is unknown; known kinds: {', '.join(KINDS)}")
    return importlib.import_module(f"draftscope.models.{kind}")


def resolve(
    name: str,
    settings: Mapping[str, Any],
    folder: str | Path,
    base: Mapping[str, Any] | str | Path | None = None,
    calibration: Sequence[Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Fetch or convert a model and write `folder/model.json`; returns the record.

    Args:
        name: name in the registry.
        settings: the registry row: `kind` and what the kind needs.
        folder: where the record and converted files go; created when absent.
        base: for a model derived from another one, that model's record or model.json.
        calibration: for a model that is quantized here, texts as token ids.

    Raises:
        UserError: unknown kind, missing or unknown settings, files missing or damaged,
            network unreachable.
    """
    folder = Path(folder)
    module = kind_module(settings.get("kind", ""))
    _check_settings(name, settings, module)
    folder.mkdir(parents=True, exist_ok=True)
    if getattr(module, "DERIVED", False):
        if base is None:
            raise UserError(
                f"model {name} is derived from {settings['base']}: give the model.json of that "
                "model too (--base)"
            )
        texts = [calibration or ()] if getattr(module, "CALIBRATED", False) else []
        record = module.resolve(name, settings, folder, read_record(base), *texts)
    else:
        record = module.resolve(name, settings, folder)
    return write_record(name, settings["kind"], folder, record)


def write_record(
    name: str, kind: str, folder: str | Path, record: Mapping[str, Any]
) -> dict[str, Any]:
    """Write `folder/model.json` of a model whose files are there; returns the record."""
    record = {"name": name, "kind": kind, **record}
    record["max_positions"] = max_positions(record | {"location": str(folder)})
    write_json(Path(folder) / "model.json", record)
    return record | {"location": str(folder)}


def _check_settings(name: str, settings: Mapping[str, Any], module: ModuleType) -> None:
    given = set(settings) - {"kind"}
    missing = sorted(module.REQUIRED - given)
    unknown = sorted(given - module.REQUIRED - module.OPTIONAL)
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(unknown)}"
        known = ", ".join(sorted(module.REQUIRED | module.OPTIONAL))
        raise UserError(f"model {name} of kind {settings['kind']} {wrong}; its settings: {known}")


def load(
    record: Mapping[str, Any] | str | Path,
    device: str = "auto",
    dtype: str = "float32",
    attention: str = "sdpa",
) -> LoadedModel:
    """Load a resolved model without any network access.

    Args:
        record: path of a model.json, or a record as `resolve` returned it.
        device: "auto" (cuda, else mps, else cpu), a torch device, or "balanced" (a model
            spread over all GPUs of the machine).
        dtype: "float32", "bfloat16", "float16", or "auto" (float32 on the CPU, elsewhere
            the data type of the checkpoint).
        attention: attention implementation of transformers ("sdpa", "eager", ...).

    Raises:
        UserError: missing or changed files, unknown device, dtype or attention, a quantized
            checkpoint whose backend is not installed.
    """
    record = read_record(record)
    module = kind_module(record["kind"])
    chosen = choose_device(device)
    weights = module.load_weights(record, choose_dtype(dtype, chosen), chosen, attention)
    # What another engine runs is put together by the module of its kind.
    return getattr(module, "assemble", assemble)(record, weights, chosen, attention)
