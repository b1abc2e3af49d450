"""A key-value cache that grows in place and steps back for free."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from draftscope.errors import UserError

# Growth in whole blocks keeps the start of every mask row aligned, as some CUDA kernels want it.
BLOCK = 256


class RollbackLayer(DynamicLayer):
    """Keys and values of one layer, [1, heads, tokens, width], in a buffer with room to spare.

    A new token is written where it belongs instead of copying the whole past, and dropping
    tokens only moves the end. What `update` returns is a view: valid until the next update.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = 0
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        end = self.tokens + key_states.shape[-2]
        if self._buffers is None or end > self._buffers[0].shape[-2]:
            self._grow(key_states, value_states, end)
        keys, values = self._buffers
        keys[:, :, self.tokens : end] = key_states
        values[:, :, self.tokens : end] = value_states
        self.tokens = end
        self.keys, self.values = keys[:, :, :end], values[:, :, :end]
        return self.keys, self.values

    def _grow(self, key_states: Tensor, value_states: Tensor, end: int) -> None:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        room = -(-2 * end // BLOCK) * BLOCK
        grown = []
        for number, states in enumerate((key_states, value_states)):
            buffer = states.new_zeros(*states.shape[:-2], room, states.shape[-1])
            if self._buffers is not None:
                buffer[:, :, : self.tokens] = self._buffers[number][:, :, : self.tokens]
            grown.append(buffer)
        self._buffers = (grown[0], grown[1])

    def get_seq_length(self) -> int:
        return self.tokens

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last -tokens_to_remove tokens (the sign is the one of transformers)."""
        if not 0 <= -tokens_to_remove <= self.tokens:
            raise ValueError(f"cannot remove {-tokens_to_remove} of {self.tokens} tokens")
        self.tokens += tokens_to_remove
        if self._buffers is not None:
            keys, values = self._buffers
            self.keys, self.values = keys[:, :, : self.tokens], values[:, :, : self.tokens]

    def select(self, first: int, indices: Tensor) -> None:
        """Keep the first tokens, and of those after them the ones at `indices`, in that order."""
        end = first + len(indices)
        if self._buffers is not None:
            for buffer in self._buffers:
                buffer[:, :, first:end] = buffer[:, :, first + indices]
        self.crop(end - self.tokens)

    def reset(self) -> None:
        """Forget the text and keep the buffers."""
        self.crop(-self.tokens)


def rollback_cache(model: Any, name: str) -> Cache:
    """An empty cache for one sequence of `model` that can be cropped to any length.

    Raises:
        UserError: the model keeps a state that cannot step back (a sliding window that has
            already dropped tokens, a recurrent state), named with the kind of layer.
    """
    layers = DynamicCache(config=model.config).layers
    for layer in layers:
        if type(layer) is not DynamicLayer:
            raise UserError(
                f"model {name} cannot decode speculatively: its cache holds a "
                f"{type(layer).__name__}, which cannot be cropped after a rejection; use a model "
                "with full attention in every layer"
            )
    return Cache(layers=[RollbackLayer() for _ in layers])
