"""Training a draft: the loss, the weights of positions, stopping, and going on after a kill."""

import math

import numpy as np
import pytest
import torch
from draftscope import models
from draftscope.errors import UserError
from draftscope.models.layer_subset import keep_layers
from draftscope.training import checkpoint, loss
from draftscope.training.examples import Example, batch, digest, examples, split
from draftscope.training.loop import Plan, Trainer, free_body, recompute_activations
from draftscope.training.teacher import Teacher
from draftscope.training.weights import position_weights
from scipy.special import softmax
from scipy.stats import entropy
from tiny import tiny_model_folder

PLAN = Plan(steps=24, batch=3, lr=3e-3, warm_up=2, evaluate_every=8, patience=3, seed=5)


# ---- The loss ----------------------------------------------------------------------------------


def test_the_loss_is_kl_of_the_two_softmaxes():
    numbers = np.random.default_rng(0)
    p, q = numbers.normal(size=(2, 6, 9))
    log_p = torch.log_softmax(torch.tensor(p), -1)
    found = loss.divergence(log_p.float(), torch.tensor(q))
    wanted = [entropy(softmax(a), softmax(b)) for a, b in zip(p, q, strict=True)]
    assert np.allclose(found, wanted, atol=1e-6)


def test_case_1_the_loss_counts_ids_that_both_heads_have_and_no_masked_one():
    logits = torch.tensor([[1.0, 2.0, 0.5, 9.0]])  # the draft's head has an id more
    log_p = torch.log_softmax(torch.tensor([[0.3, -1.0, 2.0]]), -1)
    p, q = log_p.exp()[0], torch.softmax(logits, -1)[0, :3]
    assert torch.allclose(loss.divergence(log_p, logits)[0], (p * (p / q).log()).sum(), atol=1e-6)
    masked = torch.tensor([1])
    left = torch.softmax(logits.index_fill(-1, masked, -torch.inf), -1)[0]
    kept = sum(float(p[i] * (p[i] / left[i]).log()) for i in (0, 2))
    assert math.isclose(float(loss.divergence(log_p, logits, masked)[0]), kept, rel_tol=1e-5)


@pytest.mark.parametrize("largest", [7, 10**6])
def test_the_gradient_is_that_of_the_whole_loss_however_it_is_cut(monkeypatch, largest):
    """d(sum w KL / n)/d(hidden) = w (q - p) W / n, the gradient of cross entropy."""
    monkeypatch.setattr(loss, "LARGEST_BLOCK", largest)
    torch.manual_seed(0)
    body = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    head = torch.randn(3, 4, dtype=torch.float64)
    log_p = torch.log_softmax(torch.randn(5, 3, dtype=torch.float64), -1)
    weights = torch.tensor([1.0, 0.0, 2.0, 0.5, 1.5], dtype=torch.float64)

    def compare(own, block):
        return loss.divergence(log_p[block], own @ head.T)

    value = loss.accumulate(body * 1.0, weights, 5, 3, compare)
    q = torch.softmax((body @ head.T).float(), -1).double()
    wanted = weights[:, None] * (q - log_p.exp()) @ head / 5
    assert torch.allclose(body.grad, wanted.detach(), atol=1e-6)
    whole = (weights * loss.divergence(log_p, body.detach() @ head.T)).sum() / 5
    assert math.isclose(value, float(whole), rel_tol=1e-6)


# ---- The weights of positions ------------------------------------------------------------------


def test_weights_by_hand_on_five_tokens():
    lengths = [3, 2]
    uniform = position_weights("uniform", lengths)
    assert [list(each) for each in uniform] == [[1, 1, 1], [1, 1]]
    entropies = [np.array([1.0, 0.0, 2.0]), np.array([3.0, 4.0])]  # 10 nats over 5 tokens
    found = position_weights("entropy", lengths, entropies=entropies)
    assert [list(each) for each in found] == [[0.5, 0, 1], [1.5, 2]]
    marked = [np.array([True, False, False]), np.array([False, True])]  # 4 + 1 + 1 + 1 + 4 = 11
    found = position_weights("reflection", lengths, marked=marked, emphasis=4)
    assert np.allclose(np.concatenate(found), np.array([4, 1, 1, 1, 4]) * 5 / 11)


def test_weights_that_weigh_nothing_are_told():
    nothing = [np.zeros(2, bool)]
    assert list(position_weights("reflection", [2], marked=nothing, emphasis=4)[0]) == [1, 1]
    with pytest.raises(UserError, match="entropy is 0 at every training position"):
        position_weights("entropy", [2], entropies=[np.zeros(2)])
    with pytest.raises(ValueError, match="one value for each generated position"):
        position_weights("entropy", [3], entropies=[np.ones(2)])


# ---- The texts ---------------------------------------------------------------------------------


def texts_of(prompts: int, samples: int = 2, domain: str = "d", length: int = 12) -> list[Example]:
    found = []
    for prompt in range(prompts):
        numbers = np.random.default_rng([prompt, length])
        opening = (0, *numbers.integers(3, 320, 4).tolist())
        found += [
            Example(
                domain,
                f"p{prompt}",
                sample,
                opening,
                tuple(numbers.integers(3, 320, length).tolist()),
            )
            for sample in range(samples)
        ]
    return found


def test_all_texts_of_a_prompt_are_on_one_side_and_others_move_none():
    texts = texts_of(10) + texts_of(3, domain="e")
    kept, held = split(texts, 0.2, seed=3)
    sides = [{(t.domain, t.prompt_id) for t in side} for side in (kept, held)]
    assert not sides[0] & sides[1] and len(kept) + len(held) == len(texts)
    assert {d: sum(t[0] == d for t in sides[1]) for d in "de"} == {"d": 2, "e": 1}
    assert split(texts[:20], 0.2, seed=3)[1] == [t for t in held if t.domain == "d"]
    with pytest.raises(UserError, match="one training prompt"):
        split(texts_of(1), 0.5, seed=3)


def test_texts_that_were_skipped_or_are_empty_are_not_learnt_from():
    row = {"prompt_id": "a", "sample": 0, "status": "ok", "prompt_token_ids": [1], "token_ids": [2]}
    rows = [row, row | {"status": "skipped"}, row | {"token_ids": []}]
    assert len(examples("d", rows)) == 1
    assert digest(examples("d", rows)) != digest(examples("e", rows))


def test_every_pass_visits_every_text_once_in_an_order_of_its_own():
    places = [place for step in range(6) for place in batch(4, 2, step, seed=1)]
    turns = [places[i : i + 4] for i in (0, 4, 8)]
    assert all(sorted(turn) == [0, 1, 2, 3] for turn in turns) and turns[0] != turns[1]


# ---- A training --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tiny_model_folder(tmp_path_factory.mktemp("base") / "m", layers=3, seed=4)
    return models.resolve(
        "tiny", {"kind": "local", "path": str(folder)}, tmp_path_factory.mktemp("record")
    )


@pytest.fixture(scope="module")
def target(base):
    return models.load(base, "cpu")


def trainer(base, target, plan=PLAN, narrow=None, cache_mb=10) -> Trainer:
    """A draft of two of the target's three layers, with its teacher."""
    draft = models.load(base, "cpu")
    keep_layers(draft.model, [0, 2])
    free_body(draft.model)
    kept, held = split(texts_of(40, samples=1, length=40), 0.1, seed=1)
    weights = position_weights("uniform", [len(t.emitted) for t in kept])
    return Trainer(draft, Teacher(target, cache_mb), kept, held, weights, plan, narrow=narrow)


def weights_of(training: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in training.parameters.items()}


@pytest.fixture(scope="module")
def trained(base, target, tmp_path_factory):
    training = trainer(base, target)
    before = {n: p.detach().clone() for n, p in training.draft.model.named_parameters()}
    history = training.run(tmp_path_factory.mktemp("run") / checkpoint.NAME, "f")
    return training, before, history


def test_training_lowers_kl_on_texts_that_it_never_visits(trained):
    training, _, history = trained
    first, best = history[0], next(row for row in history if row["best"])
    assert best["held_out_kl"] < 0.85 * first["held_out_kl"]
    kl, match = training.evaluate(training.held_out)
    assert (kl, match) == (best["held_out_kl"], best["held_out_match"])
    assert [row["step"] for row in history] == [0, 8, 16, 24]
    assert history[1]["tokens"] == 8 * 3 * 40


def test_embedding_and_head_stay_bit_for_bit_and_all_else_moves(trained):
    training, before, _ = trained
    for name, value in training.draft.model.named_parameters():
        frozen = "embed_tokens" in name or "lm_head" in name
        assert torch.equal(value, before[name]) == frozen, name


class Killed(BaseException):
    pass


def test_case_63_a_run_that_was_killed_goes_on_to_the_same_bits(
    base, target, trained, tmp_path, monkeypatch
):
    path = tmp_path / checkpoint.NAME
    killed = trainer(base, target)
    step = killed._step
    calls = []

    def dying():
        if len(calls) == 11:  # after the look at step 8, before that at step 16
            raise Killed
        calls.append(step())
        return calls[-1]

    killed._step = dying
    with pytest.raises(Killed):
        killed.run(path, "f")
    again, done = trainer(base, target), []
    own = again._step
    again._step = lambda: done.append(own()) or done[-1]
    history = again.run(path, "f")
    assert len(done) == PLAN.steps - 8  # from the checkpoint, not from the start
    whole, _, wanted = trained
    assert history == wanted
    assert all(torch.equal(value, weights_of(whole)[n]) for n, value in weights_of(again).items())


def test_a_checkpoint_of_another_training_or_a_torn_one_is_not_gone_on_from(base, target, tmp_path):
    plan = Plan(**(vars(PLAN) | {"steps": 4}))
    path = tmp_path / checkpoint.NAME
    trainer(base, target, plan).run(path, "f")
    other = trainer(base, target, plan)
    assert checkpoint.load(path, other.parameters, other.best, other.optimizer, "g") is None
    path.write_bytes(path.read_bytes()[:1000])
    assert checkpoint.load(path, other.parameters, other.best, other.optimizer, "f") is None


def test_a_checkpoint_that_lacks_a_weight_leaves_the_training_as_it_began(tmp_path):
    path, began = tmp_path / checkpoint.NAME, torch.zeros(2)

    def state(value, *names):
        parameters = {name: torch.nn.Parameter(value.clone()) for name in names}
        best = {name: value.clone() for name in names}
        return parameters, best, torch.optim.AdamW(parameters.values())

    checkpoint.save(path, *state(torch.ones(2), "a"), {"step": 3}, "f")
    for names, value in ((("a", "b"), began), (("a",), torch.zeros(3))):
        parameters, best, optimizer = state(value, *names)
        assert checkpoint.load(path, parameters, best, optimizer, "f") is None
        assert not optimizer.state
        for found in (*parameters.values(), *best.values()):
            assert torch.equal(found.detach(), value)
    parameters, best, optimizer = state(began, "a")
    assert checkpoint.load(path, parameters, best, optimizer, "f") == {"step": 3}
    assert torch.equal(parameters["a"].detach(), torch.ones(2)) and len(optimizer.state) == 1


def test_a_training_that_makes_it_worse_stops_and_keeps_the_draft_it_began_with(base, target):
    plan = Plan(**(vars(PLAN) | {"lr": 0.9, "warm_up": 0, "evaluate_every": 1, "patience": 2}))
    training = trainer(base, target, plan)
    before = weights_of(training)
    history = training.run()
    assert [row["step"] for row in history] == [0, 1, 2]
    assert [row["best"] for row in history] == [True, False, False]
    assert all(torch.equal(value, before[name]) for name, value in weights_of(training).items())


def test_case_33_a_loss_that_is_no_number_stops_the_training(base, target):
    training = trainer(base, target)
    with torch.no_grad():
        next(iter(training.parameters.values()))[0, 0] = torch.nan
    with pytest.raises(UserError, match="the loss is nan at step 0; lower the learning rate"):
        training._step()


def test_case_33_a_draft_that_gives_no_number_from_the_start_is_told(base, target, tmp_path):
    training = trainer(base, target)
    with torch.no_grad():
        next(iter(training.parameters.values()))[0, 0] = torch.nan
    with pytest.raises(UserError, match="before the first step the held-out texts say .* nan nats"):
        training.run(tmp_path / checkpoint.NAME, "f")
    assert not list(tmp_path.iterdir())


def test_a_narrow_type_trains_wide_weights(base, target):
    plan = Plan(**(vars(PLAN) | {"steps": 4}))
    training = trainer(base, target, plan, narrow=torch.bfloat16)
    history = training.run()
    assert history[-1]["held_out_kl"] < history[0]["held_out_kl"]
    assert {value.dtype for value in training.parameters.values()} == {torch.float32}


def test_activations_that_are_computed_twice_give_the_same_gradients(base, target):
    plain, again = trainer(base, target), trainer(base, target)
    recompute_activations(again.draft.model)
    seen = []
    layer = again.draft.model.model.layers[0]
    hook = layer.mlp.register_forward_pre_hook(lambda *_: seen.append(1))
    assert plain._step() == again._step()
    hook.remove()
    assert len(seen) == 2 * PLAN.batch  # once on the way there, once on the way back
    assert all(torch.equal(value, weights_of(again)[n]) for n, value in weights_of(plain).items())
    again.draft.model.config.attention_dropout = 0.1
    with pytest.raises(UserError, match=r"has dropout \(attention_dropout\)"):
        recompute_activations(again.draft.model)


def test_what_the_teacher_keeps_moves_no_number(target):
    (text,) = texts_of(1, samples=1)
    keeping, forgetting = Teacher(target, 10), Teacher(target, 0)
    first = keeping.states(text)
    assert torch.equal(keeping.states(text), first) and len(keeping._kept) == 1
    assert not forgetting._kept
    assert torch.equal(forgetting.states(text), first)
    log_p = keeping.log_p(first)
    read = torch.tensor([*text.prompt, *text.emitted][:-1])[None]
    with torch.inference_mode():
        logits = target.model(input_ids=read).logits[0, len(text.prompt) - 1 :]
    assert torch.allclose(log_p, torch.log_softmax(logits, -1), atol=1e-5)
    wanted = [entropy(softmax(row)) for row in logits.double().numpy()]
    assert np.allclose(keeping.entropy(text), wanted, atol=1e-5)


def test_the_learning_rate_rises_and_falls_to_a_tenth():
    rates = [PLAN.rate(step) for step in range(PLAN.steps)]
    assert rates[0] == PLAN.lr / 2 and rates[1] == PLAN.lr == max(rates)
    assert math.isclose(PLAN.rate(PLAN.steps), PLAN.lr / 10)
    assert rates[1:] == sorted(rates[1:], reverse=True)
