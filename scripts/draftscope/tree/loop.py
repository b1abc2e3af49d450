"""The speculative loop over token trees: draft a tree, read it in one pass, keep one path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters.model import Block
from draftscope.live.loop import Decoded, RunningText, clock
from draftscope.tree.decoder import TreeDecoder
from draftscope.tree.draft import Drafted, TreeDraft, check_drawable
from draftscope.tree.rules import TreeRule, tree_rule_of
from draftscope.tree.shape import ROOT, Shape
from draftscope.tree.verify import Walk

Watch = Callable[[int, Drafted, Tensor, Walk], None]


class TreeRound(NamedTuple):
    """One round: the tree that was offered, what of it stood, and where the time went (seconds).

    After an accepted end of text nothing was offered: `nodes` and `offered_depth` leave out the
    levels behind it.
    `cut`: budget or context left less room than the shape's depth. The rest is as in a round of
    the chain loop; in round 0 the prompt is among `verify_tokens`.
    """

    start: int
    nodes: int
    offered_depth: int
    accepted: int
    emitted: int
    cut: bool
    end: str
    verify_tokens: int
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    other_seconds: float


@torch.inference_mode()
def decode_tree(
    target: TreeDecoder,
    drafter: TreeDraft,
    prompt_ids: Sequence[int],
    *,
    shape: Shape,
    law: Mapping[str, float],
    budget: int,
    eos_ids: frozenset[int],
    rng: np.random.Generator,
    rule: TreeRule | None = None,
    where: str = "",
    watch: Watch | None = None,
) -> Decoded:
    """Decode one prompt; each round offers a tree, cut at the budget and the contexts.

    How a text ends: see `RunningText`; the accepted path is a block there. Nodes deeper than the
    budget left are not drafted, so every node has its position in the target's context.

    Args:
        law: temperature, top_k and top_p of the target.
        budget: most tokens to emit, an end-of-text token included.
        rng: the only source of chance, for draft and target; greedy decoding takes nothing.
        rule: how nodes are accepted; by default the lossless rule of the law.
        where: names the prompt in errors.
        watch: is shown each round's start, tree, target logits [n + 1, V] (row 0 after the text,
            row i + 1 after node i) and walk.

    Returns:
        A `Decoded` whose rounds are `TreeRound`.

    Raises:
        UserError: the prompt is empty or fills the context, logits are NaN, or the rule needs
            drawn children and the shape chooses among them.
        ValueError: budget < 1.
    """
    rule = rule or tree_rule_of(law)
    if rule.drawn:
        check_drawable(shape)
    text = _TreeText(
        target, prompt_ids, law=law, budget=budget, eos_ids=eos_ids, rng=rng, where=where
    )
    now = clock(target.device)
    lap = now()
    target.reset()
    drafter.start(text.ids, rng)
    while text.stop is None:
        with text.locating(drafter.name):
            drafted = drafter.propose_tree(shape, text.left, rule.drawn, target.width)
        proposed = now()
        logits, read = _verify(target, text.ids, drafted)
        verified = now()
        walk = text.walk(rule, drafted, logits)
        tested = now()
        if watch is not None:
            watch(text.start, drafted, logits, walk)
        settled = text.settle_walk(drafted, walk)
        if text.stop is None:
            target.keep_path([0, *(node + 1 for node in walk.path)])
            drafter.extend(text.ids[-settled[4] :])
        finished = now()
        spent = (proposed - lap, verified - proposed, tested - verified, finished - tested)
        text.rounds.append(TreeRound(*settled, read, *spent))
        lap = finished
    return text.decoded


def _verify(target: TreeDecoder, ids: Sequence[int], drafted: Drafted) -> tuple[Tensor, int]:
    """The target's logits [n + 1, V] over text and nodes, and how many tokens it read.

    The last token of the text is the root of what is read as tree. Before it stands, in the first
    round, the prompt.
    """
    read, device = len(ids) - target.length, target.device
    if read > 1:
        target.extend(torch.tensor(ids[target.length : -1], device=device), 1)
    tokens = torch.tensor([ids[-1], *drafted.tree.token_ids.tolist()], device=device)
    # An id that the target does not know is rejected, but first it is read.
    tokens = tokens.clamp(max=target.width - 1)
    parents = [ROOT, *(int(parent) + 1 for parent in drafted.tree.parents)]
    return target.extend_tree(tokens, parents, len(tokens)), read + len(drafted.tree)


class _TreeText(RunningText):
    """A text whose rounds are trees."""

    @property
    def start(self) -> int:
        """Generated position of the round's first token."""
        return len(self.ids) - self._first

    def walk(self, rule: TreeRule, drafted: Drafted, logits: Tensor) -> Walk:
        """What the rule makes of a tree, given the target's logits over it."""
        with self.locating(self._target.name):
            return rule.test(drafted, logits, self._law, self._rng, self._counts)

    def settle_walk(
        self, drafted: Drafted, walk: Walk
    ) -> tuple[int, int, int, int, int, bool, str]:
        """Append what the round emits; the first seven fields of its `TreeRound`."""
        tree = drafted.tree
        block = Block(torch.from_numpy(tree.token_ids[walk.path].astype(np.int64)))
        start, _, accepted, emitted, end = self.settle(block, len(walk.path), walk.next_id)
        behind_end = end == "eos" and emitted == accepted
        depths = tree.depths[tree.depths <= accepted] if behind_end else tree.depths
        depth = int(depths.max(initial=0))
        return start, len(depths), depth, accepted, emitted, drafted.cut, end
