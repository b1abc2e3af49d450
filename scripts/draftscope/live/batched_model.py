"""Several sequences of one model in one pass, each with a length of its own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from draftscope.errors import UserError
from draftscope.live.batched_cache import Layout, ragged_cache
from draftscope.live.probe import DAMAGED, tolerance
from draftscope.logits import logits_of

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

_MASKED_ATTENTION = ("sdpa", "eager")


class BatchedModel:
    """A transformers model that reads a different number of tokens in each row.

    Rows are padded at their end to the longest of the pass, and each writes its keys and values
    behind its own end; a row steps back without the others.

    Attributes:
        lengths: how many tokens each row holds.

    Raises:
        UserError: another engine runs the model, the cache cannot be cropped, the model takes no
            mask or positions of a row's own, or, on a probe, the logits of a row are not those of its text alone.
    """

    engine = "transformers, batched"

    def __init__(self, loaded: LoadedModel) -> None:
        model = loaded.model
        refusal = f"model {loaded.name} cannot decode texts of different lengths together: "
        if not isinstance(model, PreTrainedModel):
            raise UserError(f"{refusal}that takes a model that transformers runs")
        self.name, self.device = loaded.name, loaded.device
        self.width, self.max_positions = loaded.head_size, loaded.max_positions
        self._layout = Layout(self.device)
        self._cache = ragged_cache(model, loaded.name, self._layout)
        self._loaded, self._body = loaded, model.base_model
        self._dtype = model.get_input_embeddings().weight.dtype
        if loaded.attention not in _MASKED_ATTENTION:
            raise UserError(
                f"{refusal}attention {loaded.attention} takes no mask of a row's own; use sdpa or "
                "eager"
            )
        if "position_ids" not in inspect.signature(self._body.forward).parameters:
            raise UserError(f"{refusal}{type(model).__name__} takes no position ids")
        error = ragged_probe(self, model)
        if math.isnan(error):
            raise UserError(f"the logits of model {loaded.name} are NaN; {DAMAGED}")
        if not error <= tolerance(model.dtype):
            raise UserError(
                f"{refusal}its logits are then off by {error:.2g} standard deviations "
                f"({type(model).__name__}, attention {loaded.attention})"
            )

    @property
    def lengths(self) -> list[int]:
        return self._layout.lengths

    @torch.inference_mode()
    def start(self, rows: int) -> None:
        """Forget everything, and hold so many empty rows."""
        self._layout.lengths = [0] * rows
        for layer in self._cache.layers:
            layer.reset()

    def extend(self, feeds: Sequence[Tensor], keep: Sequence[int]) -> list[Tensor]:
        """Read feeds[i] [n_i] after row i; logits [keep[i], width] of its last keep[i] tokens.

        A row may read nothing, which it pays for all the same.
        """
        counts = [len(feed) for feed in feeds]
        layout = self._layout
        layout.place(max(counts))
        hidden = self._body(
            input_ids=pad_sequence(list(feeds), batch_first=True),
            attention_mask=layout.mask(self._dtype),
            position_ids=layout.positions(counts),
            cache=self._cache,
            use_cache=True,
        ).last_hidden_state
        layout.lengths = [a + b for a, b in zip(layout.lengths, counts, strict=True)]
        wanted = [
            row * layout.width + place
            for row, (count, kept) in enumerate(zip(counts, keep, strict=True))
            for place in range(count - kept, count)
        ]
        hidden = hidden.reshape(-1, hidden.shape[-1])
        if len(wanted) < len(hidden):
            hidden = hidden[wanted]
        return list(logits_of(self._loaded, hidden).split(list(keep)))

    def crop(self, row: int, length: int) -> None:
        """Take row `row` back to its first `length` tokens."""
        lengths = self._layout.lengths
        if not 0 <= length <= lengths[row]:
            raise ValueError(f"cannot crop row {row} of {lengths[row]} tokens to {length}")
        lengths[row] = length

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, numbered anew from 0."""
        self._layout.lengths = [self._layout.lengths[row] for row in rows]
        for layer in self._cache.layers:
            layer.select(rows)


@torch.inference_mode()
def ragged_probe(batched: BatchedModel, model: Any) -> float:
    """Largest difference of a batch's logits from those of each text alone, in standard deviations.

    Rows of different lengths read blocks of different sizes, step back by different amounts, read
    on, and lose one of them.
    """
    ids = torch.arange(60, device=batched.device) * 7 % min(batched.width, 1000)
    texts = [ids[:19], ids[20:32], ids[33:49]]
    wrong = ids[40:60]
    whole = [model(input_ids=text[None], use_cache=False).logits[0].float() for text in texts]
    found: list[list[Tensor]] = [[], [], []]
    rows = [0, 1, 2]

    def read(ends: Sequence[int]) -> None:
        feeds = [texts[row][batched.lengths[at] : ends[row]] for at, row in enumerate(rows)]
        for row, logits in zip(rows, batched.extend(feeds, [len(f) for f in feeds]), strict=True):
            found[row].append(logits)

    batched.start(3)
    read((9, 4, 6))
    for drafted in ((5, 0, 3), (1, 2, 2)):
        lengths = list(batched.lengths)
        batched.extend([wrong[:n] for n in drafted], [0] * 3)
        for row, length in enumerate(lengths):
            batched.crop(row, length)
        read((13, 5, 6) if drafted[0] == 5 else (14, 9, 10))
    rows = [2, 0]
    batched.select(rows)
    read((15, 0, 11))
    read((19, 0, 16))
    batched.start(0)
    errors = [
        (torch.cat(parts).float() - wanted[: sum(map(len, parts))]).abs().max() / wanted.std()
        for parts, wanted in zip(found, whole, strict=True)
    ]
    return float(torch.stack(errors).max())
