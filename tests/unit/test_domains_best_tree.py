"""The best tree of a budget: dynamic programming against every tree there is."""

import heapq
from itertools import combinations, product

import numpy as np
import pytest
from draftscope.domains.best_tree import best_trees, worth


def every_tree(depths, ranks, nodes):
    """All sets of rank paths that hold each path's parent."""
    paths = [
        path
        for length in range(1, depths + 1)
        for path in product(range(1, ranks + 1), repeat=length)
    ]
    for chosen in combinations(paths, nodes):
        if all(len(path) == 1 or path[:-1] in chosen for path in chosen):
            yield list(chosen)


def by_hand(rates, tree):
    total = 0.0
    for path in tree:
        value = 1.0
        for depth, rank in enumerate(path):
            value *= rates[depth][rank - 1]
        total += value
    return total


@pytest.mark.parametrize("seed", range(6))
def test_no_tree_is_better_than_the_one_found(seed):
    rng = np.random.default_rng(seed)
    # Also rates that do not fall with rank, and zeros.
    rates = rng.random((3, 2)) * rng.choice([0.0, 1.0, 1.0], (3, 2))
    found = best_trees(rates, 5)
    for nodes in range(6):
        best = max(by_hand(rates, tree) for tree in every_tree(3, 2, nodes))
        value, tree = found[nodes]
        assert value == pytest.approx(best) == pytest.approx(by_hand(rates, tree))
        assert len(tree) <= nodes and len(set(tree)) == len(tree)
        assert all(len(path) == 1 or path[:-1] in tree[: tree.index(path)] for path in tree)


def test_large_budgets_agree_with_taking_the_most_likely_node_each_time():
    rng = np.random.default_rng(1)
    rates = rng.dirichlet(np.ones(5), 6)[:, :4]
    heap = [(-rates[0, rank], (rank + 1,)) for rank in range(4)]
    heapq.heapify(heap)
    total, greedy = 0.0, [0.0]
    for _ in range(60):
        value, path = heapq.heappop(heap)
        total -= value
        greedy.append(total)
        if len(path) < 6:
            for rank in range(4):
                heapq.heappush(heap, (value * rates[len(path), rank], (*path, rank + 1)))
    assert [value for value, _ in best_trees(rates, 60)] == pytest.approx(greedy)


def test_worth_takes_many_sets_of_rates():
    rates = np.random.default_rng(2).random((7, 3, 2))
    tree = [(1,), (2,), (1, 1), (1, 1, 2)]
    assert worth(rates, tree) == pytest.approx([by_hand(each, tree) for each in rates])


def test_nodes_that_add_nothing_are_left_out_and_bad_rates_refused():
    value, tree = best_trees(np.array([[0.5, 0.0], [0.0, 0.0]]), 6)[6]
    assert (value, tree) == (0.5, [(1,)])
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        best_trees(np.array([[1.2]]), 2)
