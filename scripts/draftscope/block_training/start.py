"""How the weights of a DFlash drafter begin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from draftscope.drafters.dflash import DFlash, Layer, Shape, spread_layers
from draftscope.drafters.features import EMBEDDINGS
from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

# Of a layer: its own name and that of the target's decoder layers (Llama, Qwen, Mistral, ...).
_NAMES = {
    "input_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "output_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
SPREAD = 0.02  # of random weights, as the models of this family begin
GUESS_WEIGHT = 0.5  # of what stands in a slot, beside the state that the layers make of it


def shape_for(target: LoadedModel, row: Mapping[str, Any]) -> Shape:
    """Sizes of a drafter of this target; see `Shape`.

    Args:
        row: of kind dflash of the registry of models. Without `feature_layers` as many are read as
            there are draft layers, as published; with a context of its own, each draft layer reads
            what goes into the layer that it starts as a copy of.

    Raises:
        UserError: a feature layer that the target lacks, or sizes that its configuration does not
            give.
    """
    config = target.model.config.get_text_config()
    depth, own = config.num_hidden_layers, row["context"] == "own"
    features = row["feature_layers"]
    if own:
        features = [layer - 1 for layer in copied_layers(row, depth)]
    elif features is None:
        features = spread_layers(depth, max(row["layers"], 1))
    lowest = EMBEDDINGS if own else 0
    wrong = next((i for i in features if not lowest <= i < depth), None)
    if wrong is not None:
        raise UserError(f"feature layer {wrong}: target {target.name} has layers 0 to {depth - 1}")
    try:
        heads = config.num_attention_heads
        rope = getattr(config, "rope_parameters", None) or {}
        return Shape(
            width=config.hidden_size,
            layers=row["layers"],
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
            feed_forward=config.intermediate_size,
            block_size=row["block_size"],
            feature_layers=tuple(features),
            rope_theta=float(rope.get("rope_theta", 10_000.0)),
            norm_eps=float(getattr(config, "rms_norm_eps", 1e-6)),
            normalised_heads=_has_head_norms(target.model),
            normalised_features=row["normalised_features"],
            own_context=own,
            shifted=row["shifted"],
            looked_up=row["slots"] == "lookup",
        )
    except AttributeError as error:
        raise UserError(
            f"target {target.name} ({type(target.model).__name__}) does not say its {error.name}; "
            "a DFlash drafter takes its sizes from there"
        ) from None


def copied_layers(row: Mapping[str, Any], depth: int) -> list[int]:
    """Layers of a target of this depth that draft layers start as copies of; left out: the last."""
    found = row["init_layers"]
    return list(range(depth - row["layers"], depth)) if found is None else list(found)


def _has_head_norms(model: Any) -> bool:
    layers = getattr(model.base_model, "layers", ())
    return bool(len(layers)) and hasattr(getattr(layers[0], "self_attn", None), "q_norm")


@torch.no_grad()
def begin(net: DFlash, target: LoadedModel, row: Mapping[str, Any]) -> None:
    """Fill the weights in place.

    Args:
        row: of kind dflash. Its `init` is "random"; or "target": draft layers are copies of layers
            of the target and the mask is the mean embedding. The context is then what the copied
            layers read in the target; where it is fused, what the first one does, as near as the
            layers that are read come to it.

    Raises:
        UserError: the target's layers cannot be copied.
    """
    draw = torch.Generator().manual_seed(row["train"]["seed"])
    for parameter in net.parameters():
        if parameter.dim() > 1 or parameter is net.mask_embedding:
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * SPREAD)
    if net.shape.looked_up:
        net.guess_weight.weight.zero_()
        net.guess_weight.bias.fill_(GUESS_WEIGHT)
    if row["init"] == "random":
        return
    body, shape = target.model.base_model, net.shape
    stack = list(getattr(body, "layers", ()))
    if len(stack) < shape.layers:
        raise UserError(
            f"target {target.name} has {len(stack)} layers to copy and the drafter {shape.layers}; "
            "give it fewer, or init: random"
        )
    chosen = copied_layers(row, len(stack))
    if len(chosen) != shape.layers or max(chosen) >= len(stack):
        raise UserError(
            f"init_layers {list(chosen)}: give {shape.layers} of the layers 0 to {len(stack) - 1} of "
            f"target {target.name}, one a draft layer"
        )
    for layer, number in zip(net.layers, chosen, strict=True):
        _copy_layer(layer, stack[number], target.name)
    _copy(net.norm.weight, getattr(getattr(body, "norm", None), "weight", None), target.name)
    net.mask_embedding.copy_(target.model.get_input_embeddings().weight.float().mean(0))
    if shape.own_context:
        for norm, layer in zip(net.context_norms, net.layers, strict=True):
            norm.weight.copy_(layer.input_norm.weight)
        return
    net.context_norm.weight.copy_(net.layers[0].input_norm.weight)
    reads = [abs(layer - (chosen[0] - 1)) for layer in shape.feature_layers]
    nearest = reads.index(min(reads)) * shape.width
    net.fusion.weight.mul_(0.1)
    net.fusion.weight[:, nearest : nearest + shape.width] += torch.eye(shape.width)


def _copy_layer(layer: Layer, source: Any, target: str) -> None:
    for own, name in _NAMES.items():
        if not hasattr(layer, own):
            continue
        found = source
        for part in name.split("."):
            found = getattr(found, part, None)
        _copy(getattr(layer, own).weight, getattr(found, "weight", None), f"{target}, {name}")


def _copy(own: torch.Tensor, found: torch.Tensor | None, what: str) -> None:
    if found is None or found.shape != own.shape:
        raise UserError(f"{what}: no weights that a draft layer could start from; use init: random")
    own.copy_(found)
