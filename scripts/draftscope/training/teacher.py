"""The target as a teacher: its distributions over the texts that it emitted itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from draftscope.logits import hidden_states, logits_of
from draftscope.training.examples import Example
from draftscope.training.loss import blocks

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


class Teacher:
    """Log-probabilities of the target at generated positions, at temperature 1.

    A text is visited several times, and the target's body gives the same states each time: they
    are kept while they fit `cache_mb`, which leaves the head as the only repeated work and changes
    no number. Nothing of it carries a gradient.
    """

    def __init__(self, loaded: LoadedModel, cache_mb: int) -> None:
        self.loaded = loaded
        self._room = cache_mb * 1_000_000
        self._kept: dict[Example, Tensor] = {}

    @torch.no_grad()
    def states(self, text: Example) -> Tensor:
        """States that predict the generated positions, [positions, width of the body]."""
        if text in self._kept:
            return self._kept[text].to(self.loaded.device)
        ids = torch.tensor([*text.prompt, *text.emitted][:-1], dtype=torch.long)
        with self._own_type():
            found = hidden_states(self.loaded, ids)[len(text.prompt) - 1 :].clone()
        size = found.numel() * found.element_size()
        if size <= self._room:
            self._room -= size
            self._kept[text] = found.cpu()  # not where the draft is trained
        return found

    @torch.no_grad()
    def log_p(self, states: Tensor) -> Tensor:
        """Log-probabilities [positions, V] in float32."""
        with self._own_type():
            return torch.log_softmax(logits_of(self.loaded, states).float(), -1)

    def _own_type(self) -> torch.autocast:
        """Compute as the target does by itself, whatever type the draft is trained in."""
        return torch.autocast(self.loaded.device.type, enabled=False)

    @torch.no_grad()
    def entropy(self, text: Example) -> np.ndarray:
        """Entropy at each generated position, in nats, float64 [positions]."""
        states = self.states(text)
        parts = []
        for block in blocks(len(states), self.loaded.head_size):
            log_p = self.log_p(states[block])
            parts.append(-(log_p.exp() * log_p).sum(-1))
        return torch.cat(parts).double().cpu().numpy()
