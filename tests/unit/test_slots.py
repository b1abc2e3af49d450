"""What stands in the slots of a block: the same live and along a known text, and never the future."""

import numpy as np
import pytest
import torch
from block_models import saved, tiny_network, tiny_target
from draftscope.drafters.block import BlockDraft
from draftscope.drafters.dflash import MASK
from draftscope.drafters.slots import Slots, block_tokens
from hypothesis import given
from hypothesis import strategies as st

SIZE = 5


@pytest.fixture(scope="module")
def network():
    return tiny_network(tiny_target(), SIZE, looked_up=True)


@pytest.fixture(scope="module")
def masked():
    return tiny_network(tiny_target(), SIZE)


def copied(text):
    """The longest end of up to three tokens that stood before, most recently; what followed it."""
    for length in (3, 2, 1):
        for start in range(len(text) - length - 1, -1, -1):
            if text[start : start + length] == text[-length:]:
                return text[start + length : start + length + SIZE - 1]
    return []


@given(text=st.lists(st.integers(0, 3), min_size=1, max_size=30), data=st.data())
def test_slots_hold_the_copy_of_what_followed_before(network, text, data):
    anchors = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=1)))
    found = block_tokens(network.shape, text, anchors).tolist()
    live, known = Slots(network.shape), 0
    live.start(text[:1])
    for anchor, tokens in zip(anchors, found, strict=True):
        before = text[: anchor + 1]
        copy = copied(before)
        assert tokens == [text[anchor], *copy, *[MASK] * (SIZE - 1 - len(copy))]
        if anchor > known:
            live.extend(text[known + 1 : anchor + 1])
            known = anchor
        assert live.tokens() == tokens


def test_blocks_may_stand_in_any_order_and_share_an_anchor(network):
    text, anchors = [1, 2, 1, 2, 3, 1], [4, 1, 4, 0, 5]
    alone = [block_tokens(network.shape, text, [anchor])[0].tolist() for anchor in anchors]
    assert block_tokens(network.shape, text, anchors).tolist() == alone


def test_a_new_text_forgets_the_last_one(network):
    slots = Slots(network.shape)
    slots.start([1, 2, 1])
    assert slots.tokens() == [1, 2, 1, MASK, MASK]
    slots.start([2, 1])
    assert slots.tokens() == [1, MASK, MASK, MASK, MASK]


def test_without_look_up_there_are_masks_alone(masked):
    assert block_tokens(masked.shape, [1, 1, 1], [0, 2]).tolist() == [[1, *[MASK] * 4]] * 2
    assert block_tokens(masked.shape, [1, 1, 1], []).shape == (0, SIZE)


def test_a_block_begins_as_embeddings_and_masks(network):
    embed = torch.nn.Embedding(4, network.shape.width)
    tokens = block_tokens(network.shape, [1, 2, 1], [0, 2])
    inputs = network.block_inputs(tokens, embed).view(2, SIZE, -1)
    assert torch.equal(inputs[:, 0], embed.weight[[1, 1]])
    assert torch.equal(inputs[1, 1:3], embed.weight[[2, 1]])
    assert torch.equal(inputs[0, 1:], network.mask_embedding.expand(4, -1))
    assert torch.equal(inputs[1, 3:], network.mask_embedding.expand(2, -1))
    inputs.sum().backward()
    assert torch.equal(network.mask_embedding.grad, torch.full_like(network.mask_embedding, 6))
    network.zero_grad(set_to_none=True)


@pytest.mark.parametrize("shifted", [False, True])
def test_what_stands_in_a_slot_is_added_to_its_own_state(shifted):
    network = tiny_network(tiny_target(), SIZE, own=shifted, looked_up=True)
    slots, positions = torch.randn(SIZE, network.shape.width), torch.arange(SIZE)
    weight = network.guess_weight

    def states(weights, share):
        with torch.no_grad():
            weight.weight.fill_(weights)
            weight.bias.fill_(share)
            return network(slots, positions, network.no_keys_values())

    alone = states(0.0, 0.0)
    torch.testing.assert_close(states(0.0, 0.7), alone + 0.7 * slots)
    direction = alone / alone.norm(dim=-1, keepdim=True).clamp_min(1e-9)
    by_state = 0.2 * direction.sum(-1, keepdim=True) - 0.1
    torch.testing.assert_close(states(0.2, -0.1), alone + by_state * slots)


def test_a_drafter_that_trusts_its_slots_drafts_what_lookup_proposes(tmp_path):
    target = tiny_target()
    # Rows of the head at right angles: the most probable token of an embedding is its own.
    rows = 3 * torch.eye(6, 16)
    target.model.get_input_embeddings().weight.copy_(rows)
    target.model.get_output_embeddings().weight.copy_(rows)
    text, drafted = [1, 2, 3, 4, 1, 2], [3, 4, 1, 2]
    for trust, same in ((100.0, True), (0.0, False)):
        network = tiny_network(target, SIZE, looked_up=True)
        with torch.no_grad():
            network.guess_weight.weight.zero_()
            network.guess_weight.bias.fill_(trust)
        draft = BlockDraft(saved(tmp_path / str(trust), target, network), target)
        with torch.inference_mode():
            draft.start(text, np.random.default_rng(0))
            found = draft.propose(SIZE - 1).ids.tolist()
        assert (found == drafted) == same
