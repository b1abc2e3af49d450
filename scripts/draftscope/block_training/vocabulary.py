"""The draft vocabulary: the ids that a block drafter may propose.

A small vocabulary makes the output head, which costs a small drafter more than all its layers, as
much cheaper. Elsewhere q is 0, so what is emitted there is rejected and nothing else changes. The
same idea as the draft vocabulary of EAGLE-3 (Li et al. 2025, arXiv:2503.01840).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from draftscope.errors import UserError


def draft_vocabulary(
    texts: Iterable[Sequence[int]], size: int, always: Collection[int], width: int
) -> np.ndarray:
    """The `size` ids that the texts hold most often, ascending; int64.

    Args:
        texts: generated ids of the training texts.
        size: how many ids; all of the target's where it has no more.
        always: ids that are in it whatever their count, such as end of text.
        width: number of the target's logits.

    Ties, ids that never occur among them, go to the lower id.

    Raises:
        UserError: no room for those that must be in.
    """
    if size >= width:
        return np.arange(width)
    forced = sorted({token for token in always if 0 <= token < width})
    if len(forced) > size:
        raise UserError(
            f"a draft vocabulary of {size} ids has no room for the {len(forced)} end-of-text ids"
        )
    counts = np.zeros(width, np.int64)
    for text in texts:
        np.add.at(counts, np.asarray(text, np.int64), 1)
    counts[forced] = np.iinfo(np.int64).max
    return np.sort(np.argsort(-counts, kind="stable")[:size])


def places(vocabulary: np.ndarray, width: int) -> np.ndarray:
    """Index into the vocabulary of each of `width` ids, -1 where it has none; int64 [width]."""
    found = np.full(width, -1, np.int64)
    found[vocabulary] = np.arange(len(vocabulary))
    return found
