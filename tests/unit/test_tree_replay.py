"""The rounds of greedy decoding with trees, against the rounds of a chain and by hand."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from draftscope.replay import greedy_rounds, rounds_table
from draftscope.tree.log import node_log, table
from draftscope.tree.replay import replay_trees
from draftscope.tree.schemas import TREES
from draftscope.tree.shape import Growth, Shape
from hypothesis import given
from hypothesis import strategies as st

COLUMNS = ("round", "start", "offered", "accepted", "emitted", "end")
CHAIN = {"max_branch": 1}


def logged(text, stop_reason, left, shape, propose, key="p"):
    """The trees of a text, drafted by `propose(step, path) -> token ids`; columns of the log."""
    trees = []
    for step in range(len(text)):
        growth = Growth(shape, min(shape.depth, left - step))
        while growth.frontier:
            tokens, parents = growth.token_ids(), growth.parents()
            ids = []
            for node in growth.frontier:
                path = []
                while node >= 0:
                    path.append(tokens[node])
                    node = parents[node]
                ids.append(propose(step, path[::-1]))
            growth.grow(ids, [[-0.7] * len(row) for row in ids], [1.0] * len(ids))
        trees.append(growth.tree())
    row = {"prompt_id": key, "sample": 0, "token_ids": text, "stop_reason": stop_reason}
    values = np.zeros(sum(map(len, trees)), np.float32)
    return node_log(row, trees, values, values, np.zeros(len(text), bool))


texts = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(texts, st.data(), st.integers(1, 5), st.sampled_from(["eos", "budget", "context"]))
def test_trees_of_one_branch_give_exactly_the_rounds_of_a_chain(text, data, gamma, stop_reason):
    spare = data.draw(st.integers(0, 4)) if stop_reason == "eos" else 0
    matches = np.array(data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text))))
    budget = len(text) + spare
    shape = Shape.of(CHAIN | {"max_depth": gamma, "max_nodes": gamma})

    def propose(step, path):  # the draft's argmax at a position that it reaches along the text
        place = step + len(path)
        right = place < len(text) and matches[place]
        return [text[place] if right else 7]

    nodes, trees = logged(text, stop_reason, budget, shape, propose)
    replay = replay_trees(table([trees], TREES), shape.depth)[0]
    chain = greedy_rounds(matches, gamma, budget=budget, stop_reason=stop_reason)
    for name in COLUMNS:
        assert replay.rounds[0][name].tolist() == chain[name].tolist(), name
    assert replay.expected[0]["accept_prob_mean"] == pytest.approx(matches.mean())
    assert len(nodes["step"]) == trees["nodes"].sum()


def test_the_rounds_jump_over_what_was_accepted():
    """Published shape, a second candidate that saves the text at its second token."""
    text = [5, 6, 7, 8, 9, 5]
    wrong = {0: [5, 1], 1: [1, 6], 2: [7, 1], 3: [1, 2], 4: [2, 9], 5: [5, 1]}
    shape = Shape.of({"max_depth": 3, "max_branch": 2, "max_nodes": 8})
    trees = logged(text, "budget", 6, shape, lambda step, path: wrong[step + len(path)])[1]
    assert trees["accepted"].tolist() == [2, 2, 1, 0, 2, 1]
    replay = replay_trees(table([trees], TREES), 3)[0]
    found = {name: replay.rounds[0][name].tolist() for name in COLUMNS}
    assert found == {
        "round": [0, 1, 2],
        "start": [0, 3, 4],
        "offered": [3, 3, 2],
        "accepted": [2, 0, 2],
        "emitted": [3, 1, 2],
        "end": ["continue", "continue", "budget"],
    }
    expected = SimpleNamespace(**replay.expected[0])
    assert expected.acceptance_length == 2.0
    assert (expected.tokens, expected.expected_rounds, expected.expected_accepted) == (6, 3, 4)
    assert expected.accept_prob_mean == 5 / 6


def test_many_texts_make_one_table_of_rounds():
    shape = Shape.of(CHAIN | {"max_depth": 2, "max_nodes": 2})
    parts = [
        logged(text, "budget", len(text), shape, lambda step, path: [1], key)[1]
        for key, text in (("a", [1, 1, 1]), ("b", [2]), ("c", [1, 2]))
    ]
    rounds = rounds_table(replay_trees(table(parts, TREES), 2))
    assert rounds.column("prompt_id").to_pylist() == ["a", "b", "c"]
    assert rounds.column("emitted").to_pylist() == [3, 1, 2]
    assert set(rounds.column("rule").to_pylist()) == {"greedy_tree"}
    assert set(rounds.column("draft_length").to_pylist()) == {2}


def test_a_table_with_a_missing_position_is_a_fault():
    shape = Shape.of(CHAIN | {"max_depth": 1, "max_nodes": 1})
    trees = table([logged([1, 1, 1], "budget", 3, shape, lambda step, path: [1])[1]], TREES)
    with pytest.raises(ValueError, match="prompt p do not stand at each position once"):
        replay_trees(trees.filter(pa.array([True, False, True])), 1)
