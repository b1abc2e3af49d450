"""Tiny models for tests: random Llama weights and a byte-level tokenizer, saved as a real folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
SPACE = "\u0120"  # how byte-level tokenizers write a leading space
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% if enable_thinking is defined %}"
    "{{ ' think' if enable_thinking else ' answer' }}{% endif %}{% endif %}"
)


def tiny_tokenizer(
    vocabulary_size: int = 320,
    bos: str = "both",
    specials: Sequence[str] = (BOS, EOS, PAD),
    swap: tuple[int, int] | None = None,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with exactly `vocabulary_size` ids (at least 256 + specials).

    Args:
        bos: who writes the beginning-of-text token: "template", "tokenizer", "both" or "none"
            (the tokenizer then has no such token at all).
        specials: strings of the first ids; the first three are BOS, EOS and padding.
        swap: two ordinary ids whose strings change places, for tokenizers that must not match.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a, b in itertools.product(SPACE + LETTERS, LETTERS)]
    merges = pairs + [(a + b, c) for (a, b), c in itertools.product(pairs, LETTERS)]
    merges = merges[: vocabulary_size - len(alphabet) - len(specials)]
    strings = [*specials, *alphabet, *(a + b for a, b in merges)]
    if len(strings) != vocabulary_size:
        raise ValueError(f"a vocabulary of {vocabulary_size} cannot be built, only {len(strings)}")
    if swap:
        first, second = swap
        strings[first], strings[second] = strings[second], strings[first]
    backend = Tokenizer(models.BPE({text: i for i, text in enumerate(strings)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, special=True) for text in specials])
    if bos in ("tokenizer", "both"):
        backend.post_processor = processors.TemplateProcessing(
            single=f"{specials[0]} $A", special_tokens=[(specials[0], 0)]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=None if bos == "none" else specials[0],
        eos_token=specials[1],
        pad_token=specials[2],
    )
    opening = "{{ bos_token }}" if bos in ("template", "both") else ""
    tokenizer.chat_template = opening + CHAT_TEMPLATE
    return tokenizer


def tiny_model_folder(
    path: str | Path,
    vocabulary_size: int = 320,
    layers: int = 2,
    width: int = 64,
    seed: int = 0,
    padded_head: int | None = None,
    *,
    max_positions: int = 512,
    eos: int | list[int] = 1,
    tokenizer: PreTrainedTokenizerFast | None = None,
) -> Path:
    """Save a random Llama and its tokenizer as safetensors; returns the folder.

    The same seed gives the same weights. Id 0 begins a text, id 1 ends it, id 2 pads.

    Args:
        padded_head: logit width when it is larger than the tokenizer, as in Qwen's heads.
        eos: end-of-text ids of the generation configuration (the tokenizer knows id 1 only).
        tokenizer: one of `tiny_tokenizer`; by default `tiny_tokenizer(vocabulary_size)`.
    """
    path = Path(path)
    tokenizer = tokenizer or tiny_tokenizer(vocabulary_size)
    config = LlamaConfig(
        vocab_size=padded_head or vocabulary_size,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_positions,
        initializer_range=0.2,  # wide enough that the logits are far from uniform
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=eos, pad_token_id=2)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
