"""Training ReTrace: what two unrolled rounds carry is what the live loop carries."""

import numpy as np
import pytest
import torch
from block_models import row_of
from draftscope import models
from draftscope.block_training.loop import blocks_of
from draftscope.block_training.start import begin, shape_for
from draftscope.block_training.target import TargetSide
from draftscope.block_training.unrolled import UnrolledTrainer
from draftscope.drafters.dflash import DFlash
from draftscope.drafters.retrace import VARIANTS, ReTrace
from draftscope.drafters.retrace_draft import RetraceDraft
from draftscope.live.loop import decode
from draftscope.models import retrace
from draftscope.training import checkpoint
from draftscope.training.examples import Example
from draftscope.training.run import Plan
from tiny import tiny_model_folder

PLAN = Plan(steps=8, batch=2, lr=4e-3, warm_up=2, evaluate_every=4, patience=3, seed=5)
OWN = {"context": "own", "shifted": True}
LOOKED_UP = OWN | {"slots": "lookup"}
GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tiny_model_folder(tmp_path_factory.mktemp("target") / "m", layers=3, seed=4)
    record = models.resolve(
        "tiny", {"kind": "local", "path": str(folder)}, tmp_path_factory.mktemp("record")
    )
    return models.load(record, "cpu")


@pytest.fixture(scope="module")
def texts(target):
    """The target's own greedy texts."""
    found = []
    for i in range(6):
        prompt = [0, 20 + i, 40 + 3 * i]
        ids = target.model.generate(
            torch.tensor([prompt]), max_new_tokens=30, min_new_tokens=30, do_sample=False
        )[0].tolist()
        found.append(Example("d", f"p{i}", 0, tuple(prompt), tuple(ids[3:])))
    return found


def trainer(
    target,
    texts,
    variant="corrected_gated",
    plan=PLAN,
    beta_warm_up=4,
    seed=0,
    loss="dpace",
    **more,
):
    row = row_of(2, seed=seed, **more)
    shape = shape_for(target, row)
    net = DFlash(shape)
    begin(net, target, row)
    torch.manual_seed(seed)
    memory = ReTrace(shape.width, variant)
    ids = np.arange(target.head_size)
    side = TargetSide(target, shape.feature_layers, ids, 10, False)
    loss = {"name": loss, "smoothing": 0.5, "decay": 4.0}
    return UnrolledTrainer(
        "draft", net, memory, side, texts[:4], texts[4:], loss, 6, plan, beta_warm_up
    )


def stir(memory):
    """A memory that has learnt something."""
    torch.manual_seed(3)
    for value in memory.parameters():
        torch.nn.init.normal_(value, std=0.3)


def live(training, target, text, tmp_path, name):
    """Rounds of the live loop, each with its start and what it left behind."""
    record = {"name": "base", "revision": "1"}
    made = retrace.save(
        name, training.net, training.memory, training.target.head.ids, tmp_path, target, record, "x"
    )
    made = models.write_record(name, "retrace", tmp_path, made)
    drafter = RetraceDraft(models.load(made, "cpu"), target)
    seen = []
    extend = drafter.extend

    def watched(token_ids):
        before = len(drafter._text)
        extend(token_ids)
        seen.append((before, len(token_ids) - 1, drafter.carried))

    drafter.extend = watched
    out = decode(
        drafter.target_decoder,
        drafter,
        text.prompt,
        gamma=4,
        law=GREEDY,
        budget=len(text.emitted),
        eos_ids=frozenset(),
        rng=np.random.default_rng(0),
    )
    return out, seen


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("more", [{}, OWN, LOOKED_UP], ids=["fused", "own", "looked up"])
def test_what_a_first_round_carries_is_what_the_live_loop_carries(
    target, texts, variant, more, tmp_path
):
    training, text = trainer(target, texts, variant, **more), texts[0]
    out, seen = live(training, target, text, tmp_path, "live")
    assert tuple(out.token_ids) == text.emitted  # lossless
    start, accepted, carried = seen[0]  # the first round has nothing carried to it
    assert start == len(text.prompt)
    found, second = training.first_round(text, np.array([start - 1]))
    assert second.anchors.tolist() == [start + accepted]
    assert torch.equal(found.aligned, carried.aligned) and bool(carried.aligned.any())
    assert torch.allclose(found.draft, carried.draft, atol=1e-4)
    if variant == "corrected_gated":
        assert float(carried.target.abs().max()) > 0
        assert torch.allclose(found.target, carried.target, atol=1e-4)


def test_many_first_rounds_are_each_as_if_alone(target, texts):
    training, text = trainer(target, texts, **OWN), texts[1]
    anchors = np.array([2, 7, 8, 20])
    together, second = training.first_round(text, anchors)
    for place, anchor in enumerate(anchors):
        alone, own = training.first_round(text, np.array([anchor]))
        assert own.anchors[0] == second.anchors[place]
        for part, whole in zip(alone, together, strict=True):
            assert torch.allclose(part[0].float(), whole[place].float(), atol=1e-4)


@pytest.mark.parametrize("variant", ["gated", "corrected_gated"])
def test_at_the_start_a_second_round_is_dflash_bit_for_bit(target, texts, variant):
    training, text = trainer(target, texts, variant), texts[0]
    carried, second = training.first_round(text, np.array([4, 9]))
    reading = training.target.read(text)
    with torch.no_grad():
        plain = training.states(text, reading, second)
        assert torch.equal(training.second_round(text, reading, carried, second), plain)
        stir(training.memory)  # the control: a memory that has learnt changes the block
        assert not torch.equal(training.second_round(text, reading, carried, second), plain)


def test_a_text_that_ends_in_the_first_round_has_no_second(target, texts):
    training, text = trainer(target, texts, **OWN), texts[0]
    last = len(text.prompt) + len(text.emitted) - 2
    _, second = training.first_round(text, np.array([last]))
    assert len(second.anchors) == 0
    carried, second = training.first_round(text, np.array([4, last]))
    assert len(second.anchors) == len(carried.draft) == 1


def test_texts_without_a_second_round_are_no_fault_and_stop_no_training(target, texts, tmp_path):
    """All of a first step's, then none; the optimizer counts both, as it does after a kill."""
    short = [
        Example("d", f"s{i}", 0, text.prompt, text.emitted[:1]) for i, text in enumerate(texts)
    ]
    training = trainer(target, short)
    assert training.loss([0, 1]) == 0.0
    assert all(not value.grad.any() for value in training.parameters.values())
    plan = Plan(**(vars(PLAN) | {"evaluate_every": 1, "steps": 4}))
    mixed = [short[0], *texts[1:4], *texts[4:]]
    whole, killed = (trainer(target, mixed, plan=plan) for _ in range(2))
    wanted = whole.run()
    step, calls = killed._step, []

    def dying():
        if len(calls) == 2:
            raise Killed
        calls.append(step())
        return calls[-1]

    killed._step = dying
    with pytest.raises(Killed):
        killed.run(tmp_path / checkpoint.NAME, "f")
    again = trainer(target, mixed, plan=plan)
    assert again.run(tmp_path / checkpoint.NAME, "f") == wanted
    for name, value in again.parameters.items():
        assert torch.equal(value, whole.parameters[name]), name


@pytest.mark.parametrize("more", [{}, LOOKED_UP], ids=["fused", "looked up"])
def test_second_rounds_may_overtake_one_another(target, texts, more):
    """A block that is accepted in full is followed by one behind those of later anchors."""
    training, text = trainer(target, texts, **more), texts[0]
    reading = training.target.read(text)
    with torch.no_grad():
        found = training.states(text, reading, blocks_of(text, np.array([12, 6, 12]), 5))
        for place, anchor in enumerate([12, 6, 12]):
            alone = training.states(text, reading, blocks_of(text, np.array([anchor]), 5))
            assert torch.allclose(found[place], alone[0], atol=1e-5)


def test_beta_grows_over_its_steps_and_the_memory_learns(target, texts):
    training = trainer(target, texts)
    before = {n: p.detach().clone() for n, p in training.memory.named_parameters()}
    betas = []
    for _ in range(6):
        training._step()
        betas.append(training.memory.beta)
    assert betas == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    moved = {n: not torch.equal(p, before[n]) for n, p in training.memory.named_parameters()}
    assert all(moved.values()), moved


def test_the_weights_of_the_least_loss_are_kept_where_the_draft_does_not_weigh_it(target, texts):
    """A loss that the draft's own confidence weighs grows as the draft improves."""
    for name, column, sign in (("ce_decay", "held_out_loss", 1), ("dpace", "held_out_tau", -1)):
        training = trainer(target, texts, loss=name)
        columns, score, _ = training.look()
        assert score == sign * columns[column]
        history = trainer(target, texts, loss=name).run()
        best = min(sign * row[column] for row in history)
        kept = [row["held_out_loss"] for row in history if row["best"]]
        assert kept == [r["held_out_loss"] for r in history if sign * r[column] == best][:1]


def test_a_memory_is_looked_at_as_it_decodes(target, texts):
    training = trainer(target, texts, loss="ce_decay")
    stir(training.memory)
    whole = training.look()
    training.memory.beta = 0.1
    assert training.look() == whole and training.memory.beta == 0.1
    found = training._second_rounds()
    assert found != whole


class Killed(BaseException):
    pass


def test_case_63_a_killed_training_of_a_memory_goes_on_to_the_same_bits(target, texts, tmp_path):
    whole = trainer(target, texts)
    wanted = whole.run()
    killed, calls = trainer(target, texts), []
    step = killed._step

    def dying():
        if len(calls) == 6:
            raise Killed
        calls.append(step())
        return calls[-1]

    killed._step = dying
    path = tmp_path / checkpoint.NAME
    with pytest.raises(Killed):
        killed.run(path, "f")
    again = trainer(target, texts)
    assert again.run(path, "f") == wanted
    for name, value in again.parameters.items():
        assert torch.equal(value, whole.parameters[name]), name


def test_second_blocks_start_where_the_first_ones_stopped(target, texts):
    training, text = trainer(target, texts), texts[2]
    anchors = np.arange(2, 25)
    _, second = training.first_round(text, anchors)
    reading = training.target.read(text)
    with torch.no_grad():
        logits = training.target.head(training.states(text, reading, blocks_of(text, anchors, 5)))
    ids = [*text.prompt, *text.emitted]
    for anchor, found, drafted in zip(anchors, second.anchors, logits.argmax(-1), strict=True):
        accepted = 0
        while accepted < 4 and drafted[accepted] == ids[anchor + 1 + accepted]:
            accepted += 1
        assert found == anchor + accepted + 1
