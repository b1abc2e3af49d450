"""The target's hidden states, which block drafters read: over a whole text, or while it decodes.

Both ways give, for every token read, the outputs of some decoder layers side by side, and the
final state, normalised, from which the output head makes the logits of the next token. The states
of other layers are not kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from draftscope.errors import UserError
from draftscope.live.cache import rollback_cache
from draftscope.live.lean import LeanDecoder, lean_decoder
from draftscope.live.model import CachedModel
from draftscope.logits import hidden_states

if TYPE_CHECKING:
    from draftscope.live.model import Decoder
    from draftscope.models import LoadedModel


class Features(NamedTuple):
    """States of n tokens: `layers` [n, layers read * width], in order; `final` [n, width]."""

    layers: Tensor
    final: Tensor


def read_features(target: LoadedModel, token_ids: Tensor, layers: Sequence[int]) -> Features:
    """Features of one text in one pass, token_ids [tokens].

    Args:
        layers: decoder layers, from 0, whose output is read; of the last one too it is the output
            before the final norm.

    Raises:
        UserError: as `decoder_layers`.
    """
    with _reading(target, layers) as parts:
        final = hidden_states(target, token_ids)
    return Features(_beside(parts, final.device), final)


def decoder_layers(target: LoadedModel, layers: Sequence[int]) -> list[nn.Module]:
    """The decoder layers of these numbers.

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
    wrong = next((layer for layer in layers if not 0 <= layer < len(stack)), None)
    if wrong is not None:
        raise UserError(f"target {name} has layers 0 to {len(stack) - 1}, not a layer {wrong}")
    return [stack[layer] for layer in layers]


@contextlib.contextmanager
def _reading(target: LoadedModel, layers: Sequence[int]) -> Iterator[list[Tensor]]:
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


def _beside(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    return torch.cat([part.to(device) for part in parts], -1)


class Recorder:
    """What a recording decoder has besides `Decoder`: the features of its last `extend`.

    `begin` is the position of the first token that was read then.
    """

    begin: int = 0
    _passes: list[Features]

    @property
    def features(self) -> Features:
        """Of the tokens that the last `extend` read, from position `begin` on."""
        if len(self._passes) != 1:
            parts = zip(*self._passes, strict=True)
            self._passes = [Features(*(torch.cat(part) for part in parts))]
        return self._passes[0]


class RecordingModel(Recorder, CachedModel):
    """A `CachedModel` that records the features of its last pass."""

    def __init__(self, loaded: LoadedModel, layers: Sequence[int]) -> None:
        self._layers, self._passes = tuple(layers), []
        super().__init__(loaded)

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        self.begin, self._passes = self.length, []
        return super().extend(token_ids, keep)

    def _run_body(self, **inputs: Any) -> Tensor:
        with _reading(self._loaded, self._layers) as parts:
            final = super()._run_body(**inputs)
        self._passes.append(Features(_beside(parts, final.device), final))
        return final


class RecordingLean(Recorder, LeanDecoder):
    """A `LeanDecoder` that records the features of its last pass."""

    engine = "lean"

    def __init__(self, loaded: LoadedModel, layers: Sequence[int]) -> None:
        super().__init__(loaded)
        self._passes = []
        self._read_layers = [self._layers[number] for number in layers]
        for layer in self._read_layers:
            layer.keeps_output = True

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        self.begin, self._passes = self.length, []
        return super().extend(token_ids, keep)

    def _states(self, *args: Any, **kwargs: Any) -> Tensor:
        states = super()._states(*args, **kwargs)
        parts = [layer.output for layer in self._read_layers]
        final = self._normalized(states, self._norm)
        self._passes.append(Features(_beside(parts, final.device), final))
        return states


def recording_decoder(target: LoadedModel, layers: Sequence[int]) -> Decoder:
    """The fastest decoder that gives this model's logits and records features; a `Recorder`.

    Raises:
        UserError: as `decoder_layers` and `CachedModel`: the cache cannot be cropped.
    """
    decoder_layers(target, layers)
    rollback_cache(target.model, target.name)
    lean = lean_decoder(target, lambda loaded: RecordingLean(loaded, layers))
    return lean or RecordingModel(target, layers)
