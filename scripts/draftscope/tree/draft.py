"""A language model that drafts token trees, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from draftscope import sampling
from draftscope.drafters.model import ModelDraft
from draftscope.errors import UserError
from draftscope.tree.candidates import Candidates, candidates
from draftscope.tree.shape import ROOT, Growth, Shape, Tree
from draftscope.tree.verify import draw_children


class Drafted(NamedTuple):
    """A tree to verify.

    `q` has a row for the text and one for each node: what the children there were drawn from
    [W], None where there are none or where they were chosen and not drawn. `cut`: budget or
    context left less room than the shape's depth.
    """

    tree: Tree
    q: list[Tensor | None]
    cut: bool


class TreeDraft(ModelDraft):
    """A draft model with its own cache; the tree's levels are read as one pass each.

    The last level is never read. Of what was read, the cache keeps what turns out to be text.
    """

    def propose_tree(self, shape: Shape, most_depth: int, drawn: bool, width: int) -> Drafted:
        """A tree of `shape`, at most `most_depth` deep and as deep as the draft's context allows.

        Args:
            drawn: children are drawn from the draft's law without replacement, rank by rank,
                which the shape must allow (`check_drawable`); else they are its most probable
                tokens, ties to the lowest id.
            width: of the target; ids from it on are not chosen (drawn, they will be rejected).

        Raises:
            BadLogits: the draft's logits are no numbers.
        """
        decoder = self._decoder
        if decoder.max_positions is not None:
            # The last level is not read, so it may stand one beyond the context.
            most_depth = min(most_depth, decoder.max_positions - len(self._text) + 1)
        growth = Growth(shape, max(most_depth, 0))
        laws: dict[int, Tensor] = {}
        self._places, self._child = {ROOT: ROOT}, {}
        while frontier := growth.frontier:
            logits = self._read(frontier, growth)
            if drawn:
                q = sampling.law(logits, **self._law)
                laws.update(zip(frontier, q, strict=True))
                found = self._draw(q, logits, growth.widest)
            else:
                found = candidates(logits, growth.widest, width=width)
            growth.grow(*(column.tolist() for column in found))
        self._child = {
            (parent, token): node
            for node, (parent, token) in enumerate(
                zip(growth.parents(), growth.token_ids(), strict=True)
            )
        }
        tree = growth.tree()
        # Only shapes that keep all they grow are drawn, so nodes have the same numbers in both.
        rows = [laws.get(node) for node in range(ROOT, len(tree))]
        return Drafted(tree, rows, most_depth < shape.depth)

    def _read(self, frontier: Sequence[int], growth: Growth) -> Tensor:
        """Logits [f, W] after each node of the frontier."""
        decoder = self._decoder
        if frontier == [ROOT]:
            pending = torch.tensor(self._text[decoder.length :], device=decoder.device)
            logits = decoder.extend(pending, 1)
        else:
            token_ids, parents = growth.token_ids(), growth.parents()
            ids = torch.tensor([token_ids[node] for node in frontier], device=decoder.device)
            above = [self._places[parents[node]] for node in frontier]
            logits = decoder.extend_tree(ids, above, len(frontier))
            for node in frontier:
                self._places[node] = len(self._places) - 1
        if len(self._masked):
            logits = logits.index_fill(-1, self._masked, -torch.inf)
        return logits

    def _draw(self, laws: Tensor, logits: Tensor, most: int) -> Candidates:
        """Children in the order drawn, in the place of the most probable ones."""
        uniforms = torch.from_numpy(self._rng.random((len(laws), most)))
        ids, exist = draw_children(laws, uniforms)
        log_q = sampling.log_law(logits, 1.0)
        entropy = torch.special.entr(log_q.exp()).sum(-1)
        return Candidates(ids, log_q.gather(-1, ids).masked_fill(~exist, -torch.inf), entropy)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append the emitted tokens; the cache keeps those of them that were read as tree."""
        kept, node = [], ROOT
        for token in token_ids[:-1]:  # the last one is the target's own, which nobody has read
            node = self._child.get((node, token))
            if node not in self._places:
                break
            kept.append(self._places[node])
        self._decoder.keep_path(kept)
        self._append(token_ids)


def check_drawable(shape: Shape) -> None:
    """Which shapes keep the target's law when their children are drawn.

    Whether a child is offered may depend on the children drawn before it, not on itself: a tree
    that keeps the most probable of its drawn nodes, or a second child without the first, shows
    the target tokens that are not distributed as the draft's law says.

    Raises:
        UserError: a shape that chooses among drawn tokens.
    """
    if shape.kind == "confidence":
        raise UserError(
            "a confidence tree keeps nodes by their probability, so its children cannot be drawn "
            "without losing the target's law; use rule point_mass, which takes chosen children, "
            "or a breadth_first, static or paths tree"
        )
    skeleton = shape.skeleton()
    ranks: dict[int, int] = {}
    for parent, rank in zip(skeleton.parents.tolist(), skeleton.ranks.tolist(), strict=True):
        ranks[parent] = ranks.get(parent, 0) + 1
        if rank != ranks[parent]:
            raise UserError(
                f"a node of the tree has a child of rank {rank} but none of rank {ranks[parent]}: "
                "children that are drawn are tested in order; name all ranks below it in paths"
            )
