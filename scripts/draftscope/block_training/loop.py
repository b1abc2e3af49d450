"""Train a block drafter: random anchors in the target's texts, one loss over each block's slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from draftscope.block_training.anchors import draw_anchors, every_anchor
from draftscope.block_training.target import Reading, TargetSide
from draftscope.block_training.vocabulary import places
from draftscope.drafters.dflash import DFlash, KeysValues, block_mask
from draftscope.drafters.slots import block_tokens
from draftscope.losses import LOSSES, block_loss
from draftscope.losses.divergences import log_overlap
from draftscope.losses.estimators import accepted_length_estimate, accepted_length_surrogate
from draftscope.training.examples import Example
from draftscope.training.loss import blocks as slices
from draftscope.training.run import Plan, Run

# Blocks of one text whose states are held at one time without gradients.
BLOCKS_AT_ONCE = 128


class Blocks(NamedTuple):
    """Blocks of one text: their anchors [a], and what stands at their slots 1..K, each [a, K].

    `ids` are the target's own tokens, `valid` is False beyond the end of the text, `at` are places
    among the generated tokens.
    """

    anchors: Tensor
    ids: Tensor
    valid: Tensor
    at: Tensor


def blocks_of(text: Example, anchors: np.ndarray, block_size: int) -> Blocks:
    """The blocks of a text at these anchors, on the CPU."""
    ids = torch.tensor([*text.prompt, *text.emitted], dtype=torch.long)
    where = torch.as_tensor(anchors, dtype=torch.long)
    position = where[:, None] + torch.arange(1, block_size)
    valid = position < len(ids)
    position = position.clamp(max=len(ids) - 1)
    return Blocks(where, ids[position], valid, position - len(text.prompt))


class Compared(NamedTuple):
    """Of some blocks: matches bool [a, K], the sum and divisor of their loss, and lengths.

    `lengths` are the sums over blocks of `accepted_length_estimate` and of
    `accepted_length_surrogate`; none where the loss reads no target distribution.
    """

    matches: np.ndarray
    loss: float
    divisor: float
    lengths: np.ndarray | None


def together(parts: Sequence[Compared]) -> Compared:
    """Blocks that were compared in parts."""
    lengths = [part.lengths for part in parts if part.lengths is not None]
    return Compared(
        np.concatenate([part.matches for part in parts]),
        sum(part.loss for part in parts),
        sum(part.divisor for part in parts),
        np.sum(lengths, 0) if lengths else None,
    )


def mean_lengths(parts: Sequence[Compared]) -> dict[str, float | None]:
    """Columns of the history: both expectations of the accepted length, a block on average."""
    names = ("held_out_estimate", "held_out_surrogate")
    if not parts or (whole := together(parts)).lengths is None:
        return dict.fromkeys(names)
    return dict(zip(names, (whole.lengths / len(whole.matches)).tolist(), strict=True))


def held_out_rounds(matches: np.ndarray) -> tuple[int, int]:
    """Tokens and rounds of a text drafted greedily.

    Args:
        matches: bool [n, K], the slots of the block before each generated token that equal the
            text; False beyond its end.
    """
    accepted = matches.cumprod(1).sum(1)
    start = rounds = 0
    while start < len(matches):
        start += int(accepted[start]) + 1
        rounds += 1
    return len(matches), rounds


def expected_lengths(logits: Tensor, ids: Tensor, valid: Tensor, log_p: Tensor) -> np.ndarray:
    """Sums over blocks of the unbiased estimate of the accepted length and of its surrogate, [2].

    Args:
        logits, log_p: [a, K, W] over the draft vocabulary.
        ids: places of the text's tokens in it, [a, K]; -1 has no probability of the draft.
        valid: bool [a, K].
    """
    log_q = logits.log_softmax(-1)
    known, place = ids >= 0, ids.clamp(min=0)[..., None]
    emitted_p, emitted_q = (each.gather(-1, place)[..., 0] for each in (log_p, log_q))
    # One that the draft cannot emit is never accepted, whatever stands at its place.
    emitted_p = emitted_p.where(known, torch.zeros_like(emitted_p))
    emitted_q = emitted_q.where(known, torch.full_like(emitted_q, -torch.inf))
    estimate = accepted_length_estimate(emitted_p, emitted_q, valid)
    surrogate = accepted_length_surrogate(log_overlap(log_p, log_q).exp(), valid)
    return np.array([float(estimate.sum()), float(surrogate.sum())])


class BlockTrainer(Run):
    """One training of a DFlash drafter.

    Args:
        net: in float32; all its parameters are trained.
        target: the readings of the target.
        loss: name, smoothing and decay of the loss; see `draftscope.losses.block_loss`.
        anchors: blocks of a text and step.
        decay: weight decay of AdamW.
        more: further networks that are trained.
    """

    def __init__(
        self,
        name: str,
        net: DFlash,
        target: TargetSide,
        texts: Sequence[Example],
        held_out: Sequence[Example],
        loss: dict[str, Any],
        anchors: int,
        plan: Plan,
        narrow: torch.dtype | None = None,
        decay: float = 0.0,
        *more: nn.Module,
    ) -> None:
        trained = {
            f"{place}.{name}": value
            for place, part in enumerate((net, *more))
            for name, value in part.named_parameters()
        }
        visits = [len(text.emitted) for text in texts]
        super().__init__(name, trained, visits, plan, net.mask_embedding.device, narrow, decay)
        self.net, self.target, self.options = net, target, dict(loss)
        self.texts, self.held_out, self.anchors = list(texts), list(held_out), anchors
        self.needs_p = LOSSES[self.options["name"]].needs_p
        width = target.target.head_size
        self.place = torch.as_tensor(places(target.head.ids.cpu().numpy(), width))

    # ---- What a step does ----------------------------------------------------------------------

    def loss(self, places: list[int]) -> float:
        total = 0.0
        for place in places:
            text = self.texts[place]
            anchors = draw_anchors(text, self.anchors, self.state["step"], self.plan.seed)
            found = blocks_of(text, anchors, self.net.shape.block_size)
            reading = self.target.read(text)
            with self.autocast():
                states = self.states(text, reading, found)
            total += self.descend(reading, found, states, len(places))
        return total

    def states(self, text: Example, reading: Reading, found: Blocks) -> Tensor:
        """States [a, K, width] of the slots 1..K, with their graph."""
        past, slots = self.prepare(text, reading, found)
        states = self.through(slots, past, found, len(reading.features))
        return states.view(-1, self.net.shape.block_size, self.net.shape.width)[:, 1:]

    def prepare(self, text: Example, reading: Reading, found: Blocks) -> tuple[KeysValues, Tensor]:
        """Keys and values of the whole text, and the slots [a * block_size, width]."""
        context = self.net.fuse(reading.features.to(self.device).float())
        past = self.net.keys_values(context, torch.arange(len(context), device=self.device))
        whole = [*text.prompt, *text.emitted]
        tokens = block_tokens(self.net.shape, whole, found.anchors.tolist())
        return past, self.net.block_inputs(tokens, self.target.embed)

    def through(self, slots: Tensor, past: KeysValues, found: Blocks, context: int) -> Tensor:
        """The net over slots of these blocks; [a * block_size, width]."""
        size = self.net.shape.block_size
        anchors = found.anchors.to(self.device)
        positions = (anchors[:, None] + torch.arange(size, device=self.device)).flatten()
        return self.net(slots, positions, past, block_mask(anchors, context, size))

    def descend(self, reading: Reading, found: Blocks, states: Tensor, texts: int) -> float:
        """Add the gradient of the loss over these blocks / texts; its value.

        The head runs over some blocks at a time and its gradient is handed on once. No block has a
        loss of 0 and a gradient of 0, not none: the optimizer counts the step for every weight.
        """
        if not len(states):
            states.sum().backward()
            return 0.0
        leaf = states.detach().requires_grad_()
        total = norm = 0.0
        for part in slices(len(leaf), len(self.target.head.ids) * leaf.shape[1]):
            logits, ids, valid, log_p = self._slots(reading, found, leaf, part)
            value, counted = block_loss(
                logits=logits, ids=ids, valid=valid, log_p=log_p, **self.options
            )
            value.backward()
            total, norm = total + float(value.detach()), norm + float(counted)
        share = 1 / (max(norm, 1e-12) * texts)
        states.backward(leaf.grad * share)
        return total * share

    # ---- What a look measures ------------------------------------------------------------------

    def look(self) -> tuple[dict[str, float], float, str]:
        texts = [self.measure(text) for text in self.held_out]
        counts = [held_out_rounds(text.matches) for text in texts]
        tokens, rounds = (sum(part) for part in zip(*counts, strict=True))
        loss = sum(t.loss for t in texts) / max(sum(t.divisor for t in texts), 1e-12)
        tau = tokens / rounds
        words = f"held-out loss {loss:.4f}, acceptance length {tau:.3f}"
        columns = {"held_out_loss": loss, "held_out_tau": tau, **mean_lengths(texts)}
        return columns, -tau, words

    @torch.no_grad()
    def measure(self, text: Example) -> Compared:
        """The blocks at every position of a text."""
        reading, every, parts = self.target.read(text), every_anchor(text), []
        for start in range(0, len(every), BLOCKS_AT_ONCE):
            anchors = every[start : start + BLOCKS_AT_ONCE]
            found = blocks_of(text, anchors, self.net.shape.block_size)
            with self.autocast():
                states = self.states(text, reading, found)
            parts.append(self.compare(reading, found, states))
        return together(parts)

    @torch.no_grad()
    def compare(self, reading: Reading, found: Blocks, states: Tensor) -> Compared:
        """Some blocks, the head over a few of them at a time."""
        parts = []
        for part in slices(len(states), len(self.target.head.ids) * states.shape[1]):
            logits, ids, valid, log_p = self._slots(reading, found, states, part)
            lost, counted = block_loss(
                logits=logits, ids=ids, valid=valid, log_p=log_p, **self.options
            )
            matches = ((logits.argmax(-1) == ids) & valid).cpu().numpy()
            lengths = None if log_p is None else expected_lengths(logits, ids, valid, log_p)
            parts.append(Compared(matches, float(lost), float(counted), lengths))
        return together(parts)

    def _slots(
        self, reading: Reading, found: Blocks, states: Tensor, part: slice
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Logits, places of the text's ids, validity and log p of some blocks' slots."""
        with self.autocast():
            logits = self.target.head(states[part]).float()
        log_p = None
        if self.needs_p:
            at = found.at[part].to(reading.states.device)
            log_p = self.target.log_p(reading.states[at], reading.log_z[at]).to(self.device)
        ids = self.place[found.ids[part]].to(self.device)
        return logits, ids, found.valid[part].to(self.device), log_p
