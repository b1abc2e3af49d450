"""The node log as arrays: nodes in their trees, trees in their texts, texts in their prompts.

Trees of a fixed shape are whole past the end of their text, as in the published protocol, and all
of their nodes are in the published columns. The corrected columns use the trees whose deepest
level lies inside the text (*whole* there), since past the end there is nothing to accept. That rule looks at where a tree stands and never at what was
accepted, so it takes failures and successes alike.

A draft that sees the full text predicts a position the same way from every tree: a node at depth
d with an accepted parent is the node of the same rank at depth 1 of the tree d - 1 tokens later.
What "depth given that the parent was accepted" measures is therefore which positions a walk gets
to, and for drafts that decay along a path also that decay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from draftscope import records
from draftscope.errors import UserError
from draftscope.tree import schemas as _registered  # noqa: F401  the schemas nodes and trees

NODE_COLUMNS = (
    "prompt_id", "sample", "step", "node", "parent", "depth", "rank", "log_p", "log_q",
    "target_entropy", "draft_entropy", "offered", "parent_accepted", "accepted",
)  # fmt: skip
TREE_COLUMNS = ("prompt_id", "sample", "step", "nodes", "accepted", "emitted", "cut")
VARIES = ("domain", "template")  # in the condition, between the files of a study


@dataclass(frozen=True, eq=False)
class Sums:
    """Count, total and total of squares of a value, each of shape [prompts, groups]."""

    count: np.ndarray
    total: np.ndarray
    square: np.ndarray

    def of(self, prompts: np.ndarray) -> Sums:
        return Sums(self.count[prompts], self.total[prompts], self.square[prompts])

    def spread(self) -> np.ndarray:
        """Standard deviation over all values of a group (n - 1), NaN below two, [groups]."""
        n, total, square = (each.sum(0) for each in (self.count, self.total, self.square))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(np.maximum(square - total**2 / n, 0.0) / np.where(n > 1, n - 1, np.nan))


@dataclass(frozen=True, eq=False)
class Log:
    """Nodes and trees of all domains of a study.

    Attributes:
        domains: names, in the order of the study.
        prompt_ids, prompt_domain: id and index of the domain of each prompt, [prompts].
        tree_prompt, tree_text: prompt and text (prompt and sample) of each tree, [trees].
        tree_step: generated position of the tree's first level, from 0, [trees].
        tree_accepted, tree_emitted: length of the accepted path, and tokens emitted, [trees].
        tree_whole: not cut by the end of the text, nor could it have been, [trees].
        tree: tree of each node, [nodes]; as are all that follow.
        depth, rank: from 1.
        path: the ranks from the root as digits of base `base`; -1 where they do not fit.
        alpha: min(1, p/q) at T=1.
        target_entropy, draft_entropy: nats.
        reached: the parent is accepted (the root counts as accepted).
        accepted: by the greedy walk.
        chain: the node and all its ancestors have rank 1.
        below: an ancestor has another rank than 1.
    """

    domains: tuple[str, ...]
    prompt_ids: np.ndarray
    prompt_domain: np.ndarray
    tree_prompt: np.ndarray
    tree_text: np.ndarray
    tree_step: np.ndarray
    tree_accepted: np.ndarray
    tree_emitted: np.ndarray
    tree_whole: np.ndarray
    tree: np.ndarray
    depth: np.ndarray
    rank: np.ndarray
    path: np.ndarray
    base: int
    alpha: np.ndarray
    target_entropy: np.ndarray
    draft_entropy: np.ndarray
    reached: np.ndarray
    accepted: np.ndarray
    chain: np.ndarray
    below: np.ndarray

    @cached_property
    def deepest(self) -> int:
        return int(self.depth.max()) if len(self.depth) else 0

    @cached_property
    def prompt(self) -> np.ndarray:
        """Prompt of each node, [nodes]."""
        return self.tree_prompt[self.tree]

    @cached_property
    def whole(self) -> np.ndarray:
        """Whether the node stands in a whole tree, [nodes]."""
        return self.tree_whole[self.tree]

    def prompts_of(self, domain: str | None) -> np.ndarray:
        """Indices of the prompts of a domain; of all with None."""
        if domain is None:
            return np.arange(len(self.prompt_ids))
        return np.flatnonzero(self.prompt_domain == self.domains.index(domain))

    def sums(
        self,
        value: np.ndarray,
        rows: np.ndarray,
        group: np.ndarray | int = 0,
        groups: int = 1,
        unit: np.ndarray | None = None,
    ) -> Sums:
        """Sums by prompt and group of the values where `rows` is true.

        Args:
            value, rows: shape [nodes] ([trees] when `unit` is `tree_prompt`).
            group: group of each value, from 0 to groups - 1.
            unit: the prompt of each value; `prompt` when not given.
        """
        unit = self.prompt if unit is None else unit
        prompts = len(self.prompt_ids)
        group = np.broadcast_to(group, value.shape)
        cell, held = unit[rows] * groups + group[rows], value[rows].astype(float)
        size = (prompts, groups)
        # without values bincount forgets the type of its weights
        each = [
            np.bincount(cell, weights, prompts * groups).astype(float).reshape(size)
            for weights in (None, held, held**2)
        ]
        return Sums(*each)


def load(
    domains: Sequence[str], node_paths: Sequence[str], tree_paths: Sequence[str]
) -> tuple[Log, dict]:
    """The log of all domains of a study, and the condition its files share.

    Which domain a file belongs to stands in its condition.

    Raises:
        UserError: a domain without files, a file of no domain of the study, files of different
            runs, nodes and trees that do not fit together.
    """
    tables: dict[str, dict[str, list[pa.Table]]] = {}
    for schema, paths, names in (
        ("nodes", node_paths, NODE_COLUMNS),
        ("trees", tree_paths, TREE_COLUMNS),
    ):
        found: dict[str, list[pa.Table]] = {domain: [] for domain in domains}
        for path in paths:
            table = records.read(path, schema)
            domain = records.condition(table).get("domain")
            if domain not in found:
                raise UserError(
                    f"{path} holds domain {domain!r}; the study has {', '.join(domains)}"
                )
            found[domain].append(table.select(list(names)))
        for domain, parts in found.items():
            if not parts:
                raise UserError(f"no file of {schema} for domain {domain!r}")
        tables[schema] = {domain: pa.concat_tables(parts) for domain, parts in found.items()}
    conditions = {str(path): records.condition(path) for path in (*node_paths, *tree_paths)}
    shared = records.require_same_condition(conditions, VARIES)
    return observe({d: (tables["nodes"][d], tables["trees"][d]) for d in domains}), shared


def observe(tables: Mapping[str, tuple[pa.Table, pa.Table]], depth: int | None = None) -> Log:
    """The log of domain -> (nodes, trees); other columns than the named ones are not needed.

    Args:
        depth: depth of a whole tree; without it the deepest node of the log.

    Raises:
        UserError: nodes and trees that do not fit together.
    """
    nodes = _joined([pair[0] for pair in tables.values()], NODE_COLUMNS)
    trees = _joined([pair[1] for pair in tables.values()], TREE_COLUMNS)
    prompts = {key: code for code, key in enumerate(sorted(set(trees["known"])))}
    samples = int(trees["sample"].max(initial=0)) + 1
    steps = int(trees["step"].max(initial=0)) + 1
    for table in (nodes, trees):
        codes = np.array([prompts.get(key, -1) for key in table.pop("known")], dtype=np.int64)
        table["prompt"] = codes[table["prompt_id"]]
        table["text"] = table["prompt"] * samples + table["sample"]
        outside = (table["prompt"] < 0) | (table["sample"] >= samples) | (table["step"] >= steps)
        table["key"] = np.where(outside, -1, table["text"] * steps + table["step"])
    trees = _sorted(trees, np.argsort(trees["key"], kind="stable"))
    keys = trees["key"]
    tree = np.minimum(np.searchsorted(keys, nodes["key"]), max(len(keys) - 1, 0))
    tree = np.where(keys[tree] == nodes["key"], tree, -1) if len(keys) else np.full_like(tree, -1)
    order = np.lexsort((nodes["node"], tree))
    tree, nodes = tree[order], _sorted(nodes, order)
    _require_fit(tree, nodes, trees, [*prompts], tuple(tables))
    names = tuple(tables)
    start = np.searchsorted(tree, tree)  # first row of the node's tree
    parent = np.where(nodes["parent"] < 0, -1, start + nodes["parent"])
    chain, path, base = _paths(nodes["depth"], nodes["rank"], parent)
    text = np.unique(trees["text"], return_inverse=True)[1]
    length = np.zeros(text.max(initial=-1) + 1, dtype=np.int64)
    np.maximum.at(length, text, trees["step"] + 1)  # a tree stands at every generated position
    deepest = int(nodes["depth"].max(initial=0)) if depth is None else depth
    with np.errstate(invalid="ignore"):
        ratio = nodes["log_p"].astype(float) - nodes["log_q"]
    top = nodes["rank"] == 1
    return Log(
        domains=names,
        prompt_ids=np.array([prompt_id for _, prompt_id in prompts], dtype=object),
        prompt_domain=np.array([domain for domain, _ in prompts], dtype=np.int64),
        tree_prompt=trees["prompt"],
        tree_text=text,
        tree_step=trees["step"],
        tree_accepted=trees["accepted"],
        tree_emitted=trees["emitted"],
        tree_whole=~trees["cut"] & (trees["step"] + deepest <= length[text]),
        tree=tree,
        depth=nodes["depth"],
        rank=nodes["rank"],
        path=path,
        base=base,
        # 0 / 0, a token that neither model can emit, counts as rejected.
        alpha=np.exp(np.minimum(np.where(np.isnan(ratio), -np.inf, ratio), 0.0)),
        target_entropy=nodes["target_entropy"].astype(float),
        draft_entropy=nodes["draft_entropy"].astype(float),
        reached=nodes["parent_accepted"],
        accepted=nodes["accepted"],
        chain=chain,
        below=~np.where(parent < 0, True, chain[parent]) if len(parent) else ~top,
    )


def _joined(tables: Sequence[pa.Table], names: Sequence[str]) -> dict[str, Any]:
    """Columns of all tables one after the other; strings become codes.

    `known` lists (number of the table, prompt id), which the codes in `prompt_id` point at.
    """
    joined: dict[str, list] = {name: [] for name in names}
    known: list[tuple[int, str]] = []
    for number, table in enumerate(tables):
        for name in names:
            column = table.column(name).combine_chunks()
            if pa.types.is_string(column.type):
                encoded = column.dictionary_encode()
                column = encoded.indices.to_numpy().astype(np.int64) + len(known)
                known += [(number, prompt_id) for prompt_id in encoded.dictionary.to_pylist()]
            else:
                whole = pa.types.is_integer(column.type)
                column = column.to_numpy(zero_copy_only=False)
                column = column.astype(np.int64) if whole else column
            joined[name].append(column)
    return {name: np.concatenate(columns) for name, columns in joined.items()} | {"known": known}


def _sorted(table: Mapping[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[order] for name, values in table.items()}


def _require_fit(tree, nodes, trees, prompts, domains) -> None:
    """Refuse nodes and trees that contradict each other: files of different runs, or damaged."""

    def refuse(rows: np.ndarray, table: Mapping[str, np.ndarray], what: str) -> None:
        if rows.any():
            at = int(np.flatnonzero(rows)[0])
            place = f"sample {table['sample'][at]}, step {table['step'][at]}"
            if table["prompt"][at] >= 0:
                domain, prompt_id = prompts[table["prompt"][at]]
                place = f"{domains[domain]}: prompt {prompt_id}, {place}"
            raise UserError(
                f"nodes and trees do not fit together: {what} ({place}); make both files again"
            )

    refuse(np.diff(trees["key"], prepend=-1) == 0, trees, "two trees at one position")
    refuse(tree < 0, nodes, "nodes without their tree")
    count = np.bincount(tree, nodes["offered"], len(trees["step"]))
    refuse(count != trees["nodes"], trees, "a tree has another number of nodes")
    refuse(nodes["accepted"] & ~nodes["offered"], nodes, "an accepted node was not offered")
    place = np.arange(len(tree)) - np.searchsorted(tree, tree)
    refuse(nodes["node"] != place, nodes, "nodes of a tree are not numbered from 0")
    refuse(nodes["parent"] >= nodes["node"], nodes, "a node stands before its parent")
    root = nodes["parent"] < 0
    parent = np.arange(len(tree)) - place + nodes["parent"]
    if len(tree):
        above = np.where(root, 0, nodes["depth"][parent])
        refuse(nodes["depth"] != above + 1, nodes, "a node is not one deeper than its parent")
        above = np.where(root, True, nodes["accepted"][parent])
        refuse(nodes["parent_accepted"] != above, nodes, "parent_accepted is not the parent's")
    refuse(nodes["accepted"] & ~nodes["parent_accepted"], nodes, "an accepted node is not reached")
    accepted = np.bincount(tree, nodes["accepted"], len(trees["step"]))
    refuse(accepted != trees["accepted"], trees, "the accepted path has another length")


def _paths(depth: np.ndarray, rank: np.ndarray, parent: np.ndarray):
    """Whether each node is on the rank-1 chain, and its ranks from the root as a number."""
    base = int(rank.max(initial=1)) + 1
    fits = int(depth.max(initial=1)) * np.log2(base) < 62
    chain, path = rank == 1, rank.astype(np.int64) if fits else np.full(len(rank), -1)
    for level in range(2, int(depth.max(initial=1)) + 1):
        rows = np.flatnonzero(depth == level)
        chain[rows] &= chain[parent[rows]]
        if fits:
            path[rows] += base * path[parent[rows]]
    return chain, path, base
