"""A language model as the draft, and what any draft hands to the live loop."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.drafters import Proposer
from draftscope.errors import UserError

if TYPE_CHECKING:
    from draftscope.live.model import Decoder


class Block:
    """Draft tokens of one round.

    Attributes:
        ids: [k] the drafted ids.
        q: [k, W] the distributions they were drawn from; None where each is one-hot at its id.
        peaks: [k] the highest logit behind each greedy id, for the check on NaN; None otherwise.
    """

    __slots__ = ("ids", "peaks", "q")

    def __init__(self, ids: Tensor, q: Tensor | None = None, peaks: Tensor | None = None) -> None:
        self.ids, self.q, self.peaks = ids, q, peaks


class Drafter(Protocol):
    """Proposes a block, then learns which tokens the target made of it. `width`: its ids' bound."""

    name: str
    width: int

    def start(self, token_ids: Sequence[int], rng: np.random.Generator) -> None:
        """Forget everything, take the prompt as the text and `rng` as the source of chance."""

    def propose(self, count: int) -> Block:
        """The next tokens, `count` at most."""

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append the emitted tokens: the accepted part of the block and the target's own."""


class ModelDraft:
    """A draft model with its own cache, decoding token by token under its law.

    The cache is rolled back to the emitted tokens only: what they share with the block stays.

    Args:
        decoder: the model.
        law: temperature (0 drafts greedily), top_k and top_p of q.
        masked_ids: ids that the draft must not emit, because the target means others by them.
    """

    def __init__(
        self, decoder: Decoder, law: Mapping[str, float], masked_ids: Sequence[int] = ()
    ) -> None:
        self.name, self.width = decoder.name, decoder.width
        self._decoder, self._law, self._greedy = decoder, dict(law), law["temperature"] == 0
        self._masked = torch.tensor(sorted(masked_ids), dtype=torch.long, device=decoder.device)
        self._text: list[int] = []
        self._block = torch.zeros(0, dtype=torch.long)

    def start(self, token_ids: Sequence[int], rng: np.random.Generator) -> None:
        self._decoder.reset()
        self._text, self._rng = [], rng
        self._append(token_ids)

    def _append(self, token_ids: Sequence[int]) -> None:
        if token_ids and max(token_ids) >= self.width:
            raise UserError(
                f"token id {max(token_ids)} is outside the vocabulary of draft {self.name}, "
                f"{self.width} ids"
            )
        self._text.extend(token_ids)

    def propose(self, count: int) -> Block:
        """At most `count` tokens; fewer where the draft's own context ends."""
        steps, decoder = self.steps(count), self._decoder
        try:
            feed = next(steps)
            while True:
                feed = steps.send(decoder.extend(feed, 1))
        except StopIteration as done:
            return done.value

    def steps(self, count: int) -> Generator[Tensor, Tensor, Block]:
        """`propose` as a coroutine: it asks for the passes of its model instead of making them.

        It yields what the model reads next, [n] ids, is sent the logits [1, W] that follow them,
        and returns the block.
        """
        decoder = self._decoder
        if decoder.max_positions is not None:
            # The last drafted token is not read, so it may stand one beyond the context.
            count = min(count, decoder.max_positions - len(self._text) + 1)
        if count < 1:
            self._block = torch.zeros(0, dtype=torch.long, device=decoder.device)
            return Block(self._block)
        pending = torch.tensor(self._text[decoder.length :], device=decoder.device)
        ids, laws, peaks = [], [], []
        while True:
            logits = yield pending
            if len(self._masked):
                logits = logits.index_fill(-1, self._masked, -torch.inf)
            if self._greedy:
                peak, pending = logits.max(-1)
                peaks.append(peak)
            else:
                try:
                    q = sampling.law(logits, **self._law)
                except sampling.BadLogits as error:
                    raise sampling.BadLogits(error.what, (len(ids), *error.index[1:])) from error
                pending = sampling.draw(q, self._rng.random())
                laws.append(q)
            ids.append(pending)
            if len(ids) == count:
                break
        self._block = torch.cat(ids)
        if self._greedy:
            return Block(self._block, peaks=torch.cat(peaks))
        return Block(self._block, q=torch.cat(laws))

    def extend(self, token_ids: Sequence[int]) -> None:
        shared = 0
        for drafted, emitted in zip(self._block.tolist(), token_ids, strict=False):
            if drafted != emitted:
                break
            shared += 1
        self._decoder.crop(min(self._decoder.length, len(self._text) + shared))
        self._append(token_ids)


class TextDraft:
    """A drafter that reads the text and nothing else, such as prompt lookup; q is one-hot."""

    width = 0  # it copies ids that the target has read

    def __init__(self, proposer: Proposer, name: str) -> None:
        self.name, self._proposer = name, proposer

    def start(self, token_ids: Sequence[int], rng: np.random.Generator) -> None:
        self._proposer.start(token_ids)

    def propose(self, count: int) -> Block:
        return Block(torch.tensor(self._proposer.propose(count), dtype=torch.long))

    def extend(self, token_ids: Sequence[int]) -> None:
        self._proposer.extend(token_ids)
