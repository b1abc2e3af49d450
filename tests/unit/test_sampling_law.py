"""Decoding laws and inverse-CDF draws: closed forms, invariants, transformers' warpers."""

import math

import numpy as np
import pytest
import torch
from draftscope.sampling import BadLogits, draw, law, log_law
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

LAWS = [(1.0, 0, 1.0), (0.6, 0, 1.0), (1.3, 7, 1.0), (0.8, 0, 0.9), (1.0, 12, 0.5), (2.0, 3, 0.95)]

finite = st.floats(-30, 30, width=32)
rows = st.lists(finite, min_size=1, max_size=40)
laws = st.tuples(
    st.sampled_from([0.0, 1e-8, 0.3, 1.0, 4.0]),
    st.integers(0, 45),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0]),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("temperature", "top_k", "top_p"), LAWS)
def test_law_equals_the_warpers_of_transformers(dtype, temperature, top_k, top_p):
    logits = torch.randn(50, 3000, dtype=dtype, generator=torch.Generator().manual_seed(1)) * 4
    warped = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        warped = TopKLogitsWarper(top_k)(None, warped)
    if top_p < 1:
        warped = TopPLogitsWarper(top_p)(None, warped)
    ours = law(logits, temperature, top_k, top_p)
    assert ours.dtype == dtype
    assert torch.equal(ours > 0, torch.softmax(warped, -1) > 0)
    torch.testing.assert_close(ours, torch.softmax(warped, -1), rtol=1e-5, atol=1e-7)


@given(rows, laws)
def test_law_is_a_distribution_and_log_law_its_logarithm(row, parameters):
    logits = torch.tensor(row, dtype=torch.float64)
    probabilities, logs = law(logits, *parameters), log_law(logits, *parameters)
    assert probabilities.shape == logs.shape == logits.shape
    assert float(probabilities.sum()) == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(logs.exp(), probabilities, rtol=1e-9, atol=1e-300)
    assert torch.equal(logs == -math.inf, law(logits, *parameters) == 0) or parameters[0] < 1e-6
    # Logits may differ by less than their probabilities can show; then the lowest id is kept.
    untruncated = law(logits, parameters[0])
    assert untruncated[int(probabilities.argmax())] == untruncated.max()


@given(rows, st.integers(1, 45))
def test_top_k_keeps_exactly_k_with_ties_to_the_lowest_ids(row, top_k):
    row = [round(x) for x in row]  # many ties
    order = sorted(range(len(row)), key=lambda i: (-row[i], i))[:top_k]
    kept = log_law(torch.tensor(row, dtype=torch.float64), 1.0, top_k) > -math.inf
    assert kept.nonzero().flatten().tolist() == sorted(order)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(0, 100))
def test_top_p_keeps_the_smallest_set_that_reaches_the_mass(weights, percent):
    weights_tensor = torch.tensor(weights, dtype=torch.float64)
    top_p, total = percent / 100, sum(weights)
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    # Integers decide, so that the test knows no rounding; masses at the boundary may go either way.
    reached = np.cumsum([weights[i] for i in order]) * 100
    exact = max(1, int(np.searchsorted(reached, percent * total)) + 1)
    kept = (law(weights_tensor.log(), 1.0, 0, top_p) > 0).nonzero().flatten().tolist()
    on_boundary = percent * total in reached
    if percent == 100:
        assert kept == list(range(len(weights)))
    elif on_boundary:
        assert len(kept) in (exact, exact + 1)
    else:
        assert len(kept) == exact
    assert kept == sorted(order[: len(kept)])


def test_top_p_beyond_the_partial_sort_is_exact():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(4, 20_000, generator=generator, dtype=torch.float64)
    logits[0] *= 8  # its head holds the mass; the others need the full sort
    for top_p in (0.5, 0.95, 1 - 1e-9):
        ours = law(logits, 1.0, 0, top_p)
        plain = torch.softmax(logits, -1)
        for row in range(4):
            ordered, index = plain[row].sort(descending=True)
            count = int((ordered.cumsum(0) < top_p).sum()) + 1
            assert set(index[:count].tolist()) == set(ours[row].nonzero().flatten().tolist())


def test_top_k_comes_before_top_p():
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    # Of the renormalised (4/7, 3/7) the first alone reaches .5; of the full law it does not.
    expected = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(law(probabilities.log(), 1.0, 2, 0.5), expected)
    assert int((law(probabilities.log(), 1.0, 0, 0.5) > 0).sum()) == 2


@pytest.mark.parametrize("temperature", [0.0, 1e-8, 1e-60])
def test_case_37_temperature_zero_and_tiny_do_not_divide_by_zero(temperature):
    logits = torch.tensor([[-3e38, 2.0, 5.0, -math.inf], [1.0, 1.0 - 1e-6, 0.5, 0.9]])
    for dtype in (torch.float32, torch.float64):
        expected = torch.tensor([[0, 0, 1, 0], [1, 0, 0, 0]], dtype=dtype)
        torch.testing.assert_close(law(logits.to(dtype), temperature), expected)
        logs = log_law(logits.to(dtype), temperature)[0].tolist()
        assert logs[2] == 0
        assert all(logs[i] < -1e7 for i in (0, 1, 3))


def test_case_37_temperature_zero_breaks_ties_to_the_lowest_id():
    logits = torch.zeros(3, 5000)
    logits[0, [17, 4000]] = 2.0
    logits[1, 4999] = 1.0
    assert law(logits, 0).argmax(-1).tolist() == [17, 4999, 0]
    assert torch.equal(law(logits, 0).sum(-1), torch.ones(3))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_case_33_bad_logits_stop_with_their_index(temperature, bad):
    logits = torch.zeros(2, 3, 5)
    logits[1, 0, 4] = bad
    for function in (law, log_law):
        with pytest.raises(ValueError, match=r"\(1, 0, 4\)") as caught:
            function(logits, temperature, 2, 0.9)
        assert caught.value.index == (1, 0, 4)
    with pytest.raises(BadLogits, match=r"nothing but -inf at index \(1,\)"):
        law(torch.tensor([[0.0, 1.0], [-math.inf, -math.inf]]), temperature)


@pytest.mark.parametrize(
    "parameters", [(-1.0,), (math.nan,), (math.inf,), (1.0, -1), (1.0, 0, 1.1), (1.0, 0, -0.1)]
)
def test_impossible_laws_are_refused(parameters):
    with pytest.raises(ValueError, match="no decoding law"):
        law(torch.zeros(4), *parameters)


def test_masked_ids_stay_impossible_and_half_precision_is_widened():
    logits = torch.tensor([1.0, -math.inf, 0.5], dtype=torch.bfloat16)
    for parameters in ((1.0,), (0.7, 3), (1.0, 0, 0.999)):
        probabilities = law(logits, *parameters)
        assert probabilities.dtype == torch.float32
        assert probabilities[1] == 0


def test_law_leaves_its_input_alone():
    logits = torch.randn(3, 50)
    before = logits.clone()
    for parameters in ((0.0,), (1.0,), (0.5, 5, 0.7)):
        law(logits, *parameters)
        log_law(logits, *parameters)
    assert torch.equal(logits, before)


probabilities_with_zeros = st.lists(
    st.sampled_from([0.0, 1e-30, 1e-9, 0.01, 0.2, 1.0]), min_size=1, max_size=30
).filter(any)


@given(probabilities_with_zeros, st.floats(0, 1))
def test_draw_never_gives_an_impossible_id(weights, uniform):
    for dtype in (torch.float32, torch.float64):
        row = torch.tensor(weights, dtype=dtype)
        assert float(row[draw(row, uniform)]) > 0


def test_draw_inverts_the_cumulative_distribution():
    row = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64)
    points = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-53, 1.0], dtype=torch.float64)
    assert draw(row.expand(7, 6), points).tolist() == [1, 1, 3, 3, 4, 4, 4]
    assert draw(row.float() * 8, 0.3).item() == 3  # need not be normalised


def test_draw_is_batched_over_leading_dimensions():
    rows_ = torch.softmax(torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0)), -1)
    points = torch.rand(2, 3, generator=torch.Generator().manual_seed(1))
    together = draw(rows_, points)
    assert together.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            assert int(together[i, j]) == int(draw(rows_[i, j], float(points[i, j])))


def test_draw_follows_the_law():
    row = torch.softmax(torch.randn(20, generator=torch.Generator().manual_seed(5)) * 2, -1)
    points = torch.from_numpy(np.random.default_rng(5).random(40_000))
    observed = np.bincount(draw(row.expand(40_000, 20), points).numpy(), minlength=20)
    expected = row.double().numpy() / row.double().sum().item() * 40_000
    assert chisquare(observed, expected).pvalue > 1e-3
    shifted = np.roll(expected, 1)
    assert chisquare(observed, shifted).pvalue < 1e-6


@pytest.mark.parametrize("row", [[0.0, 0.0], [math.nan, math.nan], [math.inf, 1.0]])
def test_draw_refuses_what_is_no_distribution(row):
    with pytest.raises(ValueError, match="no distribution"):
        draw(torch.tensor(row), 0.5)
