"""The live drafter of ReTrace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters.block import BlockDraft
from draftscope.drafters.retrace import PART, Carried, ReTrace, carry

if TYPE_CHECKING:
    from draftscope.drafters.model import Block
    from draftscope.models import LoadedModel


class RetraceDraft(BlockDraft):
    """A DFlash drafter with a memory of one round.

    What it proposes depends on what of its last block was rejected, and so not on the text alone:
    it is decoded live and cannot be replayed.

    Args and errors as `BlockDraft`.
    """

    def __init__(
        self, draft: LoadedModel, target: LoadedModel, law: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(draft, target, law)
        self.memory: ReTrace = draft.model.parts[PART]
        self._states: Tensor | None = None
        self._offered = 0
        self.carried: Carried | None = None

    def start(self, token_ids: Sequence[int], rng: np.random.Generator) -> None:
        super().start(token_ids, rng)
        self.carried = None

    def propose(self, count: int) -> Block:
        block = super().propose(count)
        self._offered = len(block.ids)
        return block

    def _block_states(self) -> Tensor:
        self._states = super()._block_states()
        return self._states

    def _inputs(self, slots: Tensor) -> Tensor:
        if self.carried is None:
            return slots
        return self.memory(slots[None], self.carried)[0]

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append what the round emitted: the accepted tokens and the one that followed them."""
        super().extend(token_ids)
        accepted = len(token_ids) - 1
        self.carried = None
        if accepted + 1 < self._offered:
            draft = self._states
            target = draft.new_zeros(draft.shape)
            target[: self._offered + 1] = self.target_decoder.features.final
            counts = (torch.tensor([n], device=draft.device) for n in (accepted, self._offered))
            self.carried = carry(draft[None], target[None], *counts)


def open_draft(
    draft: LoadedModel, target: LoadedModel, law: Mapping[str, float], drafting: str
) -> RetraceDraft:
    """What drafts with a model of kind retrace for one text; `drafting`: argmax or sampled."""
    return RetraceDraft(draft, target, law if drafting == "sampled" else None)
