"""The target's output head over a draft vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from draftscope.logits import bare_head, logits_of

if TYPE_CHECKING:
    import numpy as np

    from draftscope.models import LoadedModel


class DraftHead:
    """Logits of the ids that a block drafter may propose, by the head of its target.

    Args:
        target: the model whose head it is; frozen.
        vocabulary: the ids, ascending; as many as the target has logits: all of them.
    """

    def __init__(self, target: LoadedModel, vocabulary: np.ndarray | Sequence[int]) -> None:
        self._target = target
        self.ids = torch.as_tensor(vocabulary, dtype=torch.long, device=target.device)
        self.whole = len(self.ids) == target.head_size
        head = bare_head(target.model)
        self._weight = self._bias = None
        if head is not None and not self.whole:
            self._weight = head.weight.detach()[self.ids]
            self._bias = None if head.bias is None else head.bias.detach()[self.ids]

    def __call__(self, states: Tensor) -> Tensor:
        """Logits [..., W] of states [..., width], in the order of `ids`; gradients flow through."""
        if self._weight is not None:
            return functional.linear(states, self._weight.to(states.dtype), self._bias)
        logits = logits_of(self._target, states)
        return logits if self.whole else logits[..., self.ids]
