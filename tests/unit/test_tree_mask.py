"""Masks, positions and candidates of token trees."""

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.tree.candidates import candidates
from draftscope.tree.mask import attention_mask, depths_of, position_ids, visible
from hypothesis import given
from hypothesis import strategies as st

PARENTS = [-1, -1, 0, 0, 1, 3]
forests = st.lists(st.integers(0, 30), min_size=1, max_size=12).map(
    lambda picks: [pick % (node + 1) - 1 for node, pick in enumerate(picks)]
)


def test_a_node_sees_its_prefix_its_ancestors_and_itself():
    seen = visible(PARENTS, [2, 1, 2, 2, 1, 2], 3)
    rows = ["".join("x" if cell else "." for cell in row) for row in seen]
    assert rows == [
        "xx.x.....",
        "x...x....",
        "xx.x.x...",
        "xx.x..x..",
        "x...x..x.",
        "xx.x..x.x",
    ]
    assert position_ids(PARENTS, [2, 1, 2, 2, 1, 2]).tolist() == [2, 1, 3, 3, 2, 4]


@given(forests, st.integers(0, 5))
def test_every_node_sees_as_many_nodes_as_it_is_deep(parents, text):
    seen = visible(parents, text, text)
    assert (seen.sum(1) == text + depths_of(parents)).all()
    assert not np.triu(seen[:, text:], 1).any()
    for first in range(len(parents)):
        assert np.array_equal(visible(parents, text, text, first), seen[first:])


def test_the_mask_is_additive_in_the_data_type_of_the_model():
    mask = attention_mask(PARENTS, 3, 3, 4, dtype=torch.bfloat16)
    assert mask.shape == (1, 1, 2, 9)
    assert mask.dtype == torch.bfloat16
    assert torch.equal(mask[0, 0] == 0, torch.from_numpy(visible(PARENTS, 3, 3, 4)))
    assert float(mask.min()) == torch.finfo(torch.bfloat16).min


@pytest.mark.parametrize("parents", [[0], [-1, 2, -1], [-2]])
def test_parents_that_do_not_stand_before_their_children_are_a_fault(parents):
    for call in (depths_of, lambda parents: visible(parents, 0, 0)):
        with pytest.raises(ValueError, match="parents stand before"):
            call(parents)
    with pytest.raises(ValueError, match="prefixes from 4 to 4 of a text of 3"):
        visible([-1], 4, 3)


ties = st.lists(st.lists(st.integers(-2, 2), min_size=7, max_size=7), min_size=1, max_size=4)


@given(ties, st.integers(1, 9))
def test_candidates_are_the_highest_with_ties_to_the_lowest_id(rows, k):
    logits = torch.tensor(rows, dtype=torch.float32)
    found = candidates(logits, k)
    for row, ids in zip(rows, found.token_ids.tolist(), strict=True):
        assert ids == sorted(range(7), key=lambda i: (-row[i], i))[:k]
    law = torch.log_softmax(logits, -1)
    torch.testing.assert_close(found.log_q, law.gather(-1, found.token_ids))
    torch.testing.assert_close(found.entropy, -(law.exp() * law).sum(-1))


def test_masked_ids_lose_their_probability_and_ids_unknown_to_the_target_their_place_alone():
    logits = torch.tensor([[3.0, 2.0, 1.0, 5.0]])
    found = candidates(logits, 4, torch.tensor([0]), width=3)
    assert found.token_ids.tolist() == [[1, 2, 0]]
    q = torch.softmax(torch.tensor([2.0, 1.0, 5.0]), -1)
    torch.testing.assert_close(found.log_q[0, :2], q.log()[:2])
    assert found.log_q[0, 2] == -torch.inf
    torch.testing.assert_close(found.entropy[0], -(q * q.log()).sum())


def test_logits_that_are_no_numbers_are_refused():
    with pytest.raises(sampling.BadLogits, match="NaN"):
        candidates(torch.tensor([[0.0, torch.nan]]), 1)
