"""The target's hidden states, which block drafters read: over a whole text in one pass.

Of every token the outputs of some decoder layers side by side, and the final state, normalised,
from which the output head makes the logits of the next token. States of other layers are not kept.
`drafters.recording` gives the same while a text is decoded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from draftscope.errors import UserError
from draftscope.logits import hidden_states

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

EMBEDDINGS = -1  # the layer number that stands for what the first layer reads


class Features(NamedTuple):
    """States of n tokens: `layers` [n, layers read * width], in order; `final` [n, width]."""

    layers: Tensor
    final: Tensor


def read_features(target: LoadedModel, token_ids: Tensor, layers: Sequence[int]) -> Features:
    """Features of one text in one pass, token_ids [tokens].

    Args:
        layers: decoder layers, from 0, whose output is read, of the last one too before the final
            norm; -1: the input embeddings.

    Raises:
        UserError: as `decoder_layers`.
    """
    with reading(target, layers) as parts:
        final = hidden_states(target, token_ids)
    return Features(beside(parts, final.device), final)


def decoder_layers(target: LoadedModel, layers: Sequence[int]) -> list[nn.Module]:
    """The decoder layers of these numbers; of -1 the embedding of the input.

    Raises:
        UserError: the model shows no hidden states, does not hold its layers in one list, or has
            no layer of a number.
    """
    name = target.name
    if target.model is None or hasattr(target.model, "unread"):
        raise UserError(
            f"target {name} of kind {target.kind} shows no hidden states, which a block drafter "
            "reads; use a model of transformers"
        )
    stack = getattr(target.model.base_model, "layers", None)
    if not isinstance(stack, nn.ModuleList):
        raise UserError(
            f"target {name}: {type(target.model).__name__} does not hold its decoder layers in "
            "one list `layers`, where a block drafter reads them; use a model of the Llama, "
            "Mistral or Qwen families"
        )
    wrong = next((layer for layer in layers if not EMBEDDINGS <= layer < len(stack)), None)
    if wrong is not None:
        raise UserError(f"target {name} has layers 0 to {len(stack) - 1}, not a layer {wrong}")
    embedding = target.model.get_input_embeddings()
    return [embedding if layer == EMBEDDINGS else stack[layer] for layer in layers]


@contextlib.contextmanager
def reading(target: LoadedModel, layers: Sequence[int]) -> Iterator[list[Tensor]]:
    """A list that holds the outputs of the layers, each [n, width], once the model has run."""
    outputs: dict[int, Tensor] = {}
    parts: list[Tensor] = []
    hooks = []
    for place, layer in enumerate(decoder_layers(target, layers)):

        def keep(module: nn.Module, given: Any, output: Any, place: int = place) -> None:
            states = output if isinstance(output, Tensor) else output[0]
            outputs[place] = states[0]  # of the one text there is

        hooks.append(layer.register_forward_hook(keep))
    try:
        yield parts
        parts += [outputs[place] for place in range(len(layers))]
    finally:
        for hook in hooks:
            hook.remove()


def beside(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """The states of several layers, each [n, width], as one [n, layers * width]."""
    return torch.cat([part.to(device) for part in parts], -1)
