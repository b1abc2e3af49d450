"""Drafts of several texts at once: a model that drafts all rows in one pass, or a drafter a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from draftscope.drafters.model import Block, Drafter, ModelDraft
from draftscope.sampling import BadLogits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from draftscope.live.batched_model import BatchedModel


class BadRow(ValueError):
    """The logits of one row of a batch define no distribution."""

    def __init__(self, row: int, error: BadLogits) -> None:
        super().__init__(f"row {row}: {error}")
        self.row, self.error = row, error


class BatchedDrafter(Protocol):
    """A `Drafter` of several texts; every list has an entry a row."""

    name: str

    def start(self, texts: Sequence[Sequence[int]], rngs: Sequence[np.random.Generator]) -> None:
        """Forget everything and take the prompts, each with its own source of chance."""

    def propose(self, counts: Sequence[int]) -> list[Block]:
        """The next tokens of each row, counts[i] at most.

        Raises:
            BadRow: logits are no numbers.
        """

    def extend(self, emitted: Sequence[Sequence[int]]) -> None:
        """Append the emitted tokens to each row."""

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, numbered anew from 0."""


class SeparateDrafts:
    """One drafter a row, as text drafts have it: they cost no pass that could be shared.

    Args:
        make: gives a new drafter, whose state nothing else uses.
    """

    def __init__(self, make: Callable[[], Drafter]) -> None:
        self._make, self.name = make, make().name
        self._rows: list[Drafter] = []

    def start(self, texts: Sequence[Sequence[int]], rngs: Sequence[np.random.Generator]) -> None:
        self._rows = [self._make() for _ in texts]
        for row, text, rng in zip(self._rows, texts, rngs, strict=True):
            row.start(text, rng)

    def propose(self, counts: Sequence[int]) -> list[Block]:
        blocks = []
        for number, (row, count) in enumerate(zip(self._rows, counts, strict=True)):
            try:
                blocks.append(row.propose(count))
            except BadLogits as error:
                raise BadRow(number, error) from error
        return blocks

    def extend(self, emitted: Sequence[Sequence[int]]) -> None:
        for row, tokens in zip(self._rows, emitted, strict=True):
            row.extend(tokens)

    def select(self, rows: Sequence[int]) -> None:
        self._rows = [self._rows[row] for row in rows]


class _Row:
    """One row of a batched model, as far as a draft keeps its books by it."""

    def __init__(self, model: BatchedModel, row: int) -> None:
        self._model, self.row = model, row
        self.name, self.width, self.device = model.name, model.width, model.device
        self.max_positions = model.max_positions

    @property
    def length(self) -> int:
        return self._model.lengths[self.row]

    def reset(self) -> None:
        self.crop(0)

    def crop(self, length: int) -> None:
        self._model.crop(self.row, length)


class BatchedModelDraft:
    """A draft model that reads the next token of every row in one pass.

    Each row is a `ModelDraft` that asks for its passes; those of all rows are made together.

    Args:
        model: the draft, which nothing else may use.
        law, masked_ids: as for `ModelDraft`.
    """

    def __init__(
        self, model: BatchedModel, law: Mapping[str, float], masked_ids: Sequence[int] = ()
    ) -> None:
        self.name = model.name
        self._model, self._law, self._masked_ids = model, law, masked_ids
        self._rows: list[tuple[_Row, ModelDraft]] = []

    def start(self, texts: Sequence[Sequence[int]], rngs: Sequence[np.random.Generator]) -> None:
        self._model.start(len(texts))
        self._rows = []
        for number, (text, rng) in enumerate(zip(texts, rngs, strict=True)):
            row = _Row(self._model, number)
            draft = ModelDraft(row, self._law, self._masked_ids)
            draft.start(text, rng)
            self._rows.append((row, draft))

    def propose(self, counts: Sequence[int]) -> list[Block]:
        """Rows that are done before others, at the end of a budget, read nothing more."""
        running = [draft.steps(n) for (_, draft), n in zip(self._rows, counts, strict=True)]
        logits: list[torch.Tensor | None] = [None] * len(running)
        blocks: list[Block | None] = [None] * len(running)
        nothing = torch.zeros(0, dtype=torch.long, device=self._model.device)
        while True:
            feeds = [nothing] * len(running)
            for row, steps in enumerate(running):
                if blocks[row] is not None:
                    continue
                try:
                    feeds[row] = steps.send(logits[row])
                except StopIteration as done:
                    blocks[row] = done.value
                except BadLogits as error:
                    raise BadRow(row, error) from error
            if None not in blocks:
                return blocks
            logits = self._model.extend(feeds, [int(block is None) for block in blocks])

    def extend(self, emitted: Sequence[Sequence[int]]) -> None:
        for (_, draft), tokens in zip(self._rows, emitted, strict=True):
            draft.extend(tokens)

    def select(self, rows: Sequence[int]) -> None:
        self._model.select(rows)
        self._rows = [self._rows[row] for row in rows]
        for number, (row, _) in enumerate(self._rows):
            row.row = number
