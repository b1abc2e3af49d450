"""Interventions: which settings make a study and which are refused in one line."""

import copy

import pytest
from draftscope.config import load
from draftscope.errors import UserError
from experiments import LAPTOP, PAPER, ROOT, merged, registries


@pytest.fixture
def laptop():
    return merged(LAPTOP, {"studies": ["position", "interventions"]})


def test_the_shipped_experiments_have_the_study():
    for experiment in (LAPTOP, merged(LAPTOP, PAPER)):
        found = load(merged(experiment, {"studies": ["interventions"]}), ROOT)
        assert len(found.interventions.pairs) >= 4
        assert not set(found.interventions.pairs) & set(found.pairs) - {"r1-7b-same-family"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"control": "even"}, r"control 'even' is no label .*"),
        ({"control": "entropy"}, "has not the weighting uniform"),
        ({"draft_length": 4}, "draft_length 4 is not among draft_lengths"),
        ({"domain": "maths"}, "domain 'maths' is not among .*did you mean 'math'"),
        ({"accuracy": {"domains": ["code"]}}, "'code' has checker 'human_eval'"),
        ({"accuracy": {"checkers": {"mth": "math"}}}, "names 'mth', which is no domain.*'math'"),
        (
            {"accuracy": {"domains": ["chat"], "checkers": {"chat": "reasoning_gym"}}},
            "those of domain 'chat' are of source 'jsonl'",
        ),
        ({"accuracy": {"prompts": 17}}, "wants 17 prompts of domain 'logic', which has 16"),
        ({"base": "smollm2-3bit"}, "is no adapter .*of 'smollm2-135m-3bit'"),
        ({"base": "smollm2-gptq-3bit"}, "has target 'smollm2-135m"),
        ({"arms": [{"label": "uniform", "pair": "smollm2-lora-uniform"}] * 2}, "stands twice"),
    ],
)
def test_a_study_that_cannot_be_is_refused_in_one_line(laptop, changed, message):
    with pytest.raises(UserError, match=message):
        load(merged(laptop, {"interventions": changed}), ROOT)


def test_a_checker_of_the_experiment_below_may_stay(laptop):
    laptop["interventions"]["accuracy"]["checkers"] = {"of-another-registry": "math"}
    laptop["interventions"]["accuracy"]["domains"] = ["logic"]
    assert load(laptop, ROOT).interventions.problem is None


def test_an_experiment_without_the_study_need_not_fit_it(laptop):
    over = {"studies": ["position"], "interventions": {"draft_length": 4}}
    found = load(merged(laptop, over), ROOT)
    assert "draft_length 4" in found.interventions.problem and not found.interventions.pairs


def test_arms_that_differ_in_more_than_their_weighting_are_refused(laptop, tmp_path):
    rows = """
odd:
  kind: lora
  base: smollm2-135m-distilled
  target: smollm2-135m
  weighting: entropy
  rank: 9
  alpha: 16
  train: {domains: [{name: math, prompts: 8, max_new_tokens: 16}], temperature: 1, held_out: 0.2,
          steps: 2, batch: 1, lr: 0.1, warm_up: 0, evaluate_every: 1, patience: 1, seed: 1}
"""
    pairs = "odd: {target: smollm2-135m, draft: odd, draft_group: adapters}\n"
    laptop["registries"] = registries(tmp_path, models=rows, pairs=pairs)
    study = copy.deepcopy(laptop["interventions"])
    study["arms"][2]["pair"] = "odd"
    with pytest.raises(UserError, match="'uniform' and 'entropy' differ in rank"):
        load(laptop | {"interventions": study}, ROOT)


def test_the_experiments_own_scores_never_wait_for_an_adapter(laptop, tmp_path):
    pairs = "mine: {target: smollm2-135m, draft: smollm2-135m-3bit, draft_group: adapters}\n"
    laptop["registries"] = registries(tmp_path, pairs=pairs)
    laptop["pairs"] = ["mine", "smollm2-lookup"]
    laptop["position"]["configurations"][0]["pair"] = "mine"
    with pytest.raises(UserError, match="draft group 'adapters', which the experiment's own pairs"):
        load(laptop, ROOT)


def test_training_rows_that_are_measured_stop_the_experiment(laptop, tmp_path):
    domains = """
mine:
  source: reasoning_gym
  tasks: [gsm_symbolic]
  seed: 31415
  evaluation: [1000, 1100]
"""
    laptop["registries"] = registries(tmp_path, domains=domains)
    laptop["domains"] = [*laptop["domains"], {"name": "mine", "prompts": 8, "max_new_tokens": 8}]
    with pytest.raises(UserError, match="trained on prompts it is measured on.*domain 'mine'"):
        load(laptop, ROOT)
