"""A model quantized here with GPTQ: 4 bits a weight, say, errors compensated on calibration text.

GPTQ rounds the columns of a weight matrix one after another and spreads each column's error over
those still to come, weighted by the inverse Hessian of the layer's inputs (Frantar et al. 2022,
arXiv:2210.17323, algorithm 1). The inputs come from a few texts. gptqmodel does the work; here it
gets the texts, one record, and a folder that appears whole or not at all.

Calibration texts are training prompts alone: a target fitted to the prompts it is measured on
would be another model there than elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from draftscope import extras
from draftscope.checkpoints import CONVERTED, TEXT_DRAFTS, folder_of, load_tokenizer, require_base
from draftscope.errors import UserError
from draftscope.models import folder as checkpoint
from draftscope.models.gptq_kernels import environment, quiet
from draftscope.models.loaded import Weights, tokenizer_sha256
from draftscope.writing import whole_folder

REQUIRED = {"base", "bits", "group_size", "calibration"}
OPTIONAL: set[str] = set()
DERIVED = True
CALIBRATED = True
GROUP_SIZES = (16, 32, 64, 128)  # those that the kernels of every device take
GENERATION = "generation_config.json"

log = logging.getLogger(__name__)


def resolve(
    name: str,
    settings: Mapping[str, Any],
    folder: Path,
    base: Mapping[str, Any],
    calibration: Sequence[Sequence[int]],
) -> dict[str, Any]:
    """Quantize the base to `folder/weights`, whole or not at all; returns the record.

    Args:
        calibration: texts as token ids, each of at least ten.

    Raises:
        UserError: packages are missing, a group size that does not divide the widths, too little
            text, or a base without weights of its own.
    """
    extras.require("gptq", name)
    source = _source(name, settings, base)
    _check_calibration(name, settings, calibration)
    final = Path(folder) / CONVERTED
    with whole_folder(final) as target:
        _quantize(name, source, target, settings["bits"], settings["group_size"], calibration)
        tokenizer = load_tokenizer(source)
        tokenizer.save_pretrained(target)
        checkpoint.check(target, name)
    files = checkpoint.inventory(final)
    weights = files["model.safetensors"]["sha256"]
    method = f"gptq{settings['bits']}-g{settings['group_size']}"
    return {
        "revision": f"{base['revision']} {method} sha256:{weights}",
        "bits": settings["bits"],
        "group_size": settings["group_size"],
        "gptqmodel": importlib.metadata.version("gptqmodel"),
        "calibration": {**settings["calibration"], "sha256": calibration_sha256(calibration)},
        "quantized_from": {"name": base["name"], "revision": base["revision"]},
        "tokenizer_sha256": tokenizer_sha256(tokenizer),
        "files": files,
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the quantized checkpoint beside the record.

    Raises:
        UserError: packages or files are missing, or the files have changed.
    """
    folder = folder_of(record)
    checkpoint.check_inventory(folder, record)
    return checkpoint.load(folder, record["name"], dtype, device, attention)


def calibration_sha256(calibration: Sequence[Sequence[int]]) -> str:
    """Hash of the calibration texts, as token ids in their order."""
    return hashlib.sha256(json.dumps([list(ids) for ids in calibration]).encode()).hexdigest()


def _source(name: str, settings: Mapping[str, Any], base: Mapping[str, Any]) -> Path:
    require_base(name, settings, base)
    if base["kind"] in TEXT_DRAFTS:
        raise UserError(f"model {name}: its base {base['name']} has no weights to quantize")
    if "base" in base:
        raise UserError(
            f"model {name}: its base {base['name']} is itself a copy of {base['base']['name']}; "
            "quantize that one"
        )
    source = folder_of(base)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    if config.get("quantization_config"):
        raise UserError(f"model {name}: its base {base['name']} is quantized already")
    widths = {config.get(key) for key in ("hidden_size", "intermediate_size")} - {None}
    group_size = settings["group_size"]
    if any(width % group_size for width in widths):
        shared = [size for size in GROUP_SIZES if all(w % size == 0 for w in widths)]
        raise UserError(
            f"model {name}: group_size {group_size} does not divide its widths "
            f"{', '.join(map(str, sorted(widths)))}; {max(shared, default=0) or 'none'} does"
        )
    return source


def _check_calibration(
    name: str, settings: Mapping[str, Any], calibration: Sequence[Sequence[int]]
) -> None:
    wanted = settings["calibration"]["texts"]
    if len(calibration) != wanted:
        raise UserError(
            f"model {name}: {len(calibration)} calibration texts, its registry row says {wanted}"
        )
    short = min(map(len, calibration))
    if short < 10:  # gptqmodel drops shorter ones without a word
        raise UserError(
            f"model {name}: a calibration text has {short} tokens; give at least 10 to each"
        )


def _quantize(
    name: str,
    source: Path,
    target: Path,
    bits: int,
    group_size: int,
    calibration: Sequence[Sequence[int]],
) -> None:
    """Run gptqmodel and keep configuration and weights of what it writes."""
    started = time.monotonic()
    # Two is the fewest workers that gptqmodel starts with; left alone it counts cores, and fails
    # on machines with two.
    with quiet(), environment({"GPTQMODEL_CPU_WORKERS": "2"}):
        from gptqmodel import GPTQModel, QuantizeConfig

        # pack_impl "original" packs in Python: the default compiles C++ into the user's cache.
        plan = QuantizeConfig(
            bits=bits, group_size=group_size, offload_to_disk=False, pack_impl="original"
        )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = GPTQModel.load(str(source), plan, device=device, dtype=torch.float32)
        layers = model.model.config.get_text_config().num_hidden_layers
        model.layer_callback = _Progress(name, layers, started)
        model.quantize(
            [{"input_ids": list(ids), "attention_mask": [1] * len(ids)} for ids in calibration],
            batch_size=1,
            tokenizer=load_tokenizer(source),
        )
        written = target.parent / "written"
        model.save(str(written), max_shard_size=None)
    target.mkdir()
    for path in written.iterdir():
        if path.name in ("config.json", GENERATION) or path.suffix == ".safetensors":
            path.rename(target / path.name)
    if (source / GENERATION).is_file():  # gptqmodel turns sampling on in its own
        shutil.copyfile(source / GENERATION, target / GENERATION)
    log.info("model %s: quantized in %.0f s", name, time.monotonic() - started)


class _Progress:
    """gptqmodel calls it when a layer is finished; one line a layer goes to the log."""

    def __init__(self, name: str, layers: int, started: float) -> None:
        self.name, self.layers, self.started = name, layers, started
        self.finished: set[int] = set()

    def layer_complete(self, *, layer_idx: int, submodule_finalized: bool) -> None:
        if layer_idx not in self.finished:
            self.finished.add(layer_idx)
            seconds = time.monotonic() - self.started
            log.info(
                "model %s: layer %d of %d, %.0f s",
                self.name, len(self.finished), self.layers, seconds,
            )  # fmt: skip
