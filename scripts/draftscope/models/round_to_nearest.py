"""A draft of the target's own family: its copy with every linear weight rounded to a few bits.

Round to nearest is the baseline of weight quantization (Frantar et al. 2022, GPTQ,
arXiv:2210.17323): no calibration data, no error compensation, the same result on every machine.
The rounded values are kept in the data type of the run, so this costs the time of the original;
it stands for the *text* a quantized draft would propose, not for its speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from draftscope.checkpoints import TEXT_DRAFTS, base_of, made_from, require_base
from draftscope.errors import UserError
from draftscope.models.loaded import Weights

REQUIRED = {"base", "bits", "group_size"}
OPTIONAL = {"symmetric"}
DERIVED = True


def resolve(
    name: str, settings: Mapping[str, Any], folder: Path, base: Mapping[str, Any]
) -> dict[str, Any]:
    """Record what is rounded and how; the rounding itself happens when the model is loaded.

    Raises:
        UserError: bits or group size out of range, or the record of another base.
    """
    bits, group_size = settings["bits"], settings["group_size"]
    symmetric = bool(settings.get("symmetric", False))
    if not 2 <= bits <= 8:
        raise UserError(f"model {name}: bits is {bits}, must be 2 to 8")
    if group_size < 1:
        raise UserError(f"model {name}: group_size is {group_size}, must be at least 1")
    if base["kind"] in TEXT_DRAFTS:
        raise UserError(f"model {name}: its base {base['name']} has no weights to round")
    require_base(name, settings, base)
    method = f"rtn{bits}-g{group_size}-{'symmetric' if symmetric else 'asymmetric'}"
    return {
        "revision": f"{base['revision']} {method}",
        "bits": bits,
        "group_size": group_size,
        "symmetric": symmetric,
        "tokenizer_sha256": base.get("tokenizer_sha256"),
        **made_from(base, folder),
    }


def load_weights(
    record: Mapping[str, Any], dtype: torch.dtype | None, device: Any, attention: str
) -> Weights:
    """Load the base in the data type of the run and round its weights (in float32 arithmetic).

    Embedding and output head are kept as they are: they are one tensor in small models, and
    rounding them changes which token ids can win at all.
    """
    from draftscope.models import kind_module

    base = base_of(record)
    weights = kind_module(base["kind"]).load_weights(base, dtype, device, attention)
    round_linear_weights(
        weights.model, record["bits"], record["group_size"], record["symmetric"], record["name"]
    )
    kept = f" of {weights.quantization}" if weights.quantization else ""
    method = "symmetric" if record["symmetric"] else "asymmetric"
    return Weights(
        weights.model,
        weights.tokenizer,
        f"round to nearest, {record['bits']}-bit, group {record['group_size']}, {method}{kept}",
    )


@torch.no_grad()
def round_linear_weights(
    model: torch.nn.Module, bits: int, group_size: int, symmetric: bool, name: str = "model"
) -> int:
    """Round the weight of every linear layer except the output head, in place.

    Returns:
        How many layers were rounded.

    Raises:
        UserError: the group size does not divide a layer's width, or nothing can be rounded.
    """
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    rounded = 0
    for key, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or module is head:
            continue
        width = module.weight.shape[1]
        if width % group_size:
            nearest = max(size for size in range(1, group_size + 1) if width % size == 0)
            raise UserError(
                f"model {name}: group_size {group_size} does not divide the width {width} of "
                f"{key}; {nearest} does"
            )
        module.weight.copy_(round_groups(module.weight, bits, group_size, symmetric))
        rounded += 1
    if not rounded:
        raise UserError(
            f"model {name}: its base has no plain linear layer to round; is it quantized already?"
        )
    return rounded


def round_groups(weight: torch.Tensor, bits: int, group_size: int, symmetric: bool) -> torch.Tensor:
    """Round a weight matrix in groups along its input dimension.

    Asymmetric: 2^bits levels from the group's minimum to its maximum (0 included).
    Symmetric: 2^bits - 1 levels, equally many on both sides of 0.

    Args:
        weight: [outputs, inputs]; computed in float32 whatever its type.
        group_size: divides `inputs`.

    Returns:
        The rounded weight, in the type of `weight`.
    """
    groups = weight.detach().float().reshape(weight.shape[0], -1, group_size)
    if symmetric:
        top = 2 ** (bits - 1) - 1
        scale = groups.abs().amax(-1, keepdim=True) / top
        scale = scale.masked_fill(scale == 0, 1.0)
        rounded = (groups / scale).round().clamp(-top, top) * scale
    else:
        low = groups.amin(-1, keepdim=True).clamp(max=0)
        high = groups.amax(-1, keepdim=True).clamp(min=0)
        scale = (high - low) / (2**bits - 1)
        scale = scale.masked_fill(scale == 0, 1.0)
        zero = (-low / scale).round()
        levels = ((groups / scale).round() + zero).clamp(0, 2**bits - 1)
        rounded = (levels - zero) * scale
    return rounded.reshape(weight.shape).to(weight.dtype)
