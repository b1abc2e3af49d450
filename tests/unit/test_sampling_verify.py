"""The lossless test: exact laws, simulation, and faults that the same tests must catch."""

from collections import Counter

import numpy as np
import pytest
import torch
from draftscope import sampling
from draftscope.sampling import draw, law, residual, verify
from draftscope.seeds import generator
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

weights = st.lists(st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.4, 1.0, 3.0]), min_size=6, max_size=6)


def normal(row):
    row = torch.tensor(row, dtype=torch.float64)
    return row / row.sum()


distributions = weights.filter(any).map(normal)


@given(distributions, distributions)
def test_one_step_emits_exactly_the_target(p, q):
    """sum_x q(x) [a(x) 1(y = x)] + P(reject) residual(y) = p(y), with no sampling in it."""
    accept = torch.where(q > 0, (p / q.clamp_min(1e-300)).clamp_max(1), torch.zeros_like(p))
    emitted = q * accept
    emitted = emitted + (1 - emitted.sum()) * residual(p, q)
    torch.testing.assert_close(emitted, p, rtol=0, atol=3e-7)
    overlap = float(torch.minimum(p, q).sum())
    assert float((q * accept).sum()) == pytest.approx(overlap, abs=1e-12)


@given(distributions, distributions)
def test_residual_is_a_distribution_where_the_target_exceeds_the_draft(p, q):
    rest = residual(p, q)
    assert float(rest.sum()) == pytest.approx(1, abs=1e-12)
    if float((p - q).clamp_min(0).sum()) > sampling.RESIDUAL_EPSILON:
        assert torch.equal(rest > 0, p > q)
    else:
        assert torch.equal(rest, p)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_case_32_an_empty_residual_falls_back_to_the_target(dtype):
    p = torch.tensor([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.5, 0.3, 0.2]], dtype=dtype)
    q = p.clone()
    q[2, 0] += 1e-9
    q[2, 1] -= 1e-9
    assert torch.equal(residual(p, q), p)
    broken = q.clone()
    broken[0, 0] = float("nan")
    broken[1, 1] = -float("inf")
    rest = residual(p, broken)
    assert torch.equal(rest[:2], p[:2])
    mixed = residual(p, torch.tensor([[0.2, 0.6, 0.2]] * 3, dtype=dtype))
    torch.testing.assert_close(mixed[0], torch.tensor([1.0, 0, 0], dtype=dtype))


def test_case_32_an_empty_residual_is_counted():
    """A rejection with p = q up to rounding: the draft claims more than it drew from."""
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.5 + 1e-9, 0.5 - 1e-9, 0.0]], dtype=torch.float64)
    counts = Counter()

    class Fixed(np.random.Generator):
        def random(self, count):
            return np.array([1 - 1e-12, 0.7])[:count]

    rejected = verify([0], q, p, Fixed(np.random.PCG64(0)), counts)
    assert rejected == (0, 1)
    assert counts == {"empty_residual": 1}


def test_identical_models_accept_every_draft():
    rng = generator("identical")
    p = torch.softmax(torch.randn(9, 40, generator=torch.Generator().manual_seed(0)), -1)
    for _ in range(200):
        ids = [int(draw(row, rng.random())) for row in p[:8]]
        assert verify(ids, p[:8], p, rng)[0] == 8


def test_case_4_an_id_outside_the_target_is_rejected_and_counted():
    p = torch.tensor([[0.25, 0.25, 0.5], [1.0, 0, 0]], dtype=torch.float64)
    q = torch.tensor([[0.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    counts, observed = Counter(), Counter()
    rng = generator("outside")
    for _ in range(2000):
        accepted, next_id = verify([3], q, p, rng, counts)
        assert accepted == 0
        observed[next_id] += 1
    assert counts == {"unmappable": 2000}
    assert chisquare([observed[i] for i in range(3)], [500, 500, 1000]).pvalue > 1e-3
    assert verify([7], q, p, rng)[0] == 0  # beyond both widths


def test_a_narrower_draft_gives_the_missing_ids_no_probability():
    p = torch.tensor([[0.2, 0.2, 0.6], [0, 0, 1.0]], dtype=torch.float64)
    q = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    rng, emitted = generator("narrow"), np.zeros(3)
    for _ in range(4000):
        x = int(draw(q[0], rng.random()))
        accepted, next_id = verify([x], q, p, rng)
        emitted[x if accepted else next_id] += 1
    assert chisquare(emitted, [800, 800, 2400]).pvalue > 1e-3


@pytest.mark.parametrize("seed", [7, 0])
def test_case_35_every_accept_test_has_its_own_uniform(seed):
    """Acceptance 1/2 at each of four positions: the accepted count is geometric, cut at four."""
    p = torch.full((5, 2), 0.5, dtype=torch.float64)
    q = torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64)
    rng = generator("uniforms", seed)
    accepted = np.array([verify([0] * 4, q, p, rng)[0] for _ in range(8000)])
    observed = np.bincount(accepted, minlength=5)
    expected = 8000 * np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16])
    assert chisquare(observed, expected).pvalue > 1e-3
    # With one uniform for all tests the count would be 0 or 4, of variance 4.
    assert np.var(accepted) == pytest.approx(1.4336, abs=0.1)
    draws = sampling.uniforms(generator("uniforms", seed), 5)
    assert len(set(draws)) == 5


@pytest.mark.parametrize("temperature", [0.0, 1e-8])
def test_case_37_at_temperature_zero_acceptance_is_an_exact_match(temperature):
    logits = torch.tensor([[0.0, 3, 1], [2, 0, 1], [0, 1, 5]])
    p = law(logits, temperature)
    q = law(torch.tensor([[0.0, 2, 1], [0, 0, 1]]), temperature)
    rng = generator("zero")
    assert verify([1, 2], q, p, rng) == (1, 0)
    assert verify([1, 0], law(logits[:2], temperature), p, rng) == (2, 2)


def test_case_38_sampled_and_one_hot_drafts_are_accepted_at_their_closed_forms():
    p = torch.tensor([[0.6, 0.4]] * 2, dtype=torch.float64)
    rng = generator("rules")
    sampled = [verify([int(draw(p[0], rng.random()))], p[:1], p, rng)[0] for _ in range(4000)]
    assert np.mean(sampled) == 1.0
    one_hot = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    argmax = [verify([0], one_hot, p, rng) for _ in range(8000)]
    assert np.mean([a for a, _ in argmax]) == pytest.approx(0.6, abs=0.02)
    assert all(x == 1 for a, x in argmax if not a)  # the residual of a one-hot q excludes it


def test_case_39_the_two_sides_may_have_different_laws():
    logits = torch.randn(5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    p, q = law(logits, 1.0, top_k=1).expand(2, 5), law(logits, 1.0).expand(1, 5)
    rng, best = generator("one side"), int(logits.argmax())
    for x in range(5):
        accepted, next_id = verify([x], q, p, rng)
        assert accepted == (x == best)  # p(x) = 0 always rejects
        assert next_id == best


def test_no_uniform_accepts_what_the_target_excludes():
    class Zeros(np.random.Generator):
        def random(self, count):
            return np.zeros(count)

    p = torch.tensor([[0.0, 1.0]] * 2)
    assert verify([0], torch.tensor([[1.0, 0.0]]), p, Zeros(np.random.PCG64(0))) == (0, 1)


def test_no_draft_draws_from_the_target():
    p = torch.tensor([[0.1, 0.9]], dtype=torch.float64)
    rng, observed = generator("none"), np.zeros(2)
    for _ in range(3000):
        accepted, next_id = verify([], torch.zeros(0, 2), p, rng)
        assert accepted == 0
        observed[next_id] += 1
    assert chisquare(observed, [300, 2700]).pvalue > 1e-3


def test_case_33_a_nan_probability_stops():
    p = torch.full((2, 2), 0.5)
    q = torch.tensor([[float("nan"), 0.5]])
    with pytest.raises(ValueError, match="token 0 at draft position 0 is NaN"):
        verify([0], q, p, generator("nan"))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="1 drafts need"):
        verify([0], torch.ones(1, 2), torch.ones(1, 2), generator("shape"))


def test_a_torch_generator_works_and_is_the_only_state_touched():
    p = torch.softmax(torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), -1)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = [verify([0, 1, 2], p[:3], p, torch.Generator().manual_seed(i)) for i in range(20)]
    again = [verify([0, 1, 2], p[:3], p, torch.Generator().manual_seed(i)) for i in range(20)]
    assert first == again
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])


# --- the joint law of a round, and faults that must be seen -------------------------------------

FAMILY = torch.softmax(1.5 * torch.randn(5, 8, generator=torch.Generator().manual_seed(9)), -1)


def emitted_pairs(test, trials=6_000):
    """Counts [8, 8] of the first two emitted tokens; p and q differ by position, not by prefix."""
    p, q = FAMILY[:3].double(), FAMILY[3:].double()
    rng, counts = generator("pairs"), np.zeros((8, 8))
    for _ in range(trials):
        ids = [int(draw(row, rng.random())) for row in q]
        accepted, next_id = test(ids, q, p, rng)
        tokens = [*ids[:accepted], next_id]
        if len(tokens) == 1:  # the next round opens at position 1: plain sampling stands in
            tokens.append(int(draw(p[1], rng.random())))
        counts[tokens[0], tokens[1]] += 1
    expected = torch.outer(p[0], p[1]).numpy()
    return chisquare(counts.ravel(), trials * expected.ravel() / expected.sum()).pvalue


def test_a_round_emits_the_joint_law_of_the_target():
    assert emitted_pairs(verify) > 1e-3


def accept_everything(ids, q, p, rng):
    return len(ids), int(draw(p[len(ids)], rng.random()))


@pytest.mark.parametrize("fault", ["accept_everything", "residual_is_q", "residual_is_p"])
def test_a_wrong_rule_is_caught(fault, monkeypatch):
    if fault == "accept_everything":
        assert emitted_pairs(accept_everything) < 1e-6
        return
    wrong = (lambda p, q: q) if fault == "residual_is_q" else (lambda p, q: p)
    monkeypatch.setattr(sampling, "residual", wrong)
    assert emitted_pairs(verify) < 1e-6


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.integers(0, 4))
def test_accepted_tokens_and_ids_stay_in_range(seed, gamma):
    g = torch.Generator().manual_seed(seed)
    p = law(torch.randn(gamma + 1, 7, generator=g), 1.0, top_k=3)
    q = law(torch.randn(gamma, 9, generator=g), 1.0)
    rng = generator("range", seed)
    ids = [int(draw(row, rng.random())) for row in q]
    accepted, next_id = verify(ids, q, p, rng)
    assert 0 <= accepted <= gamma
    assert p[accepted, next_id] > 0
    assert all(p[i, ids[i]] > 0 for i in range(accepted))
