"""The live drafter of DFlash: a block of tokens in one pass behind the target's hidden states.

The target's pass that verifies a block gives the states that the next block is drafted from (Chen,
Liang and Liu 2026, arXiv:2602.06036, section 3). Of the states only those of committed tokens are
turned into keys and values, so a rejection leaves nothing to step back from. A block is drafted
whole, whatever is asked of it: the beginning of a block is the block's, not another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.drafters.dflash import DFlash, KeysValues
from draftscope.drafters.head import DraftHead
from draftscope.drafters.model import Block
from draftscope.drafters.recording import recording_decoder
from draftscope.drafters.slots import Slots
from draftscope.models import LoadedModel
from draftscope.models.dflash import BlockModel, check_target

log = logging.getLogger(__name__)
_ROOM = 256  # context positions by which the cache grows


class ContextCache:
    """Keys and values of committed tokens in every draft layer; it only grows."""

    def __init__(self, network: DFlash) -> None:
        self._network, self.length = network, 0
        self._buffers: list[tuple[Tensor, Tensor]] = []

    def reset(self) -> None:
        """Forget the text."""
        self.length = 0

    def append(self, features: Tensor) -> None:
        """Take the target's states of the next n tokens, [n, layers read * width]."""
        weight = self._network.mask_embedding
        end = self.length + len(features)
        positions = torch.arange(self.length, end, device=weight.device)
        context = self._network.fuse(features.to(weight.device, weight.dtype))
        found = self._network.keys_values(context, positions)
        if not self._buffers or end > self._buffers[0][0].shape[1]:
            self._grow(found, end)
        for buffers, states in zip(self._buffers, found, strict=True):
            for buffer, part in zip(buffers, states, strict=True):
                buffer[:, self.length : end] = part
        self.length = end

    def past(self) -> KeysValues:
        """What the slots of a block see of the text; views until the next `append`."""
        if not self._buffers:
            return self._network.no_keys_values()
        return [
            (keys[:, : self.length], values[:, : self.length]) for keys, values in self._buffers
        ]

    def _grow(self, like: KeysValues, end: int) -> None:
        room = -(-2 * end // _ROOM) * _ROOM
        grown = []
        for layer, parts in enumerate(like):
            pair = []
            for number, part in enumerate(parts):
                buffer = part.new_zeros(part.shape[0], room, part.shape[2])
                if self._buffers:
                    buffer[:, : self.length] = self._buffers[layer][number][:, : self.length]
                pair.append(buffer)
            grown.append(tuple(pair))
        self._buffers = grown


class BlockDraft:
    """A DFlash drafter behind the `Drafter` interface.

    It has to decode with `target_decoder`, which records the states that it reads; `start` has
    that decoder read the prompt up to its last token.

    Args:
        law: temperature, top_k and top_p of each slot's distribution, from which tokens are then
            drawn; None: each slot proposes its most probable token, and `rule` has the target
            sample by itself and accept what it sampled.

    Raises:
        UserError: the drafter is of another target; or that has no states to record, or a cache
            that cannot step back.
    """

    def __init__(
        self, draft: LoadedModel, target: LoadedModel, law: Mapping[str, float] | None = None
    ) -> None:
        check_target(draft, target)
        model: BlockModel = draft.model
        self.name, self.network = draft.name, model.network
        self.target_decoder = recording_decoder(target, model.network.shape.feature_layers)
        self.width = self.target_decoder.width
        self.rule = "exact_match" if law is None else "speculative_sampling"
        self._law, self._device = None if law is None else dict(law), draft.device
        self._embedding = target.model.get_input_embeddings()
        self._head = DraftHead(target, model.vocabulary)
        self._context = ContextCache(model.network)
        self._slots = Slots(model.network.shape)
        self._text: list[int] = []
        self._warned = False

    @property
    def most(self) -> int:
        """The longest block there is: all slots but the anchor's."""
        return self.network.shape.block_size - 1

    def start(self, token_ids: Sequence[int], rng: np.random.Generator) -> None:
        decoder = self.target_decoder
        decoder.reset()
        self._context.reset()
        self._text, self._rng = list(token_ids), rng
        self._slots.start(token_ids)
        if len(self._text) > 1:
            decoder.extend(torch.tensor(self._text[:-1], device=decoder.device), 0)

    def propose(self, count: int) -> Block:
        """The first `count` slots of the block; all it has where more are asked for."""
        if count > self.most and not self._warned:
            log.warning("draft %s has blocks of %d: it offers no more than %d drafted tokens",
                        self.name, self.most + 1, self.most)  # fmt: skip
            self._warned = True
        count = min(count, self.most)
        self._take_features()
        states = self._block_states()
        read = states[1 : count + 1].to(self.target_decoder.device, self._embedding.weight.dtype)
        logits = self._head(read)
        return self._drafted(logits.float())

    def _take_features(self) -> None:
        decoder, known = self.target_decoder, self._context.length
        if decoder.length != len(self._text) - 1:
            raise ValueError(
                f"draft {self.name} knows {len(self._text)} tokens and its target has read "
                f"{decoder.length}: the loop has to decode with target_decoder"
            )
        if decoder.length > known:
            rows = slice(known - decoder.begin, decoder.length - decoder.begin)
            self._context.append(decoder.features.layers[rows])

    def _block_states(self) -> Tensor:
        """States [block_size, width] of the block behind the text."""
        network, anchor = self.network, len(self._text) - 1
        size, weight = network.shape.block_size, network.mask_embedding
        tokens = torch.tensor([self._slots.tokens()], device=self._embedding.weight.device)
        slots = network.block_inputs(tokens, self._embedding)
        positions = torch.arange(anchor, anchor + size, device=weight.device)
        return network(self._inputs(slots), positions, self._context.past())

    def _inputs(self, slots: Tensor) -> Tensor:
        """The input embeddings [block_size, width], for who changes them."""
        return slots

    def _drafted(self, logits: Tensor) -> Block:
        """Tokens of the slots, from logits [k, W] over the draft vocabulary."""
        if self._law is None:
            peaks, places = logits.max(-1)
            return Block(self._head.ids[places], peaks=peaks)
        q = sampling.law(logits, **self._law)
        drawn = sampling.uniforms(self._rng, len(q))
        places = sampling.draw(q, torch.tensor(drawn, dtype=torch.float64, device=q.device))
        if not self._head.whole:
            everywhere = q.new_zeros(len(q), self.width)
            q = everywhere.index_copy_(1, self._head.ids, q)
        return Block(self._head.ids[places], q=q)

    def extend(self, token_ids: Sequence[int]) -> None:
        self._text.extend(token_ids)
        self._slots.extend(token_ids)


def open_draft(
    draft: LoadedModel, target: LoadedModel, law: Mapping[str, float], drafting: str
) -> BlockDraft:
    """What drafts with a model of kind dflash for one text; `drafting`: argmax or sampled."""
    return BlockDraft(draft, target, law if drafting == "sampled" else None)
