"""What a DFlash drafter proposes at every position of a text, teacher-forced, many blocks a pass.

The text is known, so the target reads it once and every place where a round may start is drafted
from the same keys and values. A block sees the context strictly before its anchor and itself, as
it does live.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters import proposal_schemas  # noqa: F401  (registers them)
from draftscope.drafters.dflash import block_mask
from draftscope.drafters.features import Features, decoder_layers, read_features
from draftscope.drafters.head import DraftHead
from draftscope.drafters.slots import block_tokens
from draftscope.errors import UserError
from draftscope.models import LoadedModel
from draftscope.models.dflash import BlockModel, check_target

# Numbers that attention holds at one time, and numbers that the head does.
ATTENTION_SCORES, LOGITS = 1 << 24, 1 << 24


class TextBlocks:
    """The blocks of one drafter along texts of its target.

    Raises:
        UserError: the drafter is of another target, or that shows no hidden states.
    """

    def __init__(self, draft: LoadedModel, target: LoadedModel) -> None:
        check_target(draft, target)
        model: BlockModel = draft.model
        self.network, self.head = model.network, DraftHead(target, model.vocabulary)
        self._target = target
        self._embedding = target.model.get_input_embeddings()
        decoder_layers(target, self.network.shape.feature_layers)

    @property
    def target_ids(self) -> int:
        """Ids that the target's head has logits for."""
        return self._target.head_size

    @property
    def most(self) -> int:
        """Tokens that a block proposes."""
        return self.network.shape.block_size - 1

    @torch.inference_mode()
    def states(
        self, token_ids: Sequence[int], first: int
    ) -> Iterator[tuple[slice, Tensor, Features]]:
        """States of the blocks anchored at positions first, first + 1, ... of a text.

        Returns:
            For a few anchors at a time: which of them, the states [anchors, block_size, width] in
            the target's type, and the target's features of the whole text.
        """
        ids = torch.tensor([int(token) for token in token_ids], dtype=torch.long)
        found = read_features(self._target, ids, self.network.shape.feature_layers)
        weight, size = self.network.mask_embedding, self.network.shape.block_size
        device = weight.device
        context = self.network.fuse(found.layers.to(device, weight.dtype))
        past = self.network.keys_values(context, torch.arange(len(ids), device=device))
        tokens = block_tokens(self.network.shape, ids.tolist(), range(first, len(ids)))
        tokens = tokens.to(self._embedding.weight.device)
        start = first
        while start < len(ids):
            stop = min(start + self._together(len(ids)), len(ids))
            anchors = torch.arange(start, stop, device=device)
            slots = self.network.block_inputs(tokens[start - first : stop - first], self._embedding)
            positions = (anchors[:, None] + torch.arange(size, device=device)).flatten()
            # Nobody sees what stands at the last anchor or after it.
            seen = [(keys[:, : stop - 1], values[:, : stop - 1]) for keys, values in past]
            mask = block_mask(anchors, stop - 1, size)
            states = self.network(slots, positions, seen, mask)
            yield slice(start - first, stop - first), states.unflatten(0, (-1, size)), found
            start = stop

    def _together(self, text: int) -> int:
        """Anchors a pass: the larger root of heads * (a * size) * (text + a * size) = the most."""
        shape = self.network.shape
        most = ATTENTION_SCORES / shape.heads
        rows = (math.sqrt(text * text + 4 * most) - text) / 2
        fits = min(rows / shape.block_size, LOGITS / (self.most * len(self.head.ids)))
        return max(1, int(fits))

    def logits(self, states: Tensor) -> Tensor:
        """Logits [..., W] over the draft vocabulary, float32, of states [..., width]."""
        weight = self._embedding.weight
        return self.head(states.to(self._target.device, weight.dtype)).float()

    @torch.inference_mode()
    def propose(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> np.ndarray:
        """Argmax tokens [tokens, block_size - 1] of a round that starts at each generated position.

        Raises:
            UserError: logits that are no numbers.
        """
        found = np.empty((len(token_ids), self.most), np.int32)
        read = [*prompt_ids, *token_ids][:-1]  # nothing is drafted behind the last token
        for rows, states, _ in self.states(read, len(prompt_ids) - 1):
            peaks, places = self.logits(states[:, 1:]).max(-1)
            if not bool(torch.isfinite(peaks).all()):
                raise UserError(
                    f"NaN or infinity in the logits of blocks from generated position {rows.start} "
                    "on; a narrow data type may have overflowed, try float32"
                )
            found[rows] = self.head.ids[places].cpu().numpy()
        return found


def proposal_row(blocks: TextBlocks, row: Mapping[str, object]) -> dict[str, object]:
    """The columns of schema proposals, beyond its keys, for a row of schema trajectories.

    Raises:
        UserError: as `TextBlocks.propose`, with the prompt.
    """
    known = set(blocks.head.ids.tolist())
    tokens = row["token_ids"]
    try:
        drafted = blocks.propose(row["prompt_token_ids"], tokens)
    except UserError as error:
        raise UserError(f"prompt {row['prompt_id']}, sample {row['sample']}: {error}") from error
    return {
        "token_ids": tokens,
        "draft_ids": drafted.reshape(-1),
        "outside": sum(token not in known for token in tokens),
    }
