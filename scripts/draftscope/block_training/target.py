"""What block drafters learn from: the target's hidden states and distributions over its own texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters.features import read_features
from draftscope.drafters.head import DraftHead
from draftscope.logits import logits_of
from draftscope.training.examples import Example
from draftscope.training.loss import blocks

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


class Reading(NamedTuple):
    """The target's pass over one text of N tokens, n of them generated.

    `features` [N, layers read * width]; `states` [n, width], which predict the generated tokens;
    `log_z` [n], the logarithm of the sum of the exponentials of all logits there.
    """

    features: Tensor
    states: Tensor
    log_z: Tensor | None


class TargetSide:
    """Readings of texts, kept while they fit `cache_mb`; nothing of it carries a gradient.

    Args:
        target: the model that emitted the texts.
        layers: decoder layers whose output is read.
        vocabulary: ids that drafts propose.
        distributions: whether the loss asks for the target's probabilities.
    """

    def __init__(
        self,
        target: LoadedModel,
        layers: Sequence[int],
        vocabulary: np.ndarray,
        cache_mb: int,
        distributions: bool,
    ) -> None:
        self.target, self.head = target, DraftHead(target, vocabulary)
        self._layers, self._distributions = tuple(layers), distributions
        self._room = cache_mb * 1_000_000
        self._kept: dict[Example, Reading] = {}

    @torch.no_grad()
    def read(self, text: Example) -> Reading:
        """The reading of a text, on the target's device."""
        if text in self._kept:
            return Reading(*(self._put(part) for part in self._kept[text]))
        ids = torch.tensor([*text.prompt, *text.emitted], dtype=torch.long)
        with self.own_type():
            features, final = read_features(self.target, ids, self._layers)
            states = final[len(text.prompt) - 1 : -1].clone()
            log_z = None
            if self._distributions:
                parts = blocks(len(states), self.target.head_size)
                log_z = torch.cat([self._log_z(states[part]) for part in parts])
        found = Reading(features, states, log_z)
        size = sum(part.numel() * part.element_size() for part in found if part is not None)
        if size <= self._room:
            self._room -= size
            self._kept[text] = Reading(*(None if p is None else p.cpu() for p in found))
        return found

    @torch.no_grad()
    def log_p(self, states: Tensor, log_z: Tensor) -> Tensor:
        """log p [..., W] at the draft vocabulary, p normalised over all ids, at temperature 1."""
        with self.own_type():
            return self.head(states).float() - log_z[..., None]

    @torch.no_grad()
    def embed(self, token_ids: Tensor) -> Tensor:
        """Input embeddings [..., width] of token ids."""
        embedding = self.target.model.get_input_embeddings()
        return embedding(token_ids.to(embedding.weight.device))

    def own_type(self) -> torch.autocast:
        """Compute as the target does by itself, whatever type the draft is trained in."""
        return torch.autocast(self.target.device.type, enabled=False)

    def _log_z(self, states: Tensor) -> Tensor:
        return torch.logsumexp(logits_of(self.target, states).float(), -1)

    def _put(self, part: Tensor | None) -> Tensor | None:
        return None if part is None else part.to(self.target.device)
