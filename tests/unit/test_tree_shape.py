"""Shapes of token trees: what they hold, and how they grow."""

import itertools
import math

import numpy as np
import pytest
from draftscope.errors import UserError
from draftscope.tree.shape import ROOT, Growth, Shape
from hypothesis import given
from hypothesis import strategies as st

PUBLISHED = {"max_depth": 3, "max_branch": 2, "max_nodes": 8, "root_branch": 3}
counts = st.integers(1, 4)
budgets = st.integers(1, 12)
filled = st.fixed_dictionaries(
    {"kind": st.just("breadth_first"), "max_depth": counts, "max_branch": counts,
     "max_nodes": budgets, "root_branch": counts}
)  # fmt: skip
confident = filled.map(lambda settings: settings | {"kind": "confidence"})
static = st.fixed_dictionaries(
    {"kind": st.just("static"), "branching": st.lists(counts, min_size=1, max_size=4),
     "max_nodes": budgets}
)  # fmt: skip
ranks = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple)
named = st.sets(ranks, min_size=1, max_size=4).map(
    lambda paths: {
        "kind": "paths",
        "paths": sorted({path[:n] for path in paths for n in range(1, len(path) + 1)}),
    }
)


def proposals(path, width=6):
    """A made-up draft: its candidates after a path of tokens, most probable first."""
    seed = np.random.default_rng([7, *path])
    q = np.sort(seed.dirichlet(np.full(width, 0.5)))[::-1]
    return list(range(10, 10 + width)), np.log(q + 1e-300), float(-(q * np.log(q + 1e-300)).sum())


def grown(shape, max_depth=None):
    growth = Growth(shape, max_depth)
    while growth.frontier:
        tokens, parents = growth.token_ids(), growth.parents()
        asked = []
        for node in growth.frontier:
            path = []
            while node != ROOT:
                path.append(tokens[node])
                node = parents[node]
            asked.append(proposals(path[::-1]))
        growth.grow(*zip(*asked, strict=True))
    return growth.tree()


def rank_paths(tree):
    return [tuple(int(tree.ranks[i]) for i in tree.path(node)) for node in range(len(tree))]


def test_the_published_shape_has_2_4_2_nodes_and_its_last_level_hangs_below_the_first_choices():
    tree = grown(Shape.of(PUBLISHED))
    assert np.bincount(tree.depths).tolist() == [0, 2, 4, 2]
    assert rank_paths(tree)[6:] == [(1, 1, 1), (1, 1, 2)]
    assert rank_paths(tree)[:6] == [(1,), (2,), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert Shape.of(PUBLISHED).depth == 3
    assert Shape.of(PUBLISHED).most_read == len(tree.internal) == 3


@given(st.one_of(filled, static, named, confident), st.none() | st.integers(0, 4))
def test_parents_stand_before_children_and_budgets_are_kept(settings, limit):
    shape = Shape.of(settings)
    tree = grown(shape, limit)
    paths = rank_paths(tree)
    assert len(set(paths)) == len(tree)
    assert all(parent < node for node, parent in enumerate(tree.parents))
    assert (np.diff(tree.depths) >= 0).all()
    assert [len(path) for path in paths] == tree.depths.tolist()
    assert len(tree) <= (shape.max_nodes or 10**6)
    assert tree.depths.max(initial=0) <= min(shape.depth, 10 if limit is None else limit)
    if limit is None and shape.kind != "confidence":
        assert tree.depths.max() == shape.depth
        assert len(tree.internal) == shape.most_read
    children = np.bincount(tree.parents.astype(int) + 1)
    assert children.max(initial=0) <= {"static": max(shape.branching, default=0)}.get(
        shape.kind, shape.max_branch or 3
    )
    if shape.kind == "breadth_first" and len(tree):
        assert children[0] <= min(shape.root_branch, shape.max_branch)


@given(named)
def test_a_list_of_paths_gives_exactly_those_nodes(settings):
    assert set(rank_paths(grown(Shape.of(settings)))) == set(settings["paths"])


@given(confident)
def test_a_confidence_tree_holds_the_nodes_of_highest_product(settings):
    shape = Shape.of(settings)
    values = {}
    for depth in range(1, shape.max_depth + 1):
        widths = [shape.children_at(level) for level in range(1, depth + 1)]
        for path in itertools.product(*(range(1, width + 1) for width in widths)):
            tokens = [9 + rank for rank in path]
            above = values.get(path[:-1], 0.0)
            values[path] = above + proposals(tokens[:-1])[1][path[-1] - 1]
    tree = grown(shape)
    assert len(tree) == min(shape.max_nodes, len(values))
    best = sorted(values.values(), reverse=True)[: len(tree)]
    kept = [values[path] for path in rank_paths(tree)]
    assert sorted(kept, reverse=True) == pytest.approx(best)
    for node, parent in enumerate(tree.parents):
        assert parent == ROOT or kept[node] <= kept[parent]


def test_ties_of_products_go_to_the_shallower_node_then_to_the_lower_rank():
    growth = Growth(Shape.of({"kind": "confidence", **PUBLISHED, "max_nodes": 4}))
    growth.grow([[5, 6]], [[math.log(0.5)] * 2], [1.0])
    growth.grow([[7, 8]] * 2, [[math.log(0.5)] * 2] * 2, [1.0] * 2)
    growth.grow([[7, 8]] * 2, [[0.0, -math.inf]] * 2, [1.0] * 2)
    assert rank_paths(growth.tree()) == [(1,), (2,), (1, 1), (1, 2)]


def test_candidates_that_the_draft_cannot_emit_are_left_out_with_what_would_hang_below():
    growth = Growth(Shape.of(PUBLISHED))
    growth.grow([[5, 6]], [[0.0, -math.inf]], [0.0])
    assert growth.frontier == [0]
    growth.grow([[7]], [[0.0]], [0.0])  # a vocabulary of one
    growth.grow([[8, 9]], [[-0.1, -2.0]], [0.3])
    assert growth.frontier == []
    assert rank_paths(growth.tree()) == [(1,), (1, 1), (1, 1, 1), (1, 1, 2)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PUBLISHED | {"max_depth": 0}, "max_depth of a tree must be an integer from 1"),
        (PUBLISHED | {"max_branch": -1}, "max_branch .* got -1"),
        (PUBLISHED | {"max_nodes": 40000}, "max_nodes .* from 1 to 32767"),
        (PUBLISHED | {"root_branch": True}, "root_branch .* got True"),
        ({"max_depth": 3, "max_nodes": 8}, "a breadth_first tree needs max_branch"),
        (PUBLISHED | {"branching": [2]}, "a breadth_first tree has no branching"),
        (PUBLISHED | {"depth": 3}, "unknown depth"),
        ({"kind": "bushy"}, "unknown kind of tree 'bushy'; known: breadth_first"),
        ({"kind": "static", "branching": [2, 0]}, "branching .* got 0"),
        ({"kind": "paths", "paths": [[1, 1]]}, r"hold \[1, 1\] but not its parent"),
        ({"kind": "paths", "paths": [[1], [1]]}, "a node twice"),
        ({"kind": "paths", "paths": [1]}, "lists of ranks"),
    ],
)
def test_bad_shapes_are_refused_in_one_line(settings, message):
    with pytest.raises(UserError, match=message):
        Shape.of(settings)


def test_keys_of_other_kinds_may_stand_there_as_null():
    assert Shape.of(PUBLISHED | {"branching": None, "paths": None}) == Shape.of(PUBLISHED)
