"""Score token trees along trajectories: a tree at every generated position, teacher-forced.

The greedy text is known, so all of its trees are drafted and scored together. Each model reads the
text once. The draft then reads the nodes of many trees level by level, the target those that have
children in one pass. A node sees the text before its tree, its ancestors and itself, so its
distribution is that of its path read alone. Each tree's greedy path is read off the text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from draftscope import sampling
from draftscope.drafters import TREES
from draftscope.ends import effective_budget
from draftscope.errors import UserError
from draftscope.logits import check_halves
from draftscope.progress import progress
from draftscope.scoring import LARGEST_BLOCK, check_readable
from draftscope.tree.candidates import Candidates, candidates
from draftscope.tree.log import Columns, node_log
from draftscope.tree.reader import TreeReader
from draftscope.tree.selfcheck import check_trees
from draftscope.tree.shape import ROOT, Growth, Shape, Tree

if TYPE_CHECKING:
    from draftscope.models import LoadedModel
    from draftscope.models.vocabulary import Alignment

# Most nodes read at one time: their mask has so many rows, and as many columns beside the text's.
NODES = 512


class Outlook(NamedTuple):
    """The target on n nodes of t trees, T=1, in nats.

    log_p [n], and entropy [n] of the distributions they are from; of the distributions at the
    roots argmax [t] and top2_gap [t], how far apart the two best logits are.
    """

    log_p: np.ndarray
    entropy: np.ndarray
    argmax: np.ndarray
    top2_gap: np.ndarray


@dataclass
class TreeScores:
    """Columns of the schemas `nodes` and `trees`, one entry a trajectory.

    `checks` has a row a trajectory for `draftscope.scoring.check_disagreement`: prompt_id,
    sample, top2_gap and target_disagreement, arrays [tokens].
    """

    nodes: list[Columns] = field(default_factory=list)
    trees: list[Columns] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)


def score_trees(
    target: LoadedModel,
    draft: LoadedModel,
    alignment: Alignment,
    trajectories: Sequence[Mapping[str, Any]],
    shape: Shape,
    nodes: int = NODES,
    past_end: bool = False,
) -> TreeScores:
    """Draft and score a tree at every generated position of greedy trajectories.

    Each trajectory is a pass of its own: its numbers depend on no other.

    Args:
        alignment: of the draft's vocabulary to the target's (`models.vocabulary.align`). Ids that
            the draft means otherwise are masked before its softmax; ids that the target's head
            lacks keep their probability and are no candidates, so every node is a token of both.
        trajectories: rows of the schema `trajectories`, decoded greedily by the target; skipped
            ones give nothing.
        draft: a language model, or a DFlash drafter.
        shape: of the trees. A tree is cut at the level where the budget of its trajectory or the
            context of a model ends.
        nodes: most nodes that are read at one time.
        past_end: grow trees whole past the end of their text, as published; the nodes there are
            marked as not offered. Which nodes a confidence tree holds depends on its room, so
            those are cut all the same.

    Raises:
        UserError: a model cannot read trees (no full attention, or an attention implementation
            that ignores their mask), cannot read a trajectory, or gives NaN; the shape is deeper
            than the draft's blocks.
    """
    for model in (target, draft):
        if model.model is None:
            raise UserError(
                f"{model.name} ({model.kind}) has no distribution to grow or score a tree with"
            )
        for row in trajectories:
            check_readable(model, row)
    scores = TreeScores()
    usable = [row for row in trajectories if row["status"] == "ok" and len(row["token_ids"])]
    total = sum(len(row["token_ids"]) for row in usable)
    with torch.inference_mode(), progress(total, f"scoring trees of {target.name}") as reporter:
        readers = _reader(target), _reader(draft, target)
        if (deepest := readers[1].deepest) is not None and shape.depth > deepest:
            raise UserError(
                f"a tree of {shape.depth} levels is deeper than the blocks of {draft.name}, which "
                f"have {deepest} drafted tokens; lower its depth to {deepest}"
            )
        for trajectory in usable:
            room = depth_limits(trajectory, target, draft)
            whole = past_end and shape.kind != "confidence"
            limits = context_limits(trajectory, target, draft) if whole else room
            found = _trees(*readers, alignment, trajectory, shape, nodes, limits)
            _add(scores, trajectory, *found, room < shape.depth, room if whole else None)
            reporter.update(len(trajectory["token_ids"]))
    return scores


def _reader(model: LoadedModel, target: LoadedModel | None = None) -> TreeReader:
    if model.kind in TREES:  # a draft that reads its target's states
        return importlib.import_module(TREES[model.kind]).open_reader(model, target)
    check_halves(model)
    check_trees(model)
    return TreeReader(model)


def _add(
    scores: TreeScores,
    trajectory: Mapping[str, Any],
    trees: list[Tree],
    outlook: Outlook,
    cut: np.ndarray,
    room: np.ndarray | None,
) -> None:
    nodes, rows = node_log(trajectory, trees, outlook.log_p, outlook.entropy, cut, room)
    scores.nodes.append(nodes)
    scores.trees.append(rows)
    scores.checks.append(
        {
            "prompt_id": trajectory["prompt_id"],
            "sample": trajectory["sample"],
            "top2_gap": outlook.top2_gap,
            "target_disagreement": outlook.argmax != np.asarray(trajectory["token_ids"]),
        }
    )


def depth_limits(
    trajectory: Mapping[str, Any], target: LoadedModel, draft: LoadedModel
) -> np.ndarray:
    """Levels that a tree at each generated position may have, whatever its shape; int [tokens].

    A path ends with the budget, or where a context does.
    """
    tokens = len(trajectory["token_ids"])
    budget = effective_budget(tokens, trajectory["budget"], trajectory["stop_reason"])
    return np.minimum(budget - np.arange(tokens), context_limits(trajectory, target, draft))


def context_limits(
    trajectory: Mapping[str, Any], target: LoadedModel, draft: LoadedModel
) -> np.ndarray:
    """Levels for which the contexts have room at each generated position; int [tokens].

    The draft does not read the last level, which may stand one beyond its context.
    """
    prefixes = len(trajectory["prompt_token_ids"]) + np.arange(len(trajectory["token_ids"]))
    room = np.full(len(prefixes), np.iinfo(np.int64).max)
    for model, beyond in ((target, 0), (draft, 1)):
        if model.max_positions is not None:
            room = np.minimum(room, model.max_positions + beyond - prefixes)
    return room


def _trees(
    target: TreeReader,
    draft: TreeReader,
    alignment: Alignment,
    trajectory,
    shape: Shape,
    nodes: int,
    limits: np.ndarray,
) -> tuple[list[Tree], Outlook]:
    """The trees of a trajectory, each of `limits` levels at most, and the target's outlook on them."""
    prompt, emitted = trajectory["prompt_token_ids"], trajectory["token_ids"]
    # The state at the last prompt token predicts generated position 0; the last token is not read.
    read = [*prompt, *emitted][:-1]
    first = len(prompt) - 1
    target_hidden, draft_hidden = (model.read_text(read)[first:] for model in (target, draft))
    chunk = max(1, nodes // max(1, shape.most_read))
    trees: list[Tree] = []
    outlooks: list[Outlook] = []
    for start in range(0, len(emitted), chunk):
        steps = np.arange(start, min(start + chunk, len(emitted)))
        prefixes = steps + len(prompt)
        locate = _Locate(trajectory, start)
        growths = [Growth(shape, min(int(limits[step]), shape.depth)) for step in steps]
        _grow(growths, draft, draft_hidden[steps], prefixes, alignment, locate)
        grown = [growth.tree() for growth in growths]
        outlooks.append(_outlook(grown, target, target_hidden[steps], prefixes, locate))
        trees += grown
    joined = Outlook(*(np.concatenate(column) for column in zip(*outlooks, strict=True)))
    return trees, joined


def _grow(
    growths: Sequence[Growth],
    draft: TreeReader,
    hidden: Tensor,
    prefixes: np.ndarray,
    alignment: Alignment,
    locate: _Locate,
) -> None:
    """Grow many trees, a pass of the draft a level; hidden [trees, width] is of their roots."""
    masked = torch.tensor(alignment.masked_ids, dtype=torch.long)
    places: list[dict[int, int]] = [{ROOT: ROOT} for _ in growths]  # node -> number of the reader
    read = 0
    growing = [tree for tree, growth in enumerate(growths) if growth.frontier]
    while growing:
        widest = max(growths[tree].widest for tree in growing)

        def propose(logits: Tensor, widest: int = widest) -> Candidates:
            return candidates(logits, widest, masked.to(logits.device), alignment.target_head)

        blocks = [found for _, found in _blocks(draft, hidden, propose, locate)]
        ids, log_q, entropy = (torch.cat(column).tolist() for column in zip(*blocks, strict=True))
        at = 0
        for tree in growing:
            rows = slice(at, at := at + len(growths[tree].frontier))
            growths[tree].grow(ids[rows], log_q[rows], entropy[rows])
        growing = [tree for tree in growing if growths[tree].frontier]
        tokens, parents, below = [], [], []
        for tree in growing:
            known, above = growths[tree].token_ids(), growths[tree].parents()
            for node in growths[tree].frontier:
                places[tree][node] = read
                read += 1
                tokens.append(known[node])
                parents.append(places[tree][above[node]])
                below.append(prefixes[tree])
        if tokens:
            hidden = draft.read_nodes(tokens, parents, below)
    draft.forget_nodes()


def _outlook(
    trees: Sequence[Tree],
    target: TreeReader,
    hidden: Tensor,
    prefixes: np.ndarray,
    locate: _Locate,
) -> Outlook:
    """The target on many trees, in one pass; hidden [trees, width] is of their roots.

    Contexts are the roots of all trees, then their nodes with children, tree by tree.
    """
    tokens, parents, below, contexts = [], [], [], []
    for number, tree in enumerate(trees):
        place = {ROOT: ROOT} | {int(v): len(tokens) + i for i, v in enumerate(tree.internal)}
        above = np.array([place[int(parent)] for parent in tree.parents], np.int64)
        contexts.append(np.where(above == ROOT, number, above + len(trees)))
        tokens += tree.token_ids[tree.internal].tolist()
        parents += above[tree.internal].tolist()
        below += [prefixes[number]] * len(tree.internal)
    if tokens:
        nodes = target.read_nodes(tokens, parents, below)
        hidden = torch.cat((hidden, nodes.to(hidden.device)))
        target.forget_nodes()
    context = np.concatenate(contexts)
    children = np.concatenate([tree.token_ids for tree in trees])
    log_p = np.zeros(len(context), np.float32)
    columns: list[tuple[np.ndarray, ...]] = []

    def think(logits: Tensor) -> tuple[Tensor, ...]:
        law = sampling.log_law(logits, 1.0)
        best = logits.topk(2, -1).values
        entropy = torch.special.entr(law.exp()).sum(-1)
        return law, entropy, logits.argmax(-1), best[:, 0] - best[:, 1]

    for start, (law, *rest) in _blocks(target, hidden, think, locate):
        here = np.flatnonzero((context >= start) & (context < start + len(law)))
        index = (context[here] - start, children[here].astype(np.int64))
        log_p[here] = law[tuple(torch.from_numpy(i).to(law.device) for i in index)].cpu().numpy()
        columns.append(tuple(column.cpu().numpy() for column in rest))
    entropy, argmax, gap = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Outlook(log_p, entropy[context], argmax[: len(trees)], gap[: len(trees)])


class _Locate:
    """Says in which trajectory and near which position the logits of a model are no numbers."""

    def __init__(self, trajectory: Mapping[str, Any], step: int) -> None:
        self.where = f"prompt {trajectory['prompt_id']}, sample {trajectory['sample']}"
        self.step = step

    def fault(self, model: LoadedModel, error: sampling.BadLogits) -> UserError:
        return UserError(
            f"{error.what} in the logits of {model.name}: {self.where}, in the trees from "
            f"generated position {self.step} on"
        )


def _blocks(
    reader: TreeReader, hidden: Tensor, work: Callable[[Tensor], Any], locate: _Locate
) -> Iterator[tuple[int, Any]]:
    """`work` on the float32 logits of a few rows at a time; first row and result of each block."""
    rows = max(1, LARGEST_BLOCK // reader.loaded.head_size)
    for start in range(0, len(hidden), rows):
        try:
            found = work(reader.logits(hidden[start : start + rows]).float())
        except sampling.BadLogits as error:
            raise locate.fault(reader.loaded, error) from error
        yield start, found
