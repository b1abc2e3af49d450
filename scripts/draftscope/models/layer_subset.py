"""A draft made of some of a model's layers: the others are left out, nothing is trained.

Embedding, final norm and output head stay the base's. By itself it predicts next to nothing; it is
where distillation starts from, and what distillation is measured against.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import TEXT_DRAFTS, base_of, folder_of, made_from, require_base
from draftscope.errors import UserError
from draftscope.models.loaded import Weights

REQUIRED = {"base", "layers"}
OPTIONAL: set[str] = set()
DERIVED = True


def resolve(
    name: str, settings: Mapping[str, Any], folder: Path, base: Mapping[str, Any]
) -> dict[str, Any]:
    """Record which layers are kept; the model is cut when it is loaded.

    Raises:
        UserError: a layer that the base does not have, or the record of another base.
    """
    layers = list(settings["layers"])
    check_base(name, settings, base)
    check_layers(name, layers, layers_of(base))
    return {
        "revision": f"{base['revision']} layers {','.join(map(str, layers))}",
        "layers": layers,
        "tokenizer_sha256": base.get("tokenizer_sha256"),
        **made_from(base, folder),
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the base and leave out the other layers."""
    from draftscope.models import kind_module

    base = base_of(record)
    weights = kind_module(base["kind"]).load_weights(base, dtype, device, attention)
    keep_layers(weights.model, record["layers"], record["name"])
    return weights


def check_base(name: str, settings: Mapping[str, Any], base: Mapping[str, Any]) -> None:
    """Raises UserError unless `base` is the record that the settings name, and has weights."""
    require_base(name, settings, base)
    if base["kind"] in (*TEXT_DRAFTS, "llama_cpp"):
        raise UserError(f"model {name}: its base {base['name']} has no layers to take")


def check_layers(name: str, layers: Sequence[int], count: int) -> None:
    """Raises UserError unless the layers ascend within a base of `count` layers."""
    if not layers or any(b <= a for a, b in itertools.pairwise(layers)):
        raise UserError(f"model {name}: layers {list(layers)} do not ascend, each layer once")
    if not 0 <= layers[0] <= layers[-1] < count:
        wrong = layers[-1] if layers[-1] >= count else layers[0]
        raise UserError(f"model {name}: layer {wrong} of a base with layers 0 to {count - 1}")


def layers_of(record: Mapping[str, Any]) -> int:
    """How many decoder layers a resolved model has."""
    if record["kind"] == "layer_subset":
        return len(record["layers"])
    if "base" in record:
        return layers_of(base_of(record))
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(
        folder_of(record), local_files_only=True, trust_remote_code=False
    )
    return int(config.get_text_config().num_hidden_layers)


def keep_layers(model: torch.nn.Module, layers: Sequence[int], name: str = "model") -> None:
    """Leave out all other decoder layers, in place; configuration and cache places follow.

    Raises:
        UserError: the architecture does not hold its layers in one list.
    """
    config = model.config.get_text_config()
    count = int(config.num_hidden_layers)
    check_layers(name, layers, count)
    stacks = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.ModuleList) and len(module) == count
    ]
    if not stacks:
        raise UserError(
            f"model {name}: {type(model).__name__} does not hold its {count} layers in one list"
        )
    path, stack = min(stacks, key=lambda found: found[0].count("."))
    kept = torch.nn.ModuleList(stack[layer] for layer in layers)
    for place, layer in enumerate(kept):
        for module in layer.modules():
            if hasattr(module, "layer_idx"):  # where the layer's keys and values stand in a cache
                module.layer_idx = place
    parent, _, attribute = path.rpartition(".")
    setattr(model.get_submodule(parent), attribute, kept)
    for key, value in list(vars(config).items()):
        if "layer" in key and isinstance(value, list) and len(value) == count:
            setattr(config, key, [value[layer] for layer in layers])
    config.num_hidden_layers = len(layers)
