"""The best tree of a number of nodes when acceptance depends on depth and rank.

A node adds to a round the chance that the walk gets to it, the product of the rates on its path,
so a tree is worth F(T) = sum over its nodes of that product (Sequoia, Chen et al. 2024, arXiv
2402.12374, section 3), and a round emits F(T) + 1 tokens. Sequoia's rates depend on rank alone;
here they may differ by depth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Path = tuple[int, ...]


def best_trees(rates: np.ndarray, nodes: int) -> list[tuple[float, list[Path]]]:
    """The best tree for each number of nodes from 0 to `nodes`, by dynamic programming.

    W(d, r, n) is the most that n nodes are worth below one accepted parent, as its children of
    rank r and later and what hangs below them; m of the nodes go into the subtree of rank r:
    W(d, r, n) = max over m of [m > 0] rate(d, r) (1 + W(d + 1, 1, m - 1)) + W(d, r + 1, n - m).
    Nodes that would add nothing are left out, and equal values take the fewer nodes.

    Args:
        rates: chance that the node of a rank is accepted when its parent is, [depths, ranks].

    Returns:
        (F(T), rank paths with parents before children) of each number of nodes.

    Raises:
        ValueError: a rate is not in [0, 1].
    """
    rates = np.asarray(rates, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError("rates must lie in [0, 1]")
    depths, ranks = rates.shape
    value = np.zeros((depths + 1, ranks + 1, nodes + 1))
    taken = np.zeros((depths, ranks, nodes + 1), dtype=np.int64)
    for depth in range(depths - 1, -1, -1):
        for rank in range(ranks - 1, -1, -1):
            rest = value[depth, rank + 1]
            own = np.zeros(nodes + 1)
            own[1:] = rates[depth, rank] * (1 + value[depth + 1, 0, :-1])
            for n in range(nodes + 1):
                split = own[: n + 1] + rest[n::-1]
                # argmax takes the first: of equal worth the fewest nodes
                taken[depth, rank, n] = int((split >= split.max() - 1e-12).argmax())
                value[depth, rank, n] = split[taken[depth, rank, n]]

    def paths(depth: int, rank: int, n: int, prefix: Path) -> list[Path]:
        if depth == depths or rank == ranks or n == 0:
            return []
        m = int(taken[depth, rank, n])
        found = paths(depth, rank + 1, n - m, prefix)
        if m:
            own = (*prefix, rank + 1)
            found += [own, *paths(depth + 1, 0, m - 1, own)]
        return found

    result = []
    for n in range(nodes + 1):
        tree = [path for path in paths(0, 0, n, ()) if _worth(rates, path) > 0]
        result.append((worth(rates, tree), sorted(tree, key=lambda path: (len(path), path))))
    return result


def worth(rates: np.ndarray, tree: Sequence[Path]) -> float | np.ndarray:
    """F(T) of a tree.

    Args:
        rates: [..., depths, ranks]; several sets of rates give as many values, [...].
        tree: rank paths, each with its parents.
    """
    rates = np.asarray(rates, dtype=float)
    total = np.zeros(rates.shape[:-2])
    for path in tree:
        total = total + _worth(rates, path)
    return total if total.ndim else float(total)


def _worth(rates: np.ndarray, path: Path) -> np.ndarray:
    steps = [rates[..., depth, rank - 1] for depth, rank in enumerate(path)]
    return np.prod(np.stack(steps, axis=-1), axis=-1)
