"""From the trees of a greedy text to the node log: which nodes greedy decoding accepts.

A node is accepted when its parent is and its token is the text's, so the accepted path of a tree
is read off the text. What was offered follows the rules of `draftscope.ends`: nothing beyond the
budget, and after an accepted end-of-text token nothing; an end-of-text token that is the
correction leaves the offer as it was. Nodes that were not offered are in the log when their trees
were grown whole, and are never accepted: nothing of the text stands there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from draftscope.ends import last_end, outcomes
from draftscope.tree.shape import ROOT, Tree

Columns = dict[str, Any]


def node_log(
    trajectory: Mapping[str, Any],
    trees: Sequence[Tree],
    log_p: np.ndarray,
    target_entropy: np.ndarray,
    cut: np.ndarray,
    room: np.ndarray | None = None,
) -> tuple[Columns, Columns]:
    """Columns of the schemas `nodes` and `trees` for the trees of one greedy trajectory.

    Args:
        trees: one for each of the trajectory's n generated positions, the first token that it
            drafts being that position's.
        log_p, target_entropy: of all nodes of all trees, one tree after another.
        cut: [n] booleans, there was less room for the tree than its shape is deep.
        room: [n] levels that a loop would have offered at most; given for trees that were grown
            beyond it, whose other nodes are kept too.
    """
    text = np.asarray(trajectory["token_ids"], np.int64)
    sizes = np.array([len(tree) for tree in trees], np.int64)
    step = np.repeat(np.arange(len(trees)), sizes)
    first = np.concatenate(([0], np.cumsum(sizes)))[step]
    node = np.arange(len(step)) - first
    columns = {
        "parent": _joined(trees, "parents"),
        "depth": _joined(trees, "depths"),
        "rank": _joined(trees, "ranks"),
        "token_id": _joined(trees, "token_ids"),
        "log_p": log_p,
        "log_q": _joined(trees, "log_q"),
        "target_entropy": target_entropy,
        "draft_entropy": _joined(trees, "draft_entropy"),
    }
    parent_accepted, accepted = _accepted(columns, step, first, text)
    run = np.bincount(step[accepted], minlength=len(trees))
    deepest = np.zeros(len(trees), np.int64)
    np.maximum.at(deepest, step, columns["depth"])
    offered, run, emitted = outcomes(run, deepest if room is None else np.minimum(deepest, room))
    in_offer = columns["depth"] <= offered[step]
    kept = in_offer if room is None else np.ones(len(step), bool)
    key = {name: trajectory[name] for name in ("prompt_id", "sample")}
    nodes = {"step": step, "node": node} | columns
    nodes |= {"offered": in_offer, "parent_accepted": parent_accepted, "accepted": accepted}
    return (
        key | {name: values[kept] for name, values in nodes.items()},
        key
        | {
            "step": np.arange(len(trees)),
            "nodes": np.bincount(step[in_offer], minlength=len(trees)),
            "offered_depth": offered,
            "accepted": run,
            "emitted": emitted,
            "cut": cut,
            "end": np.where(
                np.arange(len(trees)) + emitted < len(trees),
                "continue",
                last_end(trajectory["stop_reason"]),
            ),
        },
    )


def _joined(trees: Sequence[Tree], name: str) -> np.ndarray:
    return np.concatenate([getattr(tree, name) for tree in trees])


def _accepted(
    columns: Columns, step: np.ndarray, first: np.ndarray, text: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether greedy decoding accepts each node's parent, and the node."""
    depth, parent = columns["depth"].astype(np.int64), columns["parent"].astype(np.int64)
    place = step + depth - 1
    inside = place < len(text)
    agrees = inside & (columns["token_id"] == text[np.where(inside, place, 0)])
    below_root = parent == ROOT
    above = np.where(below_root, 0, first + parent)
    parent_accepted, accepted = below_root.copy(), agrees & below_root
    for level in range(2, int(depth.max(initial=1)) + 1):
        here = depth == level
        parent_accepted[here] = accepted[above[here]]
        accepted[here] = parent_accepted[here] & agrees[here]
    return parent_accepted, accepted


def table(parts: Iterable[Columns], schema: pa.Schema) -> pa.Table:
    """Rows of a schema from the columns of many trajectories, in their order."""
    parts = list(parts)
    if not parts:
        return schema.empty_table()
    lengths = [len(part["step"]) for part in parts]
    arrays = []
    for field in schema:
        if isinstance(parts[0][field.name], np.ndarray):
            values = pa.array(np.concatenate([part[field.name] for part in parts]))
        else:
            repeated = pa.array(np.repeat(np.arange(len(parts)), lengths))
            values = pa.array([part[field.name] for part in parts], field.type).take(repeated)
        arrays.append(values.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)
