"""The target's hidden states: teacher-forced, and while it decodes."""

import dataclasses

import pytest
import torch
from block_models import tiny_target
from draftscope.drafters.features import read_features
from draftscope.drafters.recording import RecordingLean, RecordingModel, recording_decoder
from draftscope.errors import UserError
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

LAYERS = (0, 1, 2)
IDS = torch.arange(40) * 5 % 6


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def whole(target):
    with torch.inference_mode():
        return read_features(target, IDS, LAYERS)


def test_features_are_the_outputs_of_the_layers_and_the_state_the_head_reads(target, whole):
    body = target.model.model(input_ids=IDS[None], output_hidden_states=True)
    logits = target.model(input_ids=IDS[None]).logits[0]
    head = target.model.get_output_embeddings()
    first, second, third = whole.layers.split(16, -1)
    assert torch.equal(first, body.hidden_states[1][0])
    assert torch.equal(second, body.hidden_states[2][0])
    # Of the last layer transformers shows the state after the final norm.
    assert torch.allclose(target.model.model.norm(third), body.hidden_states[3][0], atol=1e-6)
    assert torch.allclose(head(whole.final), logits, atol=1e-6)


def test_reading_leaves_no_hook_behind(target):
    layer = target.model.model.layers[0]
    before = list(layer._forward_hooks)
    read_features(target, IDS, (0,))
    with pytest.raises(IndexError):
        read_features(target, torch.tensor([99]), (0,))  # no such id
    assert list(layer._forward_hooks) == before


@pytest.mark.parametrize("kind", [RecordingLean, RecordingModel])
def test_recorded_features_are_those_of_the_text_whatever_was_rejected(target, whole, kind):
    decoder = kind(target, LAYERS)
    decoder.reset()
    found = []
    for begin, kept, wrong in ((0, 9, 0), (9, 4, 3), (13, 1, 5), (14, 26, 0)):
        fed = torch.cat((IDS[begin : begin + kept], (IDS[:wrong] + 1) % 6))
        decoder.extend(fed, 0)
        assert decoder.begin == begin and len(decoder.features.final) == kept + wrong
        found.append([part[:kept] for part in decoder.features])
        decoder.crop(begin + kept)
    layers, final = (torch.cat(parts) for parts in zip(*found, strict=True))
    assert torch.allclose(layers, whole.layers, atol=1e-4)
    assert torch.allclose(final, whole.final, atol=1e-4)
    # Without stepping back the same comparison fails.
    decoder.reset()
    decoder.extend(torch.cat((IDS[:9], IDS[:3] + 0)), 0)
    decoder.extend(IDS[9:], 0)
    assert not torch.allclose(decoder.features.layers, whole.layers[9:], atol=1e-2)


def test_parts_of_a_long_input_are_one_pass(target, whole):
    decoder = recording_decoder(target, LAYERS)
    assert isinstance(decoder, RecordingLean)
    text = IDS.repeat(4)
    decoder.extend(text[:1], 0)
    decoder.extend(text[1:], 1)  # is read in parts
    wanted = read_features(target, text, LAYERS)
    assert decoder.begin == 1
    assert torch.allclose(decoder.features.layers, wanted.layers[1:], atol=1e-4)


def with_model(target, model):
    return dataclasses.replace(target, model=model.eval())


def test_a_target_whose_cache_cannot_step_back_is_refused(target):
    config = MistralConfig(
        vocab_size=6, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, sliding_window=4,
    )  # fmt: skip
    sliding = with_model(target, MistralForCausalLM(config))
    with pytest.raises(UserError, match="cannot be cropped after a rejection"):
        recording_decoder(sliding, (0,))
    # A whole text needs no cache.
    assert read_features(sliding, IDS, (0,)).final.shape == (40, 16)


def test_targets_that_show_no_states_are_refused(target):
    plain = GPT2LMHeadModel(GPT2Config(vocab_size=6, n_embd=16, n_layer=2, n_head=2))
    for other, said in (
        (with_model(target, plain), "does not hold its decoder layers in one list"),
        (dataclasses.replace(target, model=None, kind="prompt_lookup"), "shows no hidden states"),
    ):
        with pytest.raises(UserError, match=said):
            read_features(other, IDS, (0,))
    with pytest.raises(UserError, match="layers 0 to 2, not a layer 3"):
        recording_decoder(target, (1, 3))
