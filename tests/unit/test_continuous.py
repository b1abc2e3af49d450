"""Continuous batching: greedy text equals static batches, sampled text follows the law."""

import numpy as np
import pytest
import torch
from draftscope import continuous, sampling
from draftscope.trajectories import generate
from loading import load_tiny, rendered
from scipy import stats

PROMPTS = [(f"p{n}", rendered(0, *range(20 + n, 20 + 3 * n + 1))) for n in range(7)]
LAW = {"temperature": 1.3, "top_k": 4, "top_p": 0.95}
COLD = {"temperature": 0.0, "top_k": 0, "top_p": 1.0}


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    return load_tiny(tiny_folder)


def run(loaded, engine, law, samples=1, budget=12, prompts=PROMPTS):
    return generate(
        loaded,
        prompts,
        law=law,
        budget=budget,
        batch_size=4,
        samples=samples,
        run_seed=3,
        domain="math",
        engine=engine,
    )


def test_greedy_text_equals_static_batches(tiny):
    prompts = [*PROMPTS, ("none", rendered())]
    rows = run(tiny, "continuous", COLD, prompts=prompts)
    assert rows == run(tiny, "static", COLD, prompts=prompts)
    assert {row["stop_reason"] for row in rows} == {"eos", "budget", None}


def test_sampled_text_follows_the_law_and_leaves_the_global_generator_alone(tiny):
    before = torch.random.get_rng_state()
    rows = run(tiny, "continuous", LAW, samples=2000, budget=2, prompts=PROMPTS[:1])
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = np.array([row["token_ids"] for row in rows])

    def next_law(ids, temperature):
        with torch.inference_mode():
            logits = tiny.model(torch.tensor([ids])).logits[0, -1]
        return sampling.law(logits.double(), **(LAW | {"temperature": temperature})).numpy()

    def p_value(temperature):
        prompt = PROMPTS[0][1].token_ids
        first = next_law(prompt, temperature)
        expected = sum(
            first[y] * next_law([*prompt, int(y)], temperature) for y in np.nonzero(first)[0]
        )
        counts = np.bincount(pairs[:, 1], minlength=len(expected))
        assert not counts[expected == 0].any()
        keep = expected * len(pairs) >= 5
        rest = [counts[~keep].sum()], [expected[~keep].sum() * len(pairs)]
        observed = np.append(counts[keep], rest[0] if rest[1][0] else [])
        wanted = np.append(expected[keep] * len(pairs), rest[1] if rest[1][0] else [])
        return stats.chisquare(observed, wanted).pvalue

    assert p_value(1.3) > 0.001
    assert p_value(0.7) < 1e-6  # negative control


def test_a_row_that_transformers_gives_up_on_is_a_fault(tiny, monkeypatch):
    monkeypatch.setattr(tiny.model, "generate_batch", lambda **_: {}, raising=False)
    with pytest.raises(RuntimeError, match="returned 0 of 1 texts: its thread ended early"):
        continuous.generate_continuously(tiny, [[0, 5]], COLD, 3, ("x",))
