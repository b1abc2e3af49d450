"""A causal language model and its cache as one thing that reads tokens and steps back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.live.cache import BLOCK, rollback_cache
from draftscope.live.lean import lean_decoder
from draftscope.live.probe import DAMAGED, probe, tolerance
from draftscope.logits import bare_head, logits_of

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

_MASKED_ATTENTION = ("eager", "sdpa")  # those that take an additive mask of four dimensions
_WIDEST_BLOCK = 64  # more new tokens than this come in a prefill, where transformers masks


class Decoder(Protocol):
    """What the loop needs of a model; one sequence, and a state that can step back.

    `length` is how many tokens the state holds, `max_positions` the most it can hold (None: no
    limit), `width` the number of logits, `engine` what runs the model.
    """

    engine: str
    name: str
    length: int
    width: int
    max_positions: int | None
    device: torch.device

    def reset(self) -> None:
        """Forget everything."""

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        """Read token_ids [n] after the present text; logits [keep, width] of the last ones."""

    def crop(self, length: int) -> None:
        """Go back to the state after the first `length` tokens."""


class CachedModel:
    """A transformers model behind the `Decoder` interface.

    The body and the head are called apart, so that the head runs on the positions that are
    needed and on no others, and one precomputed mask serves every verification pass.

    Raises:
        UserError: the cache cannot be cropped; or, on a probe, the logits are not the model's:
            stepping back left a trace, or the head is not all that follows the body.
    """

    engine = "transformers"

    def __init__(self, loaded: LoadedModel) -> None:
        model = loaded.model
        self.name, self.device = loaded.name, loaded.device
        self.width, self.max_positions = loaded.head_size, loaded.max_positions
        self.length = 0
        self._cache = rollback_cache(model, loaded.name)
        self._loaded, self._body = loaded, model.base_model
        self._head = bare_head(model)
        self._masked = loaded.attention in _MASKED_ATTENTION
        self._dtype = model.get_input_embeddings().weight.dtype
        self._positions = torch.zeros(1, 0, dtype=torch.long, device=self.device)
        self._masks: dict[int, Tensor] = {}
        error = probe(self, model)
        if math.isnan(error):
            raise UserError(f"the logits of model {loaded.name} are NaN; {DAMAGED}")
        if not error <= tolerance(model.dtype):
            raise UserError(
                f"model {loaded.name} cannot decode speculatively: with a cache that steps back "
                f"its logits are off by {error:.2g} standard deviations "
                f"({type(model).__name__}, attention {loaded.attention}); use a model with full "
                "attention in every layer"
            )

    def reset(self) -> None:
        self.crop(0)

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        count = token_ids.shape[0]
        end = self.length + count
        if end > self._positions.shape[1]:
            self._reserve(end)
        positions = self._positions[:, self.length : end]
        return self._read(token_ids, self._mask(count, end), positions, keep)

    def _read(self, token_ids: Tensor, mask: Tensor | None, positions: Tensor, keep: int) -> Tensor:
        """token_ids [n] under an additive mask [1, 1, n, length + n] at positions [1, n]."""
        hidden = self._run_body(
            input_ids=token_ids[None], attention_mask=mask, position_ids=positions
        )
        count = token_ids.shape[0]
        self.length += count
        if keep < count:
            hidden = hidden[count - keep :]
        return self._head(hidden) if self._head is not None else logits_of(self._loaded, hidden)

    def _run_body(self, **inputs: Tensor | None) -> Tensor:
        """The final states [n, width] of what is read."""
        return self._body(cache=self._cache, use_cache=True, **inputs).last_hidden_state[0]

    def crop(self, length: int) -> None:
        if length != self.length:
            self._cache.crop(length - self.length)
            self.length = length

    @property
    def cache_lengths(self) -> set[int]:
        """The lengths that the layers of the cache really have; one value, if all is well."""
        return {layer.get_seq_length() for layer in self._cache.layers}

    def _reserve(self, end: int) -> None:
        room = -(-2 * end // BLOCK) * BLOCK
        self._positions = torch.arange(room, device=self.device)[None]
        self._masks.clear()

    def _mask(self, count: int, end: int) -> Tensor | None:
        """Additive mask [1, 1, count, end] for new tokens after a past; None where none is needed.

        It is the last `end` columns of a wider one that is triangular at its right edge.
        """
        if not self._masked or not 1 < count <= _WIDEST_BLOCK or count == end:
            return None
        mask = self._masks.get(count)
        if mask is None:
            room = self._positions.shape[1]
            mask = torch.zeros(count, room, dtype=self._dtype, device=self.device)
            later = torch.ones(count, count, dtype=torch.bool, device=self.device).triu(1)
            mask[:, room - count :].masked_fill_(later, torch.finfo(self._dtype).min)
            mask = self._masks[count] = mask[None, None]
        return mask[..., mask.shape[-1] - end :]


def open_decoder(loaded: LoadedModel) -> Decoder:
    """The fastest decoder that is known to give this model's logits.

    Each has a cache of its own, so a model may be target and draft at once.

    Raises:
        UserError: the model's cache cannot be cropped, or there is no model: prompt lookup.
    """
    if loaded.model is None:
        raise UserError(f"{loaded.name} ({loaded.kind}) proposes tokens but has no passes to run")
    if (own := getattr(loaded.model, "open_decoder", None)) is not None:
        return own(loaded)  # a model that another engine runs
    rollback_cache(loaded.model, loaded.name)
    return lean_decoder(loaded) or CachedModel(loaded)
