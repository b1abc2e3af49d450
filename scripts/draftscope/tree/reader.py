"""A model that reads a text once, and then nodes of many trees that hang below its positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from draftscope.errors import UserError
from draftscope.logits import logits_of
from draftscope.tree.mask import attention_mask, position_ids

if TYPE_CHECKING:
    from draftscope.models import LoadedModel


class TreeReader:
    """A causal language model over one text and the trees along it.

    Nodes are numbered in the order they are read, from 0 after each `read_text` or
    `forget_nodes`; a node may hang below any node read before.

    Raises:
        UserError: a layer of the model does not attend to everything before it (a sliding window,
            a recurrent state), which a mask over nodes does not describe.
    """

    deepest: int | None = None  # levels that its trees can have; as many as one likes

    def __init__(self, loaded: LoadedModel) -> None:
        for layer in DynamicCache(config=loaded.model.config).layers:
            if type(layer) is not DynamicLayer:
                raise UserError(
                    f"model {loaded.name} cannot read trees: its cache holds a "
                    f"{type(layer).__name__}; use a model with full attention in every layer"
                )
        self.loaded = loaded
        self._body = loaded.model.base_model
        self._dtype = loaded.model.get_input_embeddings().weight.dtype
        self._text = 0
        self._cache: DynamicCache | None = None
        self._parents: list[int] = []
        self._prefixes: list[int] = []

    def read_text(self, token_ids: Sequence[int]) -> Tensor:
        """Start over with a text of T tokens; last hidden states [T, width]."""
        self._cache = DynamicCache(config=self.loaded.model.config)
        self._text, self._parents, self._prefixes = len(token_ids), [], []
        return self._body(
            input_ids=self._ids(token_ids), cache=self._cache, use_cache=True
        ).last_hidden_state[0]

    def read_nodes(
        self, token_ids: Sequence[int], parents: Sequence[int], prefixes: Sequence[int]
    ) -> Tensor:
        """Read m more nodes in one pass; last hidden states [m, width].

        Args:
            token_ids: [m].
            parents: [m] numbers of nodes read before, or earlier in this call; -1 for a root.
            prefixes: [m] how many tokens of the text the node's tree hangs below.
        """
        first = len(self._parents)
        self._parents += map(int, parents)
        self._prefixes += map(int, prefixes)
        ids = self._ids(token_ids)
        mask = attention_mask(
            self._parents, self._prefixes, self._text, first, dtype=self._dtype, device=ids.device
        )
        places = position_ids(self._parents, np.array(self._prefixes, np.int64))[first:]
        return self._body(
            input_ids=ids,
            attention_mask=mask,
            position_ids=torch.from_numpy(places)[None].to(ids.device),
            cache=self._cache,
            use_cache=True,
        ).last_hidden_state[0]

    def forget_nodes(self) -> None:
        """Keep the text and drop all nodes."""
        self._cache.crop(-len(self._parents))
        self._parents, self._prefixes = [], []

    def logits(self, states: Tensor) -> Tensor:
        """Logits [n, V] of states [n, width]."""
        return logits_of(self.loaded, states)

    def _ids(self, token_ids: Sequence[int]) -> Tensor:
        device = self.loaded.model.get_input_embeddings().weight.device
        return torch.tensor([list(map(int, token_ids))], dtype=torch.long, device=device)
