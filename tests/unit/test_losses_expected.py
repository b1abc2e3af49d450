"""Expected accepted length and the weights of its gradient, in closed form and by simulation."""

import numpy as np
import pytest
import torch
from draftscope.losses import continuation_weights, expected_accepted_length
from hypothesis import given
from hypothesis import strategies as st

PROBABILITY = st.floats(0.0, 1.0)
BLOCKS = st.lists(PROBABILITY, min_size=1, max_size=9)


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def loops(a, valid):
    """E[L] and dE[L] / d log a_j by the definition, one product at a time."""
    length, weights = 0.0, np.zeros(len(a))
    for k in range(len(a)):
        if not valid[k]:
            continue
        product = np.prod([a[i] for i in range(k + 1) if valid[i]])
        length += product
        weights[: k + 1] += product
    return length, np.where(valid, weights, 0.0)


def test_expected_length_of_a_block_in_closed_form():
    assert float(expected_accepted_length(doubles([0.5, 0.5, 0.5]))) == pytest.approx(0.875)
    same = doubles([0.7] * 7)
    assert float(expected_accepted_length(same)) == pytest.approx(0.7 * (1 - 0.7**7) / (1 - 0.7))
    assert float(expected_accepted_length(doubles([1.0, 1.0, 0.0, 1.0]))) == 2.0


def test_expected_length_is_the_mean_of_simulated_rounds():
    a = doubles([0.9, 0.5, 0.8, 0.7])
    draws = torch.rand(200_000, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    lengths = (draws < a).double().cumprod(-1).sum(-1)
    error = float(lengths.std()) / len(lengths) ** 0.5
    assert abs(float(lengths.mean()) - float(expected_accepted_length(a))) < 4 * error
    # Negative control: the sum of probabilities forgets that a rejection ends the round.
    assert abs(float(lengths.mean()) - float(a.sum())) > 40 * error


@given(BLOCKS, st.data())
def test_lengths_and_weights_are_those_of_the_definition(a, data):
    valid = data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
    length, weights = loops(a, valid)
    tensor, mask = doubles(a), torch.tensor(valid)
    assert float(expected_accepted_length(tensor, mask)) == pytest.approx(length)
    assert continuation_weights(tensor, valid=mask).numpy() == pytest.approx(weights)
    smooth = 0.75 * np.array(a) + 0.25
    found = continuation_weights(tensor, smoothing=0.25, valid=mask)
    assert found.numpy() == pytest.approx(loops(smooth, valid)[1])


@given(BLOCKS)
def test_weights_fall_from_the_expected_length(a):
    weights = continuation_weights(doubles(a))
    assert float(weights[0]) == pytest.approx(float(expected_accepted_length(doubles(a))))
    assert bool((weights.diff() <= 1e-15).all())


def gradient_of_length(log_a):
    log_a = log_a.clone().requires_grad_()
    expected_accepted_length(log_a.exp()).sum().backward()
    return log_a.grad


def test_weights_are_the_gradient_of_the_expected_length():
    log_a = -torch.rand(50, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    truth, weights = gradient_of_length(log_a), continuation_weights(log_a.exp())
    assert torch.allclose(weights, truth, rtol=1e-12)
    step = 1e-6
    for j in range(7):
        moved = torch.zeros(7, dtype=torch.float64)
        moved[j] = step
        up, down = (expected_accepted_length((log_a + s * moved).exp()) for s in (1, -1))
        assert torch.allclose(weights[:, j], (up - down) / (2 * step), atol=1e-8)
    # Negative controls: neither part alone, nor smoothed confidences, are the gradient.
    others = [{"suffix": False}, {"prefix": False}, {"smoothing": 0.5}]
    for arguments in others:
        assert (continuation_weights(log_a.exp(), **arguments) - truth).abs().max() > 0.1


@given(BLOCKS, PROBABILITY)
def test_both_weights_are_the_product_of_prefix_and_suffix(a, smoothing):
    prefix = continuation_weights(doubles(a), smoothing, suffix=False)
    suffix = continuation_weights(doubles(a), smoothing, prefix=False)
    smooth = (1 - smoothing) * doubles(a) + smoothing
    assert torch.allclose(prefix, smooth.cumprod(-1))
    assert torch.allclose(continuation_weights(doubles(a), smoothing), prefix * suffix)
    neither = continuation_weights(doubles(a), smoothing, prefix=False, suffix=False)
    assert neither.tolist() == [1.0] * len(a)


def test_continuation_is_defined_behind_a_sure_rejection():
    a = doubles([0.0, 0.5, 0.0, 1.0])
    assert continuation_weights(a).tolist() == [0.0] * 4
    assert continuation_weights(a, prefix=False).tolist() == [1.5, 1.0, 2.0, 1.0]
    assert continuation_weights(a, smoothing=1.0).tolist() == [4.0, 3.0, 2.0, 1.0]


def test_invalid_positions_weigh_nothing_wherever_they_stand():
    a, valid = doubles([0.5, 0.1, 0.5, 0.9]), torch.tensor([True, False, True, False])
    assert continuation_weights(a, valid=valid).tolist() == [0.75, 0.0, 0.25, 0.0]
    assert float(expected_accepted_length(a, valid)) == 0.75
    moved = doubles([0.5, 0.7, 0.5, 0.0])
    assert torch.equal(
        continuation_weights(a, 0.5, valid=valid), continuation_weights(moved, 0.5, valid=valid)
    )


def test_weights_are_detached_and_leave_their_input_alone():
    a = doubles([0.5, 0.5]).requires_grad_()
    assert not continuation_weights(a).requires_grad
    assert a.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("smoothing", [-0.1, 1.1])
def test_smoothing_outside_its_range_is_refused(smoothing):
    with pytest.raises(ValueError, match="smoothing"):
        continuation_weights(doubles([0.5]), smoothing)
