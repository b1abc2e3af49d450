"""A key-value cache of several sequences that each have a length of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from draftscope.live.cache import BLOCK, rollback_cache


class Layout:
    """Where the tokens of one pass stand: what the layers of a cache and the mask share.

    `lengths` [rows] is how many tokens each row holds, on the host: stepping back is a number.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.lengths: list[int] = []
        self.place(1)

    def place(self, width: int) -> None:
        """Prepare a pass in which every row reads `width` tokens, padding at its end included."""
        lengths = self.lengths or [0]
        self.width, self.end = width, max(lengths) + width
        # One length for all rows: a slice will do, and a single token attends to all there is.
        self.begin = lengths[0] if len(set(lengths)) == 1 else None
        starts = torch.tensor(lengths, device=self.device)[:, None]
        self.rows = torch.arange(len(lengths), device=self.device)[:, None]
        self.columns = starts + torch.arange(width, device=self.device)

    def positions(self, counts: Sequence[int]) -> Tensor:
        """Position ids [rows, width]; padding repeats its row's last one, within any context."""
        last = [max(a + b - 1, 0) for a, b in zip(self.lengths, counts, strict=True)]
        return torch.minimum(self.columns, torch.tensor(last, device=self.device)[:, None])

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Additive mask [rows, 1, width, end]: a token sees its own row up to itself.

        So nothing sees the rejected tokens that still stand behind the end of a row, nor padding.
        None where transformers' own causal mask says the same.
        """
        if self.begin is not None and (self.width == 1 or self.begin == 0):
            return None
        columns = torch.arange(self.end, device=self.device)
        hidden = columns > self.columns[:, None, :, None]
        return hidden.to(dtype).mul_(torch.finfo(dtype).min)


class RaggedLayer(DynamicLayer):
    """Keys and values of one layer in buffers [rows, room, heads, width].

    New tokens are written behind the end of their own row, over what was rejected there. What
    `update` returns is a view [rows, heads, tokens, width], valid until the next update.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self._layout = layout
        self._buffers: list[Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        layout, rows = self._layout, len(key_states)
        self._reserve(key_states, value_states)
        views = []
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            if layout.begin is not None:
                buffer[:rows, layout.begin : layout.end] = states.transpose(1, 2)
            else:
                place = layout.rows.to(buffer.device), layout.columns.to(buffer.device)
                buffer[place] = states.transpose(1, 2)
            views.append(buffer[:rows, : layout.end].transpose(1, 2))
        self.keys, self.values = views
        return self.keys, self.values

    def _reserve(self, *states: Tensor) -> None:
        held = (0, 0) if self._buffers is None else self._buffers[0].shape[:2]
        rows, end = len(states[0]), self._layout.end
        if rows <= held[0] and end <= held[1]:
            return
        if not self.is_initialized:
            self.lazy_initialization(*states)
        room = max(held[1], -(-2 * end // BLOCK) * BLOCK if end > held[1] else 0)
        grown = []
        for number, new in enumerate(states):
            buffer = new.new_zeros(max(rows, held[0]), room, new.shape[1], new.shape[3])
            if self._buffers is not None:
                buffer[: held[0], : held[1]] = self._buffers[number]
            grown.append(buffer)
        self._buffers = grown

    def get_seq_length(self) -> int:
        return max(self._layout.lengths, default=0)

    def reset(self) -> None:
        """Forget everything; a number that overflowed must not meet a later text, even masked."""
        for buffer in self._buffers or ():
            buffer.zero_()

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order, and no others."""
        for buffer in self._buffers or ():
            buffer[: len(rows)] = buffer[list(rows)]


def ragged_cache(model: Any, name: str, layout: Layout) -> Cache:
    """An empty cache whose rows can each be cropped to any length.

    Raises:
        UserError: as `rollback_cache`.
    """
    rollback_cache(model, name)
    return Cache(layers=[RaggedLayer(layout) for _ in DynamicCache(config=model.config).layers])
