"""The benchmark compares like with like, and says so when a budget does not hold."""

import json
import os
from types import SimpleNamespace

import bench
import pytest
import torch
from draftscope import benchmarks
from draftscope.machine import describe
from draftscope.tiny_models import tiny_pair

torch.set_num_threads(1)


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


def test_case_55_both_sides_take_turns_and_the_first_turn_is_dropped():
    clock, order = Clock(), []

    def side(name, costs):
        costs = iter(costs)

        def work():
            order.append(name)
            clock.time += next(costs)

        return work

    ours, theirs = benchmarks.in_turns(
        side("a", [90.0, 1.0, 2.0, 3.0]), side("b", [80.0, 10.0, 30.0, 20.0]), 3, clock
    )
    assert ours == [1.0, 2.0, 3.0] and theirs == [10.0, 30.0, 20.0]
    assert "".join(order) == "ba" + "ab" + "ba" + "ab"
    found = benchmarks.Comparison(ours, theirs, "")
    assert found.ratio == 10.0  # the median of 10, 15 and 6.7


def test_transformers_drafts_a_constant_number_and_gets_its_settings_back():
    settings = SimpleNamespace(num_assistant_tokens=20, num_assistant_tokens_schedule="heuristic")
    draft = SimpleNamespace(generation_config=settings)
    with pytest.raises(RuntimeError), benchmarks.constant_drafts(draft, 5):
        assert settings.num_assistant_tokens == 5
        assert settings.num_assistant_tokens_schedule == "constant"
        assert settings.assistant_confidence_threshold == 0.0
        raise RuntimeError
    assert settings.num_assistant_tokens == 20
    assert settings.num_assistant_tokens_schedule == "heuristic"


def test_both_sides_of_the_live_comparison_give_the_same_text():
    target, draft, prompts = tiny_pair(300, layers=1, width=32, prompts=2, prompt_tokens=8)
    found = benchmarks.live_against_assisted(target, draft, prompts, 3, 12, 1)
    assert "2 of 2 texts identical" in found.detail and "24 tokens" in found.detail
    assert len(found.ours) == len(found.theirs) == 1 and found.ratio > 0


def test_the_tiny_draft_agrees_now_and_then():
    target, draft, prompts = tiny_pair(1000, layers=2, width=64, prompts=1)
    ids = torch.tensor([prompts[0][1].token_ids])
    with torch.inference_mode():
        agree = (target.model(ids).logits.argmax(-1) == draft.model(ids).logits.argmax(-1)).float()
    assert 0.2 < float(agree.mean()) < 1


def test_results_of_an_earlier_run_are_kept_in_order(tmp_path):
    path = tmp_path / "bench.json"
    assert bench.merged(path, [{"name": "replay_vs_assisted"}]) == [{"name": "replay_vs_assisted"}]
    path.write_text(json.dumps([{"name": "live_vs_assisted_tiny", "value": 1}]))
    rows = bench.merged(path, [{"name": "scoring_vs_forward"}])
    assert [row["name"] for row in rows] == ["scoring_vs_forward", "live_vs_assisted_tiny"]
    rows = bench.merged(path, [{"name": "live_vs_assisted_tiny", "value": 2}])
    assert [row["value"] for row in rows] == [2]


def test_the_machine_is_named_with_its_threads():
    assert describe("cuda", 3).endswith("3 threads, cuda")
    assert describe().endswith(f"{os.cpu_count()} cores, cpu")
