"""What stands in the slots of a block before it is drafted.

The first slot holds the anchor, the last token of the text so far. The others hold a mask each, as
in DFlash, or what prompt lookup proposes at their places, and a mask where it proposes nothing. The
network then has something to confirm or mend and, where text repeats, little left to guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters.dflash import MASK, Shape
from draftscope.drafters.prompt_lookup import PromptLookup


class Slots:
    """Tokens in the slots of the block behind a text that grows."""

    def __init__(self, shape: Shape) -> None:
        self._guesses = PromptLookup() if shape.looked_up else None
        self._size, self._anchor = shape.block_size, MASK

    def start(self, token_ids: Sequence[int]) -> None:
        """Take `token_ids`, one at least, as the whole text."""
        if self._guesses is not None:
            self._guesses.start(())
        self.extend(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the text."""
        self._anchor = int(token_ids[-1])
        if self._guesses is not None:
            self._guesses.extend(token_ids)

    def tokens(self) -> list[int]:
        """An id a slot, `MASK` where the mask stands."""
        guessed = [] if self._guesses is None else self._guesses.propose(self._size - 1)
        return [self._anchor, *guessed, *[MASK] * (self._size - 1 - len(guessed))]


def block_tokens(shape: Shape, text: Sequence[int], anchors: Sequence[int] | np.ndarray) -> Tensor:
    """`Slots.tokens` of blocks along a text that is known; int64 [anchors, block_size].

    Args:
        anchors: their positions in the text, in any order; blocks may share one.
    """
    slots, known = Slots(shape), 0
    found: dict[int, list[int]] = {}
    for anchor in sorted({int(each) for each in anchors}):
        slots.extend(text[known : anchor + 1])
        known = anchor + 1
        found[anchor] = slots.tokens()
    rows = [found[int(each)] for each in anchors]
    return torch.tensor(rows, dtype=torch.long).view(-1, shape.block_size)
