"""A block drafter as the draft of token trees: at each depth the distribution of its slot.

A block is drafted in one pass and no slot knows which token stands in the one before it. So all nodes
of a depth, whatever their paths, have the distribution of the slot behind them, and nothing is read
but the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftscope.drafters.proposals import TextBlocks

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


class BlockReader:
    """Behind the interface of `TreeReader`, a DFlash drafter.

    `deepest`: levels that its trees can have, the drafted tokens of a block.
    """

    def __init__(self, draft: LoadedModel, target: LoadedModel) -> None:
        self.loaded, self._blocks = draft, TextBlocks(draft, target)
        self.deepest = self._blocks.most
        self._states = torch.empty(0)
        self._depths: list[int] = []

    def read_text(self, token_ids: Sequence[int]) -> Tensor:
        """Draft behind every token of a text; what predicts the token after each, [T, width]."""
        self._depths = []
        found = [states for _, states, _ in self._blocks.states(token_ids, 0)]
        self._states = torch.cat(found)
        return self._states[:, 1]

    def read_nodes(
        self, token_ids: Sequence[int], parents: Sequence[int], prefixes: Sequence[int]
    ) -> Tensor:
        """What predicts the children of m more nodes, [m, width]; arguments as of `TreeReader`."""
        slots = []
        for parent in parents:
            self._depths.append(1 if parent < 0 else self._depths[parent] + 1)
            slots.append(self._depths[-1] + 1)
        anchors = torch.as_tensor([int(prefix) - 1 for prefix in prefixes])
        return self._states[anchors, torch.as_tensor(slots)]

    def forget_nodes(self) -> None:
        """Keep the text and drop all nodes."""
        self._depths = []

    def logits(self, states: Tensor) -> Tensor:
        """Logits [n, V] of states [n, width]; -inf for ids that it cannot propose."""
        found = self._blocks.logits(states)
        everywhere = found.new_full((len(found), self.loaded.head_size), -torch.inf)
        return everywhere.index_copy_(1, self._blocks.head.ids, found)


def open_reader(draft: LoadedModel, target: LoadedModel) -> BlockReader:
    """What reads texts with a model of kind dflash."""
    return BlockReader(draft, target)
