"""A bigram draft: after a token comes the one that followed it most often in the training texts.

The smallest draft that has learnt anything, and so the least that a trained one must beat. Its q is
one-hot at each proposed token, as that of prompt lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np


def count_successors(texts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> dict[int, int]:
    """For each token the one that followed it most often, the lower id where two did alike.

    Args:
        texts: prompt ids and generated ids of each text. What counts is what was generated: its
            first token follows the last one of the prompt.
    """
    before, after = [], []
    for prompt, generated in texts:
        chain = [*prompt[-1:], *generated]
        before.append(np.asarray(chain[:-1], np.int64))
        after.append(np.asarray(chain[1:], np.int64))
    if not before or not sum(map(len, before)):
        return {}
    pairs = np.stack([np.concatenate(before), np.concatenate(after)], 1)
    pairs, counts = np.unique(pairs, axis=0, return_counts=True)
    # By first token, then from the most frequent successor to the least, ties by id.
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    first, place = np.unique(pairs[order, 0], return_index=True)
    return dict(zip(first.tolist(), pairs[order[place], 1].tolist(), strict=True))


class Bigram:
    """Proposes the chain of most frequent successors; it ends at a token that none ever followed.

    Args:
        successors: token -> the one that follows.
    """

    def __init__(self, successors: Mapping[int, int]) -> None:
        self._successors = successors
        self.start(())

    def start(self, token_ids: Sequence[int]) -> None:
        """Take `token_ids` as the whole text."""
        self._last: int | None = None
        self.extend(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens to the text."""
        if len(token_ids):
            self._last = int(token_ids[-1])

    def propose(self, count: int) -> list[int]:
        """At most `count` tokens; none after a token without a successor."""
        found: list[int] = []
        token = self._last
        while len(found) < count and token in self._successors:
            token = self._successors[token]
            found.append(token)
        return found
