"""What a node of a token tree may see: masks and positions for one pass over many nodes.

The keys of a pass are the text, T tokens, then the nodes in the order they were read. A node sees
the beginning of the text that its tree hangs below, its ancestors and itself (SpecInfer,
arXiv 2305.09781, section 4). A node stands where it would stand in a text of its path alone, so
siblings share a position id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def depths_of(parents: Sequence[int] | np.ndarray) -> np.ndarray:
    """Depth of each node, from 1; parents [n] are indices of earlier nodes, -1 for a root.

    Raises:
        ValueError: a parent does not stand before its child.
    """
    depths = np.ones(len(parents), np.int64)
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(
                f"node {node} has parent {parent}: parents stand before their children"
            )
        if parent >= 0:
            depths[node] = depths[parent] + 1
    return depths


def position_ids(
    parents: Sequence[int] | np.ndarray, prefixes: Sequence[int] | np.ndarray | int
) -> np.ndarray:
    """Positions [n] of nodes whose trees hang below a text of `prefixes` tokens (one, or [n])."""
    return np.asarray(prefixes) + depths_of(parents) - 1


def visible(
    parents: Sequence[int] | np.ndarray,
    prefixes: Sequence[int] | np.ndarray | int,
    text: int,
    first: int = 0,
) -> np.ndarray:
    """Booleans [n - first, text + n]: the key is seen by the node.

    Args:
        parents: [n] indices of earlier nodes, -1 for a root.
        prefixes: text tokens that a node sees: one number, or [n], alike within a tree.
        text: T, tokens of the text that are keys.
        first: leave out the rows of the nodes before it, which were read in an earlier pass.

    Raises:
        ValueError: parents do not stand before their children, or a prefix is no part of the text.
    """
    count = len(parents)
    below = np.broadcast_to(np.asarray(prefixes, np.int64), (count,))
    if count and not 0 <= below.min() <= below.max() <= text:
        raise ValueError(f"prefixes from {below.min()} to {below.max()} of a text of {text} tokens")
    seen = np.zeros((count, text + count), bool)
    seen[:, :text] = np.arange(text) < below[:, None]
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(
                f"node {node} has parent {parent}: parents stand before their children"
            )
        if parent >= 0:
            seen[node, text:] = seen[parent, text:]
        seen[node, text + node] = True
    return seen[first:]


def attention_mask(
    parents: Sequence[int] | np.ndarray,
    prefixes: Sequence[int] | np.ndarray | int,
    text: int,
    first: int = 0,
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> Tensor:
    """The additive mask [1, 1, n - first, text + n] that transformers takes as it is.

    0 where a key is seen, the lowest number of `dtype` (the model's) where it is not; arguments
    and errors as `visible`.
    """
    seen = torch.from_numpy(visible(parents, prefixes, text, first)).to(device)
    mask = torch.zeros(seen.shape, dtype=dtype, device=device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[None, None]
