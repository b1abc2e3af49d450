"""A long text is scored in little memory: no tensor of it is as wide as a feed-forward layer."""

import pytest
import torch
from draftscope import logits
from loading import load_tiny
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

TOKENS = 300


class Largest(TorchDispatchMode):
    """The most numbers that any one tensor held."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        out = function(*arguments, **(named or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return out


@pytest.fixture
def tiny(tiny_folder):
    return load_tiny(tiny_folder)


def states(tiny, rows, monkeypatch):
    monkeypatch.setattr(logits, "FEED_FORWARD_ROWS", rows)
    ids = torch.arange(TOKENS) % tiny.vocabulary_size
    with torch.inference_mode(), Largest() as largest:
        return logits.hidden_states(tiny, ids), largest.numbers


def test_states_are_those_of_the_whole_text_and_none_is_wide(tiny, monkeypatch):
    config = tiny.model.config
    wide = TOKENS * config.intermediate_size
    whole, largest = states(tiny, TOKENS, monkeypatch)
    assert largest >= wide
    for rows in (TOKENS - 1, 64, 7):
        parts, largest = states(tiny, rows, monkeypatch)
        torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)
    # What is left is attention, as wide as the model, and the weights.
    assert largest <= max(TOKENS * config.hidden_size, config.vocab_size * config.hidden_size)


def test_a_layer_that_mixes_positions_would_be_noticed(tiny, monkeypatch):
    whole, _ = states(tiny, TOKENS, monkeypatch)
    layer = tiny.model.base_model.layers[0].mlp
    plain = type(layer).forward
    monkeypatch.setattr(type(layer), "forward", lambda self, x: plain(self, x) + x.mean(-2, True))
    mixed, _ = states(tiny, TOKENS, monkeypatch)
    parts, _ = states(tiny, 64, monkeypatch)
    assert not torch.allclose(mixed, whole, atol=1e-3)
    assert not torch.allclose(parts, mixed, atol=1e-3)


def test_layers_are_left_as_they_were_and_those_with_more_to_give_alone(tiny, monkeypatch):
    layers = [layer.mlp for layer in tiny.model.base_model.layers]
    hooked, own = layers[0], layers[0].forward
    hooked.forward = own  # as what spreads a model over devices does
    seen = []

    class Experts(nn.Module):
        def forward(self, x):
            seen.append(x.shape[-2])
            return x, None

    with pytest.raises(RuntimeError), logits._feed_forward_in_parts(tiny.model.base_model, 5000):
        raise RuntimeError
    assert hooked.forward is own and all("forward" not in vars(layer) for layer in layers[1:])
    monkeypatch.setattr(logits, "FEED_FORWARD_ROWS", 64)
    experts = Experts()
    assert logits._by_parts(experts.forward, torch.zeros(1, 100, 2))[0].shape == (1, 100, 2)
    assert seen == [64, 100]


def test_training_reads_its_text_whole(tiny, monkeypatch):
    monkeypatch.setattr(logits, "FEED_FORWARD_ROWS", 64)
    with Largest() as largest:
        logits.hidden_states(tiny, torch.arange(TOKENS))
    assert largest.numbers >= TOKENS * tiny.model.config.intermediate_size
