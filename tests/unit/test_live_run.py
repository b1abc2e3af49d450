"""Many prompts through the loop: rows, seeds, timings, faults that stop, models that are real."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from draftscope import records
from draftscope.drafters.model import ModelDraft, TextDraft
from draftscope.drafters.prompt_lookup import PromptLookup
from draftscope.errors import UserError
from draftscope.live import RULES, CachedModel, decode
from draftscope.live.run import model_draft, run
from draftscope.live.tables import TIMED
from draftscope.lossless.markov import MarkovModel, pair
from draftscope.models import LoadedModel
from draftscope.models.vocabulary import align
from draftscope.replay.trajectory import replay_trajectory
from draftscope.seeds import generator

GREEDY = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}
T1 = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}


@dataclass
class Rendered:
    token_ids: list[int]
    sha256: str = "0"


PROMPTS = [("a", Rendered([0, 17, 45])), ("b", Rendered([0, 200, 9, 33])), ("c", Rendered([5]))]
SETTINGS = {"budget": 20, "run_seed": 7, "domain": "math"}


@pytest.fixture(scope="module")
def target(tiny_folder, tmp_path_factory) -> LoadedModel:
    from draftscope import models

    folder = tmp_path_factory.mktemp("resolved")
    models.resolve("target", {"kind": "local", "path": str(tiny_folder)}, folder)
    return models.load(folder / "model.json", "cpu")


@pytest.fixture(scope="module")
def draft(target, tmp_path_factory) -> LoadedModel:
    """A four-bit copy of the target, as a pair in an experiment would use it."""
    from draftscope import models

    folder = tmp_path_factory.mktemp("copy")
    row = {"kind": "round_to_nearest", "base": "target", "bits": 4, "group_size": 16}
    models.resolve("copy", row, folder, base=target.settings)
    return models.load(folder / "model.json", "cpu")


def drafter_of(target, draft, law):
    return model_draft(draft, align(target, draft), law)


@pytest.mark.parametrize("law", [GREEDY, T1], ids=["greedy", "sampling"])
def test_rows_fit_their_schemas(target, draft, law, tmp_path):
    drafter = drafter_of(target, draft, law)
    out = run(target, drafter, PROMPTS, gamma=3, law=law, samples=2, repeats=2, **SETTINGS)
    for name, rows in (
        ("trajectories", out.trajectories),
        ("rounds", out.rounds),
        ("live_timings", out.timings),
    ):
        records.write(tmp_path / f"{name}.parquet", rows, name, {})
        ids = [name for name, _ in PROMPTS]
        assert len(records.read(tmp_path / f"{name}.parquet", name, ids)) == len(rows)
    assert {row["source"] for row in out.rounds} == {"live"}
    rule = "greedy" if law is GREEDY else "speculative_sampling"
    assert {(row["rule"], row["lossless"]) for row in out.rounds} == {(rule, True)}
    for row in out.trajectories:
        key = (row["prompt_id"], row["sample"])
        rounds = [r for r in out.rounds if (r["prompt_id"], r["sample"]) == key]
        assert sum(r["emitted"] for r in rounds) == len(row["token_ids"]) <= 20
        assert [r["round"] for r in rounds] == list(range(len(rounds)))
        times = [t for t in out.timings if (t["prompt_id"], t["sample"]) == key]
        assert [(t["repeat"], t["start"]) for t in times] == [
            (repeat, r["start"]) for repeat in (0, 1) for r in rounds
        ]
        assert times[0]["verify_tokens"] == len(row["prompt_token_ids"]) + rounds[0]["offered"]
    assert all(row[name] >= 0 for row in out.timings for name in TIMED)


def test_timings_cover_the_time_of_the_loop(target, draft):
    import time

    drafter = drafter_of(target, draft, GREEDY)
    decoder = CachedModel(target)
    began = time.perf_counter()
    decoded = decode(
        decoder, drafter, [0, 17, 45], gamma=3, law=GREEDY, budget=60, eos_ids=frozenset(),
        rng=generator("t"),
    )  # fmt: skip
    took = time.perf_counter() - began
    phases = np.array([r[-4:] for r in decoded.rounds])
    assert phases.min() >= 0
    assert phases[:, :2].min() > 0
    assert phases.sum() == pytest.approx(took, rel=0.1, abs=0.005)


def test_texts_depend_on_no_other_prompt_and_sampling_on_the_key(target, draft):
    drafter = drafter_of(target, draft, T1)
    together = run(target, drafter, PROMPTS, gamma=3, law=T1, samples=2, **SETTINGS)
    alone = run(target, drafter, PROMPTS[1:2], gamma=3, law=T1, samples=2, **SETTINGS)
    warm = run(
        target, drafter, PROMPTS[::-1], gamma=3, law=T1, samples=2, warm_up=2, repeats=2, **SETTINGS
    )

    def texts(out):
        return {(t["prompt_id"], t["sample"]): t["token_ids"] for t in out.trajectories}

    assert texts(alone).items() <= texts(together).items()
    assert texts(warm) == texts(together)
    assert texts(together)["b", 0] != texts(together)["b", 1]
    other = run(target, drafter, PROMPTS, gamma=3, law=T1, **SETTINGS | {"run_seed": 8})
    assert texts(other)["b", 0] != texts(together)["b", 0]
    assert len([t for t in warm.timings if t["repeat"] == 1]) == len(warm.rounds)


def test_decoding_leaves_the_global_generators_alone(target, draft):
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    run(target, drafter_of(target, draft, T1), PROMPTS, gamma=2, law=T1, **SETTINGS)
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])


def test_prompts_without_room_are_rows_of_their_own(target, draft):
    long = Rendered([3] * target.max_positions)
    prompts = [("empty", Rendered([])), *PROMPTS[:1], ("long", long)]
    out = run(target, None, prompts, gamma=0, law=GREEDY, samples=2, **SETTINGS)
    skipped = [(t["prompt_id"], t["reason"]) for t in out.trajectories if t["status"] == "skipped"]
    assert (
        skipped
        == [("empty", "empty prompt")] * 2
        + [("long", "its 512 tokens fill the model's context")] * 2
    )
    assert {row["prompt_id"] for row in out.rounds} == {"a"}
    assert {row["offered"] for row in out.rounds} == {0}


def test_the_baseline_is_the_same_loop_and_the_same_text(target, draft):
    drafter = drafter_of(target, draft, GREEDY)
    plain = run(target, None, PROMPTS, gamma=0, law=GREEDY, **SETTINGS)
    for chosen in (drafter, TextDraft(PromptLookup(), "lookup")):
        live = run(target, chosen, PROMPTS, gamma=4, law=GREEDY, **SETTINGS)
        assert [t["token_ids"] for t in live.trajectories] == [
            t["token_ids"] for t in plain.trajectories
        ]
    with pytest.raises(ValueError, match="needs a drafter"):
        run(target, None, PROMPTS, gamma=4, law=GREEDY, **SETTINGS)


def test_live_and_replay_of_scores_agree_round_for_round(target, draft):
    """The whole way: live decoding, then scoring and replaying the text it emitted."""
    from draftscope.scoring import score

    alignment = align(target, draft)
    for gamma in (1, 3, 8):
        live = run(
            target, model_draft(draft, alignment, GREEDY), PROMPTS, gamma=gamma, law=GREEDY,
            **SETTINGS | {"budget": 60},
        )  # fmt: skip
        scores = score(target, [(draft, alignment)], live.trajectories, {"decoding": GREEDY})
        for trajectory, row in zip(live.trajectories, scores, strict=True):
            replayed = replay_trajectory(trajectory, row, [gamma], "greedy").rounds[0]
            mine = [r for r in live.rounds if r["prompt_id"] == trajectory["prompt_id"]]
            for name in ("round", "start", "offered", "accepted", "emitted", "end"):
                assert [r[name] for r in mine] == np.asarray(replayed[name]).tolist()


class Broken(MarkovModel):
    """NaN at one vocabulary entry once the text has a given length."""

    def __init__(self, model, at, name):
        super().__init__(model._last, model._before, name)
        self._at = at

    def extend(self, token_ids, keep):
        logits = super().extend(token_ids, keep).clone()
        row = self._at - (self.length - keep + 1)
        if 0 <= row < keep:
            logits[row, 2] = math.nan
        return logits


@pytest.mark.parametrize("law", [GREEDY, T1], ids=["greedy", "sampling"])
@pytest.mark.parametrize("side", ["target", "draft"])
def test_case_33_a_nan_stops_with_prompt_round_and_position(law, side):
    target, draft = pair(6, key=1, noise=0)
    prompt = [1, 2]
    # Self-draft, gamma 2: rounds start at generated positions 0, 3, 6; NaN predicts position 7.
    at = len(prompt) + 7
    decoders = {"target": target, "draft": draft}
    decoders[side] = Broken(decoders[side], at, f"broken {side}")
    with pytest.raises(UserError) as caught:
        decode(
            decoders["target"], ModelDraft(decoders["draft"], law), prompt, gamma=2, law=law,
            budget=20, eos_ids=frozenset(), rng=generator("nan"), where="prompt p, sample 0",
        )  # fmt: skip
    message = str(caught.value)
    assert message.startswith("prompt p, sample 0, round 2, position 6: the logits of broken")
    assert f"broken {side} hold NaN" in message
    assert "draft position 1" in message


def test_case_33_nan_weights_stop_a_real_model(target, draft):
    import copy

    broken = copy.deepcopy(target.model)
    broken.lm_head.weight.data[7] = math.nan
    decoder = CachedModel.__new__(CachedModel)
    decoder.__dict__.update(CachedModel(target).__dict__)
    decoder._head = broken.lm_head
    for law in (GREEDY, T1):
        with pytest.raises(UserError, match="prompt a, sample 0, round 0, position 0: .* hold NaN"):
            run(target, None, PROMPTS, gamma=0, law=law, decoder=decoder, **SETTINGS)


def test_case_30_bfloat16_may_leave_plain_greedy_only_at_a_near_tie(tiny_folder, tmp_path):
    """A flip is reported with its gap, not called an error; float32 has none."""
    from draftscope import models

    models.resolve("half", {"kind": "local", "path": str(tiny_folder)}, tmp_path)
    half = models.load(tmp_path / "model.json", "cpu", "bfloat16")
    drafter = model_draft(half, align(half, half), GREEDY)
    plain = run(half, None, PROMPTS, gamma=0, law=GREEDY, **SETTINGS | {"budget": 80})
    live = run(half, drafter, PROMPTS, gamma=5, law=GREEDY, **SETTINGS | {"budget": 80})
    for a, b in zip(plain.trajectories, live.trajectories, strict=True):
        pairs = zip(a["token_ids"], b["token_ids"], strict=False)
        flip = next((i for i, (x, y) in enumerate(pairs) if x != y), None)
        if flip is not None:
            text = torch.tensor([a["prompt_token_ids"] + a["token_ids"][:flip]])
            best = half.model(input_ids=text).logits[0, -1].float().topk(2).values
            assert float(best[0] - best[1]) < 0.1 * float(best[0].abs())


def test_a_token_that_the_draft_cannot_read_is_named():
    target, _ = pair(8, key=1)
    narrow, _ = pair(5, key=1)
    with pytest.raises(UserError, match="outside the vocabulary of draft markov target, 5 ids"):
        decode(
            target, ModelDraft(narrow, T1), [0, 7], gamma=2, law=T1, budget=9,
            eos_ids=frozenset(), rng=generator("narrow"),
        )  # fmt: skip


def test_a_lossy_rule_is_marked_in_every_row(target, draft):
    out = run(
        target, drafter_of(target, draft, T1), PROMPTS, gamma=3, law=T1, rule=RULES["typical"],
        **SETTINGS,
    )  # fmt: skip
    assert {(row["rule"], row["lossless"]) for row in out.rounds} == {("typical", False)}


def test_draft_and_target_may_have_different_data_types(target, tmp_path):
    from draftscope import models

    models.resolve("half", {"kind": "local", "path": target.settings["path"]}, tmp_path)
    half = models.load(tmp_path / "model.json", "cpu", "bfloat16")
    for law in (GREEDY, T1):
        out = run(
            target, model_draft(half, align(target, half), law), PROMPTS, gamma=4, law=law,
            **SETTINGS,
        )  # fmt: skip
        accepted = sum(r["accepted"] for r in out.rounds) / sum(r["offered"] for r in out.rounds)
        assert accepted > 0.7
