"""Token trees of a block drafter: each depth has the distribution of its slot."""

import numpy as np
import pytest
import torch
from block_models import saved, tiny_network, tiny_target
from draftscope.drafters.block import BlockDraft
from draftscope.drafters.proposals import TextBlocks
from draftscope.errors import UserError
from draftscope.live import decode, open_decoder
from draftscope.models.vocabulary import align
from draftscope.sampling import log_law
from draftscope.seeds import generator
from draftscope.tree.scoring import score_trees
from draftscope.tree.shape import Shape

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
PROMPT = [3, 1, 0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    target = tiny_target(6)
    return target, saved(
        tmp_path_factory.mktemp("draft"), target, tiny_network(target), [0, 1, 2, 4]
    )


@pytest.fixture(scope="module")
def text(pair):
    decoded = decode(open_decoder(pair[0]), None, PROMPT, gamma=0, law=GREEDY, budget=14,
                     eos_ids=frozenset(), rng=generator("plain"))  # fmt: skip
    return {
        "prompt_id": "p", "sample": 0, "status": "ok", "prompt_token_ids": PROMPT,
        "token_ids": decoded.token_ids, "budget": 14, "stop_reason": "budget",
    }  # fmt: skip


def trees_of(pair, text, **shape):
    scores = score_trees(*pair, align(*pair), [text], Shape.of(shape))
    nodes = {name: np.asarray(values) for name, values in scores.nodes[0].items()}
    return nodes, {name: np.asarray(values) for name, values in scores.trees[0].items()}


def column(table, name):
    return np.asarray(table[name])


def test_a_tree_without_branches_is_the_block_that_is_replayed(pair, text):
    nodes, _ = trees_of(pair, text, kind="static", branching=[1, 1, 1, 1])
    blocks = TextBlocks(pair[1], pair[0]).propose(PROMPT, text["token_ids"])
    steps, depths, ids = (column(nodes, name) for name in ("step", "depth", "token_id"))
    for step in range(10):  # behind it the budget cuts the trees
        own = ids[steps == step][np.argsort(depths[steps == step])]
        assert own.tolist() == blocks[step].tolist()
    assert not np.array_equal(blocks[0], blocks[1])  # or any block would do


def test_siblings_of_all_paths_have_the_distribution_of_their_slot(pair, text):
    nodes, _ = trees_of(pair, text, kind="static", branching=[2, 2, 2])
    drafter = BlockDraft(pair[1], pair[0])
    with torch.inference_mode():
        drafter.start([*PROMPT, *text["token_ids"][:5]], generator("x"))
        drafter._take_features()
        states = drafter._block_states()
        law = log_law(drafter._head(states[1:]), 1.0).numpy()
    own = column(nodes, "step") == 5
    for depth in (1, 2, 3):
        here = own & (column(nodes, "depth") == depth)
        assert here.sum() == 2**depth
        best = np.sort(law[depth - 1])[::-1][:2]
        log_q = column(nodes, "log_q")[here]
        rank = column(nodes, "rank")[here]
        assert np.allclose(log_q, best[rank - 1], atol=1e-5)
        vocabulary = np.array([0, 1, 2, 4])
        drafted = column(nodes, "token_id")[here]
        assert set(drafted) == set(vocabulary[np.argsort(-law[depth - 1])[:2]])


def test_a_tree_deeper_than_a_block_is_refused(pair, text):
    with pytest.raises(UserError, match="deeper than the blocks of draft, which have 4"):
        trees_of(pair, text, kind="static", branching=[1] * 5)
