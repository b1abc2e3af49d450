"""Train ReTrace: two rounds of decoding are unrolled along the target's own text.

The first block of each anchor is drafted as the drafter now stands, without gradients, and the
target's text says how much of it is accepted. What was rejected is carried to the block that
starts where the first one stopped, and the loss is that of the second block alone. The paper
(Lin et al. 2026, arXiv:2608.29748) trains on consecutive rounds and does not say how many; two are
the fewest in which something is carried, and the carried states have no gradient either way.

The target's states of rejected tokens stand beside its text. They are read in one pass, in which
every drafted token sees the text up to its block's anchor and the drafted tokens before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.block_training.anchors import draw_anchors, every_anchor
from draftscope.block_training.loop import Blocks, BlockTrainer, blocks_of, mean_lengths
from draftscope.block_training.target import Reading, TargetSide
from draftscope.drafters.dflash import DFlash
from draftscope.drafters.retrace import Carried, ReTrace, carry
from draftscope.losses import LOSSES
from draftscope.training.examples import Example
from draftscope.training.run import Plan
from draftscope.tree.reader import TreeReader

# A look reads the target beside its text at one anchor of so many.
LOOK_EVERY = 4


class UnrolledTrainer(BlockTrainer):
    """One training of a DFlash drafter and its memory.

    Args:
        memory: of the drafter; trained with it.
        beta_warm_up: steps in which the correction's share grows from 0 to 1.
        base: record of the drafter that training starts from.
        Others as `BlockTrainer`.
    """

    def __init__(
        self,
        name: str,
        net: DFlash,
        memory: ReTrace,
        target: TargetSide,
        texts: Sequence[Example],
        held_out: Sequence[Example],
        loss: dict[str, Any],
        anchors: int,
        plan: Plan,
        beta_warm_up: int,
        narrow: torch.dtype | None = None,
        decay: float = 0.0,
        base: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            name, net, target, texts, held_out, loss, anchors, plan, narrow, decay, memory
        )
        self.memory, self.beta_warm_up, self.base = memory, beta_warm_up, base or {}
        self.reader = TreeReader(target.target)

    def loss(self, places: list[int]) -> float:
        step, total = self.state["step"], 0.0
        self.memory.beta = min(1.0, step / self.beta_warm_up) if self.beta_warm_up else 1.0
        rounds = []
        for place in places:
            text = self.texts[place]
            anchors = draw_anchors(text, self.anchors, step, self.plan.seed)
            rounds.append((text, *self.first_round(text, anchors)))
        for text, carried, second in rounds:
            reading = self.target.read(text)
            with self.autocast():
                states = self.second_round(text, reading, carried, second)
            total += self.descend(reading, second, states, len(places))
        return total

    @torch.no_grad()
    def first_round(self, text: Example, anchors: np.ndarray) -> tuple[Carried, Blocks]:
        """What the blocks at these anchors leave behind, and the blocks that follow them.

        Blocks after which the text ends have no second one and are left out.
        """
        size = self.net.shape.block_size
        first, reading = blocks_of(text, anchors, size), self.target.read(text)
        with self.autocast():
            past, slots = self.prepare(text, reading, first)
            states = self.through(slots, past, first, len(reading.features)).view(
                len(anchors), size, -1
            )
            logits = self.target.head(states[:, 1:])
        drafted = self.target.head.ids[logits.argmax(-1)].cpu()
        matches = (drafted == first.ids) & first.valid
        accepted = matches.int().cumprod(1).sum(1)
        offered = first.valid.sum(1)
        following = anchors + accepted.numpy() + 1
        goes_on = following < len(text.prompt) + len(text.emitted) - 1
        kept = torch.as_tensor(np.flatnonzero(goes_on))
        states, accepted, offered = states[kept].float(), accepted[kept], offered[kept]
        target = torch.zeros_like(states)
        if self.memory.variant == "corrected_gated" and len(kept):
            target = self._beside(text, anchors[goes_on], drafted[kept]).to(states)
        carried = carry(states, target, accepted.to(states.device), offered.to(states.device))
        return carried, blocks_of(text, following[goes_on], size)

    def _beside(self, text: Example, anchors: np.ndarray, drafted: Tensor) -> Tensor:
        """Final states [a, block_size, width] of the target at anchors and drafted tokens.

        Of the anchors they stay zero: what scored the first token is never carried.
        """
        count = drafted.shape[1]
        with self.target.own_type():
            self.reader.read_text([*text.prompt, *text.emitted])
            parents = [-1 if i % count == 0 else i - 1 for i in range(drafted.numel())]
            prefixes = np.repeat(anchors + 1, count).tolist()
            states = self.reader.read_nodes(drafted.flatten().tolist(), parents, prefixes)
        states = states.view(*drafted.shape, -1)
        return torch.cat((torch.zeros_like(states[:, :1]), states), 1)

    def second_round(
        self, text: Example, reading: Reading, carried: Carried, second: Blocks
    ) -> Tensor:
        """States [a, K, width] of the second blocks' slots, with their graph."""
        past, slots = self.prepare(text, reading, second)
        slots = self.recall(slots, carried)
        size = self.net.shape.block_size
        states = self.through(slots, past, second, len(reading.features))
        return states.view(-1, size, self.net.shape.width)[:, 1:]

    def recall(self, slots: Tensor, carried: Carried) -> Tensor:
        """Slots [a * block_size, width] with what is carried to them."""
        blocks = slots.view(-1, self.net.shape.block_size, self.net.shape.width)
        return self.memory(blocks, carried).flatten(0, 1)

    def look(self) -> tuple[dict[str, float], float, str]:
        """As `BlockTrainer`, on second rounds: their mean length, over every fourth first anchor.

        The weights of the least loss are kept: it looks at every slot, while the mean length of some
        hundred rounds is less certain than what a short training changes. Where the draft's own
        confidence weighs the loss, which then grows as the draft improves, those of the longest
        rounds are. The memory is looked at as it decodes, with the whole of its correction.
        """
        beta, self.memory.beta = self.memory.beta, 1.0
        try:
            return self._second_rounds()
        finally:
            self.memory.beta = beta

    def _second_rounds(self) -> tuple[dict[str, float], float, str]:
        parts, emitted = [], []
        for text in self.held_out:
            carried, second = self.first_round(text, every_anchor(text)[::LOOK_EVERY])
            if not len(second.anchors):
                continue
            reading = self.target.read(text)
            with torch.no_grad(), self.autocast():
                states = self.second_round(text, reading, carried, second)
            parts.append(self.compare(reading, second, states))
            room = second.valid.sum(1).numpy()
            emitted.extend(np.minimum(parts[-1].matches.cumprod(1).sum(1) + 1, room).tolist())
        loss = sum(p.loss for p in parts) / max(sum(p.divisor for p in parts), 1e-12)
        tau = sum(emitted) / max(len(emitted), 1)
        words = f"held-out loss {loss:.4f}, tokens of a second round {tau:.3f}"
        score = loss if LOSSES[self.options["name"]].weighting == "decay" else -tau
        columns = {"held_out_loss": loss, "held_out_tau": tau, **mean_lengths(parts)}
        return columns, score, words
