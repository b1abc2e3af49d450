"""Decoders that record the target's hidden states while it decodes, for block drafters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from draftscope.drafters.features import EMBEDDINGS, Features, beside, decoder_layers, reading
from draftscope.live.cache import rollback_cache
from draftscope.live.lean import LeanDecoder, lean_decoder
from draftscope.live.model import CachedModel

if TYPE_CHECKING:
    from draftscope.live.model import Decoder
    from draftscope.models import LoadedModel


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
        with reading(self._loaded, self._layers) as parts:
            final = super()._run_body(**inputs)
        self._passes.append(Features(beside(parts, final.device), final))
        return final


class RecordingLean(Recorder, LeanDecoder):
    """A `LeanDecoder` that records the features of its last pass."""

    engine = "lean"

    def __init__(self, loaded: LoadedModel, layers: Sequence[int]) -> None:
        super().__init__(loaded)
        self._passes, self._numbers = [], tuple(layers)
        for number in layers:
            if number != EMBEDDINGS:
                self._layers[number].keeps_output = True

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        self.begin, self._passes = self.length, []
        return super().extend(token_ids, keep)

    def _states(self, token_ids: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        states = super()._states(token_ids, *args, **kwargs)
        parts = [
            functional.embedding(token_ids, self._embedding)
            if number == EMBEDDINGS
            else self._layers[number].output
            for number in self._numbers
        ]
        final = self._normalized(states, self._norm)
        self._passes.append(Features(beside(parts, final.device), final))
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
