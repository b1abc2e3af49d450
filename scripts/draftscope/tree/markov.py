"""Stochastic matrices that read trees."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from draftscope.lossless.markov import MarkovModel
from draftscope.tree.decoder import OpenTree, ReadsTrees
from draftscope.tree.mask import visible


class TreeMarkov(ReadsTrees, MarkovModel):
    """A `MarkovModel` whose logits on a tree are those of each path as a text.

    What a node sees and where it stands is taken from the decoder's bookkeeping, so that a wrong
    mask or position gives another law.
    """

    @classmethod
    def of(cls, model: MarkovModel) -> TreeMarkov:
        """The same matrices, reading trees."""
        return cls(model._last, model._before, model.name, model.max_positions)

    def _read_tree(self, token_ids: Tensor, tree: OpenTree, keep: int) -> Tensor:
        self._text += token_ids.tolist()
        text, read = self._text[: tree.base], self._text[tree.base :]
        before, last = [], []
        for position, seen in zip(
            tree.positions(), visible(tree.parents, 0, 0, tree.first), strict=True
        ):
            path = [read[place] for place in np.flatnonzero(seen)]
            if len(text) + len(path) != position + 1:
                raise ValueError(f"{len(path)} tokens behind {len(text)} end at {position}")
            context = text[-1:] + path
            last.append(context[-1])
            before.append(context[-2] if len(context) > 1 else None)
        logits = self._last[last]
        known = [row for row, token in enumerate(before) if token is not None]
        logits[known] += self._before[[before[row] for row in known]]
        return logits[len(last) - keep :]

    def _compact(self, base: int, places: list[int]) -> None:
        tree = self._text[base:]
        self._text = self._text[:base] + [tree[place] for place in places]
