"""A model whose attention ignores the mask of a tree is refused before anything is scored."""

import pytest
import torch
from draftscope import models
from draftscope.errors import UserError
from draftscope.tree.selfcheck import EXACT, ROUNDED, check_trees, deviation
from tiny import tiny_model_folder
from transformers import (
    AttentionInterface,
    AutoModelForCausalLM,
    GPT2Config,
    MistralConfig,
    Qwen3Config,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask


def causal(module, query, key, value, attention_mask, **more):
    """What a kernel does that knows only the causal mask: every earlier key is seen."""
    rows, columns = query.shape[-2], key.shape[-2]
    seen = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
    return sdpa_attention_forward(module, query, key, value, seen[None, None], **more)


def tree_without_text(module, query, key, value, attention_mask, **more):
    """A kernel that keeps the tree's part of the mask and shows every node the whole text."""
    rows, columns = query.shape[-2], key.shape[-2]
    if attention_mask is not None and rows < columns:
        attention_mask = attention_mask.clone()
        attention_mask[..., :11] = 0
    return sdpa_attention_forward(module, query, key, value, attention_mask, **more)


def two_dimensional(module, query, key, value, attention_mask, **more):
    """A kernel that wants a mask [batch, tokens] to take padding out."""
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError("attention_mask should be of size [batch, tokens]\nas padding")
    return causal(module, query, key, value, attention_mask, **more)


FAKES = {f"fake_{fake.__name__}": fake for fake in (causal, tree_without_text, two_dimensional)}


@pytest.fixture(scope="module", autouse=True)
def registered():
    for name, fake in FAKES.items():
        AttentionInterface.register(name, fake)
        AttentionMaskInterface.register(name, sdpa_mask)
    yield
    for name in FAKES:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def load(folder, attention="sdpa", dtype="float32"):
    record = models.resolve("tiny", {"kind": "local", "path": str(folder)}, folder / "resolved")
    return models.load(record, "cpu", dtype, attention)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_case_29_two_branches_of_two_levels_equal_their_paths(tiny_folder, attention, dtype):
    found = check_trees(load(tiny_folder, attention, dtype))
    assert found < (1e-5 if dtype == "float32" else ROUNDED / 3)


@pytest.mark.parametrize("fake", ["fake_causal", "fake_tree_without_text"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_case_29_an_attention_that_drops_the_mask_is_refused_by_name(tiny_folder, fake, dtype):
    loaded = load(tiny_folder, fake, dtype)
    assert deviation(loaded) > 2 * ROUNDED > EXACT
    with pytest.raises(UserError, match=f"model tiny .* attention '{fake}': .* use sdpa or eager"):
        check_trees(loaded)


def test_case_29_an_attention_that_fails_on_the_mask_is_refused_by_name(tiny_folder):
    with pytest.raises(UserError, match=r"'fake_two_dimensional': it takes no .* tokens\]\); use"):
        check_trees(load(tiny_folder, "fake_two_dimensional"))


SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL = {"vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "initializer_range": 0.2}


def other_family(tmp_path, config):
    folder = tiny_model_folder(tmp_path)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return load(folder)


@pytest.mark.parametrize(
    "config",
    [
        Qwen3Config(**SIZES, **SMALL, head_dim=16),
        GPT2Config(vocab_size=320, n_embd=64, n_layer=2, n_head=4, initializer_range=0.2),
    ],
    ids=["qwen3", "gpt2"],
)
def test_other_families_read_trees(tmp_path, config):
    assert check_trees(other_family(tmp_path, config)) < 1e-5


def test_a_sliding_window_is_refused_by_name(tmp_path):
    loaded = other_family(tmp_path, MistralConfig(**SIZES, **SMALL, sliding_window=4))
    with pytest.raises(UserError, match="model tiny cannot read trees: .*SlidingWindow.* full"):
        check_trees(loaded)


def test_weights_that_give_no_numbers_are_not_called_a_dropped_mask(tiny_folder):
    loaded = load(tiny_folder)
    with torch.no_grad():
        loaded.model.get_input_embeddings().weight.fill_(torch.nan)
    with pytest.raises(UserError, match="NaN in the logits of tiny"):
        check_trees(loaded)
