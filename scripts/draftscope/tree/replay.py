"""The rounds of greedy decoding with trees, from a tree scored at every position of the text.

Greedy decoding with any tree emits the target's greedy text, so a loop that starts a round at
position s drafts the tree scored there, accepts its accepted path, and goes on at
s + accepted + 1. Nothing is decoded again.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from draftscope.replay.rounds import tile
from draftscope.replay.trajectory import Replay, counted

RULE = "greedy_tree"


def replay_trees(trees: pa.Table, depth: int) -> list[Replay]:
    """Replay the trees of many trajectories, in the order of the table.

    The rounds offer the depth of the tree's deepest node. With one child a node they are those of
    a chain of that length (`draftscope.replay.greedy_rounds`). `accept_prob_mean` of the expected
    counts is the share of positions whose tree has the text's token on its first level.

    Args:
        trees: of schema `trees`, a row for each generated position of each trajectory.
        depth: the draft length that the rounds name: levels of the shape (`Shape.depth`).

    Raises:
        ValueError: a trajectory's rows are not one for each of its positions, in order.
    """
    names = ("step", "accepted", "offered_depth")
    step, accepted, offered = (trees.column(name).to_numpy().astype(np.int64) for name in names)
    prompts, samples = trees.column("prompt_id").to_pylist(), trees.column("sample").to_pylist()
    ends = trees.column("end").to_pylist()
    starts = np.flatnonzero(step == 0).tolist()
    replays = []
    for first, last in zip(starts, [*starts[1:], len(step)], strict=True):
        rows = slice(first, last)
        if len(set(zip(prompts[rows], samples[rows], strict=True))) != 1 or not np.array_equal(
            step[rows], np.arange(last - first)
        ):
            raise ValueError(f"trees of prompt {prompts[first]} do not stand at each position once")
        table = tile(accepted[rows], offered[rows], depth, ends[last - 1])
        replay = Replay(prompts[first], samples[first], last - first, RULE)
        replay.add(table, depth, counted(table), np.mean(accepted[rows] > 0))
        replays.append(replay)
    return replays
