"""Training a block drafter: what its blocks see, its loss cut in parts, and going on after a kill."""

import numpy as np
import pytest
import torch
from block_models import row_of, saved
from draftscope import models
from draftscope.block_training import loop
from draftscope.block_training.anchors import draw_anchors, every_anchor
from draftscope.block_training.loop import BlockTrainer, blocks_of, held_out_rounds
from draftscope.block_training.start import begin, shape_for
from draftscope.block_training.target import TargetSide
from draftscope.block_training.vocabulary import draft_vocabulary, places
from draftscope.drafters.dflash import DFlash, block_mask, spread_layers
from draftscope.drafters.features import read_features
from draftscope.drafters.proposals import TextBlocks
from draftscope.drafters.slots import block_tokens
from draftscope.errors import UserError
from draftscope.losses import LOSSES
from draftscope.replay import greedy_rounds
from draftscope.training import checkpoint
from draftscope.training.examples import Example, split
from draftscope.training.run import Plan
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model_folder

PLAN = Plan(steps=24, batch=2, lr=4e-3, warm_up=2, evaluate_every=8, patience=3, seed=5)


# ---- Parts that need no model ------------------------------------------------------------------


def test_feature_layers_are_those_of_the_published_configurations():
    assert spread_layers(36, 5) == (1, 9, 17, 25, 33)
    assert spread_layers(36, 1) == (18,)
    assert spread_layers(4, 5) == (1,)
    assert spread_layers(2, 3) == (0, 1)


def test_a_block_sees_what_stands_before_its_anchor_and_itself():
    mask = block_mask([0, 2], context=4, block_size=2)
    assert mask.int().tolist() == [
        [0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 0, 0, 0, 0, 1, 1],
        [1, 1, 0, 0, 0, 0, 1, 1],
    ]


def test_the_draft_vocabulary_holds_frequent_ids_and_the_end_of_text():
    assert draft_vocabulary([[5, 5, 3], [3, 5, 7]], 3, {9}, 12).tolist() == [3, 5, 9]
    assert draft_vocabulary([[5]], 3, set(), 12).tolist() == [0, 1, 5]  # ties go to the lower id
    assert draft_vocabulary([[5]], 99, set(), 4).tolist() == [0, 1, 2, 3]
    assert places(np.array([3, 5]), 7).tolist() == [-1, -1, -1, 0, -1, 1, -1]
    with pytest.raises(UserError, match="no room for the 2 end-of-text ids"):
        draft_vocabulary([[5]], 1, {1, 2}, 9)


TEXT = Example("d", "p", 0, (1, 2, 3), tuple(range(10, 30)))


def test_anchors_are_drawn_anew_each_step_and_are_a_function_of_their_arguments():
    first = draw_anchors(TEXT, 6, 0, 1)
    assert first.tolist() == draw_anchors(TEXT, 6, 0, 1).tolist()
    assert first.tolist() != draw_anchors(TEXT, 6, 1, 1).tolist()
    assert len(set(first)) == 6 and first.min() >= 2 and first.max() <= 21
    assert draw_anchors(TEXT, 99, 0, 1).tolist() == every_anchor(TEXT).tolist()
    seen = {int(a) for step in range(60) for a in draw_anchors(TEXT, 6, step, 1)}
    assert seen == set(every_anchor(TEXT).tolist())  # the last token is anchor of nothing


def test_slots_of_a_block_are_the_tokens_after_its_anchor():
    found = blocks_of(TEXT, np.array([2, 21]), 4)
    assert found.ids[0].tolist() == [10, 11, 12]
    assert found.valid.tolist() == [[True] * 3, [True, False, False]]
    assert found.at[0].tolist() == [0, 1, 2] and found.ids[1, 0] == 29


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=30))
def test_held_out_rounds_are_those_of_replay_where_slots_are_matches_of_positions(rows):
    """A drafter whose slot i is right wherever its position is right is replayed by positions."""
    match = np.array([row[0] for row in rows])
    slots = np.zeros((len(match), 3), bool)
    for i in range(3):
        slots[: len(match) - i, i] = match[i:]
    tokens, rounds = held_out_rounds(slots)
    assert tokens == len(match)
    assert rounds == len(greedy_rounds(match, 3)["start"])


# ---- A training --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tiny_model_folder(tmp_path_factory.mktemp("target") / "m", layers=3, seed=4)
    record = models.resolve(
        "tiny", {"kind": "local", "path": str(folder)}, tmp_path_factory.mktemp("record")
    )
    return models.load(record, "cpu")


def texts_of(count: int, seed: int) -> list[Example]:
    """Texts that count upwards from a random start, which a drafter can learn."""
    numbers = np.random.default_rng(seed)
    found = []
    for i in range(count):
        start = int(numbers.integers(10, 60))
        ids = tuple(10 + (start + j) % 60 for j in range(30))
        found.append(Example("d", f"p{i}", 0, ids[:4], ids[4:]))
    return found


def trainer(target, loss="ce_decay", plan=PLAN, vocabulary=100, init="target", **options):
    kept, held = split(texts_of(24, 1), 0.1, seed=1)
    row = row_of(2, init=init, seed=plan.seed)
    shape = shape_for(target, row)
    net = DFlash(shape)
    begin(net, target, row)
    ids = draft_vocabulary((t.emitted for t in kept), vocabulary, target.eos_ids, target.head_size)
    side = TargetSide(
        target, shape.feature_layers, ids, options.pop("cache_mb", 10), LOSSES[loss].needs_p
    )
    settings = {"name": loss, "decay": 4.0, "smoothing": 0.5}
    return BlockTrainer("draft", net, side, kept, held, settings, 8, plan, **options)


@pytest.fixture(scope="module")
def trained(target, tmp_path_factory):
    training = trainer(target)
    history = training.run(tmp_path_factory.mktemp("run") / checkpoint.NAME, "f")
    return training, history


def weights_of(training):
    return {name: value.detach().clone() for name, value in training.parameters.items()}


def test_training_raises_the_acceptance_length_of_texts_it_never_visits(trained):
    training, history = trained
    best = next(row for row in history if row["best"])
    assert best["held_out_tau"] > history[0]["held_out_tau"]
    assert history[-1]["held_out_loss"] < 0.9 * history[0]["held_out_loss"]
    columns, _, _ = training.look()
    assert columns["held_out_tau"] == best["held_out_tau"]


def test_the_target_is_frozen(target, trained):
    assert not any(value.requires_grad for value in target.model.parameters())
    assert all(value.grad is None for value in target.model.parameters())


def test_an_anchor_can_be_drafted_alone_or_among_others(target):
    """Blocks of one text do not see each other, and none sees what stands after its anchor."""
    training = trainer(target)
    text = training.texts[0]
    reading = training.target.read(text)
    anchors = np.array([5, 9, 20])
    with torch.no_grad():
        together = training.states(text, reading, blocks_of(text, anchors, 5))
        cut = Example("d", "cut", 0, text.prompt, text.emitted[:6])  # ends with the anchor at 9
        for place, anchor in enumerate(anchors):
            alone = training.states(text, reading, blocks_of(text, anchors[place : place + 1], 5))
            assert torch.allclose(alone[0], together[place], atol=1e-5), anchor
        short = training.states(cut, training.target.read(cut), blocks_of(cut, anchors[1:2], 5))
        assert torch.allclose(short[0], together[1], atol=1e-5)
        moved = training.states(text, reading, blocks_of(text, np.array([10]), 5))
        assert not torch.allclose(
            moved[0], together[1], atol=1e-3
        )  # another anchor is another block


@pytest.mark.parametrize("loss", ["ce_decay", "dpace", "dpal", "dpace_forward_kl"])
def test_the_gradient_does_not_depend_on_how_the_head_is_cut(target, monkeypatch, loss):
    grads = []
    for largest in (10**7, 5 * 100):
        monkeypatch.setattr("draftscope.training.loss.LARGEST_BLOCK", largest)
        training = trainer(target, loss)
        value = training.loss([0, 1])
        grads.append((value, {n: p.grad.clone() for n, p in training.parameters.items()}))
    (one, whole), (other, cut) = grads
    assert one == pytest.approx(other, rel=1e-5)
    for name, grad in whole.items():
        assert torch.allclose(grad, cut[name], atol=1e-6, rtol=1e-4), name


def test_probabilities_of_the_target_are_those_of_its_whole_vocabulary(target):
    training = trainer(target, "dpal", vocabulary=50)
    text = training.texts[0]
    reading = training.target.read(text)
    found = training.target.log_p(reading.states, reading.log_z)
    ids = torch.tensor([*text.prompt, *text.emitted])[None]
    logits = target.model(input_ids=ids).logits[0, len(text.prompt) - 1 : -1]
    wanted = torch.log_softmax(logits, -1)[:, training.target.head.ids]
    assert torch.allclose(found, wanted, atol=1e-4)
    assert float(found.exp().sum(-1).max()) < 1  # the rest has mass too


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", [0, 7, 23])
def test_case_63_a_training_killed_at_any_step_goes_on_to_the_same_bits(
    target, trained, tmp_path, at
):
    path = tmp_path / checkpoint.NAME
    killed = trainer(target)
    step, calls = killed._step, []

    def dying():
        if len(calls) == at:
            raise Killed
        calls.append(step())
        return calls[-1]

    killed._step = dying
    with pytest.raises(Killed):
        killed.run(path, "f")
    again, done = trainer(target), []
    own = again._step
    again._step = lambda: done.append(own()) or done[-1]
    history = again.run(path, "f")
    assert len(done) == PLAN.steps - at // PLAN.evaluate_every * PLAN.evaluate_every
    whole, wanted = trained
    assert history == wanted
    assert all(torch.equal(value, weights_of(whole)[n]) for n, value in weights_of(again).items())


def test_another_seed_gives_other_weights(target, trained):
    other = trainer(target, plan=Plan(**(vars(PLAN) | {"seed": 6})))
    other.run()
    whole = weights_of(trained[0])
    assert any(not torch.equal(value, whole[n]) for n, value in weights_of(other).items())


def test_a_cache_moves_no_number(target):
    kept, none = trainer(target, cache_mb=10), trainer(target, cache_mb=0)
    assert [kept.loss([0]), kept.loss([0])] == [none.loss([0]), none.loss([0])]


def test_a_drafter_deeper_than_its_target_cannot_start_as_its_copy(target):
    row = row_of(4, feature_layers=[0])
    with pytest.raises(UserError, match="has 3 layers to copy and the drafter 4"):
        begin(DFlash(shape_for(target, row)), target, row)
    begin(DFlash(shape_for(target, row)), target, row | {"init": "random"})
    row = row_of(3, feature_layers=[0], init_layers=[0, 1, 7])
    with pytest.raises(UserError, match="give 3 of the layers 0 to 2 of target tiny"):
        begin(DFlash(shape_for(target, row)), target, row)
    with pytest.raises(UserError, match="feature layer 7: target tiny has layers 0 to 2"):
        shape_for(target, row_of(1, feature_layers=[7]))


def test_the_context_starts_as_what_the_first_copied_layer_reads(target):
    """In the target layer 2 reads the output of layer 1, through its own norm."""
    row = row_of(1, feature_layers=[0, 1])
    net = DFlash(shape_for(target, row))
    begin(net, target, row)
    weight = net.fusion.weight.detach()
    assert torch.allclose(weight[:, 64:].diagonal(), torch.ones(64), atol=0.02)
    assert float(weight[:, :64].abs().max()) < 0.02
    begin(net, target, row | {"init_layers": [0]})
    assert torch.allclose(net.fusion.weight[:, :64].diagonal(), torch.ones(64), atol=0.02)
    source = target.model.base_model.layers[0]
    assert torch.equal(net.layers[0].k.weight, source.self_attn.k_proj.weight)
    assert torch.equal(net.context_norm.weight, source.input_layernorm.weight)


@pytest.mark.parametrize("shifted", [False, True])
def test_a_drafter_of_looked_up_slots_learns_how_much_to_trust_them(target, tmp_path, shifted):
    row = row_of(2, slots="lookup", shifted=shifted, seed=3)
    net, masks = DFlash(shape_for(target, row)), DFlash(shape_for(target, row | {"slots": "masks"}))
    begin(net, target, row)
    begin(masks, target, row)
    own = net.state_dict()
    assert all(torch.equal(own.pop(name), value) for name, value in masks.state_dict().items())
    assert set(own) == {"guess_weight.weight", "guess_weight.bias"}
    assert not own["guess_weight.weight"].any() and own["guess_weight.bias"].tolist() == [0.5]
    ids = draft_vocabulary([], 50, target.eos_ids, target.head_size)
    side = TargetSide(target, net.shape.feature_layers, ids, 10, False)
    settings = {"name": "ce_decay", "decay": 4.0, "smoothing": 0.5}
    # The second half repeats the first, so that lookup has something to say.
    found = [Example("d", t.prompt_id, 0, t.prompt, t.emitted[:9] * 2) for t in texts_of(4, 1)]
    training = BlockTrainer("draft", net, side, found[:3], found[3:], settings, 8, PLAN)
    for _ in range(3):
        training._step()
    assert net.guess_weight.weight.any() and net.guess_weight.bias.item() != 0.5
    text, blocks = found[3], TextBlocks(saved(tmp_path, target, net, ids), target)
    with torch.no_grad():
        states = training.states(text, side.read(text), blocks_of(text, every_anchor(text), 5))
    read = [*text.prompt, *text.emitted][:-1]
    replayed = torch.cat([part for _, part, _ in blocks.states(read, len(text.prompt) - 1)])
    assert torch.allclose(states, replayed[:, 1:], atol=1e-4)


@pytest.mark.parametrize(("context", "shifted"), [("own", True), ("own", False), ("fused", True)])
def test_a_shifted_copy_of_the_whole_target_drafts_its_next_token(target, context, shifted):
    """With the keys, values and layers of the target the anchor sees what the target sees there."""
    row = row_of(3, context=context, shifted=shifted)
    net = DFlash(shape_for(target, row))
    begin(net, target, row)
    ids = torch.arange(20) * 7 % 90
    features, final = read_features(target, ids, net.shape.feature_layers)
    past = net.keys_values(net.fuse(features[:-1]), torch.arange(len(ids) - 1))
    embed = target.model.get_input_embeddings()
    slots = net.block_inputs(block_tokens(net.shape, ids.tolist(), [len(ids) - 1]), embed)
    states = net(slots, torch.arange(5) + len(ids) - 1, past)
    assert states.shape == (5, 64)
    # The other slots are masks, which the anchor must not see for this: mask them.
    alone = torch.ones(5, len(past[0][0][0]) + 5, dtype=torch.bool)
    alone[:, -4:] = torch.eye(5, dtype=torch.bool)[:, 1:]
    states = net(slots, torch.arange(5) + len(ids) - 1, past, alone)
    same = torch.allclose(states[1], final[-1], atol=1e-4)
    assert same == (context == "own" and shifted)


def test_normalised_features_do_not_depend_on_the_size_of_a_layers_states(target):
    torch.manual_seed(0)
    features = torch.randn(3, 128)
    louder = features * torch.tensor([1.0, 100.0]).repeat_interleave(64)
    for normalised in (True, False):
        row = row_of(1, feature_layers=[0, 1], normalised_features=normalised, init="random")
        net = DFlash(shape_for(target, row))
        begin(net, target, row)
        assert torch.allclose(net.fuse(features), net.fuse(louder), atol=1e-4) == normalised


def test_blocks_at_once_move_no_number(target, monkeypatch):
    training = trainer(target)
    text = training.held_out[0]
    whole = training.measure(text).matches
    monkeypatch.setattr(loop, "BLOCKS_AT_ONCE", 3)
    assert np.array_equal(training.measure(text).matches, whole)


def test_both_expectations_of_a_look_are_those_of_plain_loops_over_blocks(target):
    training = trainer(target, "dpal", vocabulary=50)
    head = training.target.head
    text = Example("d", "p", 0, (57, 58, 59), (60, 61, 95, 62, 63, 64, 65, 3, 66))
    whole = [*text.prompt, *text.emitted]
    logits = target.model(torch.tensor([whole])).logits[0].double()
    p = logits.softmax(-1).numpy()
    vocabulary = head.ids.tolist()
    estimate = surrogate = 0.0
    for anchor in every_anchor(text):
        block = blocks_of(text, np.array([anchor]), training.net.shape.block_size)
        states = training.states(text, training.target.read(text), block)
        q = head(states)[0].double().softmax(-1).detach().numpy()
        accepted = overlaps = 1.0
        for slot, token in enumerate(whole[anchor + 1 :][: len(q)]):
            here = p[anchor + slot]
            drafted = q[slot, vocabulary.index(token)] if token in vocabulary else 0.0
            accepted *= min(1.0, drafted / here[token])
            overlaps *= np.minimum(here[vocabulary], q[slot]).sum()
            estimate, surrogate = estimate + accepted, surrogate + overlaps
    found = training.measure(text)
    assert found.lengths == pytest.approx([estimate, surrogate], rel=1e-4)
    # Some of the text cannot be drafted, so that leaving that out would be seen.
    assert set(text.emitted) - set(vocabulary)
    assert estimate != pytest.approx(surrogate, rel=1e-2), (estimate, surrogate)
    means = loop.mean_lengths([found, found])
    assert means["held_out_estimate"] == pytest.approx(estimate / len(found.matches), rel=1e-4)


def test_a_loss_that_reads_no_distribution_has_neither_expectation(target):
    training = trainer(target)
    found = training.measure(training.held_out[0])
    assert found.lengths is None
    assert set(loop.mean_lengths([found]).values()) == {None}
