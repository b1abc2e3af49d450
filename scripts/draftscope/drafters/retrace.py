"""ReTrace: what a block drafter had to say after the first rejection helps it draft the next block.

Lin et al. 2026 (arXiv:2608.29748), section 3. A rejection throws away the rest of its block, yet
the final states behind those tokens foresee the same places of the text that the next block drafts.
They are kept for that one round, moved to where they now stand, corrected with the target's states
of the pass that verified them, and added to the input embeddings through a gate. The gate's value
starts at zero, so that an untrained memory leaves DFlash as it is. Verification does not change.

Blocks are counted by slot: slot 0 is the anchor, slot i drafts the i-th token behind it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

VARIANTS = ("none", "overwrite", "gated", "corrected_gated")
PART = "memory"  # its name among the parts of a block model


class Carried(NamedTuple):
    """What goes from a round to the next, for a blocks.

    `draft` and `target` [a, block_size, width]: of slot j of the next block, the draft's state of
    the rejected token that stood there, and the target's state that scored it; zero elsewhere.
    `aligned` bool [a, block_size]: where there was such a token.
    """

    draft: Tensor
    target: Tensor
    aligned: Tensor


def carry(draft: Tensor, target: Tensor, accepted: Tensor, offered: Tensor) -> Carried:
    """Move the states behind each block's first rejection to the slots of its next block.

    With r = accepted + 1 the first rejected slot, slot j of the next block gets what slot r + j
    had, for 1 <= j <= offered - r. A block that was accepted in full, or rejected at its last
    offered slot, leaves nothing. Equations 2 and 3.

    Args:
        draft: [a, block_size, width] final states of the blocks.
        target: [a, block_size, width] final states of the target's pass over anchor and drafted
            tokens: row i scored slot i + 1; rows that it did not read may hold anything finite.
        accepted, offered: [a], tokens of each block.
    """
    size = draft.shape[1]
    slots = torch.arange(size, device=draft.device)[None]
    source = accepted[:, None] + 1 + slots
    aligned = (slots >= 1) & (source <= offered[:, None]) & (source < size)
    place = source.clamp(max=size - 1)[..., None]
    moved = draft.gather(1, place.expand_as(draft))
    scored = target.gather(1, (place - 1).clamp(min=0).expand_as(target))
    kept = aligned[..., None]
    return Carried(moved.where(kept, 0.0), scored.where(kept, 0.0), aligned)


class ReTrace(nn.Module):
    """The memory: it changes the input embeddings of slots that have something carried to them.

    Args:
        variant: "corrected_gated", the method; "gated", without the correction; "overwrite", the
            carried state replaces the embedding; "none", nothing changes. The last two have no
            weights, and overwriting is not DFlash at the start.

    Attributes:
        beta: share of the correction, 0 to 1: training lets it grow.
    """

    def __init__(self, width: int, variant: str) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r} is none of {', '.join(VARIANTS)}")
        self.variant, self.beta = variant, 1.0
        if variant in ("gated", "corrected_gated"):
            self.value = nn.Linear(width, width, bias=False)
            self.gate = nn.Linear(2 * width, width, bias=False)
            nn.init.zeros_(self.value.weight)
        if variant == "corrected_gated":
            self.correction = nn.Linear(2 * width, width, bias=False)

    def forward(self, inputs: Tensor, carried: Carried) -> Tensor:
        """Input embeddings [a, block_size, width], changed where something is carried.

        With m and u the carried states of draft and target and e the embedding:
        r = m + beta W_c [m; u], then e + (W_v r) * sigmoid(W_g [e; r]). Equations 4 to 6.
        """
        if self.variant == "none":
            return inputs
        recalled, kept = carried.draft.to(inputs.dtype), carried.aligned[..., None]
        if self.variant == "overwrite":
            return torch.where(kept, recalled, inputs)
        if self.variant == "corrected_gated":
            both = torch.cat((recalled, carried.target.to(inputs.dtype)), -1)
            recalled = recalled + self.beta * self.correction(both)
        gate = torch.sigmoid(self.gate(torch.cat((inputs, recalled), -1)))
        return torch.where(kept, inputs + self.value(recalled) * gate, inputs)
