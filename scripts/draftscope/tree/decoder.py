"""Decoders that read a token tree behind their text, and keep one path of it.

They are the decoders of the chain loop, with two methods more: `extend_tree` reads tokens that
name their parents, each under a mask that shows it the text and its own path and at the position
that it has on that path; `keep_path` makes the keys and values of one path the continuation of
the text and drops the rest. A tree may be read in several calls, level by level.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from draftscope.errors import UserError
from draftscope.live.cache import rollback_cache
from draftscope.live.lean import LeanDecoder, lean_decoder
from draftscope.live.model import CachedModel, Decoder
from draftscope.live.probe import tolerance
from draftscope.tree.mask import attention_mask, position_ids
from draftscope.tree.selfcheck import check_trees
from draftscope.tree.shape import ROOT

if TYPE_CHECKING:
    from draftscope.models import LoadedModel

log = logging.getLogger(__name__)


class TreeDecoder(Decoder, Protocol):
    """A `Decoder` that also reads trees; `length` counts the tokens of an open tree too."""

    def extend_tree(self, token_ids: Tensor, parents: Sequence[int], keep: int) -> Tensor:
        """Read token_ids [m] below the text; logits [keep, width] of the last ones.

        Args:
            parents: [m] places of the parents among the tokens read since the last `keep_path`
                or `extend`, in the order of reading; -1 for the end of the text.
        """

    def keep_path(self, places: Sequence[int]) -> None:
        """Take the tokens at these places, a path from the text down, as text; drop the others."""


class OpenTree:
    """What has been read behind a text of `base` tokens, in the order of reading.

    Attributes:
        parents: [n] places of the parents, -1 for the end of the text.
        first: the place of the first token that is being read.
    """

    def __init__(self, base: int) -> None:
        self.base, self.first = base, 0
        self.parents: list[int] = []

    def add(self, parents: Sequence[int]) -> None:
        """More tokens are read, below these parents."""
        self.first = len(self.parents)
        self.parents += map(int, parents)

    def positions(self) -> np.ndarray:
        """Positions [m] of the tokens that are being read."""
        return position_ids(self.parents, self.base)[self.first :]

    def mask(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """What they see, an additive mask [1, 1, m, base + n]."""
        return attention_mask(
            self.parents, self.base, self.base, self.first, dtype=dtype, device=device
        )

    def check_path(self, places: Sequence[int]) -> None:
        """Raises ValueError unless the places are a path from the text down."""
        above = ROOT
        for place in places:
            if not 0 <= place < len(self.parents) or self.parents[place] != above:
                raise ValueError(f"places {list(places)} are no path of the tree")
            above = place


class ReadsTrees:
    """Puts trees on top of a `Decoder`, for classes that can `_read_tree` and `_compact`."""

    _tree: OpenTree | None = None

    def extend_tree(self, token_ids: Tensor, parents: Sequence[int], keep: int) -> Tensor:
        if self._tree is None:
            self._tree = OpenTree(self.length)
        self._tree.add(parents)
        return self._read_tree(token_ids, self._tree, keep)

    def keep_path(self, places: Sequence[int]) -> None:
        if self._tree is None:
            if places:
                raise ValueError("no tree is open")
            return
        self._tree.check_path(places)
        base, self._tree = self._tree.base, None
        self._compact(base, list(places))

    def extend(self, token_ids: Tensor, keep: int) -> Tensor:
        self._refuse_open("extend")
        return super().extend(token_ids, keep)

    def crop(self, length: int) -> None:
        self._refuse_open("crop")
        super().crop(length)

    def reset(self) -> None:
        self._tree = None
        super().reset()

    def _refuse_open(self, what: str) -> None:
        if self._tree is not None:
            raise ValueError(f"cannot {what} while a tree is open: keep a path of it first")


class TreeModel(ReadsTrees, CachedModel):
    """A transformers model that reads trees.

    Raises:
        UserError: as `CachedModel` and `check_trees`; or, on a probe, the logits behind a path
            that was kept are not the model's.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        check_trees(loaded)
        super().__init__(loaded)
        error = tree_probe(self, loaded.model)
        if not error <= tolerance(loaded.model.dtype):
            raise UserError(
                f"model {loaded.name} cannot decode with trees: with a cache that keeps one path "
                f"its logits are off by {error:.2g} standard deviations "
                f"({type(loaded.model).__name__}, attention {loaded.attention})"
            )

    def _read_tree(self, token_ids: Tensor, tree: OpenTree, keep: int) -> Tensor:
        positions = torch.from_numpy(tree.positions()).to(self.device)
        mask = tree.mask(self._dtype, self.device)
        return self._read(token_ids, mask, positions[None], keep)

    def _compact(self, base: int, places: list[int]) -> None:
        index = torch.tensor(places, dtype=torch.long, device=self.device)
        for layer in self._cache.layers:
            layer.select(base, index)
        self.length = base + len(places)


class TreeLean(ReadsTrees, LeanDecoder):
    """A lean decoder that reads trees."""

    def _read_tree(self, token_ids: Tensor, tree: OpenTree, keep: int) -> Tensor:
        positions = torch.from_numpy(tree.positions()).to(self.device)
        mask = tree.mask(self._embedding.dtype, self.device)
        states = self._states(token_ids, positions, mask[0, 0])
        return self._logits(states[len(token_ids) - keep :])

    def _compact(self, base: int, places: list[int]) -> None:
        end = base + len(places)
        if places != list(range(len(places))):
            index = base + torch.tensor(places, device=self.device)
            for layer in self._layers:
                layer.keys[base:end] = layer.keys[index]
                layer.values[base:end] = layer.values[index]
        self.length = end


@torch.inference_mode()
def tree_probe(decoder: TreeDecoder, model: Any) -> float:
    """Largest difference of a decoder's logits over a tree from the model's own on each path.

    In standard deviations of the logits. The tree has two branches of two levels and is read in
    two calls; then the path that was read last is kept and the text goes on behind it.
    """
    ids = torch.arange(20, device=decoder.device) * 7 % min(decoder.width, 1000)
    text, tree, after = ids[:9], ids[9:15], ids[15:18]
    parents = [-1, 0, 0, 1, 2, 2]
    decoder.reset()
    decoder.extend(text, 1)
    read = [decoder.extend_tree(tree[:3], parents[:3], 3)]
    read.append(decoder.extend_tree(tree[3:], parents[3:], 3))
    decoder.keep_path([0, 2, 5])
    read.append(decoder.extend(after, 3))
    decoder.reset()
    paths = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4], [0, 2, 5]]
    wanted = [
        model(input_ids=torch.cat((text, tree[path]))[None], use_cache=False).logits[0, -1:]
        for path in paths
    ]
    whole = torch.cat((text, tree[[0, 2, 5]], after))[None]
    wanted.append(model(input_ids=whole, use_cache=False).logits[0, -3:])
    wanted = torch.cat(wanted).float()
    return float((torch.cat(read).float() - wanted).abs().max() / wanted.std())


def open_tree_decoder(loaded: LoadedModel) -> TreeDecoder:
    """The fastest decoder of trees that is known to give this model's logits on every path.

    Raises:
        UserError: as `TreeModel`.
    """
    rollback_cache(loaded.model, loaded.name)
    lean = lean_decoder(loaded, TreeLean)
    if lean is not None:
        error = tree_probe(lean, loaded.model)
        if error <= tolerance(loaded.model.dtype):
            return lean
        log.info("%s: lean trees differ by %.2g, transformers reads them", loaded.name, error)
    return TreeModel(loaded)
