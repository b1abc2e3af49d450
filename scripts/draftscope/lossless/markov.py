"""Models that are stochastic matrices: the law of every text is known exactly."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from draftscope import seeds
from draftscope.sampling import law as law_of


class MarkovModel:
    """A model whose next token depends on the last two, behind the `Decoder` interface.

    Its state is the text it has read, so a cache that steps back too far or not far enough gives
    another law, as in a real model.

    Args:
        last: [V, V] logits of the next token given the last one (rows).
        before: [V, V] logits added for the token before the last one; None: a first-order chain.
    """

    engine = "markov"

    def __init__(
        self,
        last: Tensor,
        before: Tensor | None = None,
        name: str = "markov",
        max_positions: int | None = None,
    ) -> None:
        self.name, self.width, self.max_positions = name, last.shape[1], max_positions
        self.device = torch.device("cpu")
        self._last = last.double()
        self._before = torch.zeros_like(self._last) if before is None else before.double()
        self._text: list[int] = []

    @property
    def matrix(self) -> Tensor:
        """[V, V] logits of the next token given the last one; all there is in a chain of order 1."""
        return self._last

    @property
    def length(self) -> int:
        return len(self._text)

    def reset(self) -> None:
        self._text = []

    def crop(self, length: int) -> None:
        if not 0 <= length <= len(self._text):
            raise ValueError(f"cannot crop {len(self._text)} tokens to {length}")
        del self._text[length:]

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        self._text += token_ids.tolist()
        return self.logits(self._text, keep)

    def logits(self, text: list[int], keep: int = 1) -> Tensor:
        """Logits [keep, V] of the token after each of the last `keep` prefixes of a text."""
        first = len(text) - keep
        logits = self._last[text[first:]]
        if first:
            return logits + self._before[text[first - 1 : -1]]
        return torch.cat((logits[:1], logits[1:] + self._before[text[:-1]]))

    def text_law(self, prompt: list[int], tokens: int, law: dict[str, float]) -> np.ndarray:
        """Probability of every continuation of `tokens` tokens, an array of that many axes."""
        out = np.empty((self.width,) * tokens)
        for text in itertools.product(range(self.width), repeat=tokens - 1):
            probability = 1.0
            for i, token in enumerate(text):
                probability *= float(self._row(prompt + list(text[:i]), law)[token])
            out[text] = probability * self._row(prompt + list(text), law).numpy()
        return out

    def _row(self, text: list[int], law: dict[str, float]) -> Tensor:
        return law_of(self.logits(text), **law)[0]


def pair(
    vocabulary: int, key: int, noise: float = 1.0, scale: float = 1.5, order: int = 2
) -> tuple[MarkovModel, MarkovModel]:
    """A target and a draft that agrees with it in part; `noise` 0 makes them the same.

    `order` 1 makes the next token depend on the last one alone: few enough contexts that each is
    seen often, so that a text can be tested against its law transition by transition.
    """
    rng = seeds.generator("markov", vocabulary, key)
    shape = (vocabulary, vocabulary)
    last, before, other, earlier = (torch.from_numpy(rng.normal(size=shape)) for _ in range(4))
    if order == 1:
        before, earlier = torch.zeros(shape), torch.zeros(shape)
    target = MarkovModel(scale * last, scale * before / 2, "markov target")
    draft = MarkovModel(
        scale * last + noise * other, scale * before / 2 + noise * earlier / 2, "markov draft"
    )
    return target, draft
