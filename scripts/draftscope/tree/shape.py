"""The shapes of token trees, and how a tree of a shape grows level by level.

A tree hangs below a root, the last token of the text. A node is one drafted token: its depth says
how many drafted tokens its path has, its rank which of its parent's candidates it is (1 is the
most probable). Nodes are listed by depth, so parents stand before their children; the root is
node -1. Everything here is numpy on single trees; who asks the model is not known here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from draftscope.errors import UserError

KINDS = ("breadth_first", "static", "confidence", "paths")
ROOT = -1
_LARGEST = 2**15 - 1  # nodes, depths and ranks are stored as int16


@dataclass(frozen=True)
class Shape:
    """What a tree may be.

    kind "breadth_first" (arXiv 2604.14682): the root has min(`root_branch`, `max_branch`)
    children and every other node `max_branch`, filled breadth first down to `max_depth` until
    there are `max_nodes`. With 3 / 2 / 8 that is 2, 4 and 2 nodes, both of the last below the
    draft's first choices.

    kind "static": each node of depth d - 1 has `branching[d - 1]` children, breadth first, at
    most `max_nodes`.

    kind "paths": exactly the nodes named by `paths`, each a tuple of ranks from the root
    ((1,), (2,), (1, 1)); how an optimised tree (Sequoia, arXiv 2402.12374) is written down.

    kind "confidence" (after EAGLE-2, arXiv 2406.16858): the `max_nodes` nodes whose product of
    draft probabilities along the path is highest, among trees of at most `max_branch` children a
    node (`root_branch` below the root, capped alike) and `max_depth` levels. Ties go to the
    shallower node, then to the one whose parent stands first, then to the lower rank.

    `root_branch` 0 stands for `max_branch`. Use `Shape.of` for values that come from a user.
    """

    kind: str = "breadth_first"
    max_depth: int = 0
    max_branch: int = 0
    max_nodes: int = 0
    root_branch: int = 0
    branching: tuple[int, ...] = ()
    paths: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Shape:
        """A shape from a settings block; keys that do not belong to its kind are refused.

        Raises:
            UserError: an unknown kind or key, a missing key, or a count below 1.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(settings) - known):
            raise UserError(f"tree shape has unknown {', '.join(unknown)}; known: {sorted(known)}")
        given = {
            name: _plain(value) for name, value in settings.items() if value not in (None, (), [])
        }
        kind = given.setdefault("kind", "breadth_first")
        if kind not in _KEYS:
            raise UserError(f"unknown kind of tree {kind!r}; known: {', '.join(KINDS)}")
        needed, optional = _KEYS[kind]
        if missing := [name for name in needed if name not in given]:
            raise UserError(f"a {kind} tree needs {', '.join(missing)}")
        foreign = sorted(set(given) - {"kind", *needed, *optional})
        if foreign:
            raise UserError(
                f"a {kind} tree has no {', '.join(foreign)}; it has "
                f"{', '.join((*needed, *optional))}"
            )
        for name, value in given.items():
            if name not in ("kind", "paths"):
                _check_counts(name, value)
        if kind == "paths":
            _check_paths(given["paths"])
        return cls(**given)

    @functools.cached_property
    def depth(self) -> int:
        """The deepest level that a tree of this shape can have."""
        if self.kind == "confidence":
            return min(self.max_depth, self.max_nodes)
        return int(self.skeleton().depths.max())

    @functools.cached_property
    def most_read(self) -> int:
        """Most nodes of a tree that are read before it is complete, at any one level or in all.

        A node without children is never read: its own distribution proposes nothing.
        """
        if self.kind == "confidence":
            return self.max_nodes
        return len(np.unique(self.skeleton().parents)) - 1

    def children_at(self, depth: int) -> int:
        """Most children that a node of depth - 1 may have, where all of a level have alike."""
        if self.kind == "static":
            return self.branching[depth - 1] if depth <= len(self.branching) else 0
        if depth > self.max_depth:
            return 0
        root = min(self.root_branch or self.max_branch, self.max_branch)
        return root if depth == 1 else self.max_branch

    def skeleton(self, max_depth: int | None = None) -> Skeleton:
        """Parents, depths and ranks of a shape that does not depend on the draft's probabilities.

        Args:
            max_depth: leave out what is deeper.

        Raises:
            ValueError: a confidence tree has none.
        """
        if self.kind == "confidence":
            raise ValueError("a confidence tree has no shape before the draft has spoken")
        limit = _LARGEST if max_depth is None else max_depth
        rows = _by_paths(self.paths) if self.kind == "paths" else self._breadth_first()
        rows = [row for row in rows if row[1] <= limit]
        return Skeleton(*(np.array([row[i] for row in rows], np.int16) for i in range(3)))

    def _breadth_first(self) -> list[tuple[int, int, int]]:
        most = self.max_nodes or _LARGEST
        rows: list[tuple[int, int, int]] = []
        level, depth = [ROOT], 1
        while level and len(rows) < most and (children := self.children_at(depth)):
            following = []
            for parent in level:
                for rank in range(1, min(children, most - len(rows)) + 1):
                    following.append(len(rows))
                    rows.append((parent, depth, rank))
            level, depth = following, depth + 1
        return rows


_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "breadth_first": (("max_depth", "max_branch", "max_nodes"), ("root_branch",)),
    "confidence": (("max_depth", "max_branch", "max_nodes"), ("root_branch",)),
    "static": (("branching",), ("max_nodes",)),
    "paths": (("paths",), ()),
}


@dataclass(frozen=True)
class Skeleton:
    """A tree without tokens: parents, depths and ranks, int16 [n] each, by depth."""

    parents: np.ndarray
    depths: np.ndarray
    ranks: np.ndarray


@dataclass(frozen=True)
class Tree:
    """A drafted tree; arrays [n], parents before children.

    `log_q` and `draft_entropy` (nats) are of the draft's distribution after the parent's path.
    """

    token_ids: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    ranks: np.ndarray
    log_q: np.ndarray
    draft_entropy: np.ndarray

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def internal(self) -> np.ndarray:
        """Indices of the nodes that have children, ascending."""
        return np.unique(self.parents[self.parents >= 0])

    def path(self, node: int) -> list[int]:
        """Indices from the first level down to the node."""
        found = []
        while node != ROOT:
            found.append(int(node))
            node = int(self.parents[node])
        return found[::-1]


class Growth:
    """A tree that grows level by level.

    `frontier` names the nodes whose candidates are asked for next (the root, -1, at first); it is
    empty when the tree is complete. `grow` takes the candidates of all of them.

    Args:
        max_depth: levels that may be grown here; less than the shape's where the budget or the
            context ends. With 0 the tree is empty.
    """

    def __init__(self, shape: Shape, max_depth: int | None = None) -> None:
        self._shape = shape
        self._limit = shape.depth if max_depth is None else min(max_depth, shape.depth)
        self._dynamic = shape.kind == "confidence"
        self._plan = {} if self._dynamic else _plan(shape, self._limit)
        self._planned: dict[int, int] = {ROOT: ROOT}  # a node here -> the same in the skeleton
        self._rows: list[tuple[int, int, int, int, float, float]] = []
        self._values: list[float] = []  # log of the product of draft probabilities
        self._level, self._depth = [ROOT], 0
        self.frontier: list[int] = [ROOT] if self._limit > 0 else []

    @property
    def widest(self) -> int:
        """How many candidates of each frontier node `grow` can use."""
        if self._dynamic:
            return min(self._shape.children_at(self._depth + 1), self._shape.max_nodes)
        return max(rank for node in self.frontier for rank, _ in self._wanted(node))

    def token_ids(self) -> list[int]:
        """Tokens of all nodes so far; of a confidence tree also those that will not stay."""
        return [row[0] for row in self._rows]

    def parents(self) -> list[int]:
        """Parents of all nodes so far."""
        return [row[1] for row in self._rows]

    def grow(self, token_ids: Any, log_q: Any, entropy: Any) -> None:
        """Hang the candidates of every frontier node into the tree.

        Args:
            token_ids, log_q: [f, k] for f frontier nodes, candidate of rank r in column r - 1;
                k at least `widest`, or as many as the draft has. Candidates that the draft
                cannot emit (log_q of -inf) are left out.
            entropy: [f], of the distributions they are from.
        """
        self._depth += 1
        level = []
        for node, ids, logs, nats in zip(self.frontier, token_ids, log_q, entropy, strict=True):
            value = 0.0 if node == ROOT else self._values[node]
            for rank, planned in self._wanted(node):
                if rank > len(ids) or logs[rank - 1] == -math.inf:
                    continue
                place = len(self._rows)
                token, log = int(ids[rank - 1]), float(logs[rank - 1])
                self._rows.append((token, node, self._depth, rank, log, float(nats)))
                self._values.append(value + min(log, 0.0))  # rounding must not lift a child
                self._planned[place] = planned
                level.append(place)
        self.frontier = self._next(level) if self._depth < self._limit else []

    def tree(self) -> Tree:
        """The tree grown so far."""
        kept = sorted(self._best()) if self._dynamic else range(len(self._rows))
        place = {ROOT: ROOT} | {old: new for new, old in enumerate(kept)}
        rows = [self._rows[i] for i in kept]
        columns = [[row[i] for row in rows] for i in range(6)]
        columns[1] = [place[parent] for parent in columns[1]]
        kinds = (np.int32, np.int16, np.int16, np.int16, np.float32, np.float32)
        return Tree(*(np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)))

    def _wanted(self, node: int) -> Sequence[tuple[int, int]]:
        """(rank, node of the skeleton) of a node's children."""
        if self._dynamic:
            most = min(self._shape.children_at(self._depth_of(node) + 1), self._shape.max_nodes)
            return [(rank, ROOT) for rank in range(1, most + 1)]
        return self._plan.get(self._planned[node], ())

    def _depth_of(self, node: int) -> int:
        return 0 if node == ROOT else self._rows[node][2]

    def _next(self, level: list[int]) -> list[int]:
        """Those of the new level that can have children in the finished tree.

        A node that is not among the `max_nodes` best so far is not in the tree, nor is anything
        below it, since a product only falls with depth.
        """
        if self._dynamic:
            best = self._best()
            return [node for node in level if node in best]
        return [node for node in level if self._wanted(node)]

    def _best(self) -> set[int]:
        order = sorted(range(len(self._rows)), key=lambda node: -self._values[node])
        return set(order[: self._shape.max_nodes])


@functools.lru_cache(maxsize=256)
def _plan(shape: Shape, max_depth: int) -> dict[int, list[tuple[int, int]]]:
    """Node of the shape's skeleton -> (rank, node) of its children."""
    skeleton = shape.skeleton(max_depth)
    plan: dict[int, list[tuple[int, int]]] = {}
    for node, (parent, rank) in enumerate(zip(skeleton.parents, skeleton.ranks, strict=True)):
        plan.setdefault(int(parent), []).append((int(rank), node))
    return plan


def _by_paths(paths: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    ordered = sorted(map(tuple, paths), key=lambda path: (len(path), path))
    place = {(): ROOT} | {path: node for node, path in enumerate(ordered)}
    return [(place[path[:-1]], len(path), path[-1]) for path in ordered]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value


def _check_counts(name: str, value: Any) -> None:
    values = value if isinstance(value, tuple) else (value,)
    for count in values:
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _LARGEST:
            raise UserError(
                f"{name} of a tree must be an integer from 1 to {_LARGEST}, got {count!r}"
            )


def _check_paths(paths: Any) -> None:
    if not isinstance(paths, tuple) or not all(isinstance(p, tuple) and p for p in paths):
        raise UserError(f"paths of a tree must be lists of ranks such as [1, 1], got {paths!r}")
    for path in paths:
        _check_counts("each rank in paths", path)
        if len(path) > 1 and path[:-1] not in paths:
            raise UserError(f"paths of a tree hold {list(path)} but not its parent")
    if len(set(paths)) != len(paths) or len(paths) > _LARGEST:
        raise UserError("paths of a tree hold a node twice, or more than can be numbered")
