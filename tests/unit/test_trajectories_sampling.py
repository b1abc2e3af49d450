"""Generated text follows the decoding law exactly: chi-square with negative controls."""

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.trajectories import generate
from loading import load_tiny, rendered
from scipy import stats

LAW = {"temperature": 1.3, "top_k": 5, "top_p": 0.95}
PROMPT = [0, 40, 41, 42]
SAMPLES = 20_000


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    return load_tiny(tiny_folder)


@pytest.fixture(scope="module")
def pairs(tiny):
    """First two generated tokens of many samples, [SAMPLES, 2]; the second one uses the cache."""
    rows = generate(
        tiny,
        [("prompt", rendered(*PROMPT))],
        law=LAW,
        budget=2,
        batch_size=1,
        samples=SAMPLES,
        run_seed=11,
        domain="math",
    )
    return np.array([row["token_ids"] for row in rows])


def next_law(tiny, ids, law):
    with torch.inference_mode():
        logits = tiny.model(torch.tensor([ids])).logits[0, -1]
    return sampling.law(logits.double(), **law).numpy()


def exact_second(tiny, law):
    """Law of the token at generated index 1: the first one summed out."""
    first = next_law(tiny, PROMPT, law)
    return sum(first[y] * next_law(tiny, [*PROMPT, int(y)], law) for y in np.nonzero(first)[0])


def p_value(counts, expected):
    """Chi-square with cells that expect fewer than 5 pooled; impossible tokens are a failure."""
    if counts[expected == 0].any():
        return 0.0
    rare = expected * counts.sum() < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum()) * counts.sum()
    keep = wanted > 0
    return stats.chisquare(observed[keep], wanted[keep]).pvalue


def test_the_token_at_index_1_follows_the_law(tiny, pairs):
    expected = exact_second(tiny, LAW)
    assert (expected > 0).sum() > 10
    assert p_value(np.bincount(pairs[:, 1], minlength=len(expected)), expected) > 0.001


def test_both_tokens_together_follow_the_law(tiny, pairs):
    """Also catches uniforms that are shared between positions."""
    first = next_law(tiny, PROMPT, LAW)
    joint = np.zeros((len(first), len(first)))
    for y in np.nonzero(first)[0]:
        joint[y] = first[y] * next_law(tiny, [*PROMPT, int(y)], LAW)
    counts = np.zeros_like(joint)
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    assert p_value(counts.ravel(), joint.ravel()) > 0.001
    shared = np.where(np.arange(len(first)) == pairs[:, :1], 1.0, 0.0)  # second token = first one
    same = np.zeros_like(joint)
    np.add.at(same, (pairs[:, 0], shared.argmax(-1)), 1)
    assert p_value(same.ravel(), joint.ravel()) < 1e-6


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 1.1, "top_k": 5, "top_p": 0.95},
        {"temperature": 1.3, "top_k": 0, "top_p": 1.0},
        {"temperature": 1.3, "top_k": 4, "top_p": 0.95},
    ],
)
def test_negative_control_other_laws_are_told_apart(tiny, pairs, wrong):
    expected = exact_second(tiny, wrong)
    assert p_value(np.bincount(pairs[:, 1], minlength=len(expected)), expected) < 1e-6


def test_negative_control_two_percent_of_the_mass_moved(tiny, pairs):
    """The smallest shift that 20,000 samples tell from the law here: .02 of total variation."""
    moved = exact_second(tiny, LAW)
    best, second = np.argsort(moved)[::-1][:2]
    moved[best] -= 0.02
    moved[second] += 0.02
    assert p_value(np.bincount(pairs[:, 1], minlength=len(moved)), moved) < 1e-3


def test_a_draw_is_the_inverse_cdf_at_the_streams_own_uniform(tiny, pairs):
    from draftscope import seeds

    first = next_law(tiny, PROMPT, LAW).cumsum()
    for sample in range(200):
        uniform = seeds.uniforms(2, "generation", 11, "tiny", "math", "prompt", sample)[0]
        assert pairs[sample, 0] == np.searchsorted(first, uniform, side="right")
